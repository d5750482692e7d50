//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    Jffs2, Jffs2Error,
    format::{NAME_MAX, PAGE},
    inode::{Inode, ROOT, owner, seconds},
    room::For,
    space::List,
    write::FILE_BYTES_MAX,
};
use alloc::{string::ToString as _, vec::Vec};
use nandlab_mtd::Mtd;
use nandlab_vfs::{
    Attr, Caller, Cause, DirEntry, Errno, FileSystem, FileType, Ino, NewNode, Rename, SetAttr,
    SetXattr, StatFs, Sync, Time,
};

/// The unit of [`StatFs`].
const BLOCK: u32 = 4096;

impl<M: Mtd> Jffs2<M> {
    /// The inode that a caller means: one with a name, or that is referred to.
    fn number(&self, ino: Ino) -> Result<u32, Jffs2Error> {
        let alive = |number: &u32| self.links(*number) > 0 || self.references.contains_key(number);
        u32::try_from(ino.0)
            .ok()
            .filter(alive)
            .ok_or(Jffs2Error::Call(Errno::Stale))
    }

    fn attr(&mut self, ino: u32) -> Result<Attr, Jffs2Error> {
        let (links, endian) = (self.links(ino), self.flash.endian);
        Ok(self.load(ino)?.attr(ino, links, endian))
    }

    fn refer(&mut self, ino: u32) -> Result<Attr, Jffs2Error> {
        let attr = self.attr(ino)?;
        if ino != ROOT {
            *self.references.entry(ino).or_default() += 1;
        }
        Ok(attr)
    }

