//! Names made, linked, removed and moved. Each call is one group of nodes: it happens or it does
//! not.

use crate::batch::Batch;
use crate::error::{Result, UbifsError};
use crate::format::{Entry, IS_PACKED, Key, KeyKind, align8, number_of_kind};
use crate::inode::{Inode, device_data};
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandlab_ubi::format::crc;
use nandlab_vfs::{Attr, Caller, Errno, FileType, Ino, NewNode, Rename, Time, check_name, rules};

/// Flags that new inodes take from their directory: compressed, written at once, and the same for
/// directories.
const INHERITED: u32 = IS_PACKED | 0x02;
const INHERITED_BY_DIRECTORIES: u32 = 0x10;

/// Bytes that an entry adds to the size of its directory.
pub(crate) fn entry_bytes(name: &[u8]) -> u32 {
    align8(57 + name.len() as u32)
}

/// A name in a directory.
pub(crate) type Place<'a> = (u32, &'a [u8]);

impl<L: Lebs> Ubifs<L> {
    pub(crate) fn stored(&mut self, number: u32) -> Result<Inode> {
        Ok(self.inode(Ino(number.into()))?.0)
    }

    fn stored_directory(&mut self, number: u32) -> Result<Inode> {
        self.directory(Ino(number.into()))
    }

    /// An entry's node; `inode` 0 takes the name away.
    pub(crate) fn entry_node(
        &self,
        batch: &mut Batch,
        dir: u32,
        name: &[u8],
        inode: u32,
        kind: u8,
    ) {
        self.any_entry(batch, (dir, KeyKind::Dent), name, inode, kind);
    }

    /// The same of the kind of entries that an inode has.
    pub(crate) fn any_entry(
        &self,
        batch: &mut Batch,
        (host, what): (u32, KeyKind),
        name: &[u8],
        inode: u32,
        kind: u8,
    ) {
        let head = &self.media.head;
        let key = Key::new(host, what, head.key_hash.of(name));
        let cookie = match head.has_double_hash() {
            true => crc(name),
            false => 0,
        };
        let entry = Entry {
            key,
            inode,
            kind,
            name,
        };
        batch.name(entry, cookie);
    }

    /// A name that can be made, in a directory that has a name itself.
    fn check_new(&mut self, dir: u32, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let parent = self.stored_directory(dir)?;
        match self.find(dir, KeyKind::Dent, name) {
            Ok(_) => return Err(Errno::Exists.into()),
            Err(UbifsError::Call(Errno::NoEntry)) => {}
            Err(error) => return Err(error),
        }
        match parent.links {
            0 => Err(Errno::NoEntry.into()),
            _ => Ok(parent),
        }
    }

