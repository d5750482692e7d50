//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    Fat, FatError,
    dir::Found,
    format::{SLOT, Slot, attr},
    name,
    node::Node,
    time,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Call, Caller, DirEntry, Dirty, Errno, FileSystem, FileType, Gated as _, Ino, NewNode,
    Rename, SetAttr, StatFs, Time, delegate, rules,
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

    fn check_file(&self, ino: Ino) -> Result<Ino, FatError> {
        match self.nodes.get(ino) {
            None => Err(Errno::Stale.into()),
            Some(node) if node.directory => Err(Errno::IsDirectory.into()),
            Some(_) => Ok(ino),
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
        let node = self.nodes.get(ino).ok_or(Errno::Stale)?;
        let options = &self.options;
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

    /// Makes files and directories; the format has nothing else ([`Errno::NotPermitted`]). Mode and
    /// owner are the mount's.
    fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        _: u16,
        by: Caller,
    ) -> Result<Ino, FatError> {
        let now = by.now;
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
        Ok(self.nodes.insert(node))
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
        rules::check_kinds(directory, found.is_directory())?;
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

    /// Inodes have no other numbers here.
    fn number(&self, ino: Ino) -> Result<Ino, FatError> {
        Ok(ino)
    }

    fn in_use(&self, ino: Ino) -> Result<Ino, FatError> {
        self.attr(ino)?;
        Ok(ino)
    }

    fn look_up(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, FatError> {
        let found = self.need(dir, name)?;
        let ino = self.node_of(&found)?;
        self.refer(ino)
    }

    /// The format has no links: [`Errno::NotPermitted`].
    fn link_name(&mut self, ino: Ino, dir: Ino, _: &[u8]) -> Result<(), FatError> {
        self.check_dir(dir)?;
        self.attr(ino)?;
        Err(Errno::NotPermitted.into())
    }

    /// Does not [exchange](Rename::Exchange): the format cannot keep both whole over a power cut
    /// ([`Errno::Invalid`]).
    fn rename_name(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
    ) -> Result<(), FatError> {
        check_name(to.1)?;
        self.rename_entry(from, to, how)
    }

    fn write_data(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize, FatError> {
        self.write_file(ino, offset, data)
    }

    fn target(&mut self, ino: Ino) -> Result<Vec<u8>, FatError> {
        self.attr(ino)?;
        Err(Errno::Invalid.into())
    }

    fn sync_volume(&mut self) -> Result<(), FatError> {
        self.sync_all()
    }

    fn sizes(&mut self) -> Result<StatFs, FatError> {
        let free = u64::from(self.table.count_free(&mut self.store)?);
        let layout = &self.store.layout;
        let block_bytes = layout.cluster_bytes();
        let blocks = u64::from(layout.clusters);
        Ok(StatFs {
            block_bytes,
            blocks,
            free,
            available: free,
            name_max: NAME_BYTES_MAX,
            ..StatFs::default()
        })
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
        let asked = mode & 0o7777 & !mask;
        let full = 0o777 & !mask;
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
        let mut from = u32::try_from(from).unwrap_or(u32::MAX);
        let mut failure = None;
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
    delegate! { [gate]
        lookup getattr setattr create link unlink rmdir rename readlink read write readdir fsync
        sync unmount statfs write_back cause
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Some(node) = self.nodes.get_mut(ino) else {
            return;
        };
        node.references = node
            .references
            .saturating_sub(references)
            .max(u64::from(ino == Ino::ROOT));
        let unused = node.references == 0;
        let nameless = node.place.is_none();
        if unused && nameless && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write_call(Call::on("forget", ino), |fat| fat.destroy(ino));
        }
        self.nodes.drop_unused(ino);
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
            bytes: self.dirty_bytes(),
            since: oldest,
        }
    }
}
