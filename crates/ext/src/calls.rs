//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{Ext, ExtError, format::ROOT, inode::Inode, node::Life};
use alloc::{string::ToString as _, vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Caller, Cause, DirEntry, Dirty, Errno, FileSystem, FileType, Ino, NAME_MAX, NewNode,
    Rename, SetAttr, SetXattr, StatFs, Sync, Time,
};

impl<D: BlockDevice> Ext<D> {
    /// The inode that a caller means: the root has another number here.
    fn number(&self, ino: Ino) -> Result<u32, ExtError> {
        let layout = &self.store.layout;
        match u32::try_from(ino.0) {
            _ if ino == Ino::ROOT => Ok(ROOT),
            Ok(number) if (layout.first_inode..=layout.inodes).contains(&number) => Ok(number),
            _ => Err(Errno::Stale.into()),
        }
    }

    fn attr_of(&self, number: u32, inode: &Inode) -> Result<Attr, ExtError> {
        Ok(Attr {
            ino: if number == ROOT {
                Ino::ROOT
            } else {
                Ino(number.into())
            },
            kind: inode.kind().ok_or(Errno::Unclean)?,
            mode: inode.mode & 0o7777,
            uid: inode.uid,
            gid: inode.gid,
            links: inode.links.into(),
            size: inode.size,
            blocks: inode.units.into(),
            device: inode.device(),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
        })
    }

    fn attr(&mut self, number: u32) -> Result<Attr, ExtError> {
        let inode = self.alive(number)?;
        self.attr_of(number, &inode)
    }

    fn refer(&mut self, number: u32) -> Result<Attr, ExtError> {
        let attr = self.attr(number)?;
        self.nodes.refer(number);
        Ok(attr)
    }

