//! Blocks in memory: those that wait to be written, and those that may be needed again.
//!
//! *Promises.* What waits is kept until it is settled or forgotten; what does not wait takes at most twice the room it was given. *Knows nothing of*
//! devices, nor of what the blocks hold.

use crate::disk::Block;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::RangeInclusive;
use nandlab_vfs::Time;

#[derive(Debug)]
pub(crate) struct Cache<K> {
    /// Blocks of one generation of what does not wait.
    room: usize,
    waiting: BTreeMap<K, (Block, Time)>,
    by_age: BTreeSet<(Time, K)>,
    // Two generations: what is used moves to the young one; when that is full, the old one goes.
    young: BTreeMap<K, Block>,
    old: BTreeMap<K, Block>,
}

impl<K: Ord + Copy> Cache<K> {
    /// With room for so many blocks that do not wait.
    pub fn new(blocks: u64) -> Self {
        let room = (blocks / 2).clamp(8, 1 << 20) as usize;
        Self { room, waiting: BTreeMap::new(), by_age: BTreeSet::new(), young: BTreeMap::new(), old: BTreeMap::new() }
    }

    pub fn get(&mut self, key: K) -> Option<&[u8]> {
        if let Some(block) = self.old.remove(&key) {
            self.keep(key, block);
        }
        match self.waiting.get(&key) {
            Some((block, _)) => Some(block),
            None => self.young.get(&key).map(|block| &**block),
        }
    }

    pub fn has(&self, key: K) -> bool {
        self.waiting.contains_key(&key) || self.young.contains_key(&key) || self.old.contains_key(&key)
    }

    /// Keeps what does not wait.
    pub fn keep(&mut self, key: K, block: Block) {
        if self.young.len() >= self.room {
            self.old = core::mem::take(&mut self.young);
        }
        self.young.insert(key, block);
    }

    /// The block to be changed, waiting from now on; none if it is not here.
    pub fn edit(&mut self, key: K, now: Time) -> Option<&mut [u8]> {
        if !self.waiting.contains_key(&key) {
            let block = self.young.remove(&key).or_else(|| self.old.remove(&key))?;
            self.put(key, block, now);
        }
        self.waiting.get_mut(&key).map(|(block, _)| &mut **block)
    }

    /// A block that waits, since now unless it did already.
    pub fn put(&mut self, key: K, block: Block, now: Time) {
        self.young.remove(&key);
        self.old.remove(&key);
        match self.waiting.get_mut(&key) {
            Some((waiting, _)) => *waiting = block,
            None => {
                self.by_age.insert((now, key));
                self.waiting.insert(key, (block, now));
            }
        }
    }

    /// The block has been written.
    pub fn settle(&mut self, key: K) {
        if let Some((block, since)) = self.waiting.remove(&key) {
            self.by_age.remove(&(since, key));
            self.keep(key, block);
        }
    }

    pub fn forget(&mut self, key: K) {
        if let Some((_, since)) = self.waiting.remove(&key) {
            self.by_age.remove(&(since, key));
        }
        self.young.remove(&key);
        self.old.remove(&key);
    }

    /// Forgets all blocks of a range.
    pub fn forget_range(&mut self, range: RangeInclusive<K>) {
        let keys: Vec<K> = [&self.young, &self.old].iter().flat_map(|kept| kept.range(range.clone()).map(|(key, _)| *key)).collect();
        let waiting: Vec<K> = self.waiting.range(range).map(|(key, _)| *key).collect();
        keys.into_iter().chain(waiting).for_each(|key| self.forget(key));
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
        self.waiting.iter().map(|(key, (block, _))| (*key, &**block))
    }

    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// The key that has waited longest, and since when.
    pub fn oldest(&self) -> Option<(Time, K)> {
        self.by_age.first().copied()
    }
}
