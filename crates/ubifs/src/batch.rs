//! Nodes that take effect together, and what they do to the index.

use crate::bug::SeededBug;
use crate::error::{Result, UbifsError};
use crate::format::{Branch, Draft, Entry, Key, KeyKind, Truncation};
use crate::inode::Inode;
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::replay;
use alloc::vec::Vec;
use nandlab_vfs::Errno;

/// What a node does to the index.
#[derive(Debug)]
enum Effect {
    /// It takes the place of the node with its key.
    Set(Key),
    Name(Key, Vec<u8>),
    NoName(Key, Vec<u8>),
    /// The inode has lost its last name.
    Gone(u32),
    /// Nobody refers to the inode, and the journal has nodes of all of its attributes.
    Buried(u32),
    Nothing,
}

/// A group of nodes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    nodes: Vec<Draft>,
    effects: Vec<Effect>,
}

impl Batch {
    fn add(&mut self, node: Draft, effect: Effect) {
        self.nodes.push(node);
        self.effects.push(effect);
    }

    /// An inode. One without links goes, or waits until nobody refers to it.
    pub fn inode(&mut self, inode: &Inode) {
        let effect = match inode.links {
            0 => Effect::Gone(inode.number),
            _ => Effect::Set(Key::of_inode(inode.number)),
        };
        self.add(inode.node().draft(), effect);
    }

    /// An inode without links, to which nobody refers.
    pub fn buried(&mut self, inode: &Inode) {
        self.add(inode.node().draft(), Effect::Buried(inode.number));
    }

    /// A name of an inode, or of one of its attributes.
    pub fn name(&mut self, entry: Entry<'_>, cookie: u32) {
        let effect = match entry.inode {
            0 => Effect::NoName(entry.key, entry.name.into()),
            _ => Effect::Name(entry.key, entry.name.into()),
        };
        self.add(entry.draft(cookie), effect);
    }

    pub fn data(&mut self, key: Key, node: Draft) {
        self.add(node, Effect::Set(key));
    }

    pub fn truncation(&mut self, node: Truncation) {
        self.add(node.draft(), Effect::Nothing);
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Writes a group, and brings the index up to date.
    pub(crate) fn run(&mut self, head: Head, batch: Batch) -> Result<()> {
        let Batch { nodes, effects } = batch;
        let places = self.write_group(head, nodes)?;
        let mut waiting = Vec::new();
        for (at, effect) in places.into_iter().zip(effects) {
            if let Effect::Gone(number) = effect {
                waiting.push(number);
            }
            self.apply(at, effect)?;
        }
        self.count_obsolete();
        waiting.retain(|number| self.writer.orphans.contains(number));
        waiting.retain(|number| !self.is_referenced(*number));
        for number in waiting {
            match self.bury(number) {
                // It is an orphan now, and goes at the end at the latest.
                Err(UbifsError::Call(Errno::NoSpace)) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn apply(&mut self, at: Branch, effect: Effect) -> Result<()> {
        match effect {
            Effect::Set(key) => self.index.set(key, at),
            Effect::Name(key, name) => {
                let media = &mut self.media;
                match replay::find(media, &self.index, key, &name)?.0 {
                    Some(slot) => self.index.replace(slot, at),
                    None => replay::insert(media, &mut self.index, key, &name, at)?,
                }
            }
            Effect::NoName(key, name) => {
                let found = replay::find(&mut self.media, &self.index, key, &name)?;
                found.0.into_iter().for_each(|slot| self.index.remove(slot));
                self.writer.blocks.obsolete(at);
            }
            Effect::Gone(number) if self.is_referenced(number) || self.has_values(number) => {
                self.index.set(Key::of_inode(number), at);
                self.writer.orphans.insert(number);
            }
            Effect::Gone(number) | Effect::Buried(number) => {
                replay::remove_inode(&mut self.media, &mut self.index, number)?;
                self.writer.orphans.remove(&number);
                self.writer.blocks.obsolete(at);
            }
            Effect::Nothing => self.writer.blocks.obsolete(at),
        }
        Ok(())
    }

    fn is_referenced(&self, number: u32) -> bool {
        self.writer.references.contains_key(&number)
    }

    /// True if the journal has to tell of attributes before their entries may go.
    fn has_values(&self, number: u32) -> bool {
        let (from, to) = Key::kind_range(number, KeyKind::Xent);
        let has = self.index.range(from, to).next().is_some();
        has && !self.media.has_bug(SeededBug::ForgetValues)
    }

    /// Removes an inode that has neither a name nor an open file. The inodes of its attributes go
    /// first: the entries that lead to them are in no journal, and may be gone at a replay.
    pub(crate) fn bury(&mut self, number: u32) -> Result<()> {
        let inode = self.stored(number)?;
        self.removing(|fs| {
            if fs.has_values(number) {
                fs.bury_values(number)?;
            }
            let mut batch = Batch::default();
            batch.buried(&inode);
            fs.run(Head::Base, batch)
        })
    }

    fn bury_values(&mut self, number: u32) -> Result<()> {
        let (from, to) = Key::kind_range(number, KeyKind::Xent);
        let slots: Vec<_> = self.index.range(from, to).collect();
        for some in slots.chunks(VALUES_AT_ONCE) {
            let mut batch = Batch::default();
            for (slot, at) in some {
                let value = self.entry(*slot, *at)?.inode;
                match self.stored(value) {
                    Ok(inode) => batch.buried(&inode.without_value()),
                    // An earlier attempt has removed it.
                    Err(UbifsError::Call(Errno::Stale)) => {}
                    Err(error) => return Err(error),
                }
            }
            if !batch.nodes.is_empty() {
                self.run(Head::Base, batch)?;
            }
        }
        Ok(())
    }

    /// Writes a changed inode.
    pub(crate) fn put(&mut self, inode: &Inode) -> Result<()> {
        let mut batch = Batch::default();
        batch.inode(inode);
        self.run(Head::Base, batch)
    }

    /// The number of a new inode.
    pub(crate) fn new_number(&mut self) -> Result<u32> {
        let next = self.highest_inode.saturating_add(1);
        if next >= INODES_END {
            return Err(Errno::NoSpace.into());
        }
        self.highest_inode = next;
        Ok(next as u32)
    }
}

/// Attributes whose values go with one group of nodes.
const VALUES_AT_ONCE: usize = 32;
/// Linux makes no inodes from here on.
pub(crate) const INODES_END: u64 = 0xFFFF_FF00;
