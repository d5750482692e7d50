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
use crate::format::{BLOCK, Branch, Fault, Geometry, IndexNode, Key, KeyKind, Kind, align8};
use crate::lebs::Lebs;
use crate::node::{Media, kind_of};
use crate::tree::Tree;
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
    /// The least of all.
    pub const FIRST: Self = Self {
        key: Key::FIRST,
        ordinal: 0,
    };

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

/// The index of the last commit, read whole.
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
    /// The index nodes, and which of them changes have touched.
    pub tree: Tree,
    /// The load collects leaves here in the order of their keys: one step makes a map of them.
    leaves_read: Vec<(Slot, Branch)>,
    /// Nodes above the leaf that is read next.
    above: Vec<(u32, Branch)>,
    /// Leaves that went out of the index.
    obsolete: Vec<Branch>,
}

/// An index node that is still to be read, and the keys that it may have.
struct Task {
    at: Branch,
    level: Option<u32>,
    from: Key,
    to: Key,
    /// Where the node begins for its parent. Linux leaves that key as it is when the leaf goes. A
    /// first child begins where its parent does.
    start: Option<Key>,
}

impl Use {
    pub fn add_leaf(&mut self, at: Branch) {
        self.leaves += u64::from(align8(at.len));
    }
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
            start: None,
        });
        while let Some(task) = tasks.pop() {
            let (from, to) = (task.from, task.to);
            let before = tasks.len();
            if let Err(error) = index.node(media, task, &mut tasks) {
                tasks.truncate(before);
                index.holes.push(Hole { from, to, error });
            }
        }
        index.map = core::mem::take(&mut index.leaves_read)
            .into_iter()
            .collect();
        index
    }

    /// An index that knows nothing.
    pub fn unknown(error: UbifsError) -> Self {
        let mut index = Self::default();
        index.holes.push(Hole {
            from: Key::FIRST,
            to: Key::LAST,
            error,
        });
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
        let start = task.start.or(children.first().map(|(key, _)| *key));
        if level == 0 {
            self.load_leaves(task.at, start, &children);
            return Ok(());
        }
        self.above.push((level, task.at));
        let ends = children.iter().skip(1).map(|(key, _)| *key);
        let ends: Vec<Key> = ends.chain([task.to]).collect();
        // The last one first: the stack gives the first one back first.
        for (index, ((from, at), to)) in children.into_iter().zip(ends).enumerate().rev() {
            let level = Some(level - 1);
            let start = start.filter(|_| index == 0).or(Some(from));
            tasks.push(Task {
                at,
                level,
                from,
                to,
                start,
            });
        }
        Ok(())
    }

    /// Takes the children of a node of the lowest level, and the nodes above it.
    fn load_leaves(&mut self, node: Branch, start: Option<Key>, children: &[(Key, Branch)]) {
        self.above.push((0, node));
        if let Some(key) = start {
            let slot = self.behind_all(key);
            for (level, node) in self.above.drain(..) {
                self.tree.load(level, slot, node);
            }
        }
        for (key, at) in children {
            self.used.entry(at.lnum).or_default().add_leaf(*at);
            let slot = self.behind_all(*key);
            self.leaves_read.push((slot, *at));
        }
    }

    /// Leaves that went out of the index, reported once.
    pub fn take_obsolete(&mut self) -> Vec<Branch> {
        core::mem::take(&mut self.obsolete)
    }

    /// Counts what all nodes use of each block, after a commit.
    pub fn recount(&mut self) {
        self.used.clear();
        self.bytes = 0;
        for at in self.map.values() {
            self.used.entry(at.lnum).or_default().add_leaf(*at);
        }
        for at in self.tree.nodes() {
            let bytes = u64::from(align8(at.len));
            self.used.entry(at.lnum).or_default().index += bytes;
            self.bytes += bytes;
        }
    }

    /// The number of leaves.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The places of all leaves.
    pub fn leaves(&self) -> impl Iterator<Item = Branch> + '_ {
        self.map.values().copied()
    }

    /// The slot behind the collected leaves with the same key. No leaf has a greater key: the
    /// bounds of each node keep the order.
    fn behind_all(&self, key: Key) -> Slot {
        let last = self.leaves_read.last().map(|(slot, _)| slot);
        let same = last.filter(|slot| slot.key == key);
        let ordinal = same.map_or(0, |slot| slot.ordinal.saturating_add(1));
        Slot { key, ordinal }
    }

    /// Adds a node as the one at `position` among those with the same key.
    pub fn insert(&mut self, key: Key, position: usize, at: Branch) {
        let old: Vec<(Slot, Branch)> = self.nodes_of(key).collect();
        for (slot, _) in &old {
            self.map.remove(slot);
            self.tree.touch(*slot);
        }
        let mut all: Vec<Branch> = old.into_iter().map(|(_, at)| at).collect();
        all.insert(position.min(all.len()), at);
        for (ordinal, at) in (0..).zip(all) {
            let slot = Slot { key, ordinal };
            self.map.insert(slot, at);
            self.tree.touch(slot);
        }
    }

    /// Adds a node in the place of the one with the same key.
    pub fn set(&mut self, key: Key, at: Branch) {
        self.replace(Slot::first(key), at);
    }

    /// Moves a slot to another place.
    pub fn replace(&mut self, slot: Slot, at: Branch) {
        let old = self.map.insert(slot, at);
        self.obsolete.extend(old);
        self.tree.touch(slot);
    }

    /// Gives the names in these blocks a place where no node is.
    pub fn unplace_names(&mut self, lnums: &BTreeSet<u32>, nowhere: u32) {
        for (slot, at) in &mut self.map {
            let is_name = matches!(slot.key.kind(), KeyKind::Dent | KeyKind::Xent);
            if is_name && lnums.contains(&at.lnum) {
                at.offs = nowhere;
            }
        }
    }

    /// Takes a node out.
    pub fn remove(&mut self, slot: Slot) {
        let old = self.map.remove(&slot);
        self.obsolete.extend(old);
        self.tree.touch(slot);
    }

    /// The nodes from a slot on, up to another one.
    pub fn between(&self, from: Slot, to: Option<Slot>) -> Vec<(Slot, Branch)> {
        use core::ops::Bound::{Excluded, Included, Unbounded};
        let to = to.map_or(Unbounded, Excluded);
        let nodes = self.map.range((Included(from), to));
        nodes.map(|(slot, at)| (*slot, *at)).collect()
    }

    /// Takes all nodes of an inode out.
    pub fn remove_inode(&mut self, inode: u32) {
        let (from, to) = Key::range(inode);
        self.remove_range(from, to);
    }

    /// Takes the contents out that a truncation from `old` to `new` bytes cut off. The block that
    /// holds the new end stays.
    pub fn truncate(&mut self, inode: u32, old: u64, new: u64) {
        let first = new.div_ceil(BLOCK.into()) as u32;
        let last = ((old - 1) / u64::from(BLOCK)) as u32;
        let key = |block| Key::new(inode, KeyKind::Data, block);
        if first <= last {
            self.remove_range(key(first), key(last));
        }
    }

    /// Takes all nodes between two keys out, both included.
    fn remove_range(&mut self, from: Key, to: Key) {
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
        // Holes are in the order of their keys.
        let first = self.holes.partition_point(|hole| hole.to < from);
        match self.holes.get(first).filter(|hole| hole.from <= to) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Draft;
    use crate::{Bare, Format, Ubifs, format};
    use nandlab_vfs::{Caller, FileSystem as _, Ino, NewNode, Time};

    const LEB: u32 = 15_872;
    const NOW: Time = Time::new(7);

    fn volume() -> Bare<Vec<u8>> {
        let bytes = alloc::vec![0xFF; LEB as usize * 100];
        let choices = Format {
            page: Some(512),
            fanout: 4,
            ..Format::default()
        };
        let lebs = format(Bare::with(bytes, LEB, 100), &choices).unwrap();
        let mut fs = Ubifs::mount_writable(lebs).unwrap();
        for number in 0..200 {
            let name = alloc::format!("{number}");
            let by = Caller::root(NOW);
            let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by);
            let ino = made.unwrap().ino;
            fs.write(ino, 0, b"contents", NOW).unwrap();
            fs.forget(ino, 1);
        }
        fs.unmount().unwrap();
        fs.into_lebs()
    }

    fn node_at(media: &[u8], at: Branch) -> &[u8] {
        let offs = at.lnum as usize * LEB as usize + at.offs as usize;
        &media[offs..offs + at.len as usize]
    }

    /// Changes the key of a branch.
    fn set_key(media: &mut [u8], at: Branch, number: usize, key: Key) {
        let mut node = Draft::again(node_at(media, at));
        node.key(28 + number * 20 + 12, key);
        let offs = at.lnum as usize * LEB as usize + at.offs as usize;
        media[offs..offs + at.len as usize].copy_from_slice(&node.summed());
    }

    /// Below `at`, the first node of level 2 with a later child that begins with an inode: the
    /// child's number, place and first key.
    fn boundary(media: &[u8], at: Branch) -> Option<(Branch, usize, Branch, Key)> {
        let bytes = node_at(media, at);
        let node = IndexNode::parse(bytes).unwrap();
        let children = node.children().enumerate();
        let mut children = children.map(|(number, (key, at))| (number, key.unwrap(), at));
        if node.level > 2 {
            return children.find_map(|(_, _, at)| boundary(media, at));
        }
        let found = children.find(|(number, key, _)| *number > 0 && key.kind() == KeyKind::Inode);
        found.map(|(number, key, child)| (at, number, child, key))
    }

    /// Linux keeps the key of a node's first leaf in its parent when the leaf goes.
    #[test]
    fn a_leaf_before_the_first_of_its_node_stays_between_the_keys_of_its_parents() {
        let fs = Ubifs::mount(volume()).unwrap();
        let root = fs.master().root;
        let mut media = fs.into_lebs().into_bytes();
        let (at, number, child, key) = boundary(&media, root).unwrap();
        let inode = key.inode() - 1;
        let lower = Key::new(inode, KeyKind::Data, 5);
        set_key(&mut media, at, number, lower);
        set_key(&mut media, child, 0, lower);

        let mut fs = Ubifs::mount_writable(Bare::with(media, LEB, 100)).unwrap();
        assert_eq!(fs.check().findings, []);
        let ino = Ino(inode.into());
        fs.write(ino, 7 * u64::from(BLOCK), b"behind", NOW).unwrap();
        fs.sync().unwrap();
        fs.unmount().unwrap();
        let mut again = Ubifs::mount(fs.into_lebs()).unwrap();
        assert_eq!(again.check().findings, []);
        let mut found = [0; 6];
        again.read(ino, 7 * u64::from(BLOCK), &mut found).unwrap();
        assert_eq!(&found, b"behind");
    }
}
