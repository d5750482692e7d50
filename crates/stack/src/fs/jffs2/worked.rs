//! JFFS2 with the time that its work takes the processor: nodes, checksums, compression.

use crate::layer::Processor;
use nandlab_jffs2::{Coded, Jffs2, Work};
use nandlab_mtd::Mtd;
use nandlab_vfs::{FileSystem, delegate};

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

/// The work that was done between two looks at it.
fn difference(after: &Work, before: &Work) -> Work {
    let coded = |after: &Coded, before: &Coded| Coded {
        runs: after.runs - before.runs,
        plain: after.plain - before.plain,
        packed: after.packed - before.packed,
        unpacked: after.unpacked - before.unpacked,
        unpacked_from: after.unpacked_from - before.unpacked_from,
    };
    Work {
        nodes: after.nodes - before.nodes,
        bytes: after.bytes - before.bytes,
        bytes_read: after.bytes_read - before.bytes_read,
        nodes_read: after.nodes_read - before.nodes_read,
        parts_read: after.parts_read - before.parts_read,
        obsoleted: after.obsoleted - before.obsoleted,
        programs: after.programs - before.programs,
        packed: after.packed - before.packed,
        unpacked: after.unpacked - before.unpacked,
        lzo: coded(&after.lzo, &before.lzo),
        zlib: coded(&after.zlib, &before.zlib),
        rtime: coded(&after.rtime, &before.rtime),
        passes: after.passes - before.passes,
    }
}

impl<M: Mtd> FileSystem for Worked<M> {
    delegate! { [self.spend()]
        lookup forget getattr setattr create link unlink rmdir rename readlink read write readdir fsync
        sync unmount statfs getxattr setxattr listxattr removexattr write_back work
    }
    delegate! { [self.fs] dirty due cause }
}
