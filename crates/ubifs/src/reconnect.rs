//! Names for inodes that no path leads to, in memory.
//!
//! *Promises.* After [`Ubifs::reconnect`] a walk from the root meets every readable inode:
//! those without a name lie in `lost+found`, as `INO_<inode>_<number>`, directories with all below
//! them. Entries or contents may have lost the node of their inode. A node in memory, with root as
//! owner, stands for it. A file is as long as its contents. [`Ubifs::reconnect`] reports each of
//! these inodes and writes nothing: new nodes lie in memory, behind the last block. Memory is some
//! 100 bytes for each inode and 16 for each entry.

use crate::batch::INODES_END;
use crate::dir::Named;
use crate::error::Result;
use crate::finding::Finding;
use crate::format::{
    BLOCK, Branch, Draft, Entry, FILE_MAX, Group, InodeNode, Key, KeyKind, number_of_kind,
};
use crate::index::Slot;
use crate::lebs::Lebs;
use crate::make::RESERVED_INODES;
use crate::mount::Ubifs;
use crate::names::EMPTY_DIRECTORY;
use crate::replay;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use nandlab_vfs::report::Report;
use nandlab_vfs::{FileType, Ino, Time};

const ROOT: u32 = Ino::ROOT.0 as u32;
/// Where inodes without names go.
const LOST_AND_FOUND: &str = "lost+found";

/// Evidence of an inode in nodes.
#[derive(Debug, Default)]
struct Known {
    /// The type, if its own node is readable.
    kind: Option<FileType>,
    /// It holds the value of an attribute, or has lost its last name.
    is_hidden: bool,
    /// The type that a name has for it.
    named: Option<FileType>,
    has_entries: bool,
    /// The last block of its contents.
    last: Option<u32>,
    size: u64,
}

impl Known {
    /// True if name and contents are those of a file, and the own node is not.
    fn is_no_file(&self) -> bool {
        let is_named = self.named == Some(FileType::File) && self.last.is_some();
        is_named && self.kind != self.named && !self.has_entries
    }
}

/// All inodes, and the directories that name them.
#[derive(Debug, Default)]
struct Inodes {
    known: BTreeMap<u32, Known>,
    /// Directory and named inode.
    names: Vec<(u32, u32)>,
    reached: BTreeSet<u32>,
}

impl<L: Lebs> Ubifs<L> {
    /// Gives every readable inode a path, in a volume without writes. Returns the inodes that got a
    /// name or a node. A second call adds nothing.
    pub fn reconnect(&mut self) -> Report<Finding> {
        let mut told = Report::default();
        if self.gate.is_writable() {
            return told;
        }
        self.media.salvages = true;
        let mut inodes = self.all_inodes();
        let missing: Vec<(u32, FileType)> = inodes.missing().collect();
        for (inode, kind) in missing {
            if self.stand_in(&mut inodes, inode, kind).is_some() {
                told.add(Finding::StandIn { inode, kind });
            }
        }
        if !self.is_salvaged() {
            self.raise_sizes(&inodes);
        }
        inodes.reach(ROOT);
        let lost = inodes.lost();
        if lost.is_empty() {
            return told;
        }
        let Some((name, place)) = self.lost_and_found(&inodes) else {
            return told;
        };
        for inode in lost {
            if let Some(own) = self.give_name(&inodes, place, inode) {
                let path = [&name[..], b"/", &own].concat();
                told.add(Finding::Reconnected { inode, path });
            }
        }
        told
    }

    /// Reads all inodes and entries.
    fn all_inodes(&mut self) -> Inodes {
        let mut inodes = Inodes::default();
        inodes.known.entry(ROOT).or_default().has_entries = true;
        let mut place = None;
        while let Some((slot, at)) = self.index.next(place) {
            place = Some(slot);
            let number = slot.key.inode();
            match slot.key.kind() {
                KeyKind::Inode => self.own_node(&mut inodes, number, at),
                KeyKind::Data => inodes.of(number).last = Some(slot.key.value()),
                KeyKind::Dent => {
                    if let Ok(entry) = self.entry(slot, at) {
                        inodes.name(number, &entry);
                    }
                }
                KeyKind::Xent => {
                    if let Ok(entry) = self.entry(slot, at) {
                        inodes.of(entry.inode).is_hidden = true;
                    }
                }
            }
        }
        inodes
    }

