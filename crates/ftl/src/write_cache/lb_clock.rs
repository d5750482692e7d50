//! LB-CLOCK: a clock over logical blocks that takes the fullest of those the hand has passed.
//!
//! *From the paper* (Debnath, Subramanya, Du and Lilja, Large Block CLOCK (LB-CLOCK): a write
//! caching algorithm for solid state disks, MASCOTS 2009; only its abstract and retellings could be
//! read): the blocks in the cache form a ring. A write sets the recency bit of its block. For a
//! victim the hand goes round, clearing set bits, and stops at a block whose bit was clear. The
//! victim is, of all blocks with a clear bit, the one with the largest block space utilisation: the
//! most pages in the cache. A block that was written in order has its bit cleared at once.
//!
//! *Chosen here.* The hand does not move on from a block with a clear bit unless that block leaves.
//! A new block enters behind the hand. "In order" is what it is for [`bplru`](super::bplru). Of
//! equally full blocks the one goes whose bit was cleared first.

use super::by_count::ByCount;
use super::groups::Groups;
use super::policy::Policy;
use alloc::{vec, vec::Vec};
use core::ops::Range;
use nandlab_sim::Lists;

#[derive(Debug)]
pub(super) struct LbClock {
    groups: Groups,
    /// From the hand once round.
    ring: Lists,
    recent: Vec<bool>,
    /// Blocks whose recency bit is clear.
    candidates: ByCount,
}

impl LbClock {
    pub fn new(disk_pages: u32, block_pages: u32, most: u32) -> Self {
        Self {
            groups: Groups::new(disk_pages, block_pages, most),
            ring: Lists::new(1, most),
            recent: vec![false; most as usize],
            candidates: ByCount::new(block_pages, most),
        }
    }
}

impl Policy for LbClock {
    #[inline]
    fn written(&mut self, page: u32, fresh: bool) {
        let written = self.groups.written(page, fresh);
        if written.new {
            self.ring.push_back(0, written.group);
        }
        self.recent[written.group as usize] = !written.whole;
        if written.whole {
            self.candidates.put(written.group, written.dirty);
        } else {
            self.candidates.remove(written.group);
        }
    }

    fn cleaned(&mut self, page: u32) {
        match self.groups.cleaned(page) {
            Some((group, 0)) => {
                self.ring.remove(group);
                self.candidates.remove(group);
            }
            Some((group, left)) if !self.recent[group as usize] => self.candidates.put(group, left),
            _ => {}
        }
    }

    fn victim(&mut self) -> Option<Range<u32>> {
        while let Some(group) = self.ring.front(0).filter(|&g| self.recent[g as usize]) {
            self.recent[group as usize] = false;
            self.candidates.put(group, self.groups.dirty(group));
            self.ring.push_back(0, group);
        }
        self.candidates
            .fullest()
            .map(|group| self.groups.range(group))
    }
}

#[cfg(test)]
mod tests {
    use crate::write_cache::CachePolicy;
    use crate::write_cache::choose::tests::Bench;

    #[test]
    fn the_fullest_block_that_the_hand_has_passed_goes() {
        let mut bench = Bench::new(CachePolicy::LbClock);
        bench.write([0, 4, 5, 8]);
        // The hand goes round once: all bits are clear.
        assert_eq!(bench.evict(), Some((4, 2)));
        // Blocks 3 and 0 are recent. The hand clears the bit of block 0 and stops at block 2, which
        // holds as many pages as block 0 but was passed first.
        bench.write([12, 13, 14, 0]);
        assert_eq!(bench.evict(), Some((8, 1)));
        // Now the hand is at block 3: bit cleared. Block 0 comes next with a clear bit.
        assert_eq!(bench.evict(), Some((12, 3)));
        assert_eq!(bench.evict_all(), [0]);
    }

    #[test]
    fn recency_goes_before_size() {
        let mut bench = Bench::new(CachePolicy::LbClock);
        bench.write([0, 4, 5, 6, 8, 9]);
        assert_eq!(bench.evict(), Some((4, 3)));
        // Block 2 grows larger than block 0 and is recent; the hand stops at block 0 before it gets
        // there.
        bench.write([10]);
        assert_eq!(bench.evict(), Some((0, 1)));
        assert_eq!(bench.evict(), Some((8, 3)));
    }

    #[test]
    fn a_block_written_in_order_is_a_candidate_at_once() {
        let mut bench = Bench::new(CachePolicy::LbClock);
        bench.write([0, 8, 9, 10]);
        assert_eq!(bench.evict(), Some((8, 3)));
        bench.write([0, 12, 13, 14, 15, 1]);
        assert_eq!(bench.evict(), Some((12, 4)));
        // Out of order its bit is set, and the hand stops before it.
        bench.write([17, 16, 18, 19]);
        assert_eq!(bench.evict_all(), [0, 16]);
    }
}
