//! Blocks in memory: what waits to be written, and, within a bound, what was read or written
//! before.
//!
//! *Promises.* What waits is kept until it is settled or forgotten; the rest is evicted, the less
//! recently used first. *Knows nothing of* what the blocks hold: owners are told apart, no more.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    vec::Vec,
};
use nandlab_block::Recent;
use nandlab_vfs::Time;

/// What kind of metadata a block holds: at a power cut the kinds arrive in the order that
/// [`commit`](crate::commit) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Block and inode bitmaps.
    Bitmap,
    /// Numbers of blocks.
    Numbers,
    /// Inodes, attributes.
    Inode,
    /// Names.
    Directory,
    /// Superblock and group descriptors: counts.
    Counts,
    /// Contents that a journal takes as it takes structure.
    Contents,
}

/// Whose a waiting block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Contents of an inode.
    File(u32),
    /// Structure.
    Meta(Class),
}

#[derive(Debug)]
struct Waiting {
    data: Box<[u8]>,
    since: Time,
    owner: Owner,
    /// On the medium nothing leads to it yet, or to some of what it holds.
    fresh: bool,
    /// Of numbers, what the medium holds.
    before: Option<Box<[u8]>>,
}

/// Blocks in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    waiting: BTreeMap<u32, Waiting>,
    by_age: BTreeSet<(Time, u32)>,
    by_owner: BTreeSet<(Owner, u32)>,
    contents: usize,
    /// What does not wait.
    recent: Recent<u32, Box<[u8]>>,
}

impl Cache {
    /// Keeps up to `blocks` of what does not wait.
    pub fn new(blocks: usize) -> Self {
        let (waiting, by_age, by_owner) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self {
            waiting,
            by_age,
            by_owner,
            contents: 0,
            recent: Recent::new(blocks),
        }
    }

    /// Whether a block's bytes are here.
    pub fn has(&self, block: u32) -> bool {
        self.waiting.contains_key(&block) || self.recent.contains(block)
    }

    /// A block's bytes, if they are here.
    pub fn get(&mut self, block: u32) -> Option<&[u8]> {
        match self.waiting.get(&block) {
            Some(waiting) => Some(&waiting.data),
            None => self.recent.get(block).map(|data| &**data),
        }
    }

    /// Takes in a block that does not wait.
    pub fn keep(&mut self, block: u32, data: Box<[u8]>) {
        self.recent.insert(block, data);
    }

    /// The block to be changed, waiting from now on; none if it is not here.
    pub fn edit(&mut self, block: u32, owner: Owner, now: Time) -> Option<&mut [u8]> {
        match self.waiting.entry(block) {
            Entry::Occupied(waiting) => Some(&mut waiting.into_mut().data),
            Entry::Vacant(place) => {
                let data = self.recent.remove(block)?;
                let before = (owner == Owner::Meta(Class::Numbers)).then(|| data.clone());
                self.by_age.insert((now, block));
                self.by_owner.insert((owner, block));
                self.contents += usize::from(matches!(owner, Owner::File(_)));
                Some(
                    &mut place
                        .insert(Waiting {
                            data,
                            since: now,
                            owner,
                            fresh: false,
                            before,
                        })
                        .data,
                )
            }
        }
    }

    /// Replaces the block; it waits, since now unless it did already. A block is `fresh` until it
    /// is settled.
    pub fn replace(&mut self, block: u32, owner: Owner, now: Time, data: Box<[u8]>, fresh: bool) {
        self.recent.remove(block);
        match self.waiting.get_mut(&block) {
            Some(waiting) if waiting.owner == owner => {
                waiting.data = data;
                waiting.fresh |= fresh;
            }
            _ => {
                self.unwait(block);
                self.wait(
                    block,
                    Waiting {
                        data,
                        since: now,
                        owner,
                        fresh,
                        before: None,
                    },
                );
            }
        }
    }

    fn wait(&mut self, block: u32, waiting: Waiting) {
        self.by_age.insert((waiting.since, block));
        self.by_owner.insert((waiting.owner, block));
        self.contents += usize::from(matches!(waiting.owner, Owner::File(_)));
        self.waiting.insert(block, waiting);
    }

    fn unwait(&mut self, block: u32) -> Option<Box<[u8]>> {
        let Waiting {
            data, since, owner, ..
        } = self.waiting.remove(&block)?;
        self.by_age.remove(&(since, block));
        self.by_owner.remove(&(owner, block));
        self.contents -= usize::from(matches!(owner, Owner::File(_)));
        Some(data)
    }

    /// The block has been written.
    pub fn settle(&mut self, block: u32) {
        if let Some(data) = self.unwait(block) {
            self.keep(block, data);
        }
    }

    /// Forgets a block, waiting or not.
    pub fn forget(&mut self, block: u32) {
        self.unwait(block);
        self.recent.remove(block);
    }

    /// A waiting block has come to hold something to which nothing on the medium leads.
    pub fn freshen(&mut self, block: u32) {
        if let Some(waiting) = self.waiting.get_mut(&block) {
            waiting.fresh = true;
        }
    }

