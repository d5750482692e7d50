//! Where each node lies, by keys: the index in memory.
//!
//! *Promises.* [`Index::load`] reads the index of the last commit. A part that cannot be read
//! leaves a [`Hole`]: a range of keys that an error belongs to. What is asked for in it fails with
//! the error, and is never taken for absent. Each index node is read once, so that memory and time
//! are bounded by their number.
//!
//! *Knows nothing of* the contents of nodes: a reader compares the names of entries with the same
//! hash.

use crate::error::{Result, UbifsError};
use crate::format::{Branch, Fault, Geometry, IndexNode, Key, Kind, align8};
use crate::lebs::Lebs;
use crate::node::{Media, kind_of};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Levels of an index at most.
const LEVELS: u32 = 512;

/// A key with a number that tells apart entries with the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub key: Key,
    pub ordinal: u32,
}

impl Slot {
    fn first(key: Key) -> Self {
        Self { key, ordinal: 0 }
    }

    fn last(key: Key) -> Self {
        let ordinal = u32::MAX;
        Self { key, ordinal }
    }
}

/// Keys of which nothing is known.
#[derive(Clone, Debug)]
pub(crate) struct Hole {
    pub from: Key,
    pub to: Key,
    pub error: UbifsError,
}

/// Bytes of a block that nodes use, each with its padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub leaves: u64,
    pub index: u64,
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    map: BTreeMap<Slot, Branch>,
    pub holes: Vec<Hole>,
    /// Bytes of the index nodes that were read, each with its padding.
    pub bytes: u64,
    /// Where the index nodes lie.
    pub nodes: BTreeSet<(u32, u32)>,
    /// What the commit's nodes use of each block.
    pub used: BTreeMap<u32, Use>,
}

/// An index node that is still to be read, and the keys that it may have.
struct Task {
    at: Branch,
    level: Option<u32>,
    from: Key,
    to: Key,
}

impl Index {
    /// Reads the index whose root lies at `root`.
    pub fn load<L: Lebs>(media: &mut Media<L>, root: Branch) -> Self {
        let mut index = Self::default();
        let mut tasks = Vec::new();
        tasks.push(Task {
            at: root,
            level: None,
            from: Key::FIRST,
            to: Key::LAST,
        });
        while let Some(task) = tasks.pop() {
            let (from, to) = (task.from, task.to);
            let before = tasks.len();
            if let Err(error) = index.node(media, task, &mut tasks) {
                tasks.truncate(before);
                index.holes.push(Hole { from, to, error });
            }
        }
        index
    }

