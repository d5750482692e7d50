//! The calls of [`FileSystem`], each checked here and carried out elsewhere.

use crate::{
    Jffs2, Jffs2Error, SeededBug,
    format::{NAME_MAX, PAGE},
    inode::{Inode, ROOT, owner, seconds},
    room::For,
    space::List,
    write::FILE_BYTES_MAX,
};
use alloc::vec::Vec;
use nandlab_mtd::Mtd;
use nandlab_vfs::{
    Attr, Call, DirEntry, Errno, FileSystem, FileType, Gated as _, Ino, SetAttr, StatFs, Sync,
    Time, delegate,
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
        let links = self.links(ino);
        let endian = self.flash.endian;
        Ok(self.load(ino)?.attr(ino, links, endian))
    }

    fn refer(&mut self, ino: u32) -> Result<Attr, Jffs2Error> {
        let attr = self.attr(ino)?;
        if ino != ROOT {
            *self.references.entry(ino).or_default() += 1;
        }
        Ok(attr)
    }

    pub(crate) fn check_file(&mut self, ino: Ino) -> Result<u32, Jffs2Error> {
        let ino = self.number(ino)?;
        match self.load(ino)?.kind {
            FileType::File => Ok(ino),
            FileType::Directory => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn set(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Jffs2Error> {
        let ino = match change.size {
            Some(_) => self.check_file(ino)?,
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
        self.change(Call::on("write", ino), now, |fs| {
            let ino = fs.check_file(ino)?;
            let done = fs.write_file(ino, offset, data, span.max(1))?;
            if done == data.len() {
                Ok(())
            } else {
                Err(Errno::NoSpace.into())
            }
        })
    }

    fn in_use(&self, ino: Ino) -> Result<u32, Jffs2Error> {
        self.number(ino)
    }

    fn look_up(&mut self, dir: u32, name: &[u8]) -> Result<Attr, Jffs2Error> {
        let ino = self.find(dir, name)?.ino;
        self.refer(ino)
    }

    fn target(&mut self, ino: u32) -> Result<Vec<u8>, Jffs2Error> {
        let inode = self.load(ino)?;
        match inode.kind {
            FileType::Symlink => Ok(inode.data.clone()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    fn write_data(&mut self, ino: u32, offset: u64, data: &[u8]) -> Result<usize, Jffs2Error> {
        let span = self.options.node_bytes.max(PAGE);
        let done = self.write_file(ino, offset, data, span)?;
        if span > PAGE && done < data.len() {
            return Err(Errno::NoSpace.into());
        }
        Ok(done)
    }

    fn list(
        &mut self,
        dir: u32,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(), Jffs2Error> {
        let inode = self.dir(dir)?;
        for dent in inode.dents.from(from) {
            // Types that nobody knows are files here; the inode says what it is.
            let kind = FileType::from_mode(u16::from(dent.kind) << 12).unwrap_or(FileType::File);
            if !each(DirEntry {
                ino: Ino(dent.ino.into()),
                kind,
                name: &dent.name,
                next: dent.hash + 1,
            }) {
                return Ok(());
            }
        }
        // All names that can be read are reported first.
        inode.doubt.map_or(Ok(()), |lost| {
            Err(Jffs2Error::Inode {
                ino: dir,
                what: "a node that held a name cannot be read",
                lost: Some(lost),
            })
        })
    }

    fn sizes(&mut self) -> Result<StatFs, Jffs2Error> {
        let total = self.space.total;
        let bytes = self.space.block_bytes;
        let usable = u64::from(total.free) + u64::from(total.dirty);
        let free = usable.saturating_sub(u64::from(self.limits.write) * u64::from(bytes))
            / u64::from(BLOCK);
        let good = self.space.blocks.len() as u64 - u64::from(self.space.count(List::Bad));
        Ok(StatFs {
            block_bytes: BLOCK,
            blocks: good * u64::from(bytes) / u64::from(BLOCK),
            free,
            available: free,
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX as u32,
        })
    }

    fn sync_inode(&mut self, _: u32, _: Sync) -> Result<(), Jffs2Error> {
        match self.options.seeded_bug {
            Some(SeededBug::BufferKept) => return Ok(self.flash.sync()?),
            Some(SeededBug::FsyncUnsynced) => return self.flush(),
            _ => {}
        }
        self.make_all_durable(self.options.sync_collects)
    }

    fn sync_volume(&mut self) -> Result<(), Jffs2Error> {
        self.make_all_durable(false)
    }

    fn do_due(&mut self, _: Time) -> Result<(), Jffs2Error> {
        match self.collect_pass() {
            Err(Jffs2Error::Call(_)) => Ok(()),
            outcome => outcome,
        }
    }

    /// What callers wrote so far is durable.
    fn make_all_durable(&mut self, collect: bool) -> Result<(), Jffs2Error> {
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
        // What a failed page was to hold waits for another page now.
        if self.flash.waiting_at() == page || self.failing > 0 {
            self.flush()?;
        }
        Ok(self.flash.sync()?)
    }
}

impl<M: Mtd> FileSystem for Jffs2<M> {
    delegate! { [gate]
        lookup getattr setattr create link unlink rmdir rename readlink read write next_data
        readdir fsync sync unmount statfs getxattr setxattr listxattr removexattr cause work
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = u32::try_from(ino.0) else {
            return;
        };
        let Some(count) = self.references.get_mut(&number) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count > 0 {
            return;
        }
        self.references.remove(&number);
        if self.links(number) == 0 && self.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write_call(Call::on("forget", ino), |fs| fs.destroy(number));
        }
    }

    fn due(&self) -> Option<Time> {
        (self.is_writable() && self.has_work()).then_some(self.now)
    }
}
