//! Inodes and directories.

use super::bytes::Bytes;
use crate::{Attr, Caller, Errno, FileType, Ino, Time};
use alloc::{collections::BTreeMap, vec::Vec};

/// What an inode holds.
#[derive(Clone, Debug)]
pub(super) enum Body {
    File(Bytes),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special((u32, u32)),
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: FileType,
    pub mode: u16,
    pub owner: (u32, u32),
    pub links: u32,
    pub references: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub body: Body,
}

impl Node {
    pub fn new(kind: FileType, mode: u16, owner: (u32, u32), body: Body, by: Caller) -> Self {
        let links = if kind == FileType::Directory { 2 } else { 1 };
        let now = by.now;
        let xattrs = BTreeMap::new();
        Self {
            kind,
            mode,
            owner,
            links,
            references: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            xattrs,
            body,
        }
    }

    pub fn attr(&self, ino: Ino) -> Attr {
        let (size, allocated, device) = match &self.body {
            Body::File(bytes) => (bytes.size(), bytes.allocated(), (0, 0)),
            Body::Directory(directory) => (directory.len() as u64, 0, (0, 0)),
            Body::Symlink(target) => (target.len() as u64, 0, (0, 0)),
            Body::Special(device) => (0, 0, *device),
        };
        let &Self {
            kind,
            mode,
            owner: (uid, gid),
            links,
            atime,
            mtime,
            ctime,
            btime,
            ..
        } = self;
        Attr {
            ino,
            kind,
            mode,
            uid,
            gid,
            links,
            size,
            blocks: allocated / 512,
            device,
            atime,
            mtime,
            ctime,
            btime: Some(btime),
        }
    }

    pub fn directory(&self) -> Result<&Directory, Errno> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NotDirectory),
        }
    }

    pub fn directory_mut(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::NotDirectory),
        }
    }

    pub fn bytes(&self) -> Result<&Bytes, Errno> {
        match &self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::IsDirectory),
            _ => Err(Errno::Invalid),
        }
    }

    pub fn bytes_mut(&mut self) -> Result<&mut Bytes, Errno> {
        match &mut self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::IsDirectory),
            _ => Err(Errno::Invalid),
        }
    }
}

/// Names in the order in which they were made, so that a listing can go on where it stopped.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub parent: Ino,
    names: BTreeMap<Vec<u8>, (u64, Ino)>,
    order: BTreeMap<u64, Vec<u8>>,
    made: u64,
}

impl Directory {
    pub fn new(parent: Ino) -> Self {
        Self {
            parent,
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            made: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        self.names.get(name).map(|(_, ino)| *ino)
    }

    pub fn insert(&mut self, name: &[u8], ino: Ino) {
        self.names.insert(name.into(), (self.made, ino));
        self.order.insert(self.made, name.into());
        self.made += 1;
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some((place, _)) = self.names.remove(name) {
            self.order.remove(&place);
        }
    }

    /// Inode, name and the place after it, from a place on.
    pub fn entries(&self, from: u64) -> impl Iterator<Item = (Ino, &[u8], u64)> {
        self.order
            .range(from..)
            .filter_map(|(place, name)| Some((self.get(name)?, name.as_slice(), place + 1)))
    }
}
