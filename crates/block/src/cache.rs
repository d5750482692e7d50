//! Blocks in memory: dirty ones, and within a bound clean ones that may be needed again.
//!
//! *Promises.* A dirty block stays until it is marked clean or forgotten. Clean blocks are in two
//! generations: each use moves a block to the young one; a full young one evicts the old one.
//! [`Cache::turn`] counts that. *Knows nothing of* devices or of what blocks
//! hold.
//!
//! [`Cache`] finds dirty blocks by key and by age; [`OwnedCache`](crate::OwnedCache) finds them by
//! owner as well.

use crate::table::{Groups, Table};
use alloc::vec::Vec;
use core::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

/// A key of a [`Cache`], as a number that keeps its order.
pub trait Key: Ord + Copy {
    /// The largest key.
    const MAX: Self;

    /// The key's number.
    fn number(self) -> u64;

    /// The key with a number.
    fn of(number: u64) -> Self;
}

impl Key for u32 {
    const MAX: Self = Self::MAX;

    fn number(self) -> u64 {
        self.into()
    }

    fn of(number: u64) -> Self {
        number as Self
    }
}

impl Key for (u32, u32) {
    const MAX: Self = (u32::MAX, u32::MAX);

    fn number(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }

    fn of(number: u64) -> Self {
        ((number >> 32) as u32, number as u32)
    }
}

/// The first and the last number of a range of keys.
fn ends<K: Key>(range: &impl RangeBounds<K>) -> Option<(u64, u64)> {
    let first = match range.start_bound() {
        Bound::Included(key) => key.number(),
        Bound::Excluded(key) => key.number().checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(key) => key.number(),
        Bound::Excluded(key) => key.number().checked_sub(1)?,
        Bound::Unbounded => K::MAX.number(),
    };
    (first <= last).then_some((first, last))
}

#[derive(Clone, Debug)]
enum State<T, M> {
    /// The medium does not hold it yet.
    Dirty { since: T, mark: M },
    /// The turn of its last use, and its place among those of its generation.
    Clean { turn: u64, at: u32 },
}

#[derive(Clone, Debug)]
struct Held<T, B, M> {
    number: u64,
    data: B,
    state: State<T, M>,
}

/// Blocks `B` by key `K`; dirty ones since a time `T`, with a mark `M` of the file system.
#[derive(Clone, Debug)]
pub struct Cache<K, T, B, M> {
    blocks: Table<Held<T, B, M>>,
    dirty: Groups<()>,
    by_age: Groups<T>,
    count: usize,
    /// The slots of clean blocks of this turn.
    young: Vec<u32>,
    /// Those of the turn before.
    old: Vec<u32>,
    /// The capacity of one generation.
    capacity: usize,
    turn: u64,
    keys: PhantomData<K>,
}

impl<K: Key, T: Ord + Copy, B, M> Cache<K, T, B, M> {
    /// A cache that keeps up to `clean` clean blocks, and at least sixteen.
    pub fn new(clean: usize) -> Self {
        Self {
            blocks: Table::new(),
            dirty: Groups::new(),
            by_age: Groups::new(),
            count: 0,
            young: Vec::new(),
            old: Vec::new(),
            capacity: (clean / 2).max(8),
            turn: 0,
            keys: PhantomData,
        }
    }

    /// Whether a block is here.
    pub fn has(&self, key: K) -> bool {
        self.blocks.slot(key.number()).is_some()
    }

    /// Evictions of the old generation. While this number stays, each block that is young or dirty
    /// stays as well, and another use changes nothing.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// A block, if it is here.
    pub fn get(&mut self, key: K) -> Option<&B> {
        let slot = self.blocks.find(key.number())?;
        if let State::Clean { turn, at } = self.blocks.at(slot)?.state
            && turn != self.turn
        {
            self.unlink(turn, at);
            self.link(slot);
        }
        Some(&self.blocks.at(slot)?.data)
    }

    /// The same without a use of the block.
    pub(crate) fn peek(&self, key: K) -> Option<&B> {
        Some(&self.blocks.get(key.number())?.data)
    }

    /// Takes a clean block out of its generation.
    fn unlink(&mut self, turn: u64, at: u32) {
        let generation = match turn == self.turn {
            true => &mut self.young,
            false => &mut self.old,
        };
        generation.swap_remove(at as usize);
        let Some(moved) = generation.get(at as usize) else {
            return;
        };
        if let Some(moved) = self.blocks.at_mut(*moved) {
            moved.state = State::Clean { turn, at };
        }
    }

    /// Puts a block that is in no generation into the young one.
    fn link(&mut self, slot: u32) {
        if self.young.len() >= self.capacity {
            for slot in self.old.drain(..) {
                if let Some(number) = self.blocks.at(slot).map(|held| held.number) {
                    self.blocks.remove(number);
                }
            }
            core::mem::swap(&mut self.young, &mut self.old);
            self.turn += 1;
        }
        let at = self.young.len() as u32;
        self.young.push(slot);
        if let Some(held) = self.blocks.at_mut(slot) {
            let turn = self.turn;
            held.state = State::Clean { turn, at };
        }
    }

