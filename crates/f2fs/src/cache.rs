//! Blocks in memory: dirty ones, and clean ones that may be needed again.
//!
//! *Promises.* Dirty blocks are kept until they are marked clean or forgotten; clean ones take at
//! most twice the capacity. *Knows nothing of* devices, nor of what the blocks hold.

use crate::disk::Block;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use nandlab_block::Key;
use nandlab_vfs::Time;

/// Blocks by key. The mark of a dirty one: nothing of it has changed that must be durable with
/// its file's contents.
#[derive(Debug)]
pub(crate) struct Cache<K>(nandlab_block::Cache<K, Time, Block, bool>);

impl<K: Key> Cache<K> {
    /// With space for so many clean blocks.
    pub fn new(blocks: u64) -> Self {
        Self(nandlab_block::Cache::new(blocks.min(1 << 21) as usize))
    }

    pub fn get(&mut self, key: K) -> Option<&[u8]> {
        self.0.get(key).map(|block| &**block)
    }

    pub fn has(&self, key: K) -> bool {
        self.0.has(key)
    }

    /// See [`nandlab_block::Cache::turn`].
    pub fn turn(&self) -> u64 {
        self.0.turn()
    }

    /// Keeps a clean block, which may be evicted.
    pub fn keep(&mut self, key: K, block: Block) {
        self.0.keep(key, block);
    }

    /// The block to be changed, dirty from now on; none if it is not here.
    pub fn edit(&mut self, key: K, now: Time) -> Option<&mut [u8]> {
        let (block, light) = self.0.edit(key, now, |_| false)?;
        *light = false;
        Some(block)
    }

    /// As [`edit`](Self::edit), for a change that need not be durable with the file's contents, or
    /// for none: the block is dirty only to be written elsewhere.
    pub fn edit_lightly(&mut self, key: K, now: Time) -> Option<&mut [u8]> {
        Some(self.0.edit(key, now, |_| true)?.0)
    }

    /// Whether a block is dirty, and was only ever edited lightly since it became so.
    pub fn is_light(&self, key: K) -> bool {
        self.0.dirty(key).is_some_and(|(_, light)| *light)
    }

    /// Makes a block dirty, since now unless it was already.
    pub fn put(&mut self, key: K, block: Block, now: Time) {
        match self.0.dirty_mut(key) {
            Some((old, light)) => (*old, *light) = (block, false),
            None => self.0.put(key, block, now, false),
        }
    }

    /// The block has been written.
    pub fn mark_clean(&mut self, key: K) {
        self.0.mark_clean(key);
    }

    pub fn forget(&mut self, key: K) {
        self.0.forget(key);
    }

    /// Forgets all blocks of a range.
    pub fn forget_range(&mut self, range: RangeInclusive<K>) {
        let keys = self.0.keys(range);
        keys.into_iter().for_each(|key| self.forget(key));
    }

    pub fn is_dirty(&self, key: K) -> bool {
        self.0.dirty(key).is_some()
    }

    /// The dirty blocks, in order of keys.
    pub fn dirty(&self, range: RangeInclusive<K>) -> Vec<K> {
        self.0.dirty_in(range).map(|(key, ..)| key).collect()
    }

    pub fn all_dirty(&self) -> Vec<K> {
        self.0.dirty_in(..).map(|(key, ..)| key).collect()
    }

    pub fn dirty_blocks(&self) -> impl Iterator<Item = (K, &[u8])> {
        self.0.dirty_in(..).map(|(key, block, _)| (key, &**block))
    }

    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// The key that has waited longest, and since when.
    pub fn oldest(&self) -> Option<(Time, K)> {
        self.0.by_age().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::zeros;

    #[test]
    fn a_block_waits_lightly_until_something_changes() {
        let mut cache = Cache::new(64);
        let now = Time::new(1);
        cache.keep(3, zeros());
        assert!(cache.edit_lightly(4, now).is_none() && !cache.is_light(3));
        cache.edit_lightly(3, now).unwrap();
        assert!(cache.is_light(3) && cache.is_dirty(3) && cache.oldest() == Some((now, 3)));
        cache.edit(3, Time::new(2)).unwrap()[0] = 1;
        cache.edit_lightly(3, Time::new(3)).unwrap();
        assert!(!cache.is_light(3) && cache.oldest() == Some((now, 3)));
        cache.mark_clean(3);
        assert_eq!((cache.count(), cache.get(3).unwrap()[0]), (0, 1));
        cache.edit_lightly(3, now).unwrap();
        cache.put(3, zeros(), now);
        assert!(!cache.is_light(3));
    }
}
