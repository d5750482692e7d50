//! JFFS2 with the time that its work takes the processor: nodes, checksums, compression.

use crate::HostDescription;
use nandlab_jffs2::{Jffs2, Work};
use nandlab_mtd::Mtd;
use nandlab_sim::Clock;
use nandlab_vfs::{Errno, FileSystem, Ino, Time, delegate};

/// A mounted medium whose every call takes its time on a clock, if there is a processor.
#[derive(Debug)]
pub struct Worked<M> {
    fs: Jffs2<M>,
    node_bytes: u32,
    driven: Option<(HostDescription, Clock)>,
}

impl<M: Mtd> Worked<M> {
    /// Writes in nodes of so many bytes of a file at most.
    pub fn new(fs: Jffs2<M>, node_bytes: u32, driven: Option<(HostDescription, Clock)>) -> Self {
        Self {
            fs,
            node_bytes,
            driven,
        }
    }

    /// The file system itself.
    pub fn inner(&self) -> &Jffs2<M> {
        &self.fs
    }

    /// The same, to be looked at in ways that change what it keeps in memory.
    pub fn inner_mut(&mut self) -> &mut Jffs2<M> {
        &mut self.fs
    }

    /// Gives it back.
    pub fn into_inner(self) -> Jffs2<M> {
        self.fs
    }

    /// Makes a call, and spends what it has taken.
    fn spend<T>(&mut self, call: impl FnOnce(&mut Jffs2<M>) -> T) -> T {
        let before = self.fs.worked();
        let outcome = call(&mut self.fs);
        if let Some((host, clock)) = &self.driven {
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

impl<M: Mtd> FileSystem for Worked<M> {
    delegate! { [self.spend()]
        lookup forget getattr setattr create link unlink rmdir rename readlink read readdir fsync
        sync unmount statfs getxattr setxattr listxattr removexattr write_back work
    }
    delegate! { [self.fs] dirty due cause }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let span = self.node_bytes;
        if span <= nandlab_jffs2::PAGE {
            return self.spend(|fs| fs.write(ino, offset, data, now));
        }
        self.spend(|fs| fs.write_pages(ino, offset, data, span, now))
            .map(|()| data.len())
    }
}
