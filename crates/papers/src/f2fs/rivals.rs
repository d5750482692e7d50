//! Beyond the paper: ext4 in four ways of journaling and F2FS, on both mappings, on new and on old
//! volumes, under the work of phones and loggers.
//!
//! *Promises.* All write the same calls to the same device, whose sectors are all in use:
//! nobody trims them. Nothing but the device takes time.

use super::disk::{Disk, Pages};
use super::runs::BASES;
use super::streams::Blank;
use super::volume::{CHIP, OnDisk, PARTITION, Volume, aligned, ext4, options, preconditioned};
use super::work::SET_UP;
use crate::{PaperError, Size};
use nandlab_ext::Mode;
use nandlab_sim::{Clock, Nanos};
use nandlab_workload::SpecError;
use nandlab_workload::ageing::{Ageing, AgeingSpec};
use nandlab_workload::files::{FileCall, FileCalls};
use nandlab_workload::fsmark::{FsMark, FsMarkSpec};
use nandlab_workload::install::{Install, InstallSpec};
use nandlab_workload::iozone::{Iozone, IozoneSpec, IozoneTest};
use nandlab_workload::rollback::{Rollback, RollbackSpec};
use nandlab_workload::wal::{Wal, WalSpec};
use std::error::Error;

/// Bytes of files on an old volume, of its 768 MiB.
const LIVE: u64 = 240 << 20;
/// Rated erases of a block: MLC of the time.
const RATED: f64 = 3000.0;
/// Bytes of the flash.
const FLASH: f64 = 1280.0 * 1048576.0;

/// A file system that takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rival {
    Ext4 { mode: Mode, fast: bool },
    F2fs,
}

const fn journaled(mode: Mode) -> Rival {
    Rival::Ext4 { mode, fast: false }
}

/// All rivals, with the name in ids and that for people.
pub const RIVALS: [(Rival, &str, &str); 5] = [
    (journaled(Mode::Ordered), "ext4", "ext4, ordered"),
    (
        journaled(Mode::Journal),
        "ext4-journal",
        "ext4, contents journaled",
    ),
    (
        journaled(Mode::Unjournaled),
        "ext4-none",
        "ext4, no journal",
    ),
    (
        Rival::Ext4 {
            mode: Mode::Ordered,
            fast: true,
        },
        "ext4-fast",
        "ext4, fast commits",
    ),
    (Rival::F2fs, "f2fs", "F2FS"),
];

/// The work of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Rollback,
    Wal,
    Install,
    Camera,
    Logger,
}

/// All tasks, in their order on one volume.
pub const TASKS: [(Task, &str, &str); 5] = [
    (
        Task::Rollback,
        "sqlite-rollback",
        "SQLite, rollback journal",
    ),
    (Task::Wal, "sqlite-wal", "SQLite, WAL"),
    (Task::Install, "install", "app install"),
    (Task::Camera, "camera", "camera"),
    (Task::Logger, "logger", "logger"),
];

impl Task {
    /// Its calls; a small one is for a quick look.
    fn open(self, size: Size) -> Result<Blank, SpecError> {
        let part = if size == Size::Small { 10 } else { 1 };
        let calls: Box<dyn FileCalls> = match self {
            Self::Rollback => Box::new(Rollback::new(RollbackSpec {
                pages: 1024,
                transactions: 2000 / part,
                ..RollbackSpec::default()
            })?),
            Self::Wal => Box::new(Wal::new(WalSpec {
                pages: 1024,
                transactions: 4000 / part,
                ..WalSpec::default()
            })?),
            Self::Install => Box::new(Install::new(InstallSpec {
                apps: 20 / part,
                package: (1 << 20, 4 << 20),
                ..InstallSpec::default()
            })?),
            Self::Camera => Box::new(FsMark::new(FsMarkSpec {
                files: 40 / part,
                bytes: 2 << 20,
                piece: 64 << 10,
                ..FsMarkSpec::default()
            })?),
            Self::Logger => Box::new(Iozone::new(IozoneSpec {
                bytes: (16 << 20) / part,
                record: 4 << 10,
                tests: [IozoneTest::Write].into(),
                sync: true,
                ..IozoneSpec::default()
            })?),
        };
        Ok(Blank(calls))
    }
}

/// The figures of one task.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub seconds: f64,
    /// Bytes that the program wrote.
    pub bytes: u64,
    /// The work of the device.
    pub pages: Pages,
    /// Times of the calls that make something durable, sorted.
    durable: Vec<Nanos>,
    /// Bytes of a page.
    page: u64,
}

impl Done {
    /// Counts what the device did from one moment to another.
    fn count(&mut self, before: (Pages, Nanos), after: (Pages, Nanos)) {
        self.pages = self.pages.with(&after.0.since(&before.0));
        self.seconds += (after.1 - before.1) as f64 / 1e9;
    }

