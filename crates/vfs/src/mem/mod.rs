//! The contract of [`FileSystem`] carried out in memory: what every other file system is compared
//! with.
//!
//! *Promises* all of the contract and the rules of Linux where that leaves a choice (which error,
//! whose times change). Nothing is durable. *Knows nothing of* formats; holds at most the bytes
//! that it was given.

mod bytes;
mod node;

use crate::{
    Attr, Caller, DirEntry, Errno, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, SetXattr,
    StatFs, Sync, Time, check_name,
};
use alloc::{collections::BTreeMap, vec::Vec};
use bytes::{Bytes, PAGE};
use node::{Body, Directory, Node};

/// The longest file: what an `off_t` can say.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// The longest symbolic link.
const TARGET_MAX: usize = 4095;
/// The longest value of an extended attribute.
const XATTR_MAX: usize = 64 * 1024;
const XATTR_SPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
const SETGID: u16 = 0o2000;

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct MemFs {
    nodes: BTreeMap<Ino, Node>,
    next: u64,
    capacity: u64,
    used: u64,
    mounted: bool,
}

impl MemFs {
    /// An empty file system whose files may hold `capacity` bytes in all (counted in pages of 4
    /// KiB), its root with mode 0755.
    pub fn new(capacity: u64, now: Time) -> Self {
        let root = Node::new(
            FileType::Directory,
            0o755,
            (0, 0),
            Body::Directory(Directory::new(Ino::ROOT)),
            Caller::root(now),
        );
        Self {
            nodes: BTreeMap::from([(Ino::ROOT, root)]),
            next: 2,
            capacity,
            used: 0,
            mounted: true,
        }
    }

    /// Bytes that the contents take, in whole pages.
    pub fn used_bytes(&self) -> u64 {
        self.used
    }

    /// Inodes there are, the root and those without a name included.
    pub fn inodes(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        if !self.mounted {
            return Err(Errno::Io);
        }
        self.nodes.get(&ino).ok_or(Errno::Stale)
    }

    fn node_mut(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        if !self.mounted {
            return Err(Errno::Io);
        }
        self.nodes.get_mut(&ino).ok_or(Errno::Stale)
    }

    fn dir(&self, ino: Ino) -> Result<&Directory, Errno> {
        self.node(ino)?.directory()
    }

    fn child(&self, dir: Ino, name: &[u8]) -> Result<Ino, Errno> {
        check_name(name)?;
        self.dir(dir)?.get(name).ok_or(Errno::NoEntry)
    }

    /// A directory in which names may be made: one that still has a name of its own.
    fn check_alive(&self, dir: Ino) -> Result<(), Errno> {
        self.dir(dir)?;
        if self.node(dir)?.links == 0 {
            Err(Errno::NoEntry)
        } else {
            Ok(())
        }
    }

    fn refer(&mut self, ino: Ino) -> Result<Attr, Errno> {
        let node = self.node_mut(ino)?;
        node.references += 1;
        Ok(node.attr(ino))
    }

