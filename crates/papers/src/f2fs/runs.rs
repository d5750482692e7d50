//! All runs of the publication.

use super::cells::{self, Phases};
use super::cleaning::{self, Cleaned};
use super::tree::{self, DEPTHS, Taken};
use super::work::{self, Work};
use crate::PaperError;
use nandlab_lab::run::FilesOutcome;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A way to write: its name in ids, its name for people, settings.
pub type Way = (&'static str, &'static str, &'static [&'static str]);

/// How F2FS writes where clean segments are few.
pub const WAYS: [Way; 3] = [
    ("adaptive", "adaptive: threaded logging", &[]),
    ("cleaning", "cleaning only", &["fs.threaded=false"]),
    (
        "in-place",
        "adaptive, above 70 % in place",
        &["fs.in-place=above-70-percent"],
    ),
];

const PAGE: [&str; 4] = [
    "ftl.scheme=page",
    "ftl.group-blocks=",
    "ftl.group-logs=",
    "ftl.log-blocks=",
];

/// Room for the open superblocks of seven streams on a small device.
const SPARE: &str = "ftl.over-provisioning=0.15";

/// What everything is run on: the mapping of the slides' example, and the one that every later
/// device has.
pub const BASES: [Way; 2] = [("hybrid", "hybrid 4:4+2", &[]), ("page", "page map", &PAGE)];

/// The page map among them; the aged phone is run on this one only.
pub const PAGE_BASE: usize = 1;

/// Devices, and how F2FS is laid onto them.
pub const DEVICES: [Way; 8] = [
    ("hybrid-6", "hybrid 4:4+2, 6 logs", &[]),
    ("hybrid-4", "hybrid 4:4+2, 4 logs", &["fs.logs=4"]),
    ("hybrid-2", "hybrid 4:4+2, 2 logs", &["fs.logs=2"]),
    (
        "hybrid-unaligned",
        "hybrid 4:4+2, 6 logs, sections of 2 MiB",
        &["fs.segments-per-section=1", "fs.sections-per-zone=1"],
    ),
    (
        "page-6",
        "page map, 1 stream, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE],
    ),
    (
        "page-6-2",
        "page map, 2 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=2"],
    ),
    (
        "page-6-4",
        "page map, 4 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=4"],
    ),
    (
        "page-6-7",
        "page map, 7 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=7"],
    ),
];

/// The same work on both file systems.
pub struct Compared {
    /// Which.
    pub work: Work,
    /// On which of [`BASES`].
    pub base: usize,
    /// F2FS.
    pub f2fs: Phases,
    /// ext4.
    pub ext4: Phases,
}

impl Compared {
    /// How much more ext4 takes, as a share: the publication's "Improv.".
    pub fn improvement(&self) -> f64 {
        self.ext4.measured() / self.f2fs.measured() - 1.0
    }
}

/// What came of all.
pub struct Runs {
    /// Benchmarks and phone, in the order of [`Work::all`].
    pub compared: Vec<Compared>,
    /// Cleaning by policy, without threaded logging and with it.
    pub cleaned: Vec<Cleaned>,
    /// Sustained random writes, in the order of [`WAYS`], on each of [`BASES`].
    pub sustained: [Vec<FilesOutcome>; 2],
    /// Files that come and go, in the order of [`DEVICES`].
    pub devices: Vec<FilesOutcome>,
    /// Updates, in the order of [`DEPTHS`].
    pub trees: Vec<Taken>,
}

/// Jobs done, of how many.
struct Watch<'a> {
    done: AtomicUsize,
    all: usize,
    told: &'a (dyn Fn(f64) + Sync),
}

impl Watch<'_> {
    fn one<T>(&self, job: impl FnOnce() -> Result<T, PaperError>) -> Result<T, PaperError> {
        let done = job()?;
        (self.told)((self.done.fetch_add(1, Relaxed) + 1) as f64 / self.all as f64);
        Ok(done)
    }
}

impl Runs {
    /// Runs everything.
    pub fn all(told: &(dyn Fn(f64) + Sync)) -> Result<Self, PaperError> {
        let works: Vec<Work> = Work::all().collect();
        let policies: Vec<_> = [false, true]
            .into_iter()
            .flat_map(|threaded| cleaning::POLICIES.map(|policy| (policy, threaded)))
            .collect();
        let pairs: Vec<(usize, Work)> = (0..BASES.len())
            .flat_map(|base| {
                works
                    .iter()
                    .filter(move |work| base == PAGE_BASE || !work.aged)
                    .map(move |work| (base, *work))
            })
            .collect();
        let all = 2 * pairs.len()
            + policies.len()
            + BASES.len() * WAYS.len()
            + DEVICES.len()
            + DEPTHS.len();
        let watch = Watch {
            done: AtomicUsize::new(0),
            all,
            told,
        };
        let sustained = |base: usize| {
            let run = |way: &Way| {
                watch.one(|| {
                    cells::live(
                        &work::STEADY,
                        &[BASES[base].2, way.2, &work::SMALL].concat(),
                    )
                })
            };
            WAYS.par_iter()
                .map(run)
                .collect::<Result<Vec<_>, PaperError>>()
        };
        let devices = DEVICES
            .par_iter()
            .map(|way| watch.one(|| cells::live(&work::MIXED, &[way.2, &work::SMALL].concat())));
        let cleaned = policies.par_iter().map(|(policy, threaded)| {
            watch.one(|| cleaning::run(*policy, *threaded, cleaning::SCALE))
        });
        let trees = DEPTHS
            .par_iter()
            .map(|depth| watch.one(|| tree::count(depth)));
        let compared = pairs.par_iter().map(|(base, work)| {
            let f2fs =
                watch.one(|| cells::live(work, &[BASES[*base].2, work.memory()].concat()))?;
            let ext4 = watch.one(|| cells::replayed(work, BASES[*base].2))?;
            Ok(Compared {
                work: *work,
                base: *base,
                f2fs: cells::phases(&f2fs),
                ext4,
            })
        });
        Ok(Self {
            sustained: [sustained(0)?, sustained(1)?],
            devices: devices.collect::<Result<_, PaperError>>()?,
            cleaned: cleaned.collect::<Result<_, PaperError>>()?,
            trees: trees.collect::<Result<_, PaperError>>()?,
            compared: compared.collect::<Result<_, PaperError>>()?,
        })
    }

    /// A work on both.
    pub fn of(&self, base: usize, key: &str) -> &Compared {
        self.compared
            .iter()
            .find(|compared| compared.base == base && compared.work.key == key)
            .expect("every work was run")
    }

    /// One cleaning run.
    pub fn cleaning(&self, policy: &str, threaded: bool) -> &Cleaned {
        self.cleaned
            .iter()
            .find(|run| run.policy == policy && run.threaded == threaded)
            .expect("every policy was run")
    }
}

/// Bytes a second in the rounds of a run, of the second half of its points: what is sustained.
pub fn rate_of(run: &FilesOutcome) -> f64 {
    let points: Vec<f64> = run
        .outcome
        .result
        .series
        .iter()
        .map(|point| point.written_per_s)
        .collect();
    let late = &points[points.len() - points.len() / 4..];
    late.iter().sum::<f64>() / late.len().max(1) as f64
}
