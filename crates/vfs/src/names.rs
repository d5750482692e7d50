//! A cache of names: which inode a name of a directory leads to.
//!
//! *Promises.* A set-associative cache with a fixed bound. An entry counts only in its own
//! epoch, so that its owner ends all at once, without a walk. Nothing depends on the order of the
//! entries: nobody can list them. *Knows nothing of* inodes or of where directories
//! lie: the owner puts an entry for each new name and forgets each one that changes or goes.

use alloc::vec::Vec;

/// Longer names are not kept: with one of this length an entry is a line of a processor's cache.
const NAME: usize = 47;
/// Entries among which a name's hash chooses.
const WAYS: usize = 4;
/// The most entries of a cache.
const ENTRIES_MAX: usize = 1 << 16;
/// Entries of the smallest table.
const ENTRIES_MIN: usize = 64;

/// An entry; one without a name is free.
#[derive(Clone, Copy, Debug)]
struct Entry {
    epoch: u64,
    dir: u32,
    child: u32,
    length: u8,
    name: [u8; NAME],
}

const FREE: Entry = Entry {
    epoch: 0,
    dir: 0,
    child: 0,
    length: 0,
    name: [0; NAME],
};

impl Entry {
    fn is(&self, dir: u32, name: &[u8]) -> bool {
        self.dir == dir && self.name() == name
    }

    fn name(&self) -> &[u8] {
        &self.name[..usize::from(self.length)]
    }
}

/// Names of directories, by the numbers of a volume's inodes.
///
/// ```
/// use nandlab_vfs::NameCache;
///
/// let mut names = NameCache::new(1 << 20);
/// names.put(2, b"notes", 12, 0);
/// assert_eq!(names.get(2, b"notes", 0), Some(12));
/// assert_eq!((names.get(3, b"notes", 0), names.get(2, b"notes", 1)), (None, None));
/// names.forget(2, b"notes");
/// assert_eq!(names.get(2, b"notes", 0), None);
/// ```
#[derive(Clone, Debug)]
pub struct NameCache {
    /// Entries in sets of neighbours; none before the first name.
    entries: Vec<Entry>,
    used: usize,
    most: usize,
}

impl NameCache {
    /// A cache that takes at most so many bytes; it grows with the names that it gets.
    pub fn new(bytes: u64) -> Self {
        let most = (bytes / size_of::<Entry>() as u64).min(ENTRIES_MAX as u64) as usize;
        Self {
            entries: Vec::new(),
            used: 0,
            most,
        }
    }

    /// The inode that a name leads to, if its entry is of this epoch.
    pub fn get(&self, dir: u32, name: &[u8], epoch: u64) -> Option<u32> {
        let mut set = self.entries.get(self.set(dir, name)..)?.iter().take(WAYS);
        let found = set.find(|entry| entry.is(dir, name) && entry.length > 0)?;
        (found.epoch == epoch).then_some(found.child)
    }

    /// A name leads to an inode, in this epoch.
    pub fn put(&mut self, dir: u32, name: &[u8], child: u32, epoch: u64) {
        if name.is_empty() || name.len() > NAME {
            return;
        }
        if self.used * 2 >= self.entries.len() {
            self.grow();
        }
        let mut entry = Entry {
            epoch,
            dir,
            child,
            length: name.len() as u8,
            ..FREE
        };
        entry.name[..name.len()].copy_from_slice(name);
        self.place(entry);
    }

    /// A name leads elsewhere, or nowhere, from now on.
    pub fn forget(&mut self, dir: u32, name: &[u8]) {
        let from = self.set(dir, name);
        let mut set = self.entries.iter_mut().skip(from).take(WAYS);
        if let Some(entry) = set.find(|entry| entry.is(dir, name) && entry.length > 0) {
            entry.length = 0;
            self.used -= 1;
        }
    }

    /// Puts an entry in the place of its own name, of none, or of the one from the oldest epoch.
    fn place(&mut self, new: Entry) {
        let from = self.set(new.dir, new.name());
        let Some(set) = self.entries.get_mut(from..from + WAYS) else {
            return;
        };
        let rank = |entry: &Entry| match entry.length {
            0 => (1, 0),
            _ if entry.is(new.dir, new.name()) => (0, 0),
            _ => (2, entry.epoch),
        };
        let Some(place) = set.iter_mut().min_by_key(|entry| rank(entry)) else {
            return;
        };
        self.used += usize::from(place.length == 0);
        *place = new;
    }

    /// Doubles the table if the bound lets it.
    fn grow(&mut self) {
        let length = (self.entries.len() * 2).max(ENTRIES_MIN);
        if length > self.most {
            return;
        }
        let old = core::mem::replace(&mut self.entries, alloc::vec![FREE; length]);
        self.used = 0;
        let held = old.into_iter().filter(|entry| entry.length > 0);
        held.for_each(|entry| self.place(entry));
    }

    /// The first entry of a name's set.
    fn set(&self, dir: u32, name: &[u8]) -> usize {
        let sets = (self.entries.len() / WAYS).max(1);
        // A power of two, as the table doubles from one.
        (hash(dir, name) as usize & (sets - 1)) * WAYS
    }
}

fn hash(dir: u32, name: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = name.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut state = u64::from(dir) << 8 ^ name.len() as u64;
    for word in words.iter().chain([&last]) {
        state = (state ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    state ^ state >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeMap, format};
    use nandlab_sim::mix;

    #[test]
    fn an_answer_is_the_one_that_was_put_last_in_this_epoch() {
        let mut names = NameCache::new(256 << 6);
        let mut model = BTreeMap::new();
        let mut epoch = 0;
        let mut hits = 0;
        for step in 0..100_000u64 {
            let word = mix(3, step);
            let dir = 2 + (word as u32 & 3);
            let name = format!("{}", word >> 8 & 127);
            let name = name.as_bytes();
            match word >> 20 & 15 {
                0 => {
                    names.forget(dir, name);
                    model.remove(&(dir, name.to_vec()));
                }
                1..8 => {
                    names.put(dir, name, step as u32, epoch);
                    model.insert((dir, name.to_vec()), step as u32);
                }
                _ => {
                    let found = names.get(dir, name, epoch);
                    let known = model.get(&(dir, name.to_vec())).copied();
                    assert!(found.is_none() || found == known, "step {step}: {found:?}");
                    hits += u32::from(found.is_some());
                    assert_eq!(names.get(dir, name, epoch + 1), None);
                }
            }
            if word >> 24 & 0xFFF == 0 {
                epoch += 1;
                model.clear();
            }
        }
        assert!(hits > 10_000 && epoch > 5, "{hits} hits in {epoch} epochs");
        assert_eq!(names.entries.len(), 256);
        let used = names.entries.iter().filter(|entry| entry.length > 0);
        assert_eq!(names.used, used.count());
    }

    #[test]
    fn names_that_fit_no_entry_and_caches_without_space_find_nothing() {
        let long = [b'a'; NAME + 1];
        let mut names = NameCache::new(1 << 20);
        names.put(2, &long, 12, 0);
        names.put(2, &long[1..], 13, 0);
        assert_eq!(
            (names.get(2, &long, 0), names.get(2, &long[1..], 0)),
            (None, Some(13))
        );
        let mut none = NameCache::new(100);
        none.put(2, b"a", 12, 0);
        none.forget(2, b"a");
        assert_eq!((none.get(2, b"a", 0), none.get(2, b"", 0)), (None, None));
    }
}
