//! What was read or written before and may be needed again, within a bound.
//!
//! *Promises.* An LRU cache with a fixed capacity. The entry used last is found without a search.
//! *Knows nothing of* what is kept.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::RangeBounds;

/// Two generations: what is used moves to the young one; when that is full, the old one goes.
#[derive(Clone, Debug)]
pub struct Recent<K, V> {
    young: Generation<K, V>,
    old: Generation<K, V>,
    /// The capacity of one generation.
    capacity: usize,
    /// What was asked for last, and its slot among the young.
    last: Option<(K, usize)>,
}

#[derive(Clone, Debug)]
struct Generation<K, V> {
    places: BTreeMap<K, usize>,
    slots: Vec<Option<V>>,
    free: Vec<usize>,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Ord + Copy, V> Generation<K, V> {
    fn insert(&mut self, key: K, value: V) -> usize {
        let slot = self
            .places
            .get(&key)
            .copied()
            .or_else(|| self.free.pop())
            .unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(value);
        self.places.insert(key, slot);
        slot
    }

    fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.places.remove(&key)?;
        self.free.push(slot);
        self.slots[slot].take()
    }
}

impl<K: Ord + Copy, V> Recent<K, V> {
    /// A cache of this capacity, and at least sixteen.
    pub fn new(capacity: usize) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            capacity: (capacity / 2).max(8),
            last: None,
        }
    }

    /// Finds one, which counts as a use.
    pub fn get(&mut self, key: K) -> Option<&V> {
        let slot = match self.last {
            Some((last, slot)) if last == key => slot,
            _ => {
                let slot = match self.young.places.get(&key) {
                    Some(slot) => *slot,
                    None => {
                        let value = self.old.remove(key)?;
                        self.keep(key, value)
                    }
                };
                self.last = Some((key, slot));
                slot
            }
        };
        self.young.slots[slot].as_ref()
    }

    /// Whether it is kept.
    pub fn contains(&self, key: K) -> bool {
        self.last.is_some_and(|(last, _)| last == key)
            || self.young.places.contains_key(&key)
            || self.old.places.contains_key(&key)
    }

    /// Keeps one that is not kept yet, or in place of what is; tells where.
    fn keep(&mut self, key: K, value: V) -> usize {
        if self.young.places.len() >= self.capacity {
            self.old = core::mem::take(&mut self.young);
            self.last = None;
        }
        self.young.insert(key, value)
    }

    /// Keeps one; what was kept under its key is forgotten.
    pub fn insert(&mut self, key: K, value: V) {
        self.old.remove(key);
        self.keep(key, value);
    }

    /// Removes an entry and returns its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.last.take_if(|(last, _)| *last == key);
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// The keys of a range that are kept.
    pub fn keys(&self, range: impl RangeBounds<K> + Clone) -> Vec<K> {
        let of = |kept: &Generation<K, V>| {
            kept.places
                .range(range.clone())
                .map(|(key, _)| *key)
                .collect::<Vec<_>>()
        };
        [of(&self.young), of(&self.old)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_outlives_what_is_not() {
        let mut recent = Recent::new(16);
        for n in 0..200 {
            recent.insert(n, n);
            recent.get(0);
        }
        assert!(
            recent.get(0).copied() == Some(0)
                && recent.get(1).copied().is_none()
                && recent.contains(199)
        );
        assert!(recent.keys(..).len() <= 16);
    }

    #[test]
    fn what_is_taken_out_or_replaced_is_not_found_again() {
        let mut recent = Recent::new(16);
        for n in 0..8 {
            recent.insert(n, n);
        }
        assert_eq!(
            (
                recent.get(3).copied(),
                recent.remove(3),
                recent.get(3).copied(),
                recent.contains(3)
            ),
            (Some(3), Some(3), None, false)
        );
        // In the place of an evicted entry, beside those used again.
        recent.get(4);
        recent.insert(9, 90);
        assert_eq!(
            (recent.get(4).copied(), recent.get(9).copied()),
            (Some(4), Some(90))
        );
        recent.insert(9, 91);
        assert_eq!(
            (recent.get(9).copied(), recent.keys(2..=4)),
            (Some(91), alloc::vec![2, 4])
        );
        // A generation later, too.
        (20..28).for_each(|n| recent.insert(n, n));
        recent.insert(2, 200);
        assert_eq!(
            (
                recent.get(2).copied(),
                recent.remove(2),
                recent.get(2).copied()
            ),
            (Some(200), Some(200), None)
        );
    }
}
