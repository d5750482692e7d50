//! A file system on a device: calls on the device's clock, and what F2FS counts.
//!
//! *Promises.* Nothing but the device takes time. Work of the file system's own is done when it
//! falls due, between two calls.

use super::cells::EMMC;
use super::disk::{Disk, Pages};
use super::work::REQUEST;
use nandlab_block::{BlockDevice, Lba};
use nandlab_ext::{Ext, Mode};
use nandlab_f2fs::{Counts, F2fs, Format, Options};
use nandlab_lab::play::Player;
use nandlab_lab::run::precondition;
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::Stack;
use nandlab_vfs::{Caller, FileSystem, Ino, Time};
use nandlab_workload::files::{FileCall, FileCalls};
use std::error::Error;

const SECOND: Nanos = 1_000_000_000;
/// Sleep of Linux's flusher (`dirty_writeback_centisecs`).
const FLUSHER_SLEEP: Nanos = 5 * SECOND;
/// Seconds after which it writes a page (`dirty_expire_centisecs`).
const FLUSHER_AGE: i64 = 30;

/// A device that is small enough to be collected soon, and the partition on it.
pub const CHIP: &str = "chip.size=1280 MiB";
/// Bytes of that partition.
pub const PARTITION: u64 = 768 << 20;

/// The eMMC with some settings changed, after its preconditioning.
pub fn preconditioned<S: ToString>(
    settings: impl IntoIterator<Item = S>,
) -> Result<Stack, Box<dyn Error>> {
    let experiment = EMMC.with(settings)?;
    let mut stack = Stack::build(&experiment.stack)?;
    let clock = stack.clock.clone();
    precondition(stack.disk()?, &clock, &experiment.run, &mut |_| ())?;
    Ok(stack)
}

/// Sections are superblocks and zones are groups of the mapping, as in `papers/f2fs/emmc.toml`.
pub fn aligned() -> Format {
    Format {
        segs_per_sec: 4,
        secs_per_zone: 4,
        ..Format::default()
    }
}

/// Mounted as in `papers/f2fs/emmc.toml`.
pub fn options() -> Options {
    Options {
        discard: false,
        ordered: false,
        request_bytes: REQUEST,
        ..Options::default()
    }
}

/// A file system that lies on the partition.
pub trait OnDisk: FileSystem {
    /// The device's work so far.
    fn pages(&mut self) -> Pages;

    /// The work of F2FS so far; nothing for another.
    fn done(&self) -> Counts;
}

impl OnDisk for F2fs<Disk<'_>> {
    fn pages(&mut self) -> Pages {
        self.device_mut().pages()
    }

    fn done(&self) -> Counts {
        self.counts()
    }
}

impl OnDisk for Ext<Disk<'_>> {
    fn pages(&mut self) -> Pages {
        self.device_mut().pages()
    }

    fn done(&self) -> Counts {
        Counts::default()
    }
}

/// Our ext4, made as mke2fs makes one: it trims the partition first.
pub fn ext4<'a>(
    mut disk: Disk<'a>,
    options: nandlab_ext::Options,
) -> Result<Ext<Disk<'a>>, Box<dyn Error>> {
    let format = nandlab_ext::Format {
        journal: options.mode != Mode::Unjournaled,
        ext4: true,
        fast_commit: options.fast_commit,
        block: Some(4096),
        ..nandlab_ext::Format::default()
    };
    let sectors = disk.geometry().sectors;
    disk.discard(Lba(0), sectors)?;
    nandlab_ext::format(&mut disk, &format)?;
    Ok(Ext::mount(disk, options)?)
}

/// A mounted volume, and the program that works on it.
pub struct Volume<F> {
    pub fs: F,
    player: Player,
    clock: Clock,
}

impl<'a> Volume<F2fs<Disk<'a>>> {
    pub fn new(
        mut disk: Disk<'a>,
        (format, options): (&Format, Options),
        clock: &Clock,
    ) -> Result<Self, Box<dyn Error>> {
        nandlab_f2fs::format(&mut disk, format)?;
        Ok(Self::of(F2fs::mount(disk, options)?, clock))
    }
}

impl<F: FileSystem> Volume<F> {
    pub fn of(fs: F, clock: &Clock) -> Self {
        Self {
            fs,
            player: Player::new(Ino::ROOT),
            clock: clock.clone(),
        }
    }

    fn now(&self) -> Time {
        let now = self.clock.now();
        Time {
            secs: (now / SECOND) as i64,
            nanos: (now % SECOND) as u32,
        }
    }

    /// From here on names lie in a new directory of the root.
    pub fn enter(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let caller = Caller::root(self.now());
        let made = self.fs.mkdir(Ino::ROOT, name.as_bytes(), 0o755, caller)?;
        self.player = Player::new(made.ino);
        Ok(())
    }

    /// Carries out one call of a stream.
    pub fn step(&mut self, calls: &dyn FileCalls, call: &FileCall) -> Result<(), Box<dyn Error>> {
        let now = self.now();
        if self.fs.due().is_some_and(|due| due <= now) {
            self.fs.work(now)?;
        }
        let now = self.now();
        Ok(self.player.step(&mut self.fs, calls, call, now)?)
    }

    /// The program asks for nothing for so long. What falls due is done, and Linux's flusher writes
    /// what has waited for long: that is how blocks move that the cleaner has marked.
    pub fn wait(&mut self, ns: Nanos) -> Result<(), Box<dyn Error>> {
        let end = self.clock.now() + ns;
        while self.clock.now() < end {
            let flush = self.clock.now() + FLUSHER_SLEEP;
            let due = self.fs.due().map_or(flush, |due| nanos(due).min(flush));
            self.clock.wait_until(due.min(end));
            let now = self.now();
            if self.fs.due().is_some_and(|due| due <= now) {
                self.fs.work(now)?;
            }
            let old = Time {
                secs: now.secs - FLUSHER_AGE,
                ..now
            };
            if self.fs.dirty().since.is_some_and(|since| since <= old) {
                self.fs.write_back(0, old)?;
            }
        }
        Ok(())
    }
}

fn nanos(time: Time) -> Nanos {
    let secs = u64::try_from(time.secs).unwrap_or(0);
    secs.saturating_mul(SECOND) + u64::from(time.nanos)
}

/// What F2FS did since an earlier look.
pub fn since(before: &Counts, after: &Counts) -> Counts {
    Counts {
        checkpoints: after.checkpoints - before.checkpoints,
        cleaned: after.cleaned - before.cleaned,
        cleaned_background: after.cleaned_background - before.cleaned_background,
        moved: after.moved - before.moved,
        moved_background: after.moved_background - before.moved_background,
        written: std::array::from_fn(|log| after.written[log] - before.written[log]),
        threaded: after.threaded - before.threaded,
        in_place: after.in_place - before.in_place,
        ..*after
    }
}