    fn stamp(&mut self, ino: Ino, now: Time) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            (node.mtime, node.ctime) = (now, now);
        }
    }

    /// Removes an inode that has neither names nor references.
    fn reap(&mut self, ino: Ino) {
        let unused = self
            .nodes
            .get(&ino)
            .is_some_and(|node| node.links == 0 && node.references == 0);
        if unused
            && let Some(Node {
                body: Body::File(bytes),
                ..
            }) = self.nodes.remove(&ino)
        {
            self.used -= bytes.allocated();
        }
    }

    /// Takes the name `name` away from the inode `ino` that bears it.
    fn detach(&mut self, dir: Ino, name: &[u8], ino: Ino, now: Time) -> Result<(), Errno> {
        self.node_mut(dir)?.directory_mut()?.remove(name);
        let node = self.node_mut(ino)?;
        let is_directory = node.kind == FileType::Directory;
        node.links = if is_directory { 0 } else { node.links - 1 };
        node.ctime = now;
        if is_directory {
            self.node_mut(dir)?.links -= 1;
        }
        self.stamp(dir, now);
        self.reap(ino);
        Ok(())
    }

    /// Gives the inode a name; a directory learns its parent.
    fn attach(&mut self, dir: Ino, name: &[u8], ino: Ino, now: Time) -> Result<(), Errno> {
        self.node_mut(dir)?.directory_mut()?.insert(name, ino);
        if let Body::Directory(body) = &mut self.node_mut(ino)?.body {
            body.parent = dir;
            self.node_mut(dir)?.links += 1;
        }
        self.stamp(dir, now);
        Ok(())
    }

    fn is_inside(&self, mut dir: Ino, ancestor: Ino) -> bool {
        loop {
            if dir == ancestor {
                return true;
            }
            match self.dir(dir) {
                Ok(body) if dir != Ino::ROOT => dir = body.parent,
                _ => return false,
            }
        }
    }

    /// Moves the names alone; rules have been checked.
    fn exchange(
        &mut self,
        from: (Ino, &[u8], Ino),
        to: (Ino, &[u8], Ino),
        now: Time,
    ) -> Result<(), Errno> {
        for (dir, name, ino) in [from, to] {
            self.node_mut(dir)?.directory_mut()?.remove(name);
            if self.node(ino)?.kind == FileType::Directory {
                self.node_mut(dir)?.links -= 1;
            }
        }
        self.attach(to.0, to.1, from.2, now)?;
        self.attach(from.0, from.1, to.2, now)?;
        self.node_mut(from.2)?.ctime = now;
        self.node_mut(to.2)?.ctime = now;
        Ok(())
    }

    fn check_replace(&self, moved: Ino, target: Ino) -> Result<(), Errno> {
        let moved = self.node(moved)?;
        let target = self.node(target)?;
        match (moved.kind == FileType::Directory, &target.body) {
            (true, Body::Directory(body)) if !body.is_empty() => Err(Errno::NotEmpty),
            (true, Body::Directory(_)) => Ok(()),
            (true, _) => Err(Errno::NotDirectory),
            (false, Body::Directory(_)) => Err(Errno::IsDirectory),
            (false, _) => Ok(()),
        }
    }

    fn resize(&mut self, ino: Ino, size: u64, now: Time) -> Result<(), Errno> {
        if size > FILE_BYTES_MAX {
            return Err(Errno::FileTooBig);
        }
        let node = self.node_mut(ino)?;
        let bytes = node.bytes_mut()?;
        let before = bytes.allocated();
        bytes.resize(size);
        let after = bytes.allocated();
        (node.mtime, node.ctime) = (now, now);
        self.used -= before - after;
        Ok(())
    }

    fn body(&self, node: NewNode<'_>, dir: Ino) -> Result<Body, Errno> {
        Ok(match node {
            NewNode::File => Body::File(Bytes::default()),
            NewNode::Directory => Body::Directory(Directory::new(dir)),
            NewNode::Symlink { target } if target.is_empty() || target.contains(&0) => {
                return Err(Errno::Invalid);
            }
            NewNode::Symlink { target } if target.len() > TARGET_MAX => {
                return Err(Errno::NameTooLong);
            }
            NewNode::Symlink { target } => Body::Symlink(target.into()),
            other => Body::Special(other.device()),
        })
    }
}

fn check_xattr(name: &[u8]) -> Result<(), Errno> {
    if name.len() > crate::NAME_MAX {
        return Err(Errno::Range);
    }
    let known = XATTR_SPACES
        .iter()
        .any(|space| name.len() > space.len() && name.starts_with(space));
    if known {
        Ok(())
    } else {
        Err(Errno::NotSupported)
    }
}

