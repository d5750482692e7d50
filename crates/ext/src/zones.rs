//! The blocks of the volume's own metadata: superblocks, descriptors, bitmaps and inode tables,
//! wherever the descriptors say.
//!
//! *Promises.* A sorted list of ranges that do not touch, fixed at the mount, and the first block
//! that two structures claim. *Knows nothing of* what lies in them.

use crate::{format::Layout, groups::Group};
use alloc::vec::Vec;

/// Ranges of blocks, each from its first to before its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zones {
    ranges: Vec<(u32, u32)>,
    overlap: Option<u32>,
}

impl Zones {
    pub fn new(layout: &Layout, groups: &[Group]) -> Self {
        let mut all: Vec<(u32, u32)> = (0..)
            .zip(groups)
            .flat_map(|(at, own)| own.zones(layout, at))
            .filter(|(first, end)| first < end)
            .collect();
        all.sort_unstable();
        let mut zones: Vec<(u32, u32)> = Vec::new();
        let mut overlap = None;
        for (first, end) in all {
            match zones.last_mut() {
                Some(last) if first <= last.1 => {
                    let meets = (first < last.1).then_some(first);
                    overlap = overlap.or(meets);
                    last.1 = last.1.max(end);
                }
                _ => zones.push((first, end)),
            }
        }
        zones.shrink_to_fit();
        Self {
            ranges: zones,
            overlap,
        }
    }

    /// The first block that two structures claim.
    pub fn overlap(&self) -> Option<u32> {
        self.overlap
    }

    pub fn contains(&self, block: u32) -> bool {
        let behind = self.ranges.partition_point(|(first, _)| *first <= block);
        behind > 0 && block < self.ranges[behind - 1].1
    }

    /// The blocks of the zones within a range.
    pub fn within(&self, first: u32, end: u32) -> impl Iterator<Item = u32> {
        let from = self.ranges.partition_point(|(_, behind)| *behind <= first);
        let zones = self.ranges[from..]
            .iter()
            .take_while(move |(start, _)| *start < end);
        zones.flat_map(move |(start, behind)| (*start).max(first)..(*behind).min(end))
    }
}
