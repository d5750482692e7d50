//! Sectors in memory: those that wait to be written, and those that may be needed again.
//!
//! *Promises.* What waits is kept until it is settled or forgotten; what does not wait takes at
//! most twice the room it was given. *Knows nothing of* devices or of what the sectors hold, save
//! whom they belong to.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_block::Recent;
use nandlab_vfs::{Ino, Time};

/// Whom a waiting sector belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Contents of this file.
    File(Ino),
    /// Table, directory or file system information.
    Metadata,
}

#[derive(Clone, Debug)]
struct Waiting {
    data: Box<[u8]>,
    since: Time,
    owner: Owner,
}

/// Sectors in memory.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    waiting: BTreeMap<u32, Waiting>,
    by_age: BTreeSet<(Time, u32)>,
    by_owner: BTreeSet<(Owner, u32)>,
    /// Sectors of contents that wait.
    contents: usize,
    /// What does not wait.
    recent: Recent<u32, Box<[u8]>>,
}

impl Cache {
    /// With room for `sectors` that do not wait.
    pub fn new(sectors: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_age: BTreeSet::new(),
            by_owner: BTreeSet::new(),
            contents: 0,
            recent: Recent::new(sectors),
        }
    }

    /// Whether a sector is here.
    pub fn has(&self, sector: u32) -> bool {
        self.waiting.contains_key(&sector) || self.recent.contains(sector)
    }

    pub fn get(&mut self, sector: u32) -> Option<&[u8]> {
        match self.waiting.get(&sector) {
            Some(waiting) => Some(&waiting.data),
            None => self.recent.get(sector).map(|data| &**data),
        }
    }

    /// Keeps what does not wait.
    pub fn keep(&mut self, sector: u32, data: Box<[u8]>) {
        self.recent.insert(sector, data);
    }

    /// The sector to be changed, waiting from now on; none if it is not here.
    pub fn edit(&mut self, sector: u32, owner: Owner, now: Time) -> Option<&mut [u8]> {
        if !self.waiting.contains_key(&sector) {
            let data = self.recent.remove(sector)?;
            self.wait(sector, owner, now, data);
        }
        self.waiting
            .get_mut(&sector)
            .map(|waiting| &mut *waiting.data)
    }

    /// Replaces the sector; it waits, since now unless it did already.
    pub fn replace(&mut self, sector: u32, owner: Owner, now: Time, data: Box<[u8]>) {
        self.recent.remove(sector);
        match self.waiting.get_mut(&sector) {
            Some(waiting) => waiting.data = data,
            None => self.wait(sector, owner, now, data),
        }
    }

    fn wait(&mut self, sector: u32, owner: Owner, since: Time, data: Box<[u8]>) {
        self.contents += usize::from(owner != Owner::Metadata);
        self.by_age.insert((since, sector));
        self.by_owner.insert((owner, sector));
        self.waiting.insert(sector, Waiting { data, since, owner });
    }

    fn unwait(&mut self, sector: u32) -> Option<Box<[u8]>> {
        let Waiting { data, since, owner } = self.waiting.remove(&sector)?;
        self.contents -= usize::from(owner != Owner::Metadata);
        self.by_age.remove(&(since, sector));
        self.by_owner.remove(&(owner, sector));
        Some(data)
    }

    /// The sector has been written.
    pub fn settle(&mut self, sector: u32) {
        if let Some(data) = self.unwait(sector) {
            self.keep(sector, data);
        }
    }

    /// Forgets sectors, waiting or not.
    pub fn forget(&mut self, from: u32, count: u32) {
        let end = from.saturating_add(count);
        let waiting: Vec<u32> = self
            .waiting
            .range(from..end)
            .map(|(sector, _)| *sector)
            .collect();
        for sector in waiting {
            self.unwait(sector);
        }
        for sector in self.recent.keys(from..end) {
            self.recent.remove(sector);
        }
    }

    /// The waiting sectors of an owner, in order.
    pub fn of(&self, owner: Owner) -> Vec<u32> {
        self.by_owner
            .range((owner, 0)..=(owner, u32::MAX))
            .map(|(_, sector)| *sector)
            .collect()
    }

    /// Waiting contents of files, oldest first: up to `sectors`, and all that wait since `until` or
    /// longer; in the order of their places.
    pub fn oldest_contents(&self, sectors: usize, until: Time) -> Vec<u32> {
        let contents = self.by_age.iter().filter(|(_, sector)| {
            self.waiting
                .get(sector)
                .is_some_and(|w| w.owner != Owner::Metadata)
        });
        let mut chosen: Vec<u32> = contents
            .enumerate()
            .take_while(|(index, (since, _))| *index < sectors || *since <= until)
            .map(|(_, (_, s))| *s)
            .collect();
        chosen.sort_unstable();
        chosen
    }

    /// Sectors that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Waiting sectors that hold contents of files.
    pub fn waiting_contents(&self) -> usize {
        self.contents
    }

    /// Since when the oldest waits.
    pub fn since(&self) -> Option<Time> {
        self.by_age.first().map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner::File(Ino(5));

    fn sector(byte: u8) -> Box<[u8]> {
        Box::new([byte; 4])
    }

    #[test]
    fn what_waits_stays_and_the_rest_is_bounded() {
        let mut cache = Cache::new(16);
        cache.replace(1000, A, Time::new(1), sector(7));
        for n in 0..100 {
            cache.keep(n, sector(n as u8));
        }
        assert!(cache.recent.keys(..).len() <= 16);
        let found = [1000, 99, 3].map(|sector| cache.get(sector).map(|data| data[0]));
        assert_eq!(found, [Some(7), Some(99), None]);
        cache.settle(1000);
        assert_eq!((cache.waiting(), cache.get(1000)), (0, Some(&[7; 4][..])));
    }

    #[test]
    fn the_oldest_contents_come_first_and_metadata_not_at_all() {
        let mut cache = Cache::new(16);
        for (n, since) in [(30, 3), (10, 1), (20, 2), (40, 4)] {
            cache.replace(n, A, Time::new(since), sector(0));
        }
        cache.replace(5, Owner::Metadata, Time::new(0), sector(0));
        cache.edit(10, A, Time::new(9)).unwrap()[0] = 1;
        assert_eq!(cache.oldest_contents(1, Time::MIN), [10]);
        assert_eq!(cache.oldest_contents(0, Time::new(3)), [10, 20, 30]);
        assert_eq!(
            (cache.waiting(), cache.waiting_contents(), cache.since()),
            (5, 4, Some(Time::new(0)))
        );
        cache.forget(10, 11);
        assert_eq!(
            (cache.of(A), cache.of(Owner::Metadata)),
            ([30, 40].to_vec(), [5].to_vec())
        );
    }
}
