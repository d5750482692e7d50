//! The nodes of the index as they lie on the medium, and those that have to be written anew.
//!
//! *Promises.* A level is cut into ranges of slots; a range is a node. [`Tree::touch`] marks the
//! nodes above a slot; [`Tree::write`] writes the marked ones anew, children before parents, packed
//! again where neighbours are marked. No node is changed in place. *Knows nothing of* where there
//! is room: the caller places each node.

use crate::error::Result;
use crate::format::{Branch, Draft, Key, index_bytes, index_draft};
use crate::index::Slot;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included, Unbounded};

/// The nodes of a level by their first slots; nothing for a node that is to be written.
type Level = BTreeMap<Slot, Option<Branch>>;

/// The index nodes in memory, dirty ones included.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    levels: Vec<Level>,
    /// Nodes that are not part of the tree any more.
    obsolete: Vec<Branch>,
}

/// Takes the place of a node that was written.
pub(crate) type Write<'a> = dyn FnMut(Draft) -> Result<Branch> + 'a;

/// Looks up the leaves between two slots.
pub(crate) type Leaves<'a> = dyn Fn(Slot, Option<Slot>) -> Vec<(Slot, Branch)> + 'a;

impl Tree {
    /// Adds a node that was read.
    pub fn load(&mut self, level: u32, first: Slot, at: Branch) {
        let levels = self.levels.len().max(level as usize + 1);
        self.levels.resize_with(levels, Level::new);
        self.levels[level as usize].insert(first, Some(at));
    }

    /// The nodes that are written.
    pub fn nodes(&self) -> impl Iterator<Item = Branch> + '_ {
        let levels = self.levels.iter();
        levels.flat_map(|level| level.values().flatten().copied())
    }

    /// The nodes that the last commit has, the marked ones included.
    pub fn kept(&self) -> Vec<Branch> {
        self.nodes().chain(self.obsolete.iter().copied()).collect()
    }

    /// Marks the nodes above a slot.
    pub fn touch(&mut self, slot: Slot) {
        if self.levels.is_empty() {
            self.levels.push(Level::new());
        }
        for level in &mut self.levels {
            match start_of(level, slot) {
                Some(first) => {
                    let node = level.get_mut(&first).and_then(Option::take);
                    self.obsolete.extend(node);
                }
                None => {
                    level.insert(slot, None);
                }
            }
        }
    }

    /// Marks the nodes that lie in some block.
    pub fn touch_block(&mut self, lnum: u32) {
        let mut slots = Vec::new();
        for level in &self.levels {
            let here = |at: &Option<Branch>| at.is_some_and(|at| at.lnum == lnum);
            let found = level.iter().filter(|(_, at)| here(at));
            slots.extend(found.map(|(slot, _)| *slot));
        }
        slots.into_iter().for_each(|slot| self.touch(slot));
    }

    /// Nodes that went out of the tree, reported once.
    pub fn take_obsolete(&mut self) -> Vec<Branch> {
        core::mem::take(&mut self.obsolete)
    }

    /// Writes the marked nodes. Returns the root.
    pub fn write(
        &mut self,
        fanout: u32,
        leaves: &Leaves<'_>,
        write: &mut Write<'_>,
    ) -> Result<Option<Branch>> {
        let mut number = 0;
        loop {
            let (below, rest) = self.levels.split_at_mut(number);
            let Some(level) = rest.first_mut() else {
                return Ok(None);
            };
            let children = |from: Slot, to: Option<Slot>| match below.last() {
                None => leaves(from, to),
                Some(below) => nodes_between(below, from, to),
            };
            pack(level, number as u32, fanout, &children, write)?;
            if level.len() <= 1 {
                return Ok(self.crown(number));
            }
            number += 1;
            if number == self.levels.len() {
                self.grow();
            }
        }
    }

    /// The only node of a level is the root: those above it go.
    fn crown(&mut self, number: usize) -> Option<Branch> {
        for level in self.levels.drain(number + 1..) {
            self.obsolete.extend(level.into_values().flatten());
        }
        self.levels[number].values().next().copied().flatten()
    }

    /// Puts a level with one node on top.
    fn grow(&mut self) {
        let first = self.levels.last().and_then(|level| level.keys().next());
        let level = first.map(|first| (*first, None));
        self.levels.push(level.into_iter().collect());
    }
}

/// The first slot of the node that a slot belongs to.
fn start_of(level: &Level, slot: Slot) -> Option<Slot> {
    let mut before = level.range(..=slot);
    let found = before.next_back().or_else(|| level.iter().next());
    found.map(|(first, _)| *first)
}