    fn node<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        task: Task,
        tasks: &mut Vec<Task>,
    ) -> Result<()> {
        let Branch { lnum, offs, .. } = task.at;
        let here = media.geometry();
        let wrong = |fault: Fault| fault.at(lnum, offs);
        let (header, bytes) = media.node(task.at, Kind::Index)?;
        let node = IndexNode::parse(bytes).map_err(wrong)?;
        let fits = node.level < LEVELS && task.level.is_none_or(|level| node.level == level);
        Fault::unless(
            fits,
            "the level of an index node",
            node.level,
            "one below its parent's",
        )
        .map_err(wrong)?;
        let mut children = Vec::new();
        for (key, at) in node.children() {
            children.push((key.map_err(wrong)?, at));
        }
        let level = node.level;
        check_children(&children, level, &task, &here).map_err(wrong)?;
        if !self.nodes.insert((lnum, offs)) {
            let expected = "a place that no other branch has";
            return Err(wrong(Fault::rule(
                "the place of an index node",
                offs,
                expected,
            )));
        }
        let bytes = u64::from(align8(header.len));
        self.bytes += bytes;
        self.used.entry(lnum).or_default().index += bytes;
        if level == 0 {
            children
                .iter()
                .for_each(|(key, at)| self.load_leaf(*key, *at));
            return Ok(());
        }
        let ends = children.iter().skip(1).map(|(key, _)| *key);
        let ends: Vec<Key> = ends.chain([task.to]).collect();
        // The last one first: the stack gives the first one back first.
        for ((from, at), to) in children.into_iter().zip(ends).rev() {
            let level = Some(level - 1);
            tasks.push(Task {
                at,
                level,
                from,
                to,
            });
        }
        Ok(())
    }

    fn load_leaf(&mut self, key: Key, at: Branch) {
        let bytes = u64::from(align8(at.len));
        self.used.entry(at.lnum).or_default().leaves += bytes;
        self.add(key, at);
    }

    /// The blocks that leaves lie in; a block comes as often as there are leaves in it.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.map.values().map(|at| at.lnum)
    }

    /// Adds a node, beside those with the same key.
    pub fn add(&mut self, key: Key, at: Branch) {
        let last = self.nodes_of(key).next_back();
        let ordinal = last.map_or(0, |(slot, _)| slot.ordinal.saturating_add(1));
        self.map.insert(Slot { key, ordinal }, at);
    }

    /// Adds a node in the place of the one with the same key.
    pub fn set(&mut self, key: Key, at: Branch) {
        self.map.insert(Slot::first(key), at);
    }

    /// Moves a slot to another place.
    pub fn replace(&mut self, slot: Slot, at: Branch) {
        self.map.insert(slot, at);
    }

    /// Takes a node out.
    pub fn remove(&mut self, slot: Slot) {
        self.map.remove(&slot);
    }

    /// Takes all nodes between two keys out, both included.
    pub fn remove_range(&mut self, from: Key, to: Key) {
        if from > to {
            return;
        }
        let slots: Vec<Slot> = self.range(from, to).map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.remove(slot));
    }

    /// The nodes with a key.
    pub fn nodes_of(&self, key: Key) -> impl DoubleEndedIterator<Item = (Slot, Branch)> + '_ {
        self.range(key, key)
    }

    /// The nodes between two keys, both included.
    pub fn range(
        &self,
        from: Key,
        to: Key,
    ) -> impl DoubleEndedIterator<Item = (Slot, Branch)> + '_ {
        let range = Slot::first(from)..=Slot::last(to);
        self.map.range(range).map(|(slot, at)| (*slot, *at))
    }

    /// The first node behind a slot, up to a key.
    pub fn behind(&self, slot: Slot, to: Key) -> Option<(Slot, Branch)> {
        use core::ops::Bound::{Excluded, Included};
        let range = (Excluded(slot), Included(Slot::last(to)));
        let found = self.map.range(range).next()?;
        Some((*found.0, *found.1))
    }

    /// The node with a key of which there is one.
    pub fn get(&self, key: Key) -> Result<Option<Branch>> {
        match self.map.get(&Slot::first(key)) {
            Some(at) => Ok(Some(*at)),
            None => self.known(key, key).map(|()| None),
        }
    }

    /// Fails if something between two keys is not known.
    pub fn known(&self, from: Key, to: Key) -> Result<()> {
        match self
            .holes
            .iter()
            .find(|hole| hole.from <= to && from <= hole.to)
        {
            Some(hole) => Err(hole.error.clone()),
            None => Ok(()),
        }
    }

    /// Where a slot leads to.
    pub fn at(&self, slot: Slot) -> Option<Branch> {
        self.map.get(&slot).copied()
    }

    /// The node behind a slot, or the first of all.
    pub fn next(&self, slot: Option<Slot>) -> Option<(Slot, Branch)> {
        match slot {
            Some(slot) => self.behind(slot, Key::LAST),
            None => self.range(Key::FIRST, Key::LAST).next(),
        }
    }
}

/// Keys must rise and lie between those of the parent; children must lie in the main area.
fn check_children(
    children: &[(Key, Branch)],
    level: u32,
    task: &Task,
    here: &Geometry,
) -> Result<(), Fault> {
    for (key, at) in children {
        let fits = here.is_main(at.lnum, at.offs, at.len);
        Fault::unless(
            fits,
            "the block of a branch",
            at.lnum,
            "a node in the main area",
        )?;
        let (least, most) = match (level, kind_of(*key)) {
            (0, Kind::Inode) => (160, 4256),
            (0, Kind::Data) => (48, 4144),
            (0, _) => (56, 312),
            _ => (48, 28 + 20 * here.fanout),
        };
        let fits = (least..=most).contains(&at.len);
        Fault::unless(
            fits,
            "the length in a branch",
            at.len,
            "one that its type may have",
        )?;
        let fits = (task.from..=task.to).contains(key);
        let expected = "one between those of its parent";
        Fault::unless(fits, "the inode of a branch's key", key.inode(), expected)?;
    }
    for pair in children.windows(2) {
        let (key, next) = (pair[0].0, pair[1].0);
        let fits = key < next || key == next && key.is_hashed();
        let expected = "one behind the key before";
        Fault::unless(fits, "the inode of a branch's key", next.inode(), expected)?;
    }
    Ok(())
}