    /// Keeps a clean block; not if it is here and dirty.
    pub fn keep(&mut self, key: K, data: B) {
        if self.dirty(key).is_some() {
            return;
        }
        self.forget(key);
        let number = key.number();
        // `link` gives the place.
        let state = State::Clean { turn: 0, at: 0 };
        let slot = self.blocks.insert(
            number,
            Held {
                number,
                data,
                state,
            },
        );
        self.link(slot);
    }

    /// A block to be changed, dirty from now on; `None` if it is not here. A block that was clean
    /// gets its mark from `mark`.
    pub fn edit(&mut self, key: K, now: T, mark: impl FnOnce(&B) -> M) -> Option<(&mut B, &mut M)> {
        let slot = self.blocks.find(key.number())?;
        if let State::Clean { turn, at } = self.blocks.at(slot)?.state {
            self.unlink(turn, at);
            let held = self.blocks.at_mut(slot)?;
            let mark = mark(&held.data);
            held.state = State::Dirty { since: now, mark };
            self.note_dirty(key, now);
        }
        dirty_parts(self.blocks.at_mut(slot)?)
    }

    fn note_dirty(&mut self, key: K, since: T) {
        self.dirty.insert((), key.number());
        self.by_age.insert(since, key.number());
        self.count += 1;
    }

    fn note_clean(&mut self, key: K, since: T) {
        self.dirty.remove((), key.number());
        self.by_age.remove(since, key.number());
        self.count -= 1;
    }

    /// Replaces a block; it is dirty since `since`, whatever it was before.
    pub fn put(&mut self, key: K, data: B, since: T, mark: M) {
        self.forget(key);
        let number = key.number();
        let state = State::Dirty { since, mark };
        self.blocks.insert(
            number,
            Held {
                number,
                data,
                state,
            },
        );
        self.note_dirty(key, since);
    }

