//! The calls of a file system, each checked here and carried out elsewhere.

use crate::bug::SeededBug;
use crate::compress::Packed;
use crate::error::Result;
use crate::format::BLOCK;
use crate::inode;
use crate::journal::Head;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::vec::Vec;
use nandlab_vfs::{
    Attr, Call, Caller, Cause, DirEntry, Errno, FileSystem, FileType, Gated as _, Ino, NAME_MAX,
    NewNode, Rename, SetAttr, SetXattr, StatFs, Sync, Time,
};

/// Seconds that a node stays in memory at most; Linux's `dirty_writeback_centisecs`.
const WRITE_SECS: i64 = 5;

type Answer<T = ()> = core::result::Result<T, Errno>;

impl<L: Lebs> Ubifs<L> {
    fn attr(&mut self, ino: Ino) -> Result<Attr> {
        Ok(self.inode(ino)?.0.attr)
    }

    /// One more reference, where they are counted.
    fn refer(&mut self, ino: Ino) -> Result<Attr> {
        let attr = self.attr(ino)?;
        if self.gate.is_writable() && ino != Ino::ROOT {
            let number = inode::number(ino)?;
            *self.writer.references.entry(number).or_default() += 1;
        }
        Ok(attr)
    }

    /// Makes a call that writes. Its time starts the timer of nodes that it leaves in memory.
    fn change<T>(
        &mut self,
        call: Call<'_>,
        now: Time,
        run: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Answer<T> {
        self.writer.now = now;
        self.write_call(call, run)
    }

    fn check_file(&mut self, ino: Ino) -> Result<u32> {
        let (inode, _) = self.inode(ino)?;
        match inode.kind {
            FileType::File => Ok(inode.number),
            FileType::Directory => Err(Errno::IsDirectory.into()),
            _ => Err(Errno::Invalid.into()),
        }
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Writes packed contents. The volume becomes the one that
    /// [`write`](FileSystem::write) makes.
    pub fn write_packed(
        &mut self,
        ino: Ino,
        offset: u64,
        (data, packed): (&[u8], &Packed),
        now: Time,
    ) -> Answer<usize> {
        self.change(Call::on("write", ino), now, |fs| {
            let number = fs.check_file(ino)?;
            match data.is_empty() {
                true => Ok(0),
                false => fs.write_data(number, offset, (data, packed), now),
            }
        })
    }
}

impl<L: Lebs> FileSystem for Ubifs<L> {
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Answer<Attr> {
        self.look(Call::named("lookup", dir, name), |fs| {
            let ino = fs.look_up(dir, name)?;
            fs.refer(ino)
        })
    }

    fn forget(&mut self, ino: Ino, references: u64) {
        let Ok(number) = inode::number(ino) else {
            return;
        };
        let Some(count) = self.writer.references.get_mut(&number) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count > 0 {
            return;
        }
        self.writer.references.remove(&number);
        if self.writer.orphans.contains(&number) && self.gate.is_writable() {
            // A failure shows at the next call that writes.
            _ = self.write_call(Call::on("forget", ino), |fs| fs.bury(number));
        }
    }

    fn getattr(&mut self, ino: Ino) -> Answer<Attr> {
        self.look(Call::on("getattr", ino), |fs| fs.attr(ino))
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Answer<Attr> {
        self.change(Call::on("setattr", ino), now, |fs| {
            if let Some(size) = change.size {
                fs.check_file(ino)?;
                if size > crate::format::FILE_MAX {
                    return Err(Errno::FileTooBig.into());
                }
            }
            fs.set(inode::number(ino)?, change, now)?;
            fs.attr(ino)
        })
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        node: NewNode<'_>,
        mode: u16,
        by: Caller,
    ) -> Answer<Attr> {
        self.change(Call::named("create", dir, name), by.now, |fs| {
            let number = fs.make(inode::number(dir)?, name, node, mode, by)?;
            fs.refer(Ino(number.into()))
        })
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Answer<Attr> {
        self.change(Call::named("link", dir, name), now, |fs| {
            fs.link_name(inode::number(ino)?, inode::number(dir)?, name, now)?;
            fs.refer(ino)
        })
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Answer {
        self.change(Call::named("unlink", dir, name), now, |fs| {
            fs.remove(inode::number(dir)?, name, false, now)
        })
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Answer {
        self.change(Call::named("rmdir", dir, name), now, |fs| {
            fs.remove(inode::number(dir)?, name, true, now)
        })
    }

    fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename, now: Time) -> Answer {
        self.change(Call::named("rename", from.0, from.1), now, |fs| {
            let old = (inode::number(from.0)?, from.1);
            let new = (inode::number(to.0)?, to.1);
            fs.rename_name(old, new, how, now)
        })
    }

    fn readlink(&mut self, ino: Ino) -> Answer<Vec<u8>> {
        self.look(Call::on("readlink", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            match inode.kind {
                FileType::Symlink => Ok(inode.data),
                _ => Err(Errno::Invalid.into()),
            }
        })
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Answer<usize> {
        self.look(Call::on("read", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            fs.read_file(&inode, offset, buf)
        })
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Answer<usize> {
        self.write_packed(ino, offset, (data, &Packed::default()), now)
    }

    fn readdir(
        &mut self,
        dir: Ino,
        from: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Answer {
        self.look(Call::on("readdir", dir), |fs| fs.list(dir, from, each))
    }

    fn fsync(&mut self, ino: Ino, _: Sync) -> Answer {
        if self.gate.is_read_only() {
            return self.look(Call::on("fsync", ino), |_| Ok(()));
        }
        self.write_call(Call::on("fsync", ino), |fs| {
            fs.inode(ino)?;
            match fs.media.has_bug(SeededBug::FsyncContents) {
                true => fs.flush(Head::Data)?,
                false => fs.flush_all()?,
            }
            fs.media.sync()
        })
    }

    fn sync(&mut self) -> Answer {
        if self.gate.is_read_only() {
            return self.look(Call::new("sync"), |_| Ok(()));
        }
        self.write_call(Call::new("sync"), Self::commit)
    }

    fn unmount(&mut self) -> Answer {
        let call = Call::new("unmount");
        if self.gate.is_writable() {
            self.write_call(call, Self::retire)?;
        }
        self.gate.close().map(drop).map_err(|_| Errno::ReadOnly)
    }

    fn statfs(&mut self) -> Answer<StatFs> {
        let all = self.all_bytes();
        let free = self.free_bytes() / u64::from(BLOCK);
        Ok(StatFs {
            block_bytes: BLOCK,
            blocks: (all / u64::from(BLOCK)).max(free),
            free,
            available: free,
            inodes: self.highest_inode,
            name_max: NAME_MAX as u32,
            ..StatFs::default()
        })
    }

    fn getxattr(&mut self, ino: Ino, name: &[u8]) -> Answer<Vec<u8>> {
        self.look(Call::on("getxattr", ino), |fs| fs.xattr(ino, name))
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Answer {
        self.change(Call::on("setxattr", ino), now, |fs| {
            fs.set_xattr(inode::number(ino)?, name, value, expect, now)
        })
    }

    fn listxattr(&mut self, ino: Ino) -> Answer<Vec<Vec<u8>>> {
        self.look(Call::on("listxattr", ino), |fs| fs.xattr_names(ino))
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Answer {
        self.change(Call::on("removexattr", ino), now, |fs| {
            fs.remove_xattr(inode::number(ino)?, name, now)
        })
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Answer<u64> {
        self.look(Call::on("next_data", ino), |fs| {
            let (inode, _) = fs.inode(ino)?;
            fs.next_data_of(&inode, offset)
        })
    }

    fn due(&self) -> Option<Time> {
        let since = self.waits_since().filter(|_| self.gate.is_writable())?;
        Some(Time {
            secs: since.secs.saturating_add(WRITE_SECS),
            ..since
        })
    }

    fn work(&mut self, now: Time) -> Answer {
        match self.due() {
            Some(due) if due <= now => self.write_call(Call::new("work"), |fs| {
                match fs.media.has_bug(SeededBug::ForgetTimer) {
                    true => fs.flush(Head::Data)?,
                    false => fs.flush_all()?,
                }
                fs.media.sync()
            }),
            _ => Ok(()),
        }
    }

    fn cause(&mut self) -> Option<Cause> {
        self.take_cause()
    }
}
