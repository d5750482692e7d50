//! Block-level LRU: BPLRU, and with blocks of one page plain LRU.
//!
//! *From the paper* (Kim and Ahn, BPLRU: a buffer management scheme for improving random writes in
//! flash storage, FAST 2008): least recently written order of logical blocks rather than pages;
//! page padding (done by the cache, see [`CachePolicy::Bplru`](super::CachePolicy::Bplru)); LRU
//! compensation: a block that was written fully in order will not be written again soon, and moves
//! to the LRU end.
//!
//! *Chosen here.* "In order" is from the first page to the last without any other page of the block
//! between; a page may be written in parts. A block that is rewritten afterwards is an ordinary
//! block again. Of several whole blocks the last completed goes first.

use super::groups::Groups;
use super::policy::Policy;
use core::ops::Range;
use nandlab_sim::Lists;

#[derive(Debug)]
pub(super) struct BlockLru {
    groups: Groups,
    /// Least recently written first.
    order: Lists,
    compensation: bool,
}

impl BlockLru {
    pub fn new(disk_pages: u32, block_pages: u32, most: u32, compensation: bool) -> Self {
        Self {
            groups: Groups::new(disk_pages, block_pages, most),
            order: Lists::new(1, most),
            compensation,
        }
    }
}

impl Policy for BlockLru {
    #[inline]
    fn written(&mut self, page: u32, fresh: bool) {
        let written = self.groups.written(page, fresh);
        if self.compensation && written.whole {
            self.order.push_front(0, written.group);
        } else {
            self.order.push_back(0, written.group);
        }
    }

    fn cleaned(&mut self, page: u32) {
        if let Some((group, 0)) = self.groups.cleaned(page) {
            self.order.remove(group);
        }
    }

    fn victim(&mut self) -> Option<Range<u32>> {
        self.order.front(0).map(|group| self.groups.range(group))
    }
}

#[cfg(test)]
mod tests {
    use crate::write_cache::CachePolicy;
    use crate::write_cache::choose::tests::Bench;

    fn bplru(compensation: bool) -> Bench {
        Bench::new(CachePolicy::Bplru {
            padding: true,
            compensation,
        })
    }

    #[test]
    fn the_block_not_written_for_longest_goes_with_all_its_pages() {
        // Blocks 0, 1, 4 and 5, then 1 and 0 again.
        let mut bench = bplru(true);
        bench.write([0, 5, 17, 21, 6, 2]);
        assert_eq!(bench.evict(), Some((16, 1)));
        assert_eq!(bench.evict(), Some((20, 1)));
        assert_eq!(bench.evict(), Some((4, 2)));
        assert_eq!(bench.evict(), Some((0, 2)));
        assert_eq!(bench.evict(), None);
    }

    #[test]
    fn a_block_written_in_order_goes_before_older_ones_if_compensated() {
        for (compensation, expected) in [(true, [4, 0, 12]), (false, [0, 12, 4])] {
            let mut bench = bplru(compensation);
            bench.write([1, 13, 4, 5, 6, 7]);
            assert_eq!(bench.evict_all(), expected);
        }
    }

    #[test]
    fn a_whole_block_that_is_rewritten_is_an_ordinary_one() {
        let mut bench = bplru(true);
        bench.write([4, 5, 6, 7, 1, 13, 6]);
        assert_eq!(bench.evict_all(), [0, 12, 4]);
    }
}
