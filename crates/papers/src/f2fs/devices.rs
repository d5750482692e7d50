//! Hybrid and page-mapped devices, logs and streams: files that come and go until the device
//! collects, then what it programs for each byte that the files get.

use super::disk::{Disk, Pages};
use super::runs::PAGE;
use super::streams::Blank;
use super::volume::{CHIP, PARTITION, Volume, aligned, options, preconditioned, since};
use crate::runs::Settings;
use crate::{PaperError, Size};
use nandlab_f2fs::{Counts, Format, Options};
use nandlab_workload::ageing::{Ageing, AgeingSpec};
use nandlab_workload::files::FileCall;
use std::error::Error;

/// Bytes of files after each round: on hybrid mappings little more than a third of the partition,
/// so that clean sections are no reason to fill holes; on page maps as much as makes them collect.
const LIVE: [u64; 2] = [288 << 20, 420 << 20];

/// A device, and how F2FS is laid onto it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Laid {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Settings of the device.
    settings: Settings,
    logs: u8,
    /// Sections are superblocks and zones are groups; otherwise sections are segments.
    is_aligned: bool,
    threaded: bool,
}

/// Space for the open superblocks of seven streams on a small device.
const SPARE: &str = "ftl.over-provisioning=0.15";

const fn laid(key: &'static str, name: &'static str, settings: Settings) -> Laid {
    Laid {
        key,
        name,
        settings,
        logs: 6,
        is_aligned: true,
        threaded: true,
    }
}

pub const DEVICES: [Laid; 10] = [
    laid("hybrid-6", "hybrid 4:4+2, 6 logs", &[]),
    Laid {
        is_aligned: false,
        ..laid(
            "hybrid-unaligned",
            "hybrid 4:4+2, 6 logs, sections of 2 MiB",
            &[],
        )
    },
    Laid {
        threaded: false,
        ..laid(
            "hybrid-cleaning",
            "hybrid 4:4+2, 6 logs, cleaning only",
            &[],
        )
    },
    Laid {
        threaded: false,
        is_aligned: false,
        ..laid(
            "hybrid-cleaning-unaligned",
            "hybrid 4:4+2, 6 logs, cleaning only, sections of 2 MiB",
            &[],
        )
    },
    Laid {
        logs: 4,
        ..laid("hybrid-4", "hybrid 4:4+2, 4 logs", &[])
    },
    Laid {
        logs: 2,
        ..laid("hybrid-2", "hybrid 4:4+2, 2 logs", &[])
    },
    laid(
        "page-6",
        "page map, 1 stream, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE],
    ),
    laid(
        "page-6-2",
        "page map, 2 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=2"],
    ),
    laid(
        "page-6-4",
        "page map, 4 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=4"],
    ),
    laid(
        "page-6-7",
        "page map, 7 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=7"],
    ),
];

/// Those that claims compare, seed by seed; of the others one seed is run.
pub const JUDGED: [&str; 6] = [
    "hybrid-6",
    "hybrid-unaligned",
    "hybrid-cleaning",
    "hybrid-cleaning-unaligned",
    "page-6",
    "page-6-7",
];

/// What came of one seed, in the second half of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Bytes that the files got.
    pub bytes: u64,
    pub seconds: f64,
    /// What the device did.
    pub pages: Pages,
    /// Calls and blocks that F2FS counted.
    pub counts: Counts,
    /// Bytes of a page.
    page: u64,
}

impl Served {
    /// Bytes programmed for each that the files got.
    pub fn amplification(&self) -> f64 {
        (self.pages.programmed * self.page) as f64 / self.bytes as f64
    }

    /// Share of F2FS's blocks that filled holes.
    pub fn in_holes(&self) -> f64 {
        let written: u64 = self.counts.written.iter().sum();
        self.counts.threaded as f64 / written.max(1) as f64
    }
}

fn rounds(size: Size) -> u64 {
    if size == Size::Small { 4 } else { 60 }
}

pub fn run(laid: &Laid, size: Size, seed: u64) -> Result<Served, PaperError> {
    ran(laid, size, seed).map_err(|error| PaperError::wrong(laid.name, error))
}

fn ran(laid: &Laid, size: Size, seed: u64) -> Result<Served, Box<dyn Error>> {
    let mut stack = preconditioned(laid.settings.iter().chain(&[CHIP]))?;
    let clock = stack.clock.clone();
    let device = stack.disk()?;
    let page = device.geometry().page.into();
    let disk = Disk::new(device, PARTITION, true);
    let format = if laid.is_aligned {
        aligned()
    } else {
        Format::default()
    };
    let options = Options {
        logs: laid.logs,
        threaded: laid.threaded,
        ..options()
    };
    let mut volume = Volume::new(disk, (&format, options), &clock)?;
    let mut calls = Blank(Box::new(Ageing::new(AgeingSpec {
        seed,
        bytes: LIVE[usize::from(laid.key.starts_with("page"))],
        file: (64 << 10, 32 << 20),
        piece: 64 << 10,
        overwritten: 400,
        rounds: rounds(size),
        ..AgeingSpec::default()
    })?));
    // A sync ends the filling and each round.
    let mut syncs = 0;
    let mut served = Served {
        page,
        ..Served::default()
    };
    let mut before = (Pages::default(), Counts::default(), 0);
    while let Some(call) = calls.next() {
        volume.step(&calls, &call)?;
        match call {
            FileCall::Sync => {
                syncs += 1;
                if syncs == 1 + rounds(size) / 2 {
                    let pages = volume.fs.device_mut().pages();
                    before = (pages, volume.fs.counts(), clock.now());
                    served.bytes = 0;
                }
            }
            FileCall::Write { length, .. } => served.bytes += length,
            _ => {}
        }
    }
    served.seconds = (clock.now() - before.2) as f64 / 1e9;
    served.pages = volume.fs.device_mut().pages().since(&before.0);
    served.counts = since(&before.1, &volume.fs.counts());
    Ok(served)
}