impl FileSystem for MemFs {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        let ino = self.child(dir, name)?;
        self.refer(ino)
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.references = node.references.saturating_sub(references);
            self.reap(ino);
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        Ok(self.node(ino)?.attr(ino))
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        if let Some(size) = change.size {
            self.resize(ino, size, now)?;
        }
        let node = self.node_mut(ino)?;
        node.mode = change.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.owner = (
            change.uid.unwrap_or(node.owner.0),
            change.gid.unwrap_or(node.owner.1),
        );
        node.atime = change.atime.unwrap_or(node.atime);
        node.mtime = change.mtime.unwrap_or(node.mtime);
        node.ctime = now;
        Ok(node.attr(ino))
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        match self.child(dir, name) {
            Ok(_) => return Err(Errno::Exists),
            Err(Errno::NoEntry) => self.check_alive(dir)?,
            Err(error) => return Err(error),
        }
        let body = self.body(node, dir)?;
        let parent = self.node(dir)?;
        let inherits = parent.mode & SETGID != 0;
        let owner = (by.uid, if inherits { parent.owner.1 } else { by.gid });
        let mode = mode & 0o7777
            | if inherits && node == NewNode::Directory {
                SETGID
            } else {
                0
            };
        let ino = Ino(self.next);
        self.next += 1;
        self.nodes
            .insert(ino, Node::new(node.kind(), mode, owner, body, by));
        self.attach(dir, name, ino, by.now)?;
        self.refer(ino)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        match self.child(dir, name) {
            Ok(_) => return Err(Errno::Exists),
            Err(Errno::NoEntry) => self.check_alive(dir)?,
            Err(error) => return Err(error),
        }
        let node = self.node_mut(ino)?;
        match node.kind {
            FileType::Directory => return Err(Errno::NotPermitted),
            _ if node.links == 0 => return Err(Errno::NoEntry),
            _ => (node.links, node.ctime) = (node.links + 1, now),
        }
        self.attach(dir, name, ino, now)?;
        self.refer(ino)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        let ino = self.child(dir, name)?;
        match self.node(ino)?.kind {
            FileType::Directory => Err(Errno::IsDirectory),
            _ => self.detach(dir, name, ino, now),
        }
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        let ino = self.child(dir, name)?;
        match self.dir(ino)?.is_empty() {
            true => self.detach(dir, name, ino, now),
            false => Err(Errno::NotEmpty),
        }
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        let moved = self.child(from.0, from.1)?;
        let target = match self.child(to.0, to.1) {
            Ok(target) => Some(target),
            Err(Errno::NoEntry) => None,
            Err(error) => return Err(error),
        };
        self.check_alive(to.0)?;
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::Exists),
            (Rename::Exchange, None) => return Err(Errno::NoEntry),
            (_, Some(target)) if target == moved => return Ok(()),
            _ => {}
        }
        if self.is_inside(to.0, moved) {
            return Err(Errno::Invalid);
        }
        if let (Rename::Exchange, Some(target)) = (how, target) {
            if self.is_inside(from.0, target) {
                return Err(Errno::Invalid);
            }
            return self.exchange((from.0, from.1, moved), (to.0, to.1, target), now);
        }
        if let Some(target) = target {
            if self.is_inside(from.0, target) {
                return Err(Errno::NotEmpty);
            }
            self.check_replace(moved, target)?;
            self.detach(to.0, to.1, target, now)?;
        }
        self.node_mut(from.0)?.directory_mut()?.remove(from.1);
        if self.node(moved)?.kind == FileType::Directory {
            self.node_mut(from.0)?.links -= 1;
        }
        self.stamp(from.0, now);
        self.attach(to.0, to.1, moved, now)?;
        self.node_mut(moved)?.ctime = now;
        Ok(())
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>, Errno> {
        match &self.node(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::Invalid),
        }
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        Ok(self.node(ino)?.bytes()?.read(offset, buf))
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let space = self.capacity - self.used;
        let node = self.node_mut(ino)?;
        let bytes = node.bytes_mut()?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= FILE_BYTES_MAX {
            return Err(Errno::FileTooBig);
        }
        let count = data.len().min((FILE_BYTES_MAX - offset) as usize);
        let count = bytes.fitting(offset, count, space / PAGE as u64);
        if count == 0 {
            return Err(Errno::NoSpace);
        }
        let before = bytes.allocated();
        bytes.write(offset, &data[..count]);
        let grown = bytes.allocated() - before;
        (node.mtime, node.ctime) = (now, now);
        self.used += grown;
        Ok(count)
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        for (ino, name, next) in self.dir(dir)?.entries(from) {
            let kind = self.node(ino)?.kind;
            if !each(DirEntry {
                ino,
                kind,
                name,
                next,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn fsync(&mut self, ino: Ino, _: Sync) -> Result<(), Errno> {
        self.node(ino).map(drop)
    }

    fn sync(&mut self) -> Result<(), Errno> {
        self.node(Ino::ROOT).map(drop)
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.sync()?;
        self.mounted = false;
        Ok(())
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        self.sync()?;
        let blocks = self.capacity / PAGE as u64;
        let free = (self.capacity - self.used) / PAGE as u64;
        let name_max = crate::NAME_MAX as u32;
        Ok(StatFs {
            block_bytes: PAGE as u32,
            blocks,
            free,
            available: free,
            name_max,
            ..StatFs::default()
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let node = self.node(ino)?;
        check_xattr(name)?;
        node.xattrs.get(name).cloned().ok_or(Errno::NoData)
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<(), Errno> {
        let node = self.node_mut(ino)?;
        check_xattr(name)?;
        match (expect, node.xattrs.contains_key(name)) {
            _ if value.len() > XATTR_MAX => return Err(Errno::TooBig),
            (SetXattr::Create, true) => return Err(Errno::Exists),
            (SetXattr::Replace, false) => return Err(Errno::NoData),
            _ => {}
        }
        node.xattrs.insert(name.into(), value.into());
        node.ctime = now;
        Ok(())
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(self.node(ino)?.xattrs.keys().cloned().collect())
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        let node = self.node_mut(ino)?;
        check_xattr(name)?;
        node.xattrs.remove(name).ok_or(Errno::NoData)?;
        node.ctime = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
