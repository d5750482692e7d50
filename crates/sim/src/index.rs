//! A map from numbers to numbers: open addressing in a table that never grows, so that neither hits
//! nor misses allocate.
//!
//! *Promises* that nothing depends on the order in the table: it cannot be walked.

use crate::mix;
use alloc::{vec, vec::Vec};

/// The value of a place without a key.
const FREE: u32 = u32::MAX;

/// A map from keys to numbers below 2^32 - 1, for at most as many keys as it was made for.
#[derive(Clone, Debug)]
pub struct Index<K> {
    /// Key and value; at least half of them free, so that a search ends soon.
    table: Vec<(K, u32)>,
    mask: usize,
}

impl<K: Copy + Default + Eq + Into<u64>> Index<K> {
    /// An empty map for `most` keys.
    pub fn new(most: u32) -> Self {
        let len = (most.max(1) as usize * 2).next_power_of_two();
        Self {
            table: vec![(K::default(), FREE); len],
            mask: len - 1,
        }
    }

    #[inline]
    fn home(&self, key: K) -> usize {
        mix(key.into(), 0) as usize & self.mask
    }

    /// Where the key is, or the free place that ends the search for it.
    #[inline]
    fn find(&self, key: K) -> usize {
        let mut at = self.home(key);
        while self.table[at].1 != FREE && self.table[at].0 != key {
            at = (at + 1) & self.mask;
        }
        at
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: K) -> Option<u32> {
        let (_, value) = self.table[self.find(key)];
        (value != FREE).then_some(value)
    }

    /// Sets the value of a key; gives the old one.
    #[inline]
    pub fn insert(&mut self, key: K, value: u32) -> Option<u32> {
        let at = self.find(key);
        let (_, old) = core::mem::replace(&mut self.table[at], (key, value));
        (old != FREE).then_some(old)
    }

    /// Forgets a key. Entries behind it that it had pushed out of their place move up, so that
    /// every search still ends at the first gap.
    pub fn remove(&mut self, key: K) {
        let mut gap = self.find(key);
        if self.table[gap].1 == FREE {
            return;
        }
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let (next, value) = self.table[at];
            if value == FREE {
                break;
            }
            let from_home = |place: usize| place.wrapping_sub(self.home(next)) & self.mask;
            if from_home(gap) < from_home(at) {
                self.table[gap] = self.table[at];
                gap = at;
            }
        }
        self.table[gap] = (K::default(), FREE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_behaves_like_a_map_when_it_is_full() {
        let most = 37;
        let mut index = Index::new(most);
        let mut model = BTreeMap::new();
        for step in 0..50_000u64 {
            let word = mix(3, step);
            let key = (word % 60) as u32;
            let value = (word >> 33) as u32;
            if word >> 20 & 1 == 0 || (model.len() as u32 == most && !model.contains_key(&key)) {
                index.remove(key);
                model.remove(&key);
            } else {
                assert_eq!(
                    index.insert(key, value),
                    model.insert(key, value),
                    "step {step}"
                );
            }
            let probe = (word >> 8) as u32 % 60;
            assert_eq!(index.get(probe), model.get(&probe).copied(), "step {step}");
        }
        assert!((0..60).all(|key| index.get(key) == model.get(&key).copied()));
    }
}
