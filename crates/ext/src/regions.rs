//! What lies where on a volume, as far as that never changes.

use crate::{Ext, ExtError, format::compat};
use alloc::vec::Vec;
use core::ops::Range;
use nandlab_block::BlockDevice;

/// What a stretch of a volume is for. The rest holds contents of files, directories and blocks of
/// block pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Superblocks and group descriptors, with the space kept for more of them.
    Super,
    /// Which blocks and inodes are free.
    Bitmaps,
    /// Blocks of the inode tables.
    Inodes,
    /// Blocks of the journal's log.
    Journal,
}

impl<D: BlockDevice> Ext<D> {
    /// The regions in blocks, in order.
    pub fn regions(&mut self) -> Result<Vec<(Range<u32>, Region)>, ExtError> {
        let layout = self.store.layout;
        let mut found = Vec::new();
        for group in 0..layout.groups {
            self.group_regions(group, &mut found);
        }
        if layout.has(compat::HAS_JOURNAL) {
            found.extend(
                self.journal_runs()?
                    .into_iter()
                    .map(|(first, run)| (first..first + run, Region::Journal)),
            );
        }
        found.sort_by_key(|(range, _)| range.start);
        Ok(found)
    }

    fn group_regions(&self, group: u32, found: &mut Vec<(Range<u32>, Region)>) {
        let layout = &self.store.layout;
        let start = layout.group_start(group);
        let own = self.groups[group as usize];
        if layout.header(group) > 0 {
            found.push((start..start + layout.header(group), Region::Super));
        }
        let bitmaps = [own.block_bitmap, own.inode_bitmap];
        found.extend(bitmaps.map(|block| (block..block + 1, Region::Bitmaps)));
        found.push((own.table..own.table + layout.table_blocks(), Region::Inodes));
    }
}