    /// A waiting block of numbers as the medium has it, and as it is; none if the medium has none.
    pub fn numbers(&self, block: u32) -> Option<(&[u8], &[u8])> {
        let waiting = self.waiting.get(&block)?;
        Some((waiting.before.as_deref()?, &waiting.data))
    }

    /// Whether a waiting block holds something to which nothing on the medium leads.
    pub fn is_fresh(&self, block: u32) -> bool {
        self.waiting
            .get(&block)
            .is_some_and(|waiting| waiting.fresh)
    }

    /// The waiting blocks of an owner, in order.
    pub fn of(&self, owner: Owner) -> Vec<u32> {
        self.by_owner
            .range((owner, 0)..=(owner, u32::MAX))
            .map(|(_, block)| *block)
            .collect()
    }

    /// Waiting contents of all files that something on the medium may lead to once metadata is
    /// written, in the order of their places.
    pub fn fresh_contents(&self) -> Vec<u32> {
        let contents = self
            .by_owner
            .range(..(Owner::Meta(Class::Bitmap), 0))
            .map(|(_, block)| *block);
        let mut fresh: Vec<u32> = contents.filter(|block| self.is_fresh(*block)).collect();
        fresh.sort_unstable();
        fresh
    }

    /// Waiting contents of files, oldest first: up to `blocks`, and all that wait since `until` or
    /// longer; in the order of their places.
    pub fn oldest_contents(&self, blocks: usize, until: Time) -> Vec<u32> {
        let contents = self.by_age.iter().filter(|(_, block)| {
            self.waiting
                .get(block)
                .is_some_and(|w| matches!(w.owner, Owner::File(_)))
        });
        let mut chosen: Vec<u32> = contents
            .enumerate()
            .take_while(|(index, (since, _))| *index < blocks || *since <= until)
            .map(|(_, (_, b))| *b)
            .collect();
        chosen.sort_unstable();
        chosen
    }

    /// All waiting structure, in order.
    pub fn structure(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self
            .by_owner
            .range((Owner::Meta(Class::Bitmap), 0)..)
            .map(|(_, block)| *block)
            .collect();
        blocks.sort_unstable();
        blocks
    }

    /// How many waiting blocks hold structure.
    pub fn waiting_structure(&self) -> usize {
        self.waiting.len() - self.contents
    }

    /// Blocks that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Waiting blocks that hold contents of files.
    pub fn waiting_contents(&self) -> usize {
        self.contents
    }

    /// Since when the oldest contents wait.
    pub fn contents_since(&self) -> Option<Time> {
        let is_contents = |block| {
            self.waiting
                .get(block)
                .is_some_and(|waiting| matches!(waiting.owner, Owner::File(_)))
        };
        self.by_age
            .iter()
            .find(|(_, block)| is_contents(block))
            .map(|(since, _)| *since)
    }

    /// Since when the oldest waits.
    pub fn since(&self) -> Option<Time> {
        self.by_age.first().map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner::File(5);
    const META: Owner = Owner::Meta(Class::Inode);

    fn block(byte: u8) -> Box<[u8]> {
        Box::new([byte; 4])
    }

    #[test]
    fn what_waits_stays_and_the_rest_is_bounded() {
        let mut cache = Cache::new(16);
        cache.replace(1000, A, Time::new(1), block(7), false);
        for n in 0..100 {
            cache.keep(n, block(n as u8));
        }
        assert!(cache.recent.keys(..).len() <= 16);
        let found = [1000, 99, 3].map(|n| cache.get(n).map(|data| data[0]));
        assert_eq!(found, [Some(7), Some(99), None]);
        cache.settle(1000);
        assert_eq!(
            (cache.waiting(), cache.waiting_contents(), cache.get(1000)),
            (0, 0, Some(&[7; 4][..]))
        );
    }

    #[test]
    fn a_block_that_changes_hands_is_its_new_owners_only() {
        let mut cache = Cache::new(16);
        cache.replace(3, META, Time::new(1), block(1), true);
        cache.replace(3, A, Time::new(2), block(2), false);
        assert_eq!(
            (cache.of(META), cache.of(A), cache.waiting_contents()),
            (Vec::new(), [3].to_vec(), 1)
        );
        assert!(!cache.is_fresh(3) && cache.since() == Some(Time::new(2)));
    }

    #[test]
    fn the_oldest_contents_come_first_and_metadata_not_at_all() {
        let mut cache = Cache::new(16);
        for (n, since) in [(30, 3), (10, 1), (20, 2), (40, 4)] {
            cache.replace(n, A, Time::new(since), block(0), n == 20);
        }
        cache.replace(5, META, Time::new(0), block(0), true);
        cache.edit(10, A, Time::new(9)).unwrap()[0] = 1;
        assert_eq!(cache.oldest_contents(1, Time::MIN), [10]);
        assert_eq!(cache.oldest_contents(0, Time::new(3)), [10, 20, 30]);
        assert_eq!(cache.fresh_contents(), [20]);
        assert_eq!(
            (cache.waiting(), cache.waiting_contents(), cache.since()),
            (5, 4, Some(Time::new(0)))
        );
    }
}
