//! What is known of each erase block: its use, its wear, the tail of its tags; and the pool of free ones, least worn first.

use super::format::Tail;
use alloc::{collections::BTreeSet, vec, vec::Vec};

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
    /// Out of service.
    Bad,
}

#[derive(Debug)]
pub(super) struct BlockTable {
    uses: Vec<Use>,
    pub erases: Vec<u32>,
    pub tails: Vec<Tail>,
    /// To be retired once nothing in it is needed.
    failing: Vec<bool>,
    pool: BTreeSet<(u32, u32)>,
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
            pool: BTreeSet::new(),
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

    /// Blocks in service.
    pub fn good(&self) -> u32 {
        self.good
    }

    /// Takes the least worn free block out of the pool, and says whether it is erased.
    pub fn take(&mut self) -> Option<(u32, bool)> {
        let (_, block) = self.pool.pop_first()?;
        let clean = self.of(block) == Use::Free { clean: true };
        self.set(block, Use::Held);
        Some((block, clean))
    }

    /// A block goes (back) to the pool.
    pub fn release(&mut self, block: u32, clean: bool) {
        if self.of(block) == Use::Bad {
            self.good += 1;
        }
        self.set(block, Use::Free { clean });
        self.pool.insert((self.erases[block as usize], block));
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
    fn the_pool_gives_the_least_worn_block_and_remembers_what_is_erased() {
        let mut blocks = BlockTable::new(4);
        for (block, erases) in [(0, 7), (1, 3), (2, 9), (3, 3)] {
            blocks.erases[block as usize] = erases;
            blocks.release(block, block != 3);
        }
        assert_eq!(blocks.good(), 4);
        assert_eq!([blocks.take(), blocks.take(), blocks.take()], [Some((1, true)), Some((3, false)), Some((0, true))]);
        blocks.retire(0);
        blocks.release(3, true);
        assert_eq!((blocks.good(), blocks.take(), blocks.take(), blocks.take()), (3, Some((3, true)), Some((2, true)), None));
    }
}
