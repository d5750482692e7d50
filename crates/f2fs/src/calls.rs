//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    F2fs, F2fsError,
    file::Why,
    format::{BLOCK, FIRST_NID, inode, le16, le32, le64, put16, put32},
    node::{self, Shape, kind, put_time},
    superblock::feature,
};
use alloc::{string::ToString as _, vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{
    Attr, Caller, Cause, DirEntry, Dirty, Errno, FileSystem, FileType, Ino, NAME_MAX, NewNode,
    Rename, SetAttr, SetXattr, StatFs, Sync, Time,
};

impl<D: BlockDevice> F2fs<D> {
    /// The inode that a caller means: the root has another number here.
    fn number(&self, ino: Ino) -> Result<u32, F2fsError> {
        match u32::try_from(ino.0) {
            _ if ino == Ino::ROOT => Ok(self.layout.root),
            Ok(number) if number > FIRST_NID => Ok(number),
            _ => Err(Errno::Stale.into()),
        }
    }

    fn attr(&mut self, number: u32) -> Result<Attr, F2fsError> {
        self.alive(number)?;
        let (layout, root) = (self.layout.clone(), self.layout.root);
        let bytes = self.inode(number)?;
        let kind = kind(bytes).ok_or(Errno::Unclean)?;
        let birth = layout.has(feature::BIRTH) && Shape::of(bytes, &layout).extra >= 24;
        let mut attr = Attr {
            ino: if number == root {
                Ino::ROOT
            } else {
                Ino(number.into())
            },
            kind,
            mode: le16(bytes, inode::MODE) & 0o7777,
            uid: le32(bytes, inode::UID),
            gid: le32(bytes, inode::GID),
            links: le32(bytes, inode::LINKS),
            size: le64(bytes, inode::SIZE),
            // The inode's own block does not count.
            blocks: le64(bytes, inode::BLOCKS)
                .saturating_sub(1)
                .saturating_mul(8),
            device: (0, 0),
            atime: node::time(bytes, inode::ATIME, inode::ATIME_NANOS),
            mtime: node::time(bytes, inode::MTIME, inode::MTIME_NANOS),
            ctime: node::time(bytes, inode::CTIME, inode::CTIME_NANOS),
            btime: birth.then(|| node::time(bytes, inode::BIRTH, inode::BIRTH_NANOS)),
        };
        if matches!(kind, FileType::Character | FileType::Block) {
            attr.device = self.device(number)?;
        }
        Ok(attr)
    }

    fn refer(&mut self, number: u32) -> Result<Attr, F2fsError> {
        let attr = self.attr(number)?;
        *self.references.entry(number).or_default() += 1;
        Ok(attr)
    }

    fn check_file(&mut self, ino: Ino) -> Result<u32, F2fsError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        match kind(self.inode(number)?) {
            Some(FileType::File) => Ok(number),
            Some(FileType::Directory) => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, F2fsError> {
        let number = self.number(ino)?;
        self.alive(number)?;
        if let Some(size) = change.size {
            self.check_file(ino)?;
            self.resize(number, size)?;
            put_time(
                self.node_mut(number)?,
                inode::MTIME,
                inode::MTIME_NANOS,
                now,
            );
        }
        let bytes = self.node_mut(number)?;
        if let Some(mode) = change.mode {
            let kept = le16(bytes, inode::MODE) & !0o7777;
            put16(bytes, inode::MODE, kept | mode & 0o7777);
        }
        let words = [(inode::UID, change.uid), (inode::GID, change.gid)];
        words
            .iter()
            .filter_map(|(at, value)| Some((*at, (*value)?)))
            .for_each(|(at, value)| put32(bytes, at, value));
        let times = [
            (inode::ATIME, inode::ATIME_NANOS, change.atime),
            (inode::MTIME, inode::MTIME_NANOS, change.mtime),
        ];
        for (secs, nanos, time) in times {
            if let Some(time) = time {
                put_time(bytes, secs, nanos, time);
            }
        }
        put_time(bytes, inode::CTIME, inode::CTIME_NANOS, now);
        self.attr(number)
    }

    fn target(&mut self, number: u32) -> Result<Vec<u8>, F2fsError> {
        self.alive(number)?;
        if kind(self.inode(number)?) != Some(FileType::Symlink) {
            return Err(Errno::Invalid.into());
        }
        let size = self.size(number)?;
        if size == 0 || size > BLOCK as u64 {
            let expected = "1 to 4096 bytes";
            return Err(F2fsError::Node {
                nid: number,
                field: "length of a symbolic link",
                found: size,
                expected,
            });
        }
        let mut target = vec![0; size as usize];
        self.read_file(number, 0, &mut target)?;
        Ok(target)
    }

    fn on<T>(
        &mut self,
        ino: Ino,
        call: impl FnOnce(&mut Self, u32) -> Result<T, F2fsError>,
    ) -> Result<T, Errno> {
        self.look(|f2fs| {
            let number = f2fs.number(ino)?;
            f2fs.alive(number)?;
            call(f2fs, number)
        })
    }
}

impl<D: BlockDevice> FileSystem for F2fs<D> {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.look(|f2fs| {
            let dir = f2fs.number(dir)?;
            let found = f2fs.need(dir, name)?;
            let number = f2fs.child(&found)?;
            f2fs.refer(number)
        })
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = self.number(ino) else { return };
        let Some(count) = self.references.get_mut(&number) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count > 0 {
            return;
        }
        self.references.remove(&number);
        if self.orphans.contains(&number) && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write(|f2fs| f2fs.destroy(number));
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        self.on(ino, Self::attr)
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        self.change(now, |f2fs| f2fs.set(ino, change, now))
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        self.change(by.now, |f2fs| {
            let dir = f2fs.number(dir)?;
            let number = f2fs.make(dir, name, node, mode, by)?;
            f2fs.refer(number)
        })
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        self.change(now, |f2fs| {
            let (number, dir) = (f2fs.number(ino)?, f2fs.number(dir)?);
            f2fs.link_name(number, dir, name)?;
            f2fs.refer(number)
        })
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |f2fs| {
            let dir = f2fs.number(dir)?;
            f2fs.remove(dir, name, false)
        })
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |f2fs| {
            let dir = f2fs.number(dir)?;
            f2fs.remove(dir, name, true)
        })
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |f2fs| {
            let (old, new) = (f2fs.number(from.0)?, f2fs.number(to.0)?);
            f2fs.rename_name((old, from.1), (new, to.1), how)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.on(ino, Self::target)
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.look(|f2fs| {
            let number = f2fs.check_file(ino)?;
            f2fs.read_file(number, offset, buf)
        })
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64, Errno> {
        self.look(|f2fs| {
            let number = f2fs.check_file(ino)?;
            f2fs.next_data(number, offset)
        })
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        self.change(now, |f2fs| {
            let number = f2fs.check_file(ino)?;
            if data.is_empty() {
                Ok(0)
            } else {
                f2fs.write_file(number, offset, data)
            }
        })
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.look(|f2fs| {
            let dir = f2fs.number(dir)?;
            f2fs.list(dir, from, each)
        })
    }

    fn fsync(&mut self, ino: Ino, what: Sync) -> Result<(), Errno> {
        self.write(|f2fs| {
            let number = f2fs.number(ino)?;
            f2fs.alive(number)?;
            f2fs.sync_inode(number, what)
        })
    }

    fn sync(&mut self) -> Result<(), Errno> {
        if self.options.read_only {
            return self.look(|_| Ok(()));
        }
        self.write(|f2fs| {
            f2fs.write_all_pages(true)?;
            f2fs.take_checkpoint(false)
        })
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.look(Self::close)
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        self.look(|f2fs| {
            let (checkpoint, layout) = (&f2fs.checkpoint, &f2fs.layout);
            let free = checkpoint
                .user_blocks
                .saturating_sub(checkpoint.valid_blocks);
            let nids = u64::from(layout.nids() - FIRST_NID);
            let nodes = u64::from(checkpoint.nodes);
            Ok(StatFs {
                block_bytes: BLOCK as u32,
                blocks: layout.blocks.saturating_sub(layout.cp.into()),
                free,
                available: free,
                inodes: nids.min(checkpoint.user_blocks),
                inodes_free: free.min(nids.saturating_sub(nodes)),
                name_max: NAME_MAX as u32,
            })
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.on(ino, |f2fs, number| f2fs.get_attribute(number, name))
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |f2fs| {
            let number = f2fs.number(ino)?;
            f2fs.alive(number)?;
            f2fs.set_attribute(number, name, Some(value), expect)
        })
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        self.on(ino, Self::list_attributes)
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |f2fs| {
            let number = f2fs.number(ino)?;
            f2fs.alive(number)?;
            f2fs.set_attribute(number, name, None, SetXattr::Any)
        })
    }

    fn dirty(&self) -> Dirty {
        // Nodes wait for a checkpoint, which falls due by itself.
        Dirty {
            bytes: (self.pages.count() * BLOCK) as u64,
            since: self.pages.oldest().map(|(since, _)| since),
        }
    }

    fn write_back(&mut self, bytes: u64, until: Time) -> Result<u64, Errno> {
        let before = self.pages.count();
        if before == 0 {
            return Ok(0);
        }
        self.write(|f2fs| {
            while let Some((since, (ino, index))) = f2fs.pages.oldest() {
                let written = ((before - f2fs.pages.count()) * BLOCK) as u64;
                if written >= bytes && since > until {
                    break;
                }
                f2fs.write_page(ino, index, Why::WriteBack)?;
            }
            f2fs.disk.submit_all()?;
            Ok(((before - f2fs.pages.count()) * BLOCK) as u64)
        })
    }

    fn cause(&mut self) -> Option<Cause> {
        let error = self.take_fault()?;
        Some(Cause {
            at: self.place_of_error(&error),
            what: error.to_string(),
        })
    }

    fn due(&self) -> Option<Time> {
        let times = [self.checkpoint_due(), self.cleaning_due()];
        times
            .into_iter()
            .flatten()
            .min()
            .filter(|_| self.is_writable())
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        if self.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        self.now = now;
        self.write(|f2fs| {
            if f2fs.checkpoint_due().is_some_and(|due| due <= now) {
                f2fs.take_checkpoint(false)?;
            }
            if f2fs.cleaning_due().is_some_and(|due| due <= now) {
                f2fs.clean_background()?;
            }
            f2fs.disk.submit_all()
        })
    }
}
