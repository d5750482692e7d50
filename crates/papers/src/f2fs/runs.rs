//! All runs of the publication.

use super::cells::{self, Phases};
use super::cleaning::{self, Cleaned};
use super::tree::{self, DEPTHS, Taken};
use super::work::{self, Work};
use crate::PaperError;
use crate::runs::{Jobs, Variant, Watch, variant};
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};
use rayon::prelude::*;

/// How F2FS writes where clean segments are few.
pub const WAYS: [Variant; 3] = [
    variant("adaptive", "adaptive: threaded logging", &[]),
    variant("cleaning", "cleaning only", &["fs.threaded=false"]),
    variant(
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
pub const BASES: [Variant; 2] = [
    variant("hybrid", "hybrid 4:4+2", &[]),
    variant("page", "page map", &PAGE),
];

/// The page map among them; the aged phone is run on this one only.
pub const PAGE_BASE: usize = 1;

/// Devices, and how F2FS is laid onto them.
pub const DEVICES: [Variant; 8] = [
    variant("hybrid-6", "hybrid 4:4+2, 6 logs", &[]),
    variant("hybrid-4", "hybrid 4:4+2, 4 logs", &["fs.logs=4"]),
    variant("hybrid-2", "hybrid 4:4+2, 2 logs", &["fs.logs=2"]),
    variant(
        "hybrid-unaligned",
        "hybrid 4:4+2, 6 logs, sections of 2 MiB",
        &["fs.segments-per-section=1", "fs.sections-per-zone=1"],
    ),
    variant(
        "page-6",
        "page map, 1 stream, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE],
    ),
    variant(
        "page-6-2",
        "page map, 2 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=2"],
    ),
    variant(
        "page-6-4",
        "page map, 4 streams, 6 logs",
        &[PAGE[0], PAGE[1], PAGE[2], PAGE[3], SPARE, "ftl.streams=4"],
    ),
    variant(
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

impl Runs {
    /// Runs everything.
    pub fn all(watch: Watch<'_>) -> Result<Self, PaperError> {
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
        let jobs = Jobs::new(watch, "runs", all);
        let sustained = |base: usize| {
            jobs.each(&WAYS, |way| {
                let settings = [BASES[base].settings, way.settings, &work::SMALL].concat();
                cells::live(&work::STEADY, &settings)
            })
        };
        let compared = pairs.par_iter().map(|(base, work)| {
            let settings = [BASES[*base].settings, work.memory()].concat();
            let f2fs = jobs.one(|| cells::live(work, &settings))?;
            let ext4 = jobs.one(|| cells::replayed(work, BASES[*base].settings))?;
            Ok(Compared {
                work: *work,
                base: *base,
                f2fs: cells::phases(&f2fs),
                ext4,
            })
        });
        Ok(Self {
            sustained: [sustained(0)?, sustained(1)?],
            devices: jobs.each(&DEVICES, |way| {
                cells::live(&work::MIXED, &[way.settings, &work::SMALL].concat())
            })?,
            cleaned: jobs.each(&policies, |(policy, threaded)| {
                cleaning::run(*policy, *threaded, cleaning::SCALE)
            })?,
            trees: jobs.each(&DEPTHS, tree::count)?,
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

/// Bytes a second in all rounds of a run, with the fsyncs that end them.
pub fn rate_of(run: &FilesOutcome) -> f64 {
    let rounds = || run.named("rounds");
    let bytes: u64 = rounds().map(|phase| phase.bytes_written).sum();
    bytes as f64 / rounds().map(PhaseOutcome::seconds).sum::<f64>()
}
