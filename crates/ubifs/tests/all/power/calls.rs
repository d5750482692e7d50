//! Counts of the calls of a run, to prove that a run made them.

use nandlab_vfs::{Attr, Errno, FileSystem, Ino, Rename, SetAttr, SetXattr, Sync, Time, delegate};
use std::ops::AddAssign;

/// Calls that succeeded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub fsyncs: u64,
    /// Timers that wrote the journal's nodes.
    pub timers: u64,
    pub links: u64,
    pub renames: u64,
    pub exchanges: u64,
    /// Files that became shorter.
    pub truncations: u64,
    pub attributes_set: u64,
    pub attributes_removed: u64,
}

impl Calls {
    /// Asserts that the run made each call so often at least.
    pub fn assert(&self, least: u64) {
        let all = [
            self.fsyncs,
            self.links,
            self.renames,
            self.exchanges,
            self.truncations,
            self.attributes_set,
            self.attributes_removed,
        ];
        assert!(all.iter().all(|count| *count >= least), "{self:?}");
    }
}

impl AddAssign for Calls {
    fn add_assign(&mut self, other: Self) {
        self.fsyncs += other.fsyncs;
        self.timers += other.timers;
        self.links += other.links;
        self.renames += other.renames;
        self.exchanges += other.exchanges;
        self.truncations += other.truncations;
        self.attributes_set += other.attributes_set;
        self.attributes_removed += other.attributes_removed;
    }
}

/// Counts the calls of a file system.
pub struct Counted<'a, F> {
    pub fs: &'a mut F,
    pub calls: &'a mut Calls,
}

impl<F: FileSystem> FileSystem for Counted<'_, F> {
    delegate! { [self.fs]
        lookup forget getattr create unlink rmdir readlink read write readdir sync unmount statfs
        getxattr listxattr next_data dirty write_back due cause
    }

    fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno> {
        let before = self.fs.getattr(ino)?;
        let after = self.fs.setattr(ino, change, now)?;
        self.calls.truncations += u64::from(after.size < before.size);
        Ok(after)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno> {
        let attr = self.fs.link(ino, dir, name, now)?;
        self.calls.links += 1;
        Ok(attr)
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: Rename,
        now: Time,
    ) -> Result<(), Errno> {
        self.fs.rename(from, to, how, now)?;
        match how {
            Rename::Exchange => self.calls.exchanges += 1,
            _ => self.calls.renames += 1,
        }
        Ok(())
    }

    fn fsync(&mut self, ino: Ino, what: Sync) -> Result<(), Errno> {
        self.fs.fsync(ino, what)?;
        self.calls.fsyncs += 1;
        Ok(())
    }

    fn setxattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        expect: SetXattr,
        now: Time,
    ) -> Result<(), Errno> {
        self.fs.setxattr(ino, name, value, expect, now)?;
        self.calls.attributes_set += 1;
        Ok(())
    }

    fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<(), Errno> {
        self.fs.removexattr(ino, name, now)?;
        self.calls.attributes_removed += 1;
        Ok(())
    }

    fn work(&mut self, now: Time) -> Result<(), Errno> {
        let was_due = self.fs.due().is_some_and(|due| due <= now);
        self.fs.work(now)?;
        self.calls.timers += u64::from(was_due);
        Ok(())
    }
}
