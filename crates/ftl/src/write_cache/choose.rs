//! Builds the eviction policy that the options name.

use super::CachePolicy;
use super::bplru::BlockLru;
use super::fab::Fab;
use super::lb_clock::LbClock;
use super::policy::Policy;
use alloc::boxed::Box;

impl CachePolicy {
    /// For a disk of `disk_pages` pages of which `most` may be dirty.
    pub(super) fn build(self, disk_pages: u32, block_pages: u32, most: u32) -> Box<dyn Policy> {
        match self {
            Self::Lru => Box::new(BlockLru::new(disk_pages, 1, most, false)),
            Self::Fab => Box::new(Fab::new(disk_pages, block_pages, most)),
            Self::Bplru { compensation, .. } => {
                Box::new(BlockLru::new(disk_pages, block_pages, most, compensation))
            }
            Self::LbClock => Box::new(LbClock::new(disk_pages, block_pages, most)),
        }
    }

    /// Whether the clean pages of a block are written with the dirty ones.
    pub(super) fn pads(self) -> bool {
        matches!(self, Self::Bplru { padding: true, .. })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A policy with the set of dirty pages.
    pub struct Bench(Box<dyn Policy>, Vec<u32>);

    impl Bench {
        /// Blocks of four pages.
        pub fn new(policy: CachePolicy) -> Self {
            Self(policy.build(1000, 4, 100), Vec::new())
        }

        pub fn write(&mut self, pages: impl IntoIterator<Item = u32>) {
            for page in pages {
                let fresh = !self.1.contains(&page);
                self.0.written(page, fresh);
                if fresh {
                    self.1.push(page);
                }
            }
        }

        pub fn clean(&mut self, page: u32) {
            self.1.retain(|&p| p != page);
            self.0.cleaned(page);
        }

        /// Writes the victim back: its first page and its dirty pages.
        pub fn evict(&mut self) -> Option<(u32, usize)> {
            let range = self.0.victim()?;
            assert_eq!(
                self.0.victim(),
                Some(range.clone()),
                "a victim stays one until it is clean"
            );
            let pages: Vec<u32> = self
                .1
                .iter()
                .copied()
                .filter(|p| range.contains(p))
                .collect();
            assert!(!pages.is_empty());
            pages.iter().for_each(|&page| self.clean(page));
            Some((range.start, pages.len()))
        }

        /// Evicts everything; the first page of each victim.
        pub fn evict_all(&mut self) -> Vec<u32> {
            core::iter::from_fn(|| self.evict().map(|(first, _)| first)).collect()
        }
    }

    #[test]
    fn lru_evicts_the_page_not_written_for_longest() {
        let mut bench = Bench::new(CachePolicy::Lru);
        bench.write([0, 1, 2, 9, 1]);
        assert_eq!(bench.evict(), Some((0, 1)));
        bench.write([2, 0]);
        assert_eq!(bench.evict_all(), [9, 1, 2, 0]);
    }

    #[test]
    fn whatever_the_policy_everything_dirty_is_a_victim_once() {
        let bplru = |padding, compensation| CachePolicy::Bplru {
            padding,
            compensation,
        };
        for policy in [
            CachePolicy::Lru,
            CachePolicy::Fab,
            bplru(true, true),
            bplru(false, false),
            CachePolicy::LbClock,
        ] {
            let mut bench = Bench::new(policy);
            for step in 0..3_000u64 {
                let word = nandlab_sim::mix(5, step);
                match word % 8 {
                    0 if !bench.1.is_empty() => {
                        let page = bench.1[(word >> 8) as usize % bench.1.len()];
                        bench.clean(page);
                    }
                    1 => {
                        let dirty = !bench.1.is_empty();
                        assert_eq!(bench.evict().is_some(), dirty);
                    }
                    _ => bench.write([(word >> 8) as u32 % 90]),
                }
            }
            let left = bench.1.len();
            assert!(left > 0);
            assert_eq!(
                core::iter::from_fn(|| bench.evict().map(|(_, n)| n)).sum::<usize>(),
                left,
                "{policy:?}"
            );
        }
    }
}
