//! An exact LRU map with a fixed capacity. The clean blocks of a
//! [`Cache`](crate::Cache) are evicted faster and less exactly.

use alloc::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Used<V> {
    value: V,
    /// The number of the last use.
    at: u64,
}

/// Values by key; a new one evicts the least recently used.
#[derive(Clone, Debug)]
pub struct Lru<K, V> {
    most: usize,
    values: BTreeMap<K, Used<V>>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Ord + Copy, V> Lru<K, V> {
    /// A map of at most `most` values, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            values: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Whether a key is here. This is no use of it.
    pub fn contains(&self, key: K) -> bool {
        self.values.contains_key(&key)
    }

    /// Returns true if the next new key evicts another.
    pub fn is_full(&self) -> bool {
        self.values.len() >= self.most
    }

    /// A value, used now.
    pub fn get(&mut self, key: K) -> Option<&V> {
        let used = self.values.get_mut(&key)?;
        self.by_use.remove(&used.at);
        self.uses += 1;
        used.at = self.uses;
        self.by_use.insert(self.uses, key);
        Some(&used.value)
    }

    /// Keeps a value, used now.
    pub fn insert(&mut self, key: K, value: V) {
        self.remove(key);
        if self.is_full()
            && let Some((_, eldest)) = self.by_use.pop_first()
        {
            self.values.remove(&eldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        let at = self.uses;
        self.values.insert(key, Used { value, at });
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let used = self.values.remove(&key)?;
        self.by_use.remove(&used.at);
        Some(used.value)
    }

    /// The keys and their values, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.values.iter().map(|(key, used)| (*key, &used.value))
    }

    /// The keys, the least recently used first.
    pub fn eldest(&self) -> impl Iterator<Item = K> {
        self.by_use.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_value_not_used_for_longest_goes_first() {
        let mut lru = Lru::new(2);
        lru.insert(1, 'a');
        lru.insert(2, 'b');
        assert_eq!(lru.get(1), Some(&'a'));
        lru.insert(3, 'c');
        assert_eq!([1, 2, 3].map(|key| lru.contains(key)), [true, false, true]);
        assert_eq!(lru.eldest().collect::<Vec<_>>(), [1, 3]);
        lru.insert(3, 'd');
        assert_eq!(lru.remove(3), Some('d'));
        assert_eq!((lru.remove(3), lru.get(2)), (None, None));
        assert_eq!(lru.iter().collect::<Vec<_>>(), [(1, &'a')]);
        assert_eq!((lru.values.len(), lru.by_use.len()), (1, 1));
    }
}