    pub(crate) fn file(&mut self, ino: Ino) -> Result<u32, Jffs2Error> {
        let ino = self.number(ino)?;
        match self.load(ino)?.kind {
            FileType::File => Ok(ino),
            FileType::Directory => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Jffs2Error> {
        let ino = match change.size {
            Some(_) => self.file(ino)?,
            None => self.number(ino)?,
        };
        if change.size.is_some_and(|size| size > FILE_BYTES_MAX) {
            return Err(Errno::FileTooBig.into());
        }
        // One node tells all.
        let apply = |inode: &mut Inode| {
            if change.size.is_some() {
                inode.mtime = seconds(now);
            }
            inode.mode = change.mode.map_or(inode.mode, |mode| {
                inode.mode & !0o7777 | u32::from(mode & 0o7777)
            });
            (inode.uid, inode.gid) = (
                change.uid.map_or(inode.uid, owner),
                change.gid.map_or(inode.gid, owner),
            );
            inode.atime = change.atime.map_or(inode.atime, seconds);
            inode.mtime = change.mtime.map_or(inode.mtime, seconds);
            inode.ctime = seconds(now);
        };
        match change.size {
            Some(size) => self.resize(ino, size as u32, apply)?,
            None => self.write_attributes(ino, For::Write, apply)?,
        }
        self.attr(ino)
    }

    /// Writes at `offset` as [`write`](FileSystem::write) does, but as nodes of up to `span` bytes
    /// of the file, from a multiple of `span` on: for machines of another page, and for a layer
    /// that collects writes. All of it is written, or it fails.
    pub fn write_pages(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        span: u32,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |fs| {
            let ino = fs.file(ino)?;
            let done = fs.write_file(ino, offset, data, span.max(1))?;
            if done == data.len() {
                Ok(())
            } else {
                Err(Errno::NoSpace.into())
            }
        })
    }

    /// What callers wrote so far is durable.
    fn settle_all(&mut self, collect: bool) -> Result<(), Jffs2Error> {
        let page = self.flash.waiting_at();
        // As Linux: what is collected fills the page instead of padding.
        while collect
            && self.flash.waiting() > 0
            && self.flash.waiting_at() == page
            && self.space.total.unchecked == 0
        {
            match self.collect_pass() {
                Ok(()) => {}
                Err(Jffs2Error::Call(_) | Jffs2Error::Stuck) => break,
                Err(error) => return Err(error),
            }
        }
        if self.flash.waiting_at() == page {
            self.flush()?;
        }
        Ok(self.flash.sync()?)
    }
}

impl<M: Mtd> FileSystem for Jffs2<M> {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.look(|fs| {
            let dir = fs.number(dir)?;
            let found = fs.find(dir, name)?;
            fs.refer(found.ino)
        })
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(ino) = u32::try_from(ino.0) else {
            return;
        };
        let Some(count) = self.references.get_mut(&ino) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count > 0 {
            return;
        }
        self.references.remove(&ino);
        if self.links(ino) == 0 && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write_call(|fs| fs.destroy(ino));
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr, Errno> {
        self.look(|fs| {
            let ino = fs.number(ino)?;
            fs.attr(ino)
        })
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        self.change(now, |fs| fs.set(ino, change, now))
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Result<Attr, Errno> {
        self.change(by.now, |fs| {
            let dir = fs.number(dir)?;
            let ino = fs.make(dir, name, node, mode, by)?;
            fs.refer(ino)
        })
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        self.change(now, |fs| {
            let (ino, dir) = (fs.number(ino)?, fs.number(dir)?);
            fs.link_name(ino, dir, name)?;
            fs.refer(ino)
        })
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |fs| {
            let dir = fs.number(dir)?;
            fs.remove(dir, name, false)
        })
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |fs| {
            let dir = fs.number(dir)?;
            fs.remove(dir, name, true)
        })
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        self.change(now, |fs| {
            let (old, new) = (fs.number(from.0)?, fs.number(to.0)?);
            fs.rename_name((old, from.1), (new, to.1), how)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.look(|fs| {
            let ino = fs.number(ino)?;
            let inode = fs.load(ino)?;
            if inode.kind == FileType::Symlink {
                Ok(inode.data.clone())
            } else {
                Err(Errno::Invalid.into())
            }
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        self.look(|fs| {
            let ino = fs.file(ino)?;
            fs.read_file(ino, offset, buf)
        })
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<u64, Errno> {
        self.look(|fs| {
            let ino = fs.file(ino)?;
            fs.next_data(ino, offset)
        })
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let span = self.options.node_bytes;
        if span > PAGE {
            self.write_pages(ino, offset, data, span, now)?;
            return Ok(data.len());
        }
        self.change(now, |fs| {
            let ino = fs.file(ino)?;
            fs.write_file(ino, offset, data, PAGE)
        })
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.look(|fs| {
            let dir = fs.number(dir)?;
            for dent in fs.dir(dir)?.dents.from(from) {
                // Types that nobody knows are files here; the inode says what it is.
                let kind =
                    FileType::from_mode(u16::from(dent.kind) << 12).unwrap_or(FileType::File);
                if !each(DirEntry {
                    ino: Ino(dent.ino.into()),
                    kind,
                    name: &dent.name,
                    next: dent.hash + 1,
                }) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn fsync(&mut self, ino: Ino, _: Sync) -> Result<(), Errno> {
        self.write_call(|fs| {
            fs.number(ino)?;
            fs.settle_all(fs.options.sync_collects)
        })
    }

    fn sync(&mut self) -> Result<(), Errno> {
        if self.options.read_only {
            return self.look(|_| Ok(()));
        }
        self.write_call(|fs| fs.settle_all(false))
    }

    fn unmount(&mut self) -> Result<(), Errno> {
        self.look(Self::close)
    }

    fn statfs(&mut self) -> Result<StatFs, Errno> {
        self.look(|fs| {
            let (total, bytes) = (fs.space.total, fs.space.block_bytes);
            let usable = u64::from(total.free) + u64::from(total.dirty);
            let free = usable.saturating_sub(u64::from(fs.limits.write) * u64::from(bytes))
                / u64::from(BLOCK);
            let good = fs.space.blocks.len() as u64 - u64::from(fs.space.count(List::Bad));
            Ok(StatFs {
                block_bytes: BLOCK,
                blocks: good * u64::from(bytes) / u64::from(BLOCK),
                free,
                available: free,
                inodes: 0,
                inodes_free: 0,
                name_max: NAME_MAX as u32,
            })
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.look(|fs| {
            let ino = fs.number(ino)?;
            fs.get_xattr(ino, name)
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
        self.change(now, |fs| {
            let ino = fs.number(ino)?;
            fs.set_xattr(ino, name, value, expect)
        })
    }

    fn listxattr(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        self.look(|fs| {
            let ino = fs.number(ino)?;
            fs.list_xattrs(ino)
        })
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.change(now, |fs| {
            let ino = fs.number(ino)?;
            fs.remove_xattr(ino, name)
        })
    }

    fn cause(&mut self) -> Option<Cause> {
        let error = self.take_fault()?;
        Some(Cause {
            at: error.place(),
            what: error.to_string(),
        })
    }

    fn due(&self) -> Option<Time> {
        (self.is_writable() && self.has_work()).then_some(self.now)
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        match self.due() {
            Some(due) if due <= now => self.write_call(|fs| match fs.collect_pass() {
                Err(Jffs2Error::Call(_)) => Ok(()),
                outcome => outcome,
            }),
            _ => Ok(()),
        }
    }
}
