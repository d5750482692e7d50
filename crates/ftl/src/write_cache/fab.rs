//! FAB: the block with the most pages goes.
//!
//! *From the paper* (Jo, Kang, Park, Kim and Lee, FAB: flash-aware buffer management policy for
//! portable media players, IEEE TCE 52(2), 2006, as retold; its text could not be read): the victim
//! is the logical block with the most pages in the buffer; of equals the one at the end of a
//! block-level LRU list; all its pages are flushed at once.
//!
//! *Chosen here.* Only writes are buffered, so only writes count as use. The LRU order is kept
//! among blocks with equally many pages, by the last write or the last page that was discarded.

use super::by_count::ByCount;
use super::groups::Groups;
use super::policy::Policy;
use core::ops::Range;

#[derive(Debug)]
pub(super) struct Fab {
    groups: Groups,
    by_count: ByCount,
}

impl Fab {
    pub fn new(disk_pages: u32, block_pages: u32, most: u32) -> Self {
        Self {
            groups: Groups::new(disk_pages, block_pages, most),
            by_count: ByCount::new(block_pages, most),
        }
    }
}

impl Policy for Fab {
    #[inline]
    fn written(&mut self, page: u32, fresh: bool) {
        let written = self.groups.written(page, fresh);
        self.by_count.put(written.group, written.dirty);
    }

    fn cleaned(&mut self, page: u32) {
        match self.groups.cleaned(page) {
            Some((group, 0)) => self.by_count.remove(group),
            Some((group, left)) => self.by_count.put(group, left),
            None => {}
        }
    }

    fn victim(&mut self) -> Option<Range<u32>> {
        self.by_count
            .fullest()
            .map(|group| self.groups.range(group))
    }
}

#[cfg(test)]
mod tests {
    use crate::write_cache::CachePolicy;
    use crate::write_cache::choose::tests::Bench;

    #[test]
    fn the_fullest_block_goes_and_of_equals_the_least_recent() {
        let mut bench = Bench::new(CachePolicy::Fab);
        bench.write([0, 1, 4, 5, 6, 8, 9, 12]);
        assert_eq!(bench.evict(), Some((4, 3)));
        // Blocks 0 and 2 hold two pages each; a rewrite makes block 0 the more recent.
        bench.write([0]);
        assert_eq!(bench.evict(), Some((8, 2)));
        bench.write([13, 14]);
        assert_eq!(bench.evict(), Some((12, 3)));
        assert_eq!(bench.evict_all(), [0]);
    }

    #[test]
    fn a_discarded_page_counts_no_more() {
        let mut bench = Bench::new(CachePolicy::Fab);
        bench.write([0, 1, 2, 4, 5]);
        bench.clean(1);
        bench.clean(2);
        assert_eq!(bench.evict_all(), [4, 0]);
    }
}