    /// Lets files end with their contents, if the index has contents behind their ends. A scan may
    /// have found contents behind a truncation.
    fn raise_sizes(&mut self, inodes: &Inodes) {
        for (number, known) in &inodes.known {
            let Some(last) = known.last.filter(|_| known.kind == Some(FileType::File)) else {
                continue;
            };
            let end = self.contents_end(*number, last);
            if (known.size..=FILE_MAX).contains(&end) {
                self.sizes.insert(*number, end);
            }
        }
    }

    fn own_node(&mut self, inodes: &mut Inodes, number: u32, at: Branch) {
        let key = Key::of_inode(number);
        let Ok((_, bytes)) = self.media.leaf(at, key) else {
            inodes.of(number);
            return;
        };
        let known = inodes.of(number);
        if let Ok(node) = InodeNode::parse(bytes) {
            known.kind = node.kind();
            known.size = node.size;
            known.is_hidden |= node.links == 0 || node.is_xattr();
        }
    }

    /// Makes a node for an inode that has none.
    fn stand_in(&mut self, inodes: &mut Inodes, number: u32, kind: FileType) -> Option<()> {
        let last = inodes.of(number).last.filter(|_| kind == FileType::File);
        let size = match last {
            Some(block) => self.contents_end(number, block),
            None => 0,
        };
        self.new_inode(number, kind, size)?;
        inodes.of(number).kind = Some(kind);
        Some(())
    }

    /// The byte behind the last contents of a file. An unreadable block counts whole.
    fn contents_end(&mut self, number: u32, block: u32) -> u64 {
        let key = Key::new(number, KeyKind::Data, block);
        let at = self.index.at(Slot { key, ordinal: 0 });
        let last = at.and_then(|at| self.unpacked(key, at).ok());
        last.map_or((u64::from(block) + 1) * u64::from(BLOCK), |block| {
            block.end()
        })
    }

    /// Adds the node of an inode of root's.
    fn new_inode(&mut self, inode: u32, kind: FileType, size: u64) -> Option<()> {
        let (mode, links, size) = match kind {
            FileType::Directory => (0o700, 2, EMPTY_DIRECTORY),
            _ => (0o600, 1, size),
        };
        let node = InodeNode {
            inode,
            size,
            times: [Time::default(); 3],
            links,
            uid: 0,
            gid: 0,
            mode: u32::from(kind.mode() | mode),
            flags: 0,
            xattrs: (0, 0, 0),
            created: 0,
            compressor: 0,
            data: &[],
        };
        let at = self.made(node.draft())?;
        self.index.set(Key::of_inode(inode), at);
        self.sizes.remove(&inode);
        self.highest_inode = self.highest_inode.max(inode.into());
        Some(())
    }

    fn made(&mut self, node: Draft) -> Option<Branch> {
        self.media.make(&node.seal(0, Group::None))
    }

    /// Returns the name and the inode of the directory for lost inodes. Makes a missing one.
    fn lost_and_found(&mut self, inodes: &Inodes) -> Option<(Vec<u8>, u32)> {
        for number in 0..u32::MAX {
            let name = match number {
                0 => LOST_AND_FOUND.as_bytes().to_vec(),
                _ => format!("{LOST_AND_FOUND}_{number}").into_bytes(),
            };
            match self.find(ROOT, KeyKind::Dent, &name) {
                Ok(found) if found.kind == FileType::Directory => return Some((name, found.inode)),
                Ok(_) => {}
                Err(_) => {
                    let inode = self.free_number(inodes)?;
                    self.new_inode(inode, FileType::Directory, 0)?;
                    self.add_entry(ROOT, &name, inode, FileType::Directory)
                        .ok()?;
                    return Some((name, inode));
                }
            }
        }
        None
    }

