//! The blocks of the volume's own metadata: superblocks, descriptors, bitmaps and inode tables,
//! wherever the descriptors say.
//!
//! *Promises.* A sorted list of ranges that do not touch, fixed at the mount. *Knows nothing of*
//! what lies in them.

use crate::{format::Layout, groups::Group};
use alloc::vec::Vec;

/// Ranges of blocks, each from its first to before its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zones(Vec<(u32, u32)>);

impl Zones {
    pub fn new(layout: &Layout, groups: &[Group]) -> Self {
        let mut all: Vec<(u32, u32)> = (0..)
            .zip(groups)
            .flat_map(|(at, own)| own.zones(layout, at))
            .collect();
        all.sort_unstable();
        let mut zones: Vec<(u32, u32)> = Vec::new();
        for (first, end) in all {
            match zones.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => zones.push((first, end)),
            }
        }
        zones.shrink_to_fit();
        Self(zones)
    }

    pub fn contains(&self, block: u32) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= block);
        behind > 0 && block < self.0[behind - 1].1
    }

    /// The blocks of the zones within a range.
    pub fn within(&self, first: u32, end: u32) -> impl Iterator<Item = u32> {
        let from = self.0.partition_point(|(_, behind)| *behind <= first);
        let zones = self.0[from..]
            .iter()
            .take_while(move |(start, _)| *start < end);
        zones.flat_map(move |(start, behind)| (*start).max(first)..(*behind).min(end))
    }
}