    /// Calls that made something durable, a second.
    pub fn durable_rate(&self) -> f64 {
        self.durable.len() as f64 / self.seconds
    }

    /// Bytes that the program wrote, a second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// The time that so many of a thousand durable calls do not exceed, in ms.
    pub fn per_mille(&self, share: usize) -> f64 {
        let at = (self.durable.len() * share).div_ceil(1000).max(1) - 1;
        self.durable.get(at).map_or(0.0, |ns| *ns as f64 / 1e6)
    }

    /// Bytes programmed for each that the program wrote.
    pub fn amplification(&self) -> f64 {
        (self.pages.programmed * self.page) as f64 / self.bytes as f64
    }

    /// Bytes that the program can write until all blocks have their rated erases.
    pub fn lifetime(&self) -> f64 {
        FLASH * RATED / self.amplification()
    }
}

/// All tasks of one file system, one after the other.
pub struct Run {
    /// The place in [`RIVALS`].
    pub rival: usize,
    /// The place in [`BASES`].
    pub base: usize,
    pub is_old: bool,
    /// In the order of [`TASKS`].
    pub done: Vec<Done>,
}

/// Which runs there are: file system, base, and whether the volume is old.
pub fn all(size: Size) -> Vec<(usize, usize, bool)> {
    let bases = if size == Size::Small {
        1..2
    } else {
        0..BASES.len()
    };
    let old: &[bool] = if size == Size::Small {
        &[false]
    } else {
        &[false, true]
    };
    let each = bases.flat_map(|base| old.iter().map(move |old| (base, *old)));
    each.flat_map(|(base, old)| (0..RIVALS.len()).map(move |rival| (rival, base, old)))
        .collect()
}

pub fn run((rival, base, is_old): (usize, usize, bool), size: Size) -> Result<Run, PaperError> {
    let done = ran(rival, base, is_old, size);
    Ok(Run {
        rival,
        base,
        is_old,
        done: done.map_err(|error| PaperError::wrong(RIVALS[rival].2, error))?,
    })
}

fn ran(rival: usize, base: usize, is_old: bool, size: Size) -> Result<Vec<Done>, Box<dyn Error>> {
    let mut stack = preconditioned(BASES[base].settings.iter().chain(&[CHIP]))?;
    let clock = stack.clock.clone();
    let device = stack.disk()?;
    let page = device.geometry().page.into();
    let disk = Disk::new(device, PARTITION, false);
    match RIVALS[rival].0 {
        Rival::Ext4 { mode, fast } => {
            let options = nandlab_ext::Options {
                mode,
                fast_commit: fast,
                ..nandlab_ext::Options::default()
            };
            let volume = Volume::of(ext4(disk, options)?, &clock);
            worked(volume, (&clock, page), is_old, size)
        }
        Rival::F2fs => {
            let volume = Volume::new(disk, (&aligned(), options()), &clock)?;
            worked(volume, (&clock, page), is_old, size)
        }
    }
}

fn worked<F: OnDisk>(
    mut volume: Volume<F>,
    (clock, page): (&Clock, u64),
    is_old: bool,
    size: Size,
) -> Result<Vec<Done>, Box<dyn Error>> {
    if is_old {
        let calls = Blank(Box::new(Ageing::new(AgeingSpec {
            bytes: LIVE,
            file: (64 << 10, 16 << 20),
            piece: 64 << 10,
            rounds: 5,
            ..AgeingSpec::default()
        })?));
        volume.enter("old")?;
        played(&mut volume, calls, clock)?;
    }
    let task = |(task, key, _): (Task, &str, &str)| {
        volume.enter(key)?;
        let done = played(&mut volume, task.open(size)?, clock)?;
        Ok(Done { page, ..done })
    };
    TASKS.into_iter().map(task).collect()
}

/// Plays calls to their end, and counts all but the set-up.
fn played<F: OnDisk>(
    volume: &mut Volume<F>,
    mut calls: Blank,
    clock: &Clock,
) -> Result<Done, Box<dyn Error>> {
    let mut done = Done::default();
    let mut began = None;
    while let Some(call) = calls.next() {
        let is_counted = calls.phase() != SET_UP;
        if is_counted != began.is_some() {
            let now = (volume.fs.pages(), clock.now());
            match began.take() {
                Some(before) => done.count(before, now),
                None => began = Some(now),
            }
        }
        let from = clock.now();
        volume.step(&calls, &call)?;
        match call {
            FileCall::Write { length, .. } if is_counted => done.bytes += length,
            FileCall::Fsync { .. } | FileCall::Fdatasync { .. } | FileCall::Sync if is_counted => {
                done.durable.push(clock.now() - from);
            }
            _ => {}
        }
    }
    if let Some(before) = began {
        done.count(before, (volume.fs.pages(), clock.now()));
    }
    done.durable.sort_unstable();
    Ok(done)
}
