//! Blocks in memory: those that wait to be written, and those that may be needed again.
//!
//! *Promises.* What waits is kept until it is settled or forgotten; what does not wait takes at
//! most twice the room it was given. *Knows nothing of* devices, nor of what the blocks hold.

use crate::disk::Block;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::RangeInclusive;
use nandlab_block::Recent;
use nandlab_vfs::Time;

/// A block that waits.
#[derive(Debug)]
struct Waiting {
    block: Block,
    since: Time,
    /// Nothing of it has changed that must be durable with its file's contents.
    light: bool,
}

#[derive(Debug)]
pub(crate) struct Cache<K> {
    waiting: BTreeMap<K, Waiting>,
    by_age: BTreeSet<(Time, K)>,
    /// What does not wait.
    recent: Recent<K, Block>,
}

impl<K: Ord + Copy> Cache<K> {
    /// With room for so many blocks that do not wait.
    pub fn new(blocks: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_age: BTreeSet::new(),
            recent: Recent::new(blocks.min(1 << 21) as usize),
        }
    }

    pub fn get(&mut self, key: K) -> Option<&[u8]> {
        match self.waiting.get(&key) {
            Some(waiting) => Some(&waiting.block),
            None => self.recent.get(key).map(|block| &**block),
        }
    }

    pub fn has(&self, key: K) -> bool {
        self.recent.contains(key) || self.waiting.contains_key(&key)
    }

    /// Keeps what does not wait.
    pub fn keep(&mut self, key: K, block: Block) {
        self.recent.insert(key, block);
    }

    /// The block to be changed, waiting from now on; none if it is not here.
    pub fn edit(&mut self, key: K, now: Time) -> Option<&mut [u8]> {
        self.edit_lightly(key, now)?;
        let waiting = self.waiting.get_mut(&key)?;
        waiting.light = false;
        Some(&mut waiting.block)
    }

    /// As [`edit`](Self::edit), for a change that need not be durable with the file's contents, or
    /// for none: the block only waits to be written elsewhere.
    pub fn edit_lightly(&mut self, key: K, now: Time) -> Option<&mut [u8]> {
        if !self.waiting.contains_key(&key) {
            let block = self.recent.remove(key)?;
            self.by_age.insert((now, key));
            self.waiting.insert(
                key,
                Waiting {
                    block,
                    since: now,
                    light: true,
                },
            );
        }
        self.waiting
            .get_mut(&key)
            .map(|waiting| &mut *waiting.block)
    }

    /// Whether a block waits, and was only ever edited lightly since it began to.
    pub fn is_light(&self, key: K) -> bool {
        self.waiting.get(&key).is_some_and(|waiting| waiting.light)
    }

    /// A block that waits, since now unless it did already.
    pub fn put(&mut self, key: K, block: Block, now: Time) {
        self.recent.remove(key);
        match self.waiting.get_mut(&key) {
            Some(waiting) => (waiting.block, waiting.light) = (block, false),
            None => {
                self.by_age.insert((now, key));
                self.waiting.insert(
                    key,
                    Waiting {
                        block,
                        since: now,
                        light: false,
                    },
                );
            }
        }
    }

    /// The block has been written.
    pub fn settle(&mut self, key: K) {
        if let Some(Waiting { block, since, .. }) = self.waiting.remove(&key) {
            self.by_age.remove(&(since, key));
            self.keep(key, block);
        }
    }

    pub fn forget(&mut self, key: K) {
        if let Some(Waiting { since, .. }) = self.waiting.remove(&key) {
            self.by_age.remove(&(since, key));
        }
        self.recent.remove(key);
    }

    /// Forgets all blocks of a range.
    pub fn forget_range(&mut self, range: RangeInclusive<K>) {
        let keys = self.recent.keys(range.clone());
        let waiting: Vec<K> = self.waiting.range(range).map(|(key, _)| *key).collect();
        keys.into_iter()
            .chain(waiting)
            .for_each(|key| self.forget(key));
    }

    pub fn is_waiting(&self, key: K) -> bool {
        self.waiting.contains_key(&key)
    }

    /// What waits, in order of keys.
    pub fn waiting(&self, range: RangeInclusive<K>) -> Vec<K> {
        self.waiting.range(range).map(|(key, _)| *key).collect()
    }

    pub fn all_waiting(&self) -> Vec<K> {
        self.waiting.keys().copied().collect()
    }

    pub fn waiting_blocks(&self) -> impl Iterator<Item = (K, &[u8])> {
        self.waiting
            .iter()
            .map(|(key, waiting)| (*key, &*waiting.block))
    }

    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// The key that has waited longest, and since when.
    pub fn oldest(&self) -> Option<(Time, K)> {
        self.by_age.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::zeros;

    #[test]
    fn a_block_waits_lightly_until_something_changes() {
        let (mut cache, now) = (Cache::new(64), Time::new(1));
        cache.keep(3, zeros());
        assert!(cache.edit_lightly(4, now).is_none() && !cache.is_light(3));
        cache.edit_lightly(3, now).unwrap();
        assert!(cache.is_light(3) && cache.is_waiting(3) && cache.oldest() == Some((now, 3)));
        cache.edit(3, Time::new(2)).unwrap()[0] = 1;
        cache.edit_lightly(3, Time::new(3)).unwrap();
        assert!(!cache.is_light(3) && cache.oldest() == Some((now, 3)));
        cache.settle(3);
        assert_eq!((cache.count(), cache.get(3).unwrap()[0]), (0, 1));
        cache.edit_lightly(3, now).unwrap();
        cache.put(3, zeros(), now);
        assert!(!cache.is_light(3));
    }
}
