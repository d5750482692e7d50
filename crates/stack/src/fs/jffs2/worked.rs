//! JFFS2 with the time that its work takes the processor: nodes, checksums, compression.

use crate::layer::Processor;
use nandlab_jffs2::{Jffs2, Work};
use nandlab_mtd::Mtd;
use nandlab_vfs::{
    Attr, Caller, DirEntry, Dirty, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr,
    StatFs, Sync, Time,
};

/// A mounted medium whose every call takes its time on a clock, if there is a processor.
#[derive(Debug)]
pub struct Worked<M> {
    fs: Jffs2<M>,
    processor: Option<Processor>,
}

impl<M: Mtd> Worked<M> {
    /// Without a processor, calls take only the medium's time.
    pub fn new(fs: Jffs2<M>, processor: Option<Processor>) -> Self {
        Self { fs, processor }
    }

    /// Makes a call, and spends what it has taken.
    fn spend<T>(&mut self, call: impl FnOnce(&mut Jffs2<M>) -> T) -> T {
        let before = self.fs.worked();
        let outcome = call(&mut self.fs);
        if let Some(Processor { host, clock }) = &self.processor {
            clock.spend(host.jffs2(&difference(&self.fs.worked(), &before)));
        }
        outcome
    }
}

fn difference(after: &Work, before: &Work) -> Work {
    let coded =
        |after: &nandlab_jffs2::Coded, before: &nandlab_jffs2::Coded| nandlab_jffs2::Coded {
            plain: after.plain - before.plain,
            packed: after.packed - before.packed,
            unpacked: after.unpacked - before.unpacked,
            unpacked_from: after.unpacked_from - before.unpacked_from,
        };
    Work {
        nodes: after.nodes - before.nodes,
        bytes: after.bytes - before.bytes,
        bytes_read: after.bytes_read - before.bytes_read,
        lzo: coded(&after.lzo, &before.lzo),
        zlib: coded(&after.zlib, &before.zlib),
        rtime: coded(&after.rtime, &before.rtime),
        passes: after.passes - before.passes,
    }
}

macro_rules! at_a_price {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> $result {
            self.spend(|fs| fs.$name($($arg),*))
        }
    )*};
}

impl<M: Mtd> FileSystem for Worked<M> {
    at_a_price! {
        lookup(dir: Ino, name: &[u8]) -> Result<Attr, Errno>;
        forget(ino: Ino, references: u64) -> ();
        getattr(ino: Ino) -> Result<Attr, Errno>;
        setattr(ino: Ino, change: &SetAttr, now: Time) -> Result<Attr, Errno>;
        create(dir: Ino, name: &[u8], node: NewNode<'_>, mode: u16, by: Caller) -> Result<Attr, Errno>;
        link(ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr, Errno>;
        unlink(dir: Ino, name: &[u8], now: Time) -> Result<(), Errno>;
        rmdir(dir: Ino, name: &[u8], now: Time) -> Result<(), Errno>;
        rename(from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename, now: Time) -> Result<(), Errno>;
        readlink(ino: Ino) -> Result<Vec<u8>, Errno>;
        read(ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, Errno>;
        write(ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno>;
        readdir(dir: Ino, from: u64, each: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<(), Errno>;
        fsync(ino: Ino, what: Sync) -> Result<(), Errno>;
        sync() -> Result<(), Errno>;
        unmount() -> Result<(), Errno>;
        statfs() -> Result<StatFs, Errno>;
        getxattr(ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno>;
        setxattr(ino: Ino, name: &[u8], value: &[u8], expect: SetXattr, now: Time) -> Result<(), Errno>;
        listxattr(ino: Ino) -> Result<Vec<Vec<u8>>, Errno>;
        removexattr(ino: Ino, name: &[u8], now: Time) -> Result<(), Errno>;
        write_back(bytes: u64, until: Time) -> Result<u64, Errno>;
        work(now: Time) -> Result<(), Errno>;
    }

    fn dirty(&self) -> Dirty {
        self.fs.dirty()
    }

    fn due(&self) -> Option<Time> {
        self.fs.due()
    }
}
