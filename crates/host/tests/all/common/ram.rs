//! A RAM disk that counts what reaches it and fails on demand.

use nandlab_block::{BlockError, Hook, Hooked, Op, Ram, Request};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

/// What reached the disk, and what it is to answer; shared with the test.
#[derive(Debug, Default)]
pub struct Probe {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    no_discard: AtomicBool,
    failure: Mutex<Option<BlockError>>,
}

#[allow(dead_code, reason = "each test program uses its part")]
impl Probe {
    pub fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }

    pub fn writes(&self) -> u64 {
        self.writes.load(SeqCst)
    }

    pub fn flushes(&self) -> u64 {
        self.flushes.load(SeqCst)
    }

    pub fn discards(&self) -> u64 {
        self.discards.load(SeqCst)
    }

    pub fn refuse_discard(&self) {
        self.no_discard.store(true, SeqCst);
    }

    /// From now on every request is answered so; `None` ends it.
    pub fn fail_with(&self, failure: Option<BlockError>) {
        *self.failure.lock().unwrap() = failure;
    }
}

/// Puts the probe beside the disk.
#[derive(Debug)]
pub struct Watch(Arc<Probe>);

impl Hook for Watch {
    fn before(&mut self, request: &Request) -> Result<(), BlockError> {
        let count = match request.op {
            Op::Read => &self.0.reads,
            Op::Write => &self.0.writes,
            Op::Flush => &self.0.flushes,
            Op::Discard if self.0.no_discard.load(SeqCst) => return Err(BlockError::Unsupported),
            Op::Discard => &self.0.discards,
            Op::Remap => return Ok(()),
        };
        count.fetch_add(1, SeqCst);
        self.0.failure.lock().unwrap().map_or(Ok(()), Err)
    }
}

pub type WatchedRam = Hooked<Ram, Watch>;

/// A disk of zeros and its probe.
pub fn watched_ram(sector: u32, sectors: u64) -> (WatchedRam, Arc<Probe>) {
    let probe = Arc::new(Probe::default());
    (
        Hooked::with(Ram::new(sector, sectors), Watch(probe.clone())),
        probe,
    )
}
