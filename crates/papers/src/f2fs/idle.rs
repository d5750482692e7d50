//! Idle cleaning: small durable writes in bursts, with and without gaps, with and without the
//! background cleaner; how long a write and its fsync take.

use super::disk::Disk;
use super::runs::PAGE;
use super::streams::Blank;
use super::volume::{CHIP, PARTITION, Volume, aligned, options, preconditioned, since};
use super::work::FILES_REWRITTEN;
use crate::{PaperError, Size};
use nandlab_f2fs::{Counts, Options};
use nandlab_sim::{Nanos, mix};
use nandlab_workload::files::{FileCall, FileId};
use nandlab_workload::rewrites::{Rewrites, RewritesSpec};
use std::error::Error;

/// Bytes of each file; together nine tenths of what F2FS leaves to files.
pub const FILE: u64 = 44 << 20;
/// Bytes of a burst, and of a write.
pub const BURST: u64 = 8 << 20;
const RECORD: u64 = 4096;
/// Nothing is asked between two bursts for so long.
pub const GAP: Nanos = 180_000_000_000;

/// Whether there are gaps, and a cleaner to use them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    gap: Nanos,
    has_cleaner: bool,
}

pub const PAUSES: [Pauses; 3] = [
    Pauses {
        key: "no-gaps",
        name: "no gaps",
        gap: 0,
        has_cleaner: true,
    },
    Pauses {
        key: "gaps-no-cleaner",
        name: "gaps of 180 s, no background cleaner",
        gap: GAP,
        has_cleaner: false,
    },
    Pauses {
        key: "gaps",
        name: "gaps of 180 s, background cleaner",
        gap: GAP,
        has_cleaner: true,
    },
];

/// What came of one seed, in the second half of the bursts.
#[derive(Clone, Debug)]
pub struct Waited {
    /// Times of all writes with their fsyncs, ascending, ns.
    times: Vec<Nanos>,
    /// Calls and blocks that F2FS counted.
    pub counts: Counts,
}

impl Waited {
    /// The time that so many of a thousand do not exceed, in ms.
    pub fn per_mille(&self, share: usize) -> f64 {
        let at = (self.times.len() * share).div_ceil(1000).max(1) - 1;
        self.times[at.min(self.times.len() - 1)] as f64 / 1e6
    }

    /// The longest, in ms.
    pub fn longest(&self) -> f64 {
        self.per_mille(1000)
    }
}

pub fn run(pauses: &Pauses, size: Size, seed: u64) -> Result<Waited, PaperError> {
    ran(pauses, size, seed).map_err(|error| PaperError::wrong(pauses.name, error))
}

fn ran(pauses: &Pauses, size: Size, seed: u64) -> Result<Waited, Box<dyn Error>> {
    let mut stack = preconditioned(PAGE.iter().chain(&[CHIP]))?;
    let clock = stack.clock.clone();
    let device = stack.disk()?;
    let usual = options();
    let options = Options {
        threaded: false,
        cleaning_interval: if pauses.has_cleaner {
            usual.cleaning_interval
        } else {
            0
        },
        ..usual
    };
    let disk = Disk::new(device, PARTITION, true);
    let mut volume = Volume::new(disk, (&aligned(), options), &clock)?;
    let mut calls = Blank(Box::new(Rewrites::new(RewritesSpec {
        seed,
        files: FILES_REWRITTEN,
        bytes: FILE,
        spread: 0,
        rounds: 0,
        ..RewritesSpec::default()
    })?));
    for call in calls
        .by_ref()
        .take_while(|call| *call != FileCall::Sync)
        .collect::<Vec<_>>()
    {
        volume.step(&calls, &call)?;
    }
    volume.step(&calls, &FileCall::Sync)?;
    let bursts = if size == Size::Small { 16 } else { 64 };
    let mut times = Vec::new();
    let mut before = Counts::default();
    for burst in 0..bursts {
        if burst == bursts / 2 {
            times.clear();
            before = volume.fs.counts();
        }
        for write in 0..BURST / RECORD {
            let word = mix(mix(seed, burst), write);
            let file = FileId((word % FILES_REWRITTEN) as u32);
            let offset = (word >> 8) % (FILE / RECORD) * RECORD;
            let from = clock.now();
            let write = FileCall::Write {
                file,
                offset,
                length: RECORD,
                version: 1,
            };
            volume.step(&calls, &write)?;
            volume.step(&calls, &FileCall::Fsync { file })?;
            times.push(clock.now() - from);
        }
        volume.wait(pauses.gap)?;
    }
    times.sort_unstable();
    Ok(Waited {
        times,
        counts: since(&before, &volume.fs.counts()),
    })
}
