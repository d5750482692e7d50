//! A map from numbers to numbers: open addressing in a table that never grows, so that neither hits
//! nor misses allocate.
//!
//! *Promises* that nothing depends on the order in the table: it cannot be walked.

use alloc::{vec, vec::Vec};
use nandlab_sim::mix;

/// A key that is none.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Index {
    /// Key and value; at least half of them free, so that a search ends soon.
    table: Vec<(u32, u32)>,
    mask: usize,
}

impl Index {
    /// For `most` keys below 2^32 - 1.
    pub fn new(most: u32) -> Self {
        let len = (most.max(1) as usize * 2).next_power_of_two();
        Self {
            table: vec![(NONE, 0); len],
            mask: len - 1,
        }
    }

    #[inline]
    fn home(&self, key: u32) -> usize {
        mix(u64::from(key), 0) as usize & self.mask
    }

    /// Where the key is, or the free place that ends the search for it.
    #[inline]
    fn find(&self, key: u32) -> usize {
        let mut at = self.home(key);
        while self.table[at].0 != key && self.table[at].0 != NONE {
            at = (at + 1) & self.mask;
        }
        at
    }

    #[inline]
    pub fn get(&self, key: u32) -> Option<u32> {
        let (found, value) = self.table[self.find(key)];
        (found == key).then_some(value)
    }

    /// Sets the value of a key; gives the old one.
    #[inline]
    pub fn insert(&mut self, key: u32, value: u32) -> Option<u32> {
        let at = self.find(key);
        let (found, old) = core::mem::replace(&mut self.table[at], (key, value));
        (found == key).then_some(old)
    }

    /// Forgets a key. Entries behind it that it had pushed out of their place move up, so that
    /// every search still ends at the first gap.
    pub fn remove(&mut self, key: u32) {
        let mut gap = self.find(key);
        if self.table[gap].0 != key {
            return;
        }
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let (next, _) = self.table[at];
            if next == NONE {
                break;
            }
            let from_home = |place: usize| place.wrapping_sub(self.home(next)) & self.mask;
            if from_home(gap) < from_home(at) {
                self.table[gap] = self.table[at];
                gap = at;
            }
        }
        self.table[gap].0 = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_behaves_like_a_map_when_it_is_full() {
        let most = 37;
        let (mut index, mut model) = (Index::new(most), BTreeMap::new());
        for step in 0..50_000u64 {
            let word = mix(3, step);
            let (key, value) = ((word % 60) as u32, (word >> 32) as u32);
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