fn nodes_between(level: &Level, from: Slot, to: Option<Slot>) -> Vec<(Slot, Branch)> {
    let to = to.map_or(Unbounded, Excluded);
    let nodes = level.range((Included(from), to));
    nodes
        .filter_map(|(slot, at)| at.map(|at| (*slot, at)))
        .collect()
}

/// Writes the marked nodes of a level; neighbours are packed together.
fn pack(
    level: &mut Level,
    number: u32,
    fanout: u32,
    children: &dyn Fn(Slot, Option<Slot>) -> Vec<(Slot, Branch)>,
    write: &mut Write<'_>,
) -> Result<()> {
    for (run, from, to) in runs(level) {
        let all = children(from, to);
        run.iter().for_each(|first| {
            level.remove(first);
        });
        let nodes = all.len().div_ceil(fanout as usize);
        for node in 0..nodes {
            let from = node * all.len() / nodes;
            let to = (node + 1) * all.len() / nodes;
            let part = branches(&all[from..to]);
            debug_assert!(index_bytes(part.len()) <= index_bytes(fanout as usize));
            let at = write(index_draft(number, &part))?;
            level.insert(all[from].0, Some(at));
        }
    }
    Ok(())
}

fn branches(children: &[(Slot, Branch)]) -> Vec<(Key, Branch)> {
    let branches = children.iter().map(|(slot, at)| (slot.key, *at));
    branches.collect()
}

/// Runs of marked neighbours: their first slots, and the slots from and up to which they reach.
fn runs(level: &Level) -> Vec<(Vec<Slot>, Slot, Option<Slot>)> {
    let mut runs: Vec<(Vec<Slot>, Slot, Option<Slot>)> = Vec::new();
    let mut is_open = false;
    for (index, (first, at)) in level.iter().enumerate() {
        if at.is_some() {
            if let Some(run) = runs.last_mut().filter(|_| is_open) {
                run.2 = Some(*first);
            }
            is_open = false;
            continue;
        }
        match runs.last_mut().filter(|_| is_open) {
            Some(run) => run.0.push(*first),
            None => {
                // Whatever comes before the first node belongs to it.
                let from = if index == 0 { Slot::FIRST } else { *first };
                runs.push((Vec::from([*first]), from, None));
            }
        }
        is_open = true;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::KeyKind;
    use alloc::collections::BTreeSet;

    fn slot(number: u32) -> Slot {
        Slot {
            key: Key::new(number, KeyKind::Data, 0),
            ordinal: 0,
        }
    }

    /// Reads the tree below a node: the leaves in order.
    fn read(nodes: &BTreeMap<u32, Draft>, at: Branch, to: &mut Vec<u32>) -> u32 {
        let bytes = nodes[&at.offs].clone().summed();
        let node = crate::format::IndexNode::parse(&bytes).unwrap();
        for (key, child) in node.children() {
            match node.level {
                0 => to.push(key.unwrap().inode()),
                level => assert_eq!(read(nodes, child, to), level - 1),
            }
        }
        node.level
    }

    #[test]
    fn a_written_tree_holds_the_leaves_after_any_changes() {
        let mut tree = Tree::default();
        let mut leaves: BTreeSet<u32> = BTreeSet::new();
        let mut nodes: BTreeMap<u32, Draft> = BTreeMap::new();
        let mut next = 0;
        for round in 0..60u64 {
            for step in 0..1 + round % 40 {
                let word = nandlab_sim::mix(round, step);
                let number = 1 + word as u32 % 300;
                let is_shrinking = round > 30;
                if word >> 40 & 3 == 0 || is_shrinking {
                    leaves.remove(&number);
                } else {
                    leaves.insert(number);
                }
                tree.touch(slot(number));
            }
            if leaves.is_empty() {
                break;
            }
            let find = |from: Slot, to: Option<Slot>| {
                let to = to.map_or(u32::MAX, |to| to.key.inode());
                let found = leaves.range(from.key.inode()..to);
                let at = Branch {
                    lnum: 9,
                    offs: 0,
                    len: 48,
                };
                found.map(|number| (slot(*number), at)).collect()
            };
            let mut count = 0;
            let root = tree.write(4, &find, &mut |draft| {
                next += 1;
                count += 1;
                let len = draft.len();
                nodes.insert(next, draft);
                Ok(Branch {
                    lnum: 1,
                    offs: next,
                    len,
                })
            });
            let mut seen = Vec::new();
            read(&nodes, root.unwrap().unwrap(), &mut seen);
            assert!(seen.iter().eq(&leaves), "round {round}");
            for old in tree.take_obsolete() {
                assert!(nodes.remove(&old.offs).is_some(), "twice obsolete");
            }
            let mut live = 0;
            tree.levels.iter().for_each(|level| live += level.len());
            assert_eq!(nodes.len(), live, "round {round}");
            assert!(tree.nodes().count() == live && count > 0);
        }
    }
}
