//! Logical blocks with dirty pages: how many, and whether they were written in order.

use alloc::{vec, vec::Vec};
use core::ops::Range;
use nandlab_sim::Divisor;
use nandlab_sim::Index;

/// The block was not written in order from its first page on.
const BROKEN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    block: u32,
    dirty: u32,
    /// The offset that would continue writes in order.
    next: u32,
}

/// What a write made of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub group: u32,
    /// Dirty pages of the group.
    pub dirty: u32,
    /// The group has no other dirty page, and had none before.
    pub new: bool,
    /// All of the block is dirty, and was written in order.
    pub whole: bool,
}

/// Numbers for the logical blocks that have dirty pages, below the number of pages that can be
/// dirty.
#[derive(Debug)]
pub(super) struct Groups {
    divisor: Divisor,
    block_pages: u32,
    disk_pages: u32,
    groups: Vec<Group>,
    by_block: Index<u32>,
    free: Vec<u32>,
}

impl Groups {
    /// For a disk of `disk_pages` pages of which `most` may be dirty.
    pub fn new(disk_pages: u32, block_pages: u32, most: u32) -> Self {
        Self {
            divisor: Divisor::new(block_pages),
            block_pages,
            disk_pages,
            groups: vec![Group::default(); most as usize],
            by_block: Index::new(most),
            free: (0..most).rev().collect(),
        }
    }

    /// The pages of a group's block.
    pub fn range(&self, group: u32) -> Range<u32> {
        let first = self.groups[group as usize].block * self.block_pages;
        first..self.disk_pages.min(first + self.block_pages)
    }

    /// Dirty pages of a group.
    pub fn dirty(&self, group: u32) -> u32 {
        self.groups[group as usize].dirty
    }

    /// A page was written; `fresh`: it was not dirty before.
    #[inline]
    pub fn written(&mut self, page: u32, fresh: bool) -> Written {
        let (block, off) = self.divisor.split(page);
        let (group, new) = match self.by_block.get(block) {
            Some(group) => (group, false),
            None => (self.begin(block), true),
        };
        let range = self.range(group);
        let entry = &mut self.groups[group as usize];
        entry.dirty += u32::from(fresh);
        entry.next = match off {
            0 => 1,
            // Parts of a page come one by one.
            _ if off == entry.next || off + 1 == entry.next => off + 1,
            _ => BROKEN,
        };
        let len = range.end - range.start;
        Written {
            group,
            dirty: entry.dirty,
            new,
            whole: entry.next == len && entry.dirty == len,
        }
    }

    /// A page is not dirty any more: its group, and the dirty pages left there. With none the
    /// number is given up.
    pub fn cleaned(&mut self, page: u32) -> Option<(u32, u32)> {
        let (block, _) = self.divisor.split(page);
        let group = self.by_block.get(block)?;
        let entry = &mut self.groups[group as usize];
        entry.dirty -= 1;
        let left = entry.dirty;
        if left == 0 {
            self.by_block.remove(block);
            self.free.push(group);
        }
        Some((group, left))
    }

    fn begin(&mut self, block: u32) -> u32 {
        // There are as many numbers as dirty pages.
        let group = self.free.pop().unwrap_or_default();
        self.groups[group as usize] = Group {
            block,
            dirty: 0,
            next: BROKEN,
        };
        self.by_block.insert(block, group);
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_written_in_order_is_whole_at_its_last_page() {
        let mut groups = Groups::new(10, 4, 10);
        let whole = |groups: &mut Groups, pages: &[u32]| -> Vec<bool> {
            pages
                .iter()
                .map(|&p| groups.written(p, true).whole)
                .collect()
        };
        assert_eq!(
            whole(&mut groups, &[0, 1, 2, 3]),
            [false, false, false, true]
        );
        assert_eq!(whole(&mut groups, &[5, 4, 6, 7]), [false; 4]);
        // The last block is shorter.
        assert_eq!(whole(&mut groups, &[8, 9]), [false, true]);
        assert_eq!(groups.range(groups.by_block.get(2).unwrap()), 8..10);
        // Parts of pages, and then a page out of order.
        assert_eq!(
            [0, 0, 1, 1, 2, 3, 3].map(|p| groups.written(p, false).whole),
            [false, false, false, false, false, true, true]
        );
        assert!(!groups.written(2, false).whole && !groups.written(3, false).whole);
    }

    #[test]
    fn a_group_lives_as_long_as_it_has_dirty_pages() {
        let mut groups = Groups::new(64, 8, 2);
        assert_eq!(
            groups.written(17, true),
            Written {
                group: 0,
                dirty: 1,
                new: true,
                whole: false
            }
        );
        assert_eq!(
            groups.written(18, true),
            Written {
                group: 0,
                dirty: 2,
                new: false,
                whole: false
            }
        );
        assert_eq!(
            (groups.cleaned(17), groups.cleaned(18), groups.cleaned(18)),
            (Some((0, 1)), Some((0, 0)), None)
        );
        assert_eq!(
            groups.written(63, true),
            Written {
                group: 0,
                dirty: 1,
                new: true,
                whole: false
            }
        );
    }
}