    /// The contents and the mark of a dirty block.
    pub fn dirty(&self, key: K) -> Option<(&B, &M)> {
        match self.blocks.get(key.number())? {
            Held {
                data,
                state: State::Dirty { mark, .. },
                ..
            } => Some((data, mark)),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn dirty_mut(&mut self, key: K) -> Option<(&mut B, &mut M)> {
        dirty_parts(self.blocks.get_mut(key.number())?)
    }

    /// A dirty block has been written: it is clean now. Returns the mark that it had.
    pub fn mark_clean(&mut self, key: K) -> Option<M> {
        let slot = self.blocks.find(key.number())?;
        let held = self.blocks.at_mut(slot)?;
        if matches!(held.state, State::Clean { .. }) {
            return None;
        }
        // `link` gives the place.
        let clean = State::Clean { turn: 0, at: 0 };
        let State::Dirty { since, mark } = core::mem::replace(&mut held.state, clean) else {
            return None;
        };
        self.note_clean(key, since);
        self.link(slot);
        Some(mark)
    }

    /// Forgets a block, dirty or not; returns the mark of a dirty one.
    pub fn forget(&mut self, key: K) -> Option<M> {
        let slot = self.blocks.find(key.number())?;
        if let State::Clean { turn, at } = self.blocks.at(slot)?.state {
            self.unlink(turn, at);
        }
        match self.blocks.remove(key.number())?.state {
            State::Dirty { since, mark } => {
                self.note_clean(key, since);
                Some(mark)
            }
            State::Clean { .. } => None,
        }
    }

    /// The keys of all blocks in a range, in order.
    pub fn keys(&self, range: impl RangeBounds<K>) -> Vec<K> {
        let ends = ends(&range).into_iter();
        let numbers = ends.flat_map(|(first, last)| self.blocks.numbers(first, last));
        numbers.map(K::of).collect()
    }

    /// The dirty blocks of a range, in order of their keys.
    pub fn dirty_in(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (K, &B, &M)> {
        let ends = ends(&range).into_iter();
        let numbers = ends.flat_map(|(first, last)| self.dirty.range(((), first), ((), last)));
        numbers.filter_map(|((), number)| {
            let (data, mark) = self.dirty(K::of(number))?;
            Some((K::of(number), data, mark))
        })
    }

    /// The dirty blocks with the time since which each is dirty, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = (T, K)> {
        self.by_age
            .iter()
            .map(|(since, number)| (since, K::of(number)))
    }

    /// The number of dirty blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of clean blocks.
    pub fn clean(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

fn dirty_parts<T, B, M>(held: &mut Held<T, B, M>) -> Option<(&mut B, &mut M)> {
    match held {
        Held {
            data,
            state: State::Dirty { mark, .. },
            ..
        } => Some((data, mark)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use nandlab_sim::mix;

    /// The same rules with a map for each kind of block.
    struct Model {
        dirty: BTreeMap<u32, (u64, u8, u64)>,
        young: BTreeMap<u32, u64>,
        old: BTreeMap<u32, u64>,
        capacity: usize,
        turn: u64,
    }

    impl Model {
        fn keep(&mut self, key: u32, data: u64) {
            self.young.remove(&key);
            self.old.remove(&key);
            if self.young.len() >= self.capacity {
                self.old = core::mem::take(&mut self.young);
                self.turn += 1;
            }
            self.young.insert(key, data);
        }

        fn get(&mut self, key: u32) -> Option<u64> {
            let dirty = self.dirty.get(&key).map(|dirty| dirty.0);
            let young = || self.young.get(&key).copied();
            dirty.or_else(young).or_else(|| {
                let data = self.old.remove(&key)?;
                self.keep(key, data);
                Some(data)
            })
        }

        fn forget(&mut self, key: u32) {
            self.dirty.remove(&key);
            self.young.remove(&key);
            self.old.remove(&key);
        }

        fn edit(&mut self, key: u32, now: u8, mark: u64) {
            let clean = self.young.remove(&key).or_else(|| self.old.remove(&key));
            if let Some(data) = clean {
                self.dirty.insert(key, (data, now, mark));
            }
        }
    }

    fn step(cache: &mut Cache<u32, u8, u64, u64>, model: &mut Model, word: u64) {
        let key = (word & 63) as u32 * if word & 64 == 0 { 1 } else { 1000 };
        let now = (word >> 8) as u8 & 7;
        match word >> 16 & 7 {
            0 | 1 if !model.dirty.contains_key(&key) => {
                cache.keep(key, word);
                model.keep(key, word);
            }
            2 => {
                cache.forget(key);
                model.forget(key);
            }
            3 => {
                cache.edit(key, now, |_| word);
                model.edit(key, now, word);
            }
            4 => {
                cache.put(key, word, now, 9);
                model.forget(key);
                model.dirty.insert(key, (word, now, 9));
            }
            5 => {
                let mark = cache.mark_clean(key);
                let dirty = model.dirty.remove(&key);
                assert_eq!(mark, dirty.map(|dirty| dirty.2));
                if let Some((data, ..)) = dirty {
                    model.keep(key, data);
                }
            }
            _ => assert_eq!(cache.get(key).copied(), model.get(key)),
        }
    }

    #[test]
    fn it_keeps_and_evicts_what_two_generations_of_maps_do() {
        let mut cache = Cache::<u32, u8, u64, u64>::new(40);
        let mut model = Model {
            dirty: BTreeMap::new(),
            young: BTreeMap::new(),
            old: BTreeMap::new(),
            capacity: 20,
            turn: 0,
        };
        for at in 0..50_000 {
            step(&mut cache, &mut model, mix(11, at));
            let mut ages: Vec<_> = model
                .dirty
                .iter()
                .map(|(key, dirty)| (dirty.1, *key))
                .collect();
            ages.sort_unstable();
            assert!(cache.by_age().eq(ages), "step {at}");
            let dirty = model
                .dirty
                .iter()
                .map(|(key, dirty)| (*key, dirty.0, dirty.2));
            let found = cache
                .dirty_in(..)
                .map(|(key, data, mark)| (key, *data, *mark));
            assert!(found.eq(dirty), "step {at}");
            let clean = model.young.len() + model.old.len();
            let counts = (cache.clean(), cache.count(), cache.turn());
            assert_eq!(counts, (clean, model.dirty.len(), model.turn), "step {at}");
            let held = cache
                .keys(..)
                .into_iter()
                .filter(|key| cache.dirty(*key).is_none());
            let mut kept: Vec<_> = model
                .young
                .keys()
                .chain(model.old.keys())
                .copied()
                .collect();
            kept.sort_unstable();
            assert!(held.eq(kept), "step {at}");
        }
        assert!(model.turn > 100, "generations took {} turns", model.turn);
    }

    #[test]
    fn pairs_are_keys_in_their_order() {
        let mut cache = Cache::<(u32, u32), u8, u8, ()>::new(0);
        for key in [(2, 0), (1, u32::MAX), (1, 3), (0, 9)] {
            cache.put(key, 0, 1, ());
        }
        assert_eq!(cache.keys((1, 0)..=(1, u32::MAX)), [(1, 3), (1, u32::MAX)]);
        assert_eq!(cache.keys((1, 4)..(1, 4)), []);
        let rest = cache.dirty_in((Bound::Excluded((1, 3)), Bound::Unbounded));
        let rest: Vec<_> = rest.map(|(key, ..)| key).collect();
        assert_eq!(rest, [(1, u32::MAX), (2, 0)]);
    }
}
