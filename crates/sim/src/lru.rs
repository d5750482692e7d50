//! An LRU cache with a fixed capacity.
//!
//! *Promises.* Nothing is allocated after construction. The entry evicted is always the one used
//! least recently.

use crate::{Index, Lists};
use alloc::vec::Vec;

const USED: u32 = 0;
const FREE: u32 = 1;

/// Entries by key, in the order of their last use.
///
/// ```
/// let mut lru = nandlab_sim::Lru::new(2);
/// lru.insert(7u32, 'a');
/// lru.insert(8, 'b');
/// lru.get(7);
/// assert_eq!(lru.insert(9, 'c'), Some((8, 'b')));
/// ```
#[derive(Clone, Debug)]
pub struct Lru<K, V> {
    places: Index<K>,
    entries: Vec<Option<(K, V)>>,
    /// Of the entries' places; the one used least recently is at the front.
    order: Lists,
    len: u32,
}

impl<K: Copy + Default + Eq + Into<u64>, V> Lru<K, V> {
    /// An empty cache for `capacity` entries, at least one.
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        let mut order = Lists::new(2, capacity);
        (0..capacity).for_each(|place| order.push_back(FREE, place));
        Self {
            places: Index::new(capacity),
            entries: (0..capacity).map(|_| None).collect(),
            order,
            len: 0,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether every place is taken, so that another key evicts an entry.
    pub fn is_full(&self) -> bool {
        self.len as usize == self.entries.len()
    }

    /// The value of a key; this is not a use.
    #[inline]
    pub fn peek(&self, key: K) -> Option<&V> {
        let place = self.places.get(key)?;
        self.entries[place as usize]
            .as_ref()
            .map(|(_, value)| value)
    }

    /// The value of a key, used now.
    #[inline]
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let place = self.places.get(key)?;
        self.order.push_back(USED, place);
        self.entries[place as usize]
            .as_mut()
            .map(|(_, value)| value)
    }

    /// Adds an entry, used now. Returns the entry that had to go: the key's old one, or with a full
    /// cache the least recently used.
    pub fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        let gone = match self.remove(key) {
            Some(old) => Some((key, old)),
            None if self.is_full() => self.pop(),
            None => None,
        };
        let place = self.order.front(FREE)?;
        self.order.push_back(USED, place);
        self.places.insert(key, place);
        self.entries[place as usize] = Some((key, value));
        self.len += 1;
        gone
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let place = self.places.get(key)?;
        self.places.remove(key);
        self.order.push_front(FREE, place);
        self.len -= 1;
        self.entries[place as usize].take().map(|(_, value)| value)
    }

    /// Takes the least recently used entry out.
    pub fn pop(&mut self) -> Option<(K, V)> {
        let (key, _) = self.iter().next()?;
        self.remove(key).map(|value| (key, value))
    }

    /// The entries, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let entry = |place: u32| self.entries[place as usize].as_ref();
        self.order
            .iter(USED)
            .filter_map(entry)
            .map(|(key, value)| (*key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix;

    #[test]
    fn it_behaves_like_a_list_in_order_of_use() {
        let mut lru = Lru::new(9);
        let mut model: Vec<(u64, u64)> = Vec::new();
        for step in 0..20_000 {
            let word = mix(11, step);
            let key = word % 20;
            let held = model.iter().position(|entry| entry.0 == key);
            let held = held.map(|at| model.remove(at));
            match word >> 32 & 3 {
                0 => assert_eq!(lru.remove(key), held.map(|entry| entry.1)),
                1 => {
                    assert_eq!(lru.peek(key), held.as_ref().map(|entry| &entry.1));
                    assert_eq!(lru.get(key).copied(), held.map(|entry| entry.1));
                    model.extend(held);
                }
                _ => {
                    let full = model.len() == 9;
                    let gone = held.or_else(|| full.then(|| model.remove(0)));
                    assert_eq!(lru.insert(key, step), gone);
                    model.push((key, step));
                }
            }
            let entries: Vec<_> = lru.iter().map(|(key, value)| (key, *value)).collect();
            assert_eq!(entries, model, "step {step}");
            assert_eq!(lru.len() as usize, model.len());
        }
    }

    #[test]
    fn the_least_recently_used_entry_goes_first() {
        let mut lru = Lru::new(2);
        assert!(lru.is_empty() && lru.pop().is_none());
        lru.insert(1u32, 10);
        lru.insert(2, 20);
        lru.peek(1);
        assert_eq!((lru.pop(), lru.is_full()), (Some((1, 10)), false));
    }
}