    fn check_file(&mut self, ino: Ino) -> Result<u32, ExtError> {
        let number = self.number(ino)?;
        match self.alive(number)?.kind() {
            Some(FileType::File) => Ok(number),
            Some(FileType::Directory) => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, ExtError> {
        let number = self.number(ino)?;
        if change.size.is_some() {
            self.check_file(ino)?;
        }
        self.alive(number)?;
        let mut inode = self.inode(number)?;
        if let Some(size) = change.size {
            self.resize(number, &mut inode, size)?;
            inode.mtime = inode.rounded(now);
        }
        inode.mode = change
            .mode
            .map_or(inode.mode, |mode| inode.mode & !0o7777 | mode & 0o7777);
        (inode.uid, inode.gid) = (
            change.uid.unwrap_or(inode.uid),
            change.gid.unwrap_or(inode.gid),
        );
        inode.atime = change.atime.map_or(inode.atime, |time| inode.rounded(time));
        inode.mtime = change.mtime.map_or(inode.mtime, |time| inode.rounded(time));
        inode.ctime = inode.rounded(now);
        let only_times = SetAttr {
            atime: None,
            mtime: None,
            ..*change
        } == SetAttr::default();
        if only_times {
            self.put_times(number, &inode)?
        } else {
            self.put_inode(number, &inode)?
        }
        self.attr(number)
    }

    fn target(&mut self, number: u32) -> Result<Vec<u8>, ExtError> {
        let inode = self.alive(number)?;
        if inode.kind() != Some(FileType::Symlink) {
            return Err(Errno::Invalid.into());
        }
        let (size, fast) = (inode.size, inode.is_fast_link(&self.store.layout));
        let most = if fast {
            60
        } else {
            u64::from(self.store.layout.block)
        };
        if size == 0 || size > most {
            let expected = "1 to 60 bytes in the inode, or up to a block";
            return Err(ExtError::Inode {
                inode: number,
                field: "length of a symbolic link",
                found: size,
                expected,
            });
        }
        let mut target = vec![0; size as usize];
        if fast {
            let bytes = inode.block.iter().flat_map(|word| word.to_le_bytes());
            target
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = from);
        } else {
            self.read_file(number, 0, &mut target)?;
        }
        Ok(target)
    }

    fn write_all(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize, ExtError> {
        let number = self.check_file(ino)?;
        if data.is_empty() {
            return Ok(0);
        }
        let done = self.write_file(number, offset, data)?;
        if done < data.len() && self.is_releasing() {
            // A commit makes room for more.
            self.settle_all()?;
            return match self.write_file(number, offset + done as u64, &data[done..]) {
                Err(ExtError::Call(Errno::NoSpace | Errno::FileTooBig)) => Ok(done),
                more => Ok(done + more?),
            };
        }
        Ok(done)
    }
}

impl<D: BlockDevice> FileSystem for Ext<D> {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.look(|ext| {
            let dir = ext.number(dir)?;
            let found = ext.need(dir, name)?;
            let (number, _) = ext.child(&found)?;
            ext.refer(number)
        })
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = self.number(ino) else { return };
        if !self.nodes.forget(number, references) {
            return;
        }
        match self.nodes.get(number).map(|node| node.life) {
            Some(Life::Named) => self.nodes.drop(number),
            // A failure shows at the next call that writes.
            Some(Life::Nameless) if self.is_writable() => _ = self.write(|ext| ext.destroy(number)),
            _ => {}
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        self.look(|ext| {
            let number = ext.number(ino)?;
            ext.attr(number)
        })
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        self.change(now, |ext| ext.set(ino, change, now))
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        self.change(by.now, |ext| {
            let dir = ext.number(dir)?;
            let number = ext.make(dir, name, node, mode, by)?;
            ext.refer(number)
        })
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        self.change(now, |ext| {
            let (number, dir) = (ext.number(ino)?, ext.number(dir)?);
            ext.link_name(number, dir, name)?;
            ext.refer(number)
        })
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |ext| {
            let dir = ext.number(dir)?;
            ext.remove(dir, name, false)
        })
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |ext| {
            let dir = ext.number(dir)?;
            ext.remove(dir, name, true)
        })
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |ext| {
            let (old, new) = (ext.number(from.0)?, ext.number(to.0)?);
            ext.rename_name((old, from.1), (new, to.1), how)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.look(|ext| {
            let number = ext.number(ino)?;
            ext.target(number)
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.look(|ext| {
            let number = ext.check_file(ino)?;
            ext.read_file(number, offset, buf)
        })
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64, Errno> {
        self.look(|ext| {
            let number = ext.check_file(ino)?;
            ext.next_data(number, offset)
        })
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        self.change(now, |ext| ext.write_all(ino, offset, data))
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.look(|ext| {
            let dir = ext.number(dir)?;
            ext.list(dir, from, each)
        })
    }

    fn fsync(&mut self, ino: Ino, what: Sync) -> Result<(), Errno> {
        self.write(|ext| {
            let number = ext.number(ino)?;
            ext.alive(number)?;
            ext.sync_inode(number, what)
        })
    }

    fn sync(&mut self) -> Result<(), Errno> {
        if self.options.read_only {
            return self.look(|_| Ok(()));
        }
        self.write(|ext| {
            ext.sync_all()?;
            // As Linux's does; an fsync leaves committed blocks in the journal.
            ext.write_home()
        })
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.look(Self::close)
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        self.look(|ext| {
            let layout = &ext.store.layout;
            let headers = (0..layout.groups)
                .filter(|group| layout.has_super(*group))
                .count() as u32;
            let overhead = layout.first
                + headers * (1 + layout.desc_blocks() + layout.reserved_gdt)
                + layout.groups * (2 + layout.table_blocks());
            let free = ext.free_blocks;
            Ok(StatFs {
                block_bytes: layout.block,
                blocks: layout.blocks.saturating_sub(overhead).into(),
                free: free.into(),
                available: free.saturating_sub(layout.reserved).into(),
                inodes: layout.inodes.into(),
                inodes_free: ext.free_inodes.into(),
                name_max: NAME_MAX as u32,
            })
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.look(|ext| {
            let number = ext.number(ino)?;
            ext.alive(number)?;
            ext.get_attribute(number, name)
        })
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |ext| {
            let number = ext.number(ino)?;
            ext.alive(number)?;
            ext.set_attribute(number, name, Some(value), expect)
        })
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        self.look(|ext| {
            let number = ext.number(ino)?;
            ext.alive(number)?;
            ext.list_attributes(number)
        })
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |ext| {
            let number = ext.number(ino)?;
            ext.alive(number)?;
            ext.set_attribute(number, name, None, SetXattr::Any)
        })
    }

    fn dirty(&self) -> Dirty {
        if self.is_journaled() {
            return Dirty {
                bytes: self.dirty_bytes(),
                since: self.dirty_since(),
            };
        }
        Dirty {
            bytes: self.waiting_bytes(),
            since: self.store.cache.since(),
        }
    }

    fn write_back(&mut self, bytes: u64, until: Time) -> Result<u64, Errno> {
        if self.dirty().bytes == 0 {
            Ok(0)
        } else {
            self.write(|ext| ext.write_oldest(bytes, until))
        }
    }

    fn cause(&mut self) -> Option<Cause> {
        let error = self.take_fault()?;
        Some(Cause {
            at: self.place_of_error(&error),
            what: error.to_string(),
        })
    }

    fn due(&self) -> Option<Time> {
        self.commit_due().filter(|_| self.is_writable())
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        match self.due() {
            Some(due) if due <= now => self.write(Self::commit),
            _ => Ok(()),
        }
    }
}
