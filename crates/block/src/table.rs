//! Values and sets by number, where neighbours lie together.
//!
//! *Promises.* [`Table`] and [`Groups`] keep 64 neighbours in one node of their trees, so that a
//! search has a short way and a run of neighbours is one place. Iterators go in the order of the
//! numbers. *Knows nothing of* what the numbers mean.

use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    vec::Vec,
};

/// Numbers of a chunk.
const CHUNK: u64 = u64::BITS as u64;
/// Places of chunks without a search, by the lower bits of their numbers.
const HINTS: usize = 128;
/// No slot, or no place.
const NONE: u32 = u32::MAX;

/// The slots of neighbours.
#[derive(Clone, Debug)]
struct Chunk {
    slots: [u32; CHUNK as usize],
    used: u32,
}

const EMPTY: Chunk = Chunk {
    slots: [NONE; CHUNK as usize],
    used: 0,
};

/// Values by number. A value keeps its slot.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    /// The place of each chunk with a number.
    places: BTreeMap<u64, u32>,
    chunks: Vec<Chunk>,
    chunks_free: Vec<u32>,
    /// A chunk and its place.
    hints: [(u64, u32); HINTS],
    values: Vec<Option<V>>,
    values_free: Vec<u32>,
}

fn split(number: u64) -> (u64, usize) {
    (number / CHUNK, (number % CHUNK) as usize)
}

impl<V> Table<V> {
    pub fn new() -> Self {
        Self {
            places: BTreeMap::new(),
            chunks: Vec::new(),
            chunks_free: Vec::new(),
            hints: [(0, NONE); HINTS],
            values: Vec::new(),
            values_free: Vec::new(),
        }
    }

    fn hinted(&self, chunk: u64) -> Option<u32> {
        let (known, place) = self.hints[chunk as usize % HINTS];
        (known == chunk && place != NONE).then_some(place)
    }

    fn slot_in(&self, place: u32, at: usize) -> Option<u32> {
        Some(self.chunks[place as usize].slots[at]).filter(|slot| *slot != NONE)
    }

    /// The slot of a number.
    pub fn slot(&self, number: u64) -> Option<u32> {
        let (chunk, at) = split(number);
        let place = self
            .hinted(chunk)
            .or_else(|| self.places.get(&chunk).copied());
        self.slot_in(place?, at)
    }

    /// The same; remembers the place for the neighbours.
    pub fn find(&mut self, number: u64) -> Option<u32> {
        let (chunk, at) = split(number);
        let place = match self.hinted(chunk) {
            Some(place) => place,
            None => {
                let place = *self.places.get(&chunk)?;
                self.hints[chunk as usize % HINTS] = (chunk, place);
                place
            }
        };
        self.slot_in(place, at)
    }

    /// The value in a slot that is in use.
    pub fn at(&self, slot: u32) -> Option<&V> {
        self.values[slot as usize].as_ref()
    }

    /// The same, for a change.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.values[slot as usize].as_mut()
    }

    pub fn get(&self, number: u64) -> Option<&V> {
        self.at(self.slot(number)?)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        let slot = self.find(number)?;
        self.at_mut(slot)
    }

    /// Keeps a value under a number that has none; returns its slot.
    pub fn insert(&mut self, number: u64, value: V) -> u32 {
        let (chunk, at) = split(number);
        let place = match self.places.entry(chunk) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(vacant) => {
                let place = self.chunks_free.pop().unwrap_or(self.chunks.len() as u32);
                if place as usize == self.chunks.len() {
                    self.chunks.push(EMPTY);
                }
                *vacant.insert(place)
            }
        };
        self.hints[chunk as usize % HINTS] = (chunk, place);
        let slot = self.values_free.pop().unwrap_or(self.values.len() as u32);
        match self.values.get_mut(slot as usize) {
            Some(free) => *free = Some(value),
            None => self.values.push(Some(value)),
        }
        let chunk = &mut self.chunks[place as usize];
        chunk.slots[at] = slot;
        chunk.used += 1;
        slot
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: u64) -> Option<V> {
        let slot = self.find(number)?;
        let (chunk, at) = split(number);
        let place = self.hinted(chunk)?;
        let own = &mut self.chunks[place as usize];
        own.slots[at] = NONE;
        own.used -= 1;
        if own.used == 0 {
            self.places.remove(&chunk);
            self.chunks_free.push(place);
            self.hints[chunk as usize % HINTS] = (0, NONE);
        }
        self.values_free.push(slot);
        self.values[slot as usize].take()
    }

    /// The numbers from `first` to `last` that have values.
    pub fn numbers(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let chunks = self
            .places
            .range(first / CHUNK..=(last / CHUNK).max(first / CHUNK));
        let all = chunks.flat_map(|(chunk, place)| {
            let slots = self.chunks[*place as usize].slots.iter();
            let used = (0..CHUNK).zip(slots).filter(|(_, slot)| **slot != NONE);
            used.map(move |(at, _)| chunk * CHUNK + at)
        });
        all.filter(move |number| (first..=last).contains(number))
    }
}