    /// The number behind the greatest, or the first free one where the volume is wrong about that.
    fn free_number(&self, inodes: &Inodes) -> Option<u32> {
        let is_free = |number: &u64| {
            let known = |number| inodes.known.contains_key(&number);
            *number < INODES_END && !u32::try_from(*number).is_ok_and(known)
        };
        let next = Some(self.highest_inode.saturating_add(1)).filter(is_free);
        let chosen = next.or_else(|| (RESERVED_INODES + 1..INODES_END).find(is_free));
        chosen.map(|number| number as u32)
    }

    /// Names an inode by its number. Returns the name.
    fn give_name(&mut self, inodes: &Inodes, dir: u32, inode: u32) -> Option<Vec<u8>> {
        let kind = inodes.known.get(&inode)?.kind?;
        for number in 0..u32::MAX {
            let name = format!("INO_{inode}_{number}").into_bytes();
            if self.find(dir, KeyKind::Dent, &name).is_err() {
                self.add_entry(dir, &name, inode, kind).ok()?;
                return Some(name);
            }
        }
        None
    }

    fn add_entry(&mut self, dir: u32, name: &[u8], inode: u32, kind: FileType) -> Result<()> {
        let key = Key::new(dir, KeyKind::Dent, self.media.head.key_hash.of(name));
        let kind = number_of_kind(kind);
        let entry = Entry {
            key,
            inode,
            kind,
            name,
        };
        match self.made(entry.draft(0)) {
            Some(at) => replay::insert(&mut self.media, &mut self.index, key, name, at),
            None => Err(nandlab_vfs::Errno::NoSpace.into()),
        }
    }
}

impl Inodes {
    fn of(&mut self, number: u32) -> &mut Known {
        self.known.entry(number).or_default()
    }

    fn name(&mut self, dir: u32, entry: &Named) {
        self.of(dir).has_entries = true;
        self.of(entry.inode).named.get_or_insert(entry.kind);
        self.names.push((dir, entry.inode));
    }

    /// Inodes that have entries or contents and no readable node, with their types.
    fn missing(&self) -> impl Iterator<Item = (u32, FileType)> + '_ {
        self.known.iter().filter_map(|(number, known)| {
            if known.is_hidden || known.kind.is_some() && !known.is_no_file() {
                return None;
            }
            let is_directory = known.has_entries;
            let is_file = known.last.is_some() && !is_directory;
            let kind = match known.named {
                None if is_directory => FileType::Directory,
                None if is_file => FileType::File,
                Some(FileType::Directory) => FileType::Directory,
                Some(FileType::File) if is_file => FileType::File,
                _ if is_directory => FileType::Directory,
                _ => return None,
            };
            Some((*number, kind))
        })
    }

    /// The inodes that a directory names. `names` is in the order of the directories.
    fn below(&self, dir: u32) -> impl Iterator<Item = u32> + '_ {
        let from = self.names.partition_point(|(above, _)| *above < dir);
        let names = self.names[from..].iter();
        names
            .take_while(move |(above, _)| *above == dir)
            .map(|(_, inode)| *inode)
    }

    /// Marks an inode, and everything below it.
    fn reach(&mut self, inode: u32) {
        let mut waiting = Vec::from([inode]);
        while let Some(inode) = waiting.pop() {
            if self.reached.insert(inode) {
                waiting.extend(self.below(inode));
            }
        }
    }

    /// Inodes that need a name, so that all have a path: first those that nothing names, then one
    /// of each circle.
    fn lost(&mut self) -> Vec<u32> {
        let is_shown = |known: &Known| known.kind.is_some() && !known.is_hidden;
        let shown = self.known.iter().filter(|(_, known)| is_shown(known));
        let numbers: Vec<u32> = shown.map(|(number, _)| *number).collect();
        let mut lost = Vec::new();
        for only_unnamed in [true, false] {
            for inode in &numbers {
                let is_named = self.known.get(inode).is_some_and(|one| one.named.is_some());
                if !(self.reached.contains(inode) || only_unnamed && is_named) {
                    lost.push(*inode);
                    self.reach(*inode);
                }
            }
        }
        lost
    }
}
