//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    Fat, FatError,
    dir::Found,
    format::{SLOT, Slot, attr},
    name,
    node::Node,
    time,
};
use alloc::{string::ToString as _, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Caller, Cause, DirEntry, Dirty, Errno, FileSystem, FileType, Ino, NewNode, Rename,
    SetAttr, StatFs, Sync, Time,
};

/// The longest name as bytes: each UTF-16 unit may take three.
const NAME_BYTES_MAX: u32 = 3 * name::UNITS_MAX as u32;
const WRITE: u16 = 0o222;

fn check_name(name: &[u8]) -> Result<(), FatError> {
    let bad = matches!(name, b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0);
    if bad {
        Err(Errno::Invalid.into())
    } else {
        Ok(())
    }
}

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    fn check_dir(&self, dir: Ino) -> Result<&Node, FatError> {
        match self.nodes.get(dir) {
            None => Err(Errno::Stale.into()),
            Some(node) if !node.directory => Err(Errno::NotDirectory.into()),
            Some(node) => Ok(node),
        }
    }

    fn check_file(&self, ino: Ino) -> Result<&Node, FatError> {
        match self.nodes.get(ino) {
            None => Err(Errno::Stale.into()),
            Some(node) if node.directory => Err(Errno::IsDirectory.into()),
            Some(node) => Ok(node),
        }
    }

    /// A directory in which names may be made.
    pub(crate) fn check_alive(&self, dir: Ino) -> Result<(), FatError> {
        let gone = self.check_dir(dir)?.place.is_none() && dir != Ino::ROOT;
        if gone {
            Err(Errno::NoEntry.into())
        } else {
            Ok(())
        }
    }

    /// The entry of a name that must be there.
    pub(crate) fn need(&mut self, dir: Ino, name: &[u8]) -> Result<Found, FatError> {
        check_name(name)?;
        self.check_dir(dir)?;
        if self
            .nodes
            .get(dir)
            .is_some_and(|node| node.place.is_none() && dir != Ino::ROOT)
        {
            return Err(Errno::NoEntry.into());
        }
        let units = name::to_units(name)?;
        self.find(dir, &units)?.ok_or_else(|| Errno::NoEntry.into())
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FatError> {
        let (node, options) = (self.nodes.get(ino).ok_or(Errno::Stale)?, &self.options);
        let named = node.place.is_some() || ino == Ino::ROOT;
        let cluster = u64::from(self.store.layout.cluster_bytes());
        let mode = match node.directory {
            true => 0o777 & !options.dmask,
            false if node.attr & attr::READ_ONLY != 0 => 0o777 & !options.fmask & !WRITE,
            false => 0o777 & !options.fmask,
        };
        Ok(Attr {
            ino,
            kind: if node.directory {
                FileType::Directory
            } else {
                FileType::File
            },
            mode,
            uid: options.uid,
            gid: options.gid,
            links: match (named, node.directory) {
                (false, _) => 0,
                (true, true) => 2 + node.subdirs,
                (true, false) => 1,
            },
            size: if node.directory {
                u64::from(node.chain.len().max(1)) * cluster
            } else {
                u64::from(node.size)
            },
            blocks: u64::from(node.size).div_ceil(cluster) * cluster / 512,
            device: (0, 0),
            atime: node.atime,
            mtime: node.mtime,
            ctime: node.mtime,
            btime: Some(node.btime),
        })
    }

    fn refer(&mut self, ino: Ino) -> Result<Attr, FatError> {
        let attr = self.attr(ino)?;
        if let Some(node) = self.nodes.get_mut(ino) {
            node.references += 1;
        }
        Ok(attr)
    }

    fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        now: Time,
    ) -> Result<Attr, FatError> {
        check_name(name)?;
        self.check_dir(dir)?;
        let units = name::to_new_units(name)?;
        if self.find(dir, &units)?.is_some() {
            return Err(Errno::Exists.into());
        }
        self.check_alive(dir)?;
        if !matches!(node, NewNode::File | NewNode::Directory) {
            return Err(Errno::NotPermitted.into());
        }
        let directory = node == NewNode::Directory;
        let start = if directory { self.allocate()? } else { 0 };
        let slot = self.new_slot(directory, start, now);
        if directory {
            self.fill_dir(start, &slot, dir)?;
        }
        let found = match self.add_entry(dir, &units, &slot, None) {
            Ok(found) => found,
            Err(error) => {
                self.table.free_chain(&mut self.store, start)?;
                return Err(error);
            }
        };
        if let Some(parent) = self.nodes.get_mut(dir).filter(|_| directory) {
            parent.subdirs += 1;
        }
        self.touch_dir(dir);
        let node = Node::from_slot(
            &found.slot,
            found.place,
            self.store.layout.bits,
            self.options.utc_offset_minutes,
        );
        let ino = self.nodes.insert(node);
        self.refer(ino)
    }

    /// A slot without a name.
    fn new_slot(&self, directory: bool, start: u32, now: Time) -> Slot {
        let offset = self.options.utc_offset_minutes;
        let mut node = Node::root(start);
        (node.directory, node.attr) = (
            directory,
            if directory {
                attr::DIRECTORY
            } else {
                attr::ARCHIVE
            },
        );
        (node.atime, node.mtime, node.btime) = (now, now, now);
        let mut slot = [0; SLOT];
        node.put(&mut slot, self.store.layout.bits, offset);
        slot
    }

    /// The contents of a new directory: itself and its parent.
    fn fill_dir(&mut self, start: u32, slot: &Slot, parent: Ino) -> Result<(), FatError> {
        self.zero_cluster(start);
        let place = u64::from(self.store.layout.cluster_sector(start))
            * u64::from(self.store.layout.sector);
        let names: [(&[u8; 11], u32, u64); 2] = [
            (b".          ", start, 0),
            (b"..         ", self.parent_start(parent), SLOT as u64),
        ];
        for (name, start, at) in names {
            let mut dot = *slot;
            dot[..11].copy_from_slice(name);
            crate::format::put_slot_start(&mut dot, self.store.layout.bits, start);
            self.store.put_slot(place + at, &dot)?;
        }
        Ok(())
    }

    fn remove(&mut self, dir: Ino, name: &[u8], directory: bool) -> Result<(), FatError> {
        let found = self.need(dir, name)?;
        match (found.is_directory(), directory) {
            (true, false) => return Err(Errno::IsDirectory.into()),
            (false, true) => return Err(Errno::NotDirectory.into()),
            _ => {}
        }
        let ino = self.node_of(&found)?;
        if directory && !self.is_empty_dir(ino)? {
            return Err(Errno::NotEmpty.into());
        }
        self.remove_entry(&found)?;
        if let Some(parent) = self.nodes.get_mut(dir).filter(|_| directory) {
            parent.subdirs = parent.subdirs.saturating_sub(1);
        }
        self.touch_dir(dir);
        self.lose_name(ino)
    }

    /// An inode's entry is gone.
    pub(crate) fn lose_name(&mut self, ino: Ino) -> Result<(), FatError> {
        self.nodes.move_to(ino, None);
        if self.nodes.get(ino).is_some_and(|node| node.references == 0) {
            self.destroy(ino)
        } else {
            Ok(())
        }
    }

    /// Frees what is kept only because somebody refers to it.
    pub(crate) fn drop_nameless(&mut self) -> Result<(), FatError> {
        for ino in self.nodes.nameless() {
            self.destroy(ino)?;
        }
        Ok(())
    }

    /// The attribute byte for new permission bits: the format has one bit, "read-only", for all
    /// bits to write.
    fn mode_attr(&self, ino: Ino, mode: u16) -> Result<u8, FatError> {
        let node = self.nodes.get(ino).ok_or(Errno::Stale)?;
        let mask = if node.directory {
            self.options.dmask
        } else {
            self.options.fmask
        };
        let (asked, full) = (mode & 0o7777 & !mask, 0o777 & !mask);
        let writable = match asked & WRITE {
            write if write == full & WRITE => true,
            0 if !node.directory => false,
            _ => return Err(Errno::NotPermitted.into()),
        };
        if asked & !WRITE != full & !WRITE {
            return Err(Errno::NotPermitted.into());
        }
        Ok(if writable {
            node.attr & !attr::READ_ONLY
        } else {
            node.attr | attr::READ_ONLY
        })
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, FatError> {
        let node = self.nodes.get(ino).ok_or(Errno::Stale)?;
        let mode = change
            .mode
            .map_or(Ok(node.attr), |mode| self.mode_attr(ino, mode))?;
        let owners = change.uid.is_none_or(|uid| uid == self.options.uid)
            && change.gid.is_none_or(|gid| gid == self.options.gid);
        if !owners {
            return Err(Errno::NotPermitted.into());
        }
        let offset = self.options.utc_offset_minutes;
        if let Some(size) = change.size {
            self.check_file(ino)?;
            if size > crate::file::FILE_BYTES_MAX {
                return Err(Errno::FileTooBig.into());
            }
            self.resize(ino, size)?;
        }
        let node = self.nodes.get_mut(ino).ok_or(Errno::Stale)?;
        node.attr = mode;
        if change.size.is_some() {
            node.mtime = time::rounded(now, offset);
        }
        node.atime = change
            .atime
            .map_or(node.atime, |atime| time::day(atime, offset));
        node.mtime = change
            .mtime
            .map_or(node.mtime, |mtime| time::rounded(mtime, offset));
        self.nodes.touch(ino, false, now);
        self.attr(ino)
    }

    fn list(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), FatError> {
        let gone = self.check_dir(dir)?.place.is_none() && dir != Ino::ROOT;
        let (mut from, mut failure) = (u32::try_from(from).unwrap_or(u32::MAX), None);
        while let Some(found) = if gone {
            None
        } else {
            self.next_around(dir, &mut from, &mut failure)?
        } {
            let name = name::to_bytes(&found.name);
            let kind = if found.is_directory() {
                FileType::Directory
            } else {
                FileType::File
            };
            if !each(DirEntry {
                ino: self.nodes.number(found.place),
                kind,
                name: &name,
                next: u64::from(from),
            }) {
                return Ok(());
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

impl<D: BlockDevice, N: BlockDevice> FileSystem for Fat<D, N> {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.look(|fat| {
            let found = fat.need(dir, name)?;
            let ino = fat.node_of(&found)?;
            fat.refer(ino)
        })
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        node.references = node
            .references
            .saturating_sub(references)
            .max(u64::from(ino == Ino::ROOT));
        let (unused, nameless) = (node.references == 0, node.place.is_none());
        if unused && nameless && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write(|fat| fat.destroy(ino));
        }
        self.nodes.drop_unused(ino);
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        self.look(|fat| fat.attr(ino))
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        self.change(now, |fat| fat.set(ino, change, now))
    }

    /// Files and directories; the format has nothing else ([`Errno::NotPermitted`]). Mode and owner
    /// are the mount's.
    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        _: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        self.change(by.now, |fat| fat.make(dir, name, node, by.now))
    }

    /// The format has no links: [`Errno::NotPermitted`].
    fn link(&mut self, ino: Ino, dir: Ino, _: &[u8], _: Time) -> Result<Attr, Errno> {
        self.look(|fat| {
            fat.check_dir(dir)?;
            fat.attr(ino)?;
            Err(Errno::NotPermitted.into())
        })
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |fat| fat.remove(dir, name, false))
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |fat| fat.remove(dir, name, true))
    }

    /// Not [`Rename::Exchange`], which the format cannot keep whole over a power cut:
    /// [`Errno::Invalid`].
    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |fat| {
            check_name(to.1)?;
            fat.rename_entry(from, to, how)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.look(|fat| {
            fat.attr(ino)?;
            Err(Errno::Invalid.into())
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.look(|fat| {
            fat.check_file(ino)?;
            fat.read_file(ino, offset, buf)
        })
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        self.change(now, |fat| {
            fat.check_file(ino)?;
            if data.is_empty() {
                Ok(0)
            } else {
                fat.write_file(ino, offset, data)
            }
        })
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.look(|fat| fat.list(dir, from, each))
    }

    fn fsync(&mut self, ino: Ino, what: Sync) -> Result<(), Errno> {
        self.write(|fat| {
            fat.attr(ino)?;
            fat.sync_node(ino, what)
        })
    }

    fn sync(&mut self) -> Result<(), Errno> {
        if self.options.read_only {
            return self.look(|_| Ok(()));
        }
        self.write(Self::sync_all)
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.look(Self::close)
    }

    fn cause(&mut self) -> Option<Cause> {
        let error = self.take_fault()?;
        Some(Cause {
            at: self.place_of_error(&error),
            what: error.to_string(),
        })
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        self.look(|fat| {
            let free = u64::from(fat.table.count_free(&mut fat.store)?);
            let layout = &fat.store.layout;
            let (block_bytes, blocks) = (layout.cluster_bytes(), u64::from(layout.clusters));
            Ok(StatFs {
                block_bytes,
                blocks,
                free,
                available: free,
                name_max: NAME_BYTES_MAX,
                ..StatFs::default()
            })
        })
    }

    fn dirty(&self) -> Dirty {
        let oldest = self
            .store
            .cache
            .since()
            .into_iter()
            .chain(self.nodes.since())
            .min();
        Dirty {
            bytes: self.waiting_bytes(),
            since: oldest,
        }
    }

    fn write_back(&mut self, bytes: u64, until: Time) -> Result<u64, Errno> {
        if self.waiting_bytes() == 0 {
            Ok(0)
        } else {
            self.write(|fat| fat.write_oldest(bytes, until))
        }
    }
}