/// A set of numbers in groups: ordered by group, and then by number. A word holds a bit for each
/// of 64 neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Groups<G>(BTreeMap<(G, u64), u64>);

impl<G: Ord + Copy> Groups<G> {
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub fn insert(&mut self, group: G, number: u64) {
        let (word, at) = split(number);
        *self.0.entry((group, word)).or_default() |= 1 << at;
    }

    pub fn remove(&mut self, group: G, number: u64) {
        let (word, at) = split(number);
        if let Entry::Occupied(mut entry) = self.0.entry((group, word)) {
            *entry.get_mut() &= !(1 << at);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    /// All numbers with their groups.
    pub fn iter(&self) -> impl Iterator<Item = (G, u64)> {
        self.0
            .iter()
            .flat_map(|((group, word), bits)| numbers(*group, *word, *bits))
    }

    /// Those from one to another.
    pub fn range(&self, first: (G, u64), last: (G, u64)) -> impl Iterator<Item = (G, u64)> {
        let end = (last.0, last.1 / CHUNK).max((first.0, first.1 / CHUNK));
        let words = self.0.range((first.0, first.1 / CHUNK)..=end);
        let all = words.flat_map(|((group, word), bits)| numbers(*group, *word, *bits));
        all.filter(move |number| (first..=last).contains(number))
    }
}

/// The numbers of the bits of a word.
fn numbers<G: Copy>(group: G, word: u64, mut bits: u64) -> impl Iterator<Item = (G, u64)> {
    core::iter::from_fn(move || {
        let at = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
        bits &= bits - 1;
        Some((group, word * CHUNK + at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use nandlab_sim::mix;

    /// Few chunks and many, so that hints are shared.
    fn number(word: u64) -> u64 {
        let chunk = [
            word >> 8 & 3,
            (word >> 8 & 1) * HINTS as u64,
            u64::MAX / CHUNK,
        ];
        chunk[(word >> 40) as usize % 3] * CHUNK + (word & 63)
    }

    #[test]
    fn a_table_behaves_like_a_map() {
        let mut table = Table::new();
        let mut model = BTreeMap::new();
        for step in 0..20_000 {
            let word = mix(5, step);
            let key = number(word);
            match word >> 33 & 1 {
                0 => assert_eq!(table.remove(key), model.remove(&key), "step {step}"),
                _ if model.contains_key(&key) => {
                    *table.get_mut(key).unwrap() = step;
                    model.insert(key, step);
                }
                _ => {
                    let slot = table.insert(key, step);
                    assert_eq!(table.at(slot), Some(&step));
                    model.insert(key, step);
                }
            }
            let [first, last] = [mix(6, step), mix(7, step)].map(number);
            let slot = table.slot(first);
            assert_eq!(table.get(first), model.get(&first), "step {step}");
            assert_eq!(table.find(first), slot);
            let held: Vec<u64> = table.numbers(first, last).collect();
            let inside = model.keys().filter(|key| (first..=last).contains(*key));
            assert_eq!(held, inside.copied().collect::<Vec<_>>(), "step {step}");
        }
        assert!(table.values.len() <= 6 * 64 && table.chunks.len() <= 6);
    }

    #[test]
    fn groups_behave_like_a_set_of_pairs() {
        let mut groups = Groups::new();
        let mut model = BTreeSet::new();
        for step in 0..20_000 {
            let word = mix(8, step);
            let pair = ((word >> 50) as u8 % 3, number(word));
            if word >> 33 & 1 == 0 {
                groups.remove(pair.0, pair.1);
                model.remove(&pair);
            } else {
                groups.insert(pair.0, pair.1);
                model.insert(pair);
            }
            if step % 16 == 0 {
                assert!(groups.iter().eq(model.iter().copied()), "step {step}");
                let first = ((word >> 20) as u8 % 3, number(mix(9, step)));
                let inside = model
                    .iter()
                    .copied()
                    .filter(|own| (first..=pair).contains(own));
                assert!(groups.range(first, pair).eq(inside), "step {step}");
            }
        }
        model
            .iter()
            .for_each(|(group, number)| groups.remove(*group, *number));
        assert!(groups.0.is_empty());
    }
}
