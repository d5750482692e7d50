//! The page cache in front of JFFS2 with the time that new pages take the processor.

use crate::layer::Processor;
use nandlab_pagecache::PageCache;
use nandlab_vfs::{FileSystem, delegate};

/// A page cache whose new pages take their time on a clock, if there is a processor.
#[derive(Debug)]
pub struct Paged<F> {
    fs: PageCache<F>,
    processor: Option<Processor>,
}

impl<F: FileSystem> Paged<F> {
    /// Without a processor, pages take no time.
    pub fn new(fs: PageCache<F>, processor: Option<Processor>) -> Self {
        Self { fs, processor }
    }

    /// Makes a call, and spends what its new pages have taken.
    fn spend<T>(&mut self, call: impl FnOnce(&mut PageCache<F>) -> T) -> T {
        let before = self.fs.brought();
        let outcome = call(&mut self.fs);
        if let Some(Processor { host, clock }) = &self.processor {
            let after = self.fs.brought();
            let read = (after.by_reads - before.by_reads) as f64 * host.costs.page_in;
            let written = (after.by_writes - before.by_writes) as f64 * host.costs.page_new;
            clock.spend(host.time(read + written));
        }
        outcome
    }
}

impl<F: FileSystem> FileSystem for Paged<F> {
    delegate! { [self.spend()] read write }
    delegate! { [self.fs]
        lookup forget getattr setattr create link unlink rmdir rename readlink readdir fsync sync
        unmount statfs getxattr setxattr listxattr removexattr dirty write_back due cause work
    }
}
