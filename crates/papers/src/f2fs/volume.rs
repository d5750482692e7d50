//! F2FS on a device: calls on the device's clock, and what they count.
//!
//! *Promises.* Nothing but the device takes time. Work of F2FS's own is done when it falls due,
//! between two calls.

use super::disk::Disk;
use super::work::REQUEST;
use nandlab_f2fs::{Counts, F2fs, Format, Options};
use nandlab_lab::play::Player;
use nandlab_sim::{Clock, Nanos};
use nandlab_vfs::{FileSystem, Ino, Time};
use nandlab_workload::files::{FileCall, FileCalls};
use std::error::Error;

const SECOND: Nanos = 1_000_000_000;

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

/// A mounted volume, and the program that works on it.
pub struct Volume<'a> {
    /// The file system.
    pub fs: F2fs<Disk<'a>>,
    player: Player,
    clock: Clock,
}

impl<'a> Volume<'a> {
    /// A new volume.
    pub fn new(
        mut disk: Disk<'a>,
        (format, options): (&Format, Options),
        clock: &Clock,
    ) -> Result<Self, Box<dyn Error>> {
        nandlab_f2fs::format(&mut disk, format)?;
        Ok(Self {
            fs: F2fs::mount(disk, options)?,
            player: Player::new(Ino::ROOT),
            clock: clock.clone(),
        })
    }

    fn now(&self) -> Time {
        let now = self.clock.now();
        Time {
            secs: (now / SECOND) as i64,
            nanos: (now % SECOND) as u32,
        }
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

    /// The program asks for nothing for so long.
    pub fn wait(&mut self, ns: Nanos) -> Result<(), Box<dyn Error>> {
        let end = self.clock.now() + ns;
        loop {
            let due = self.fs.due().map(|due| {
                let secs = u64::try_from(due.secs).unwrap_or(0);
                secs.saturating_mul(SECOND) + u64::from(due.nanos)
            });
            let Some(due) = due.filter(|due| *due <= end) else {
                break;
            };
            self.clock.wait_until(due);
            let now = self.now();
            self.fs.work(now)?;
        }
        self.clock.wait_until(end);
        Ok(())
    }
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
