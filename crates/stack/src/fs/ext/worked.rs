//! ext with the processor's time for blocks: allocating, writing and logging them.

use crate::layer::Processor;
use nandlab_block::BlockDevice;
use nandlab_ext::{Ext, Work};
use nandlab_sim::Nanos;
use nandlab_vfs::{Errno, FileSystem, Ino, Time, delegate};

/// Bytes of a page of the page cache.
const PAGE: u64 = 4096;

/// A mounted volume whose every call takes its time on a clock, if there is a processor.
#[derive(Debug)]
pub struct Worked<D> {
    fs: Ext<D>,
    processor: Option<Processor>,
    journaled: bool,
}

impl<D: BlockDevice> Worked<D> {
    /// Without a processor, calls take only the medium's time.
    pub fn new(fs: Ext<D>, processor: Option<Processor>, journaled: bool) -> Self {
        Self {
            fs,
            processor,
            journaled,
        }
    }

    /// Makes a call, and spends what it has taken.
    fn spend<T>(&mut self, call: impl FnOnce(&mut Ext<D>) -> T) -> T {
        let before = self.fs.worked();
        let outcome = call(&mut self.fs);
        if let Some(Processor { host, clock }) = &self.processor {
            let work = difference(&self.fs.worked(), &before);
            clock.spend(host.ext(&work, self.fs.layout().block));
        }
        outcome
    }

    /// Instructions of a write besides its blocks: new pages of the page cache, and the journal's
    /// handles.
    fn write_cost(&self, offset: u64, length: u64, taken: u64) -> Nanos {
        let Some(Processor { host, .. }) = &self.processor else {
            return 0;
        };
        let costs = &host.costs;
        let end = offset + length;
        let touched = end.div_ceil(PAGE) - offset / PAGE;
        let begun = end.div_ceil(PAGE) - offset.div_ceil(PAGE);
        let mut cost = begun.min(taken) as f64 * costs.page_in;
        if self.journaled {
            cost += costs.journal_call + touched.min(taken) as f64 * costs.journal_page;
        }
        host.time(cost)
    }
}

fn difference(after: &Work, before: &Work) -> Work {
    Work {
        taken: after.taken - before.taken,
        written: after.written - before.written,
        logged: after.logged - before.logged,
    }
}

impl<D: BlockDevice> FileSystem for Worked<D> {
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<usize, Errno> {
        let before = self.fs.worked().taken;
        let outcome = self.spend(|fs| fs.write(ino, offset, data, now));
        let taken = self.fs.worked().taken - before;
        let cost = self.write_cost(offset, data.len() as u64, taken);
        if let Some(Processor { clock, .. }) = &self.processor {
            clock.spend(cost);
        }
        outcome
    }

    delegate! { [self.spend()]
        lookup forget getattr setattr create link unlink rmdir rename readlink read readdir fsync
        sync unmount statfs getxattr setxattr listxattr removexattr write_back work
    }
    delegate! { [self.fs] dirty due cause }
}