    /// Makes an inode under a new name.
    pub(crate) fn make(
        &mut self,
        dir: u32,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<u32> {
        let mut parent = self.check_new(dir, name)?;
        let data = match node {
            NewNode::Symlink { target } => {
                rules::check_target(target, SYMLINK_MAX)?;
                target.to_vec()
            }
            NewNode::Character { device } | NewNode::Block { device } => {
                device_data(device).ok_or(Errno::Invalid)?
            }
            _ => Vec::new(),
        };
        let is_directory = node.kind() == FileType::Directory;
        let inherited = (parent.mode as u16, parent.attr.gid);
        let (mode, gid) = rules::inherit(inherited, is_directory, mode, by);
        let number = self.new_number()?;
        let mut inode = self.fresh(number, node.kind(), mode, by.now);
        inode.attr.uid = by.uid;
        inode.attr.gid = gid;
        inode.flags = parent.flags & INHERITED;
        match node.kind() {
            FileType::Directory => {
                inode.flags |= parent.flags & INHERITED_BY_DIRECTORIES;
                inode.links = 2;
                inode.size = EMPTY_DIRECTORY;
                parent.relink(1, 0)?;
            }
            FileType::Symlink => inode.size = data.len() as u64,
            _ => {}
        }
        inode.data = data;
        parent.grow(name, by.now);
        let mut batch = Batch::default();
        self.entry_node(&mut batch, dir, name, number, number_of_kind(node.kind()));
        batch.inode(&inode);
        batch.inode(&parent);
        self.run(Head::Base, batch)?;
        if is_directory && let Some(parents) = &mut self.writer.parents {
            parents.insert(number, dir);
        }
        Ok(number)
    }

    /// An inode with one link and nothing else.
    pub(crate) fn fresh(&mut self, number: u32, kind: FileType, mode: u16, now: Time) -> Inode {
        let compressor = match kind {
            FileType::File => self.media.head.compressor,
            _ => 0,
        };
        let attr = Attr {
            ino: Ino(number.into()),
            kind,
            mode,
            uid: 0,
            gid: 0,
            links: 1,
            size: 0,
            blocks: 0,
            device: (0, 0),
            atime: now,
            mtime: now,
            ctime: now,
            btime: None,
        };
        Inode {
            number,
            kind,
            mode: u32::from(kind.mode() | mode),
            links: 1,
            size: 0,
            is_xattr: false,
            xattrs: (0, 0, 0),
            data: Vec::new(),
            attr,
            flags: 0,
            created: self.next_sqnum(),
            compressor,
        }
    }

    pub(crate) fn link_name(
        &mut self,
        number: u32,
        dir: u32,
        name: &[u8],
        now: Time,
    ) -> Result<()> {
        let mut parent = self.check_new(dir, name)?;
        let mut inode = self.stored(number)?;
        if inode.kind == FileType::Directory {
            return Err(Errno::NotPermitted.into());
        }
        if inode.links == 0 {
            return Err(Errno::NoEntry.into());
        }
        inode.relink(1, 0)?;
        inode.attr.ctime = now;
        parent.grow(name, now);
        let mut batch = Batch::default();
        self.entry_node(&mut batch, dir, name, number, number_of_kind(inode.kind));
        batch.inode(&inode);
        batch.inode(&parent);
        self.run(Head::Base, batch)
    }

    /// Removes a name: of a directory, or of anything else.
    pub(crate) fn remove(
        &mut self,
        dir: u32,
        name: &[u8],
        directory: bool,
        now: Time,
    ) -> Result<()> {
        check_name(name)?;
        let mut parent = self.stored_directory(dir)?;
        let found = self.find(dir, KeyKind::Dent, name)?;
        let mut inode = self.stored(found.inode)?;
        let is_directory = inode.kind == FileType::Directory;
        rules::check_kinds(directory, is_directory)?;
        if is_directory && !self.is_empty(inode.number) {
            return Err(Errno::NotEmpty.into());
        }
        inode.unlink(now);
        if inode.links == 0 && !self.has_room_for_orphan() {
            return Err(Errno::NoSpace.into());
        }
        parent.shrink(name, now);
        parent.relink(0, is_directory.into())?;
        let mut batch = Batch::default();
        self.entry_node(&mut batch, dir, name, 0, number_of_kind(found.kind));
        batch.inode(&inode);
        batch.inode(&parent);
        self.removing(|fs| fs.run(Head::Base, batch))
    }

    /// Runs a call that gives room back, and may take the last spare block for it.
    pub(crate) fn removing(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = core::mem::replace(&mut self.writer.is_removing, true);
        let outcome = run(self);
        self.writer.is_removing = before;
        outcome
    }

    fn is_empty(&self, dir: u32) -> bool {
        let (from, to) = Key::kind_range(dir, KeyKind::Dent);
        self.index.range(from, to).next().is_none()
    }

    /// The directories that directories lie in.
    fn parents(&mut self) -> Result<&mut BTreeMap<u32, u32>> {
        if self.writer.parents.is_none() {
            let mut parents = BTreeMap::new();
            let mut place = None;
            while let Some((slot, at)) = self.index.next(place) {
                place = Some(slot);
                if slot.key.kind() == KeyKind::Dent {
                    let entry = self.entry(slot, at)?;
                    if entry.kind == FileType::Directory {
                        parents.insert(entry.inode, slot.key.inode());
                    }
                }
            }
            self.writer.parents = Some(parents);
        }
        Ok(self.writer.parents.get_or_insert_default())
    }

    /// Whether `dir` is `ancestor` or below it.
    fn is_inside(&mut self, mut dir: u32, ancestor: u32) -> Result<bool> {
        let parents = self.parents()?;
        for _ in 0..=parents.len() {
            if dir == ancestor {
                return Ok(true);
            }
            match parents.get(&dir) {
                Some(parent) => dir = *parent,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Moves an inode to another name.
    pub(crate) fn rename_name(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        how: Rename,
        now: Time,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        self.stored_directory(from.0)?;
        let moved = self.find(from.0, KeyKind::Dent, from.1)?;
        let into = self.stored_directory(to.0)?;
        let target = match self.find(to.0, KeyKind::Dent, to.1) {
            Ok(target) => Some(target.inode),
            Err(UbifsError::Call(Errno::NoEntry)) => None,
            Err(error) => return Err(error),
        };
        if into.links == 0 {
            return Err(Errno::NoEntry.into());
        }
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::Exists.into()),
            (Rename::Exchange, None) => return Err(Errno::NoEntry.into()),
            (_, Some(target)) if target == moved.inode => return Ok(()),
            _ => {}
        }
        let inode = self.stored(moved.inode)?;
        let is_directory = inode.kind == FileType::Directory;
        if is_directory && self.is_inside(to.0, inode.number)? {
            return Err(Errno::Invalid.into());
        }
        match target {
            Some(target) if how == Rename::Exchange => {
                self.exchange(from, to, (inode, target), now)
            }
            target => self.replace(from, to, (inode, target), now),
        }
    }

    /// Swaps what two names lead to.
    fn exchange(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        (mut one, other): (Inode, u32),
        now: Time,
    ) -> Result<()> {
        let mut other = self.stored(other)?;
        let are_directories = [&one, &other].map(|inode| inode.kind == FileType::Directory);
        if are_directories[1] && self.is_inside(from.0, other.number)? {
            return Err(Errno::Invalid.into());
        }
        one.attr.ctime = now;
        other.attr.ctime = now;
        let mut batch = Batch::default();
        self.entry_node(&mut batch, to.0, to.1, one.number, number_of_kind(one.kind));
        let kind = number_of_kind(other.kind);
        self.entry_node(&mut batch, from.0, from.1, other.number, kind);
        batch.inode(&one);
        batch.inode(&other);
        let mut first = self.stored(from.0)?;
        first.touch(now);
        if from.0 != to.0 {
            let mut second = self.stored(to.0)?;
            second.touch(now);
            let [one, other] = are_directories.map(u32::from);
            first.relink(other, one)?;
            second.relink(one, other)?;
            batch.inode(&second);
        }
        batch.inode(&first);
        self.run(Head::Base, batch)?;
        let numbers = [(one.number, to.0), (other.number, from.0)];
        for ((number, dir), is_directory) in numbers.into_iter().zip(are_directories) {
            self.moved(number, dir, is_directory);
        }
        Ok(())
    }

    fn moved(&mut self, number: u32, dir: u32, is_directory: bool) {
        if let Some(parents) = self.writer.parents.as_mut().filter(|_| is_directory) {
            parents.insert(number, dir);
        }
    }

    /// Moves an inode to a name, and removes what had it.
    fn replace(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        (mut inode, target): (Inode, Option<u32>),
        now: Time,
    ) -> Result<()> {
        let is_directory = inode.kind == FileType::Directory;
        let mut batch = Batch::default();
        let kind = number_of_kind(inode.kind);
        self.entry_node(&mut batch, to.0, to.1, inode.number, kind);
        self.entry_node(&mut batch, from.0, from.1, 0, 0);
        let mut old = self.stored(from.0)?;
        old.shrink(from.1, now);
        let mut replaced = target.map(|target| self.stored(target)).transpose()?;
        if let Some(replaced) = &mut replaced {
            self.check_replace(from.0, is_directory, replaced)?;
            replaced.unlink(now);
            if replaced.links == 0 && !self.has_room_for_orphan() {
                return Err(Errno::NoSpace.into());
            }
            batch.inode(replaced);
        }
        inode.attr.ctime = now;
        batch.inode(&inode);
        let links = u32::from(is_directory && replaced.is_none());
        if from.0 == to.0 {
            if replaced.is_none() {
                old.grow(to.1, now);
            }
            old.relink(links, is_directory.into())?;
        } else {
            let mut new = self.stored(to.0)?;
            new.touch(now);
            if replaced.is_none() {
                new.grow(to.1, now);
            }
            new.relink(links, 0)?;
            old.relink(0, is_directory.into())?;
            batch.inode(&new);
        }
        batch.inode(&old);
        self.run(Head::Base, batch)?;
        self.moved(inode.number, to.0, is_directory);
        Ok(())
    }

    fn check_replace(&mut self, from: u32, is_directory: bool, target: &Inode) -> Result<()> {
        let target_is_directory = target.kind == FileType::Directory;
        if target_is_directory && self.is_inside(from, target.number)? {
            return Err(Errno::NotEmpty.into());
        }
        rules::check_kinds(is_directory, target_is_directory)?;
        match target_is_directory && !self.is_empty(target.number) {
            true => Err(Errno::NotEmpty.into()),
            false => Ok(()),
        }
    }
}

/// Linux hands no longer ones over.
const SYMLINK_MAX: usize = 4095;
/// Bytes that a directory without entries has.
pub(crate) const EMPTY_DIRECTORY: u64 = 160;

impl Inode {
    /// Counts links that come and go. A medium may say that there are 2^32 - 1.
    fn relink(&mut self, come: u32, go: u32) -> Result<()> {
        let links = (u64::from(self.links) + u64::from(come)).saturating_sub(go.into());
        self.links = u32::try_from(links).map_err(|_| Errno::TooManyLinks)?;
        Ok(())
    }

    /// Counts one name more in the directory.
    fn grow(&mut self, name: &[u8], now: Time) {
        self.size += u64::from(entry_bytes(name));
        self.touch(now);
    }

    /// Counts one name less in the directory.
    fn shrink(&mut self, name: &[u8], now: Time) {
        self.size = self.size.saturating_sub(entry_bytes(name).into());
        self.touch(now);
    }

    /// Notes that the contents changed just now.
    pub fn touch(&mut self, now: Time) {
        self.attr.mtime = now;
        self.attr.ctime = now;
    }

    /// One name of it was removed; a directory has only one.
    fn unlink(&mut self, now: Time) {
        self.links = match self.kind {
            FileType::Directory => 0,
            _ => self.links.saturating_sub(1),
        };
        self.attr.ctime = now;
    }
}
