//! Linux's fastmap: written so that an attach need not scan, read where it is sound.
//!
//! *Promises.* The map on flash is exact but for two things, which an attach looks after: blocks of
//! the two pools may have been written since, and blocks that it says are mapped may have been
//! erased since. Logical blocks get physical ones of the pools alone; when a pool is used up a new
//! map is written. A map that is damaged, or contradicts itself, is as good as none: the attach
//! scans.
//!
//! *Power loss.* The new map's blocks are written while the old one is there. The newer anchor
//! counts: cut off before it is complete, no map does, and the attach scans. Maps go in their
//! order, the oldest first, so that an old one never becomes the newest.

mod read;
mod write;

pub(crate) use read::read;

use crate::Shape;
use crate::format::{FM_MAX_POOL, fastmap_bytes};
use alloc::{collections::VecDeque, vec::Vec};

/// The pools and where the map lies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    /// Blocks for the next logical ones.
    pub next: VecDeque<u32>,
    /// Blocks for the next moves.
    pub targets: VecDeque<u32>,
    pub max: usize,
    pub max_targets: usize,
    /// The map's blocks with their counters, the anchor first; none if there is no map.
    pub blocks: Vec<(u32, u32)>,
    /// A block that would make a less worn anchor, were it free.
    pub wanted: Option<u32>,
}

impl Pools {
    /// Empty ones of Linux's size: a twentieth of the device, from 8 to 256 blocks; half as many
    /// for moves.
    pub fn new(pebs: u32) -> Self {
        let max = (pebs as usize / 100 * 5).clamp(8, FM_MAX_POOL);
        Self {
            max,
            max_targets: max / 2,
            ..Self::default()
        }
    }

    /// Blocks that a map takes.
    pub fn blocks_needed(shape: &Shape) -> u32 {
        (fastmap_bytes(shape.pebs, shape.leb_bytes) / u64::from(shape.leb_bytes)) as u32
    }

    /// Where the next move goes.
    pub fn next_target(&self) -> Option<u32> {
        self.targets.front().copied()
    }

    pub fn take_target(&mut self) {
        self.targets.pop_front();
    }
}
