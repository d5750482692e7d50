//! Changes since the last commit that tags of a fast commit can describe.
//!
//! *Promises.* Either the list has all changes, or it says that only a whole commit will do. It has
//! a bound. *Knows nothing of* how tags lie in the journal.

use crate::{fast_format::Change, inode::Inode};
use alloc::{collections::BTreeMap, vec::Vec};
use nandlab_vfs::FileType;

/// Changes that wait for one fast commit at most.
const CHANGES_MAX: usize = 512;

/// A change of a name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    pub change: Change,
    pub parent: u32,
    pub inode: u32,
    pub name: Vec<u8>,
}

/// Changes since the last commit of either kind.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Something changed since the last whole commit that no tag describes.
    forbidden: bool,
    pub names: Vec<Renamed>,
    /// Changed files. Each has the first of its blocks that has a new place, and the last.
    pub files: BTreeMap<u32, Option<(u32, u32)>>,
}

impl Pending {
    /// No changes. The list stays empty unless fast commits are `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self {
            forbidden: !wanted,
            ..Self::default()
        }
    }

    /// Only a whole commit will do from now on.
    pub fn forbid(&mut self) {
        *self = Self {
            forbidden: true,
            ..Self::default()
        };
    }

    pub fn is_forbidden(&self) -> bool {
        self.forbidden
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.files.is_empty()
    }

    /// A fast commit has all changes.
    pub fn clear(&mut self) {
        self.names.clear();
        self.files.clear();
    }

    /// An inode changed. Tags describe those of files; directories get theirs with the names.
    pub fn touch(&mut self, number: u32, inode: &Inode) {
        match inode.kind() {
            Some(FileType::File) => self.add_file(number, None),
            Some(FileType::Directory) => {}
            _ => self.forbid(),
        }
    }

    /// A block of a file has a new place, or its first contents.
    pub fn map(&mut self, number: u32, index: u32) {
        self.add_file(number, Some((index, index)));
    }

    fn add_file(&mut self, number: u32, range: Option<(u32, u32)>) {
        if self.forbidden {
            return;
        }
        let known = self.files.entry(number).or_default();
        *known = match (*known, range) {
            (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
            (known, range) => known.or(range),
        };
        self.check_count();
    }

    pub fn rename(&mut self, change: Change, parent: u32, inode: u32, name: &[u8]) {
        if !self.forbidden {
            self.names.push(Renamed {
                change,
                parent,
                inode,
                name: name.into(),
            });
            self.check_count();
        }
    }

    fn check_count(&mut self) {
        if self.names.len() + self.files.len() > CHANGES_MAX {
            self.forbid();
        }
    }
}
