//! Compares bitmaps and counts with what the walk of a check found in use.
//!
//! *Promises* to write nothing. *Knows nothing of* inodes but their kinds.

use crate::{
    Ext, ExtError,
    check::Walk,
    finding::{Finding, Place},
    format::{incompat, le32, sb},
    groups::Map,
};
use nandlab_block::BlockDevice;

impl<D: BlockDevice> Ext<D> {
    pub(crate) fn check_bitmaps(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let layout = self.store.layout;
        for group in 0..layout.groups {
            let counts = self.groups[group as usize];
            let start = layout.group_start(group);
            let end = layout.group_blocks(group);
            self.check_bitmap_sums(walk, group)?;
            let bitmap = self.bitmap(group, Map::Blocks)?.1.to_vec();
            let taken = |at: u32| bitmap[at as usize / 8] >> (at % 8) & 1 == 1;
            let cluster = layout.cluster;
            let mut lost = 0;
            let mut first = 0;
            let mut free = 0;
            for at in 0..end.div_ceil(cluster) {
                let blocks = start + at * cluster..(start + (at + 1) * cluster).min(start + end);
                let used = blocks.clone().any(|block| walk.is_used(block));
                match (used, taken(at)) {
                    (true, false) => walk.report.add(Finding::FreeBlock {
                        block: blocks.start,
                        inode: 0,
                    }),
                    (false, true) => {
                        first = if lost == 0 { blocks.start } else { first };
                        lost += cluster;
                    }
                    (false, false) => walk.report.free += cluster,
                    _ => {}
                }
                free += u32::from(!taken(at));
            }
            if lost > 0 {
                walk.report.add(Finding::LostBlocks {
                    group,
                    count: lost,
                    first,
                });
            }
            self.count(
                walk,
                "free blocks",
                Place::Group(group),
                counts.free_blocks,
                free,
            );
            let bits = end.div_ceil(cluster);
            self.check_padding(walk, (group, Map::Blocks), ("blocks", bits))?;
            self.check_inode_bitmap(walk, group)?;
            let inodes = layout.inodes_per_group;
            self.check_padding(walk, (group, Map::Inodes), ("inodes", inodes))?;
        }
        for (block, expected) in core::mem::take(&mut walk.attributes) {
            if !self.is_metadata(block) {
                let found = le32(self.store.block(block)?, 4);
                self.count(walk, "users", Place::Block(block), found, expected);
            }
        }
        Ok(())
    }

    fn check_inode_bitmap(&mut self, walk: &mut Walk, group: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let counts = self.groups[group as usize];
        let bitmap = self.bitmap(group, Map::Inodes)?.1.to_vec();
        let mut lost = 0;
        let mut first = 0;
        let mut free = 0;
        let mut directories = 0;
        for at in 0..layout.inodes_per_group {
            let inode = group * layout.inodes_per_group + at + 1;
            let taken = bitmap[at as usize / 8] >> (at % 8) & 1 == 1;
            let kind = walk.kind(inode);
            if kind != 0 && !taken {
                walk.report.add(Finding::FreeInode { inode });
            } else if kind == 0 && taken && inode >= layout.first_inode {
                first = if lost == 0 { inode } else { first };
                lost += 1;
            }
            free += u32::from(!taken);
            directories += u32::from(kind == 2);
        }
        if lost > 0 {
            walk.report.add(Finding::LostInodes {
                group,
                count: lost,
                first,
            });
        }
        self.count(
            walk,
            "free inodes",
            Place::Group(group),
            counts.free_inodes,
            free,
        );
        self.count(
            walk,
            "directories",
            Place::Group(group),
            counts.directories,
            directories,
        );
        Ok(())
    }

    fn count(&self, walk: &mut Walk, what: &'static str, place: Place, found: u32, expected: u32) {
        if found != expected {
            walk.report.add(Finding::Count {
                what,
                place,
                found,
                expected,
            });
        }
    }

    /// The superblock's counts against the groups'.
    pub(crate) fn check_totals(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let wide = self.store.layout.incompat & incompat::WIDE != 0;
        let bytes = self.store.superblock()?;
        let high = if wide {
            le32(bytes, sb::FREE_BLOCKS_HIGH)
        } else {
            0
        };
        let low = le32(bytes, sb::FREE_BLOCKS);
        let free = if high == 0 { low } else { u32::MAX };
        let said = (free, le32(bytes, sb::FREE_INODES));
        let sum = |count: fn(&crate::groups::Group) -> u32| self.groups.iter().map(count).sum();
        let are: (u32, u32) = (
            sum(|group| group.free_blocks),
            sum(|group| group.free_inodes),
        );
        let blocks = are.0.saturating_mul(self.store.layout.cluster);
        self.count(walk, "free blocks", Place::Super, said.0, blocks);
        self.count(walk, "free inodes", Place::Super, said.1, are.1);
        Ok(())
    }
}
