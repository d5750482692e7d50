//! Blocks that are at home as they are here, kept in case they are needed again.
//!
//! *Promises* to hold no more than it was told, and to give up what was not used for longest.
//! *Knows nothing of* what waits to be written.

use alloc::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug)]
struct Kept {
    data: Arc<[u8]>,
    used: u64,
}

/// Clean blocks.
#[derive(Clone, Debug)]
pub(crate) struct Clean {
    most: usize,
    blocks: BTreeMap<u64, Kept>,
    /// When each was used last, by a count of uses.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl Clean {
    /// With room for `most` blocks, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            blocks: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    pub fn contains(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// The block, used now.
    pub fn get(&mut self, block: u64) -> Option<&Arc<[u8]>> {
        let kept = self.blocks.get_mut(&block)?;
        self.by_use.remove(&kept.used);
        self.uses += 1;
        kept.used = self.uses;
        self.by_use.insert(self.uses, block);
        Some(&kept.data)
    }

    /// Keeps the block, used now.
    pub fn keep(&mut self, block: u64, data: Arc<[u8]>) {
        self.take(block);
        if self.blocks.len() >= self.most
            && let Some((_, eldest)) = self.by_use.pop_first()
        {
            self.blocks.remove(&eldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, block);
        self.blocks.insert(
            block,
            Kept {
                data,
                used: self.uses,
            },
        );
    }

    /// Gives the block up.
    pub fn take(&mut self, block: u64) -> Option<Arc<[u8]>> {
        let kept = self.blocks.remove(&block)?;
        self.by_use.remove(&kept.used);
        Some(kept.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_not_used_for_longest_goes_first() {
        let mut clean = Clean::new(2);
        clean.keep(1, [1].into());
        clean.keep(2, [2].into());
        assert_eq!(clean.get(1).map(|data| data[0]), Some(1));
        clean.keep(3, [3].into());
        assert_eq!(
            [1, 2, 3].map(|block| clean.contains(block)),
            [true, false, true]
        );
        clean.keep(3, [4].into());
        assert_eq!(
            (
                clean.take(3).map(|data| data[0]),
                clean.take(3),
                clean.get(2).is_none()
            ),
            (Some(4), None, true)
        );
        assert_eq!((clean.blocks.len(), clean.by_use.len()), (1, 1));
    }
}
