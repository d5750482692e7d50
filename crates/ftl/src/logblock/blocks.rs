//! What is known of each erase block: its use, its wear, the tail of its tags; and the pool of free
//! ones, ordered by wear.

use crate::pool::Pool;
use crate::tag::Tail;
use alloc::{vec, vec::Vec};

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// In the pool; erased or to be erased.
    Free { clean: bool },
    /// Data of one logical block, each page in its place.
    Data { lbn: u32 },
    /// The log in this slot.
    Log { slot: u32 },
    /// The target of a merge under way, or the anchor.
    Held,
    /// The block is out of service.
    Bad,
}

#[derive(Debug)]
pub(super) struct BlockTable {
    uses: Vec<Use>,
    pub erases: Vec<u32>,
    pub tails: Vec<Tail>,
    /// To be retired once nothing in it is needed.
    failing: Vec<bool>,
    pool: Pool,
    good: u32,
}

impl BlockTable {
    /// All blocks, out of service until [`release`](Self::release)d or [`adopt`](Self::adopt)ed.
    pub fn new(blocks: u32) -> Self {
        let n = blocks as usize;
        Self {
            uses: vec![Use::Bad; n],
            erases: vec![0; n],
            tails: vec![Tail::default(); n],
            failing: vec![false; n],
            pool: Pool::default(),
            good: 0,
        }
    }

    #[inline]
    pub fn of(&self, block: u32) -> Use {
        self.uses[block as usize]
    }

    #[inline]
    pub fn set(&mut self, block: u32, r#use: Use) {
        self.uses[block as usize] = r#use;
    }

    pub fn good(&self) -> u32 {
        self.good
    }

    /// Takes the least worn free block out of the pool, or the most worn for data at rest, and says
    /// whether it is erased.
    pub fn take(&mut self, at_rest: bool) -> Option<(u32, bool)> {
        let block = if at_rest {
            self.pool.take_most()
        } else {
            self.pool.take_least()
        }?;
        let clean = self.of(block) == Use::Free { clean: true };
        self.set(block, Use::Held);
        Some((block, clean))
    }

    /// The largest erase count in the pool.
    pub fn most_worn_free(&self) -> Option<u32> {
        self.pool.most()
    }

    /// The least worn data block of those logical blocks that `at_rest` accepts: its erase count
    /// and its logical block.
    pub fn coldest(&self, at_rest: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        let data = self
            .uses
            .iter()
            .zip(&self.erases)
            .filter_map(|(&r#use, &erases)| match r#use {
                Use::Data { lbn } => Some((erases, lbn)),
                _ => None,
            });
        data.filter(|&(_, lbn)| at_rest(lbn)).min()
    }

    /// A block goes (back) to the pool.
    pub fn release(&mut self, block: u32, clean: bool) {
        if self.of(block) == Use::Bad {
            self.good += 1;
        }
        self.set(block, Use::Free { clean });
        self.pool.insert(self.erases[block as usize], block);
    }

    /// A block found on the medium with something in it.
    pub fn adopt(&mut self, block: u32, r#use: Use, tail: Tail) {
        self.good += 1;
        self.tails[block as usize] = tail;
        self.set(block, r#use);
    }

    pub fn set_failing(&mut self, block: u32) {
        self.failing[block as usize] = true;
    }

    pub fn is_failing(&self, block: u32) -> bool {
        self.failing[block as usize]
    }

    /// Takes a block that is not in the pool out of service.
    pub fn retire(&mut self, block: u32) {
        self.set(block, Use::Bad);
        self.good -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_gives_the_least_or_most_worn_block_and_remembers_what_is_erased() {
        let mut blocks = BlockTable::new(4);
        for (block, erases) in [(0, 7), (1, 3), (2, 9), (3, 3)] {
            blocks.erases[block as usize] = erases;
            blocks.release(block, block != 3);
        }
        assert_eq!(blocks.good(), 4);
        assert_eq!(
            [false; 3].map(|at_rest| blocks.take(at_rest)),
            [Some((1, true)), Some((3, false)), Some((0, true))]
        );
        blocks.retire(0);
        blocks.release(3, true);
        assert_eq!((blocks.good(), blocks.most_worn_free()), (3, Some(9)));
        assert_eq!(
            [true; 3].map(|at_rest| blocks.take(at_rest)),
            [Some((2, true)), Some((3, true)), None]
        );
    }

    #[test]
    fn the_coldest_is_the_least_worn_data_block_at_rest() {
        let mut blocks = BlockTable::new(5);
        for (block, erases, r#use) in [
            (0, 1, Use::Held),
            (1, 2, Use::Log { slot: 0 }),
            (2, 5, Use::Data { lbn: 7 }),
            (3, 4, Use::Data { lbn: 8 }),
        ] {
            blocks.erases[block as usize] = erases;
            blocks.adopt(block, r#use, Tail::default());
        }
        assert_eq!(
            [
                blocks.coldest(|_| true),
                blocks.coldest(|lbn| lbn != 8),
                blocks.coldest(|_| false)
            ],
            [Some((4, 8)), Some((5, 7)), None]
        );
    }
}
