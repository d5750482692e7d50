//! Runs the experiments of the F2FS paper: cells, cleaning, devices, idle times, sustained writes
//! and the wandering tree.

use super::cells::{self, Phases};
use super::cleaning::{self, Cleaned};
use super::devices::{self, DEVICES, JUDGED, Served};
use super::idle::{self, PAUSES, Waited};
use super::processor::{EXT4, F2FS};
use super::rivals;
use super::sustained::{self, Amounts, Case, Sustained, System, Way};
use super::tree::{self, DEPTHS, Taken};
use super::work::Work;
use crate::runs::{Jobs, Settings, Variant, Watch, variant};
use crate::{PaperError, Size};
use nandlab_f2fs::InPlace;
use nandlab_lab::verdict::{SEEDS, Sample};
use rayon::prelude::*;

/// Seeds of the runs with gaps: what they compare differs by more than chance.
const IDLE_SEEDS: u64 = 3;

const fn way(threaded: bool, in_place: InPlace) -> System {
    System::F2fs(Way { threaded, in_place })
}

const fn case(key: &'static str, name: &'static str, system: System, trims: bool) -> Case {
    Case {
        key,
        name,
        system,
        trims,
    }
}

const ADAPTIVE: System = way(true, InPlace::Never);
const CLEANING: System = way(false, InPlace::Never);

/// Who writes at random: ext4 first, then the ways in which F2FS frees space.
pub const WRITERS: [Case; 8] = [
    case("ext4", "ext4", System::Ext4, true),
    case("ext4-live", "ext4, ours", System::Ext4Live, true),
    case(
        "adaptive",
        "F2FS, adaptive: threaded logging",
        ADAPTIVE,
        true,
    ),
    case("cleaning", "F2FS, cleaning only", CLEANING, true),
    case(
        "in-place",
        "F2FS, adaptive, above 70 % in place",
        way(true, InPlace::Above(70)),
        true,
    ),
    case("ext4-untrimmed", "ext4, no trim", System::Ext4, false),
    case(
        "adaptive-untrimmed",
        "F2FS, adaptive, no trim",
        ADAPTIVE,
        false,
    ),
    case(
        "cleaning-untrimmed",
        "F2FS, cleaning only, no trim",
        CLEANING,
        false,
    ),
];

/// A page map instead of the hybrid mapping.
pub const PAGE: [&str; 4] = [
    "ftl.scheme=page",
    "ftl.group-blocks=",
    "ftl.group-logs=",
    "ftl.log-blocks=",
];

/// What everything is run on: the mapping of the slides' example, and the one that every later
/// device has.
pub const BASES: [Variant; 2] = [
    variant("hybrid", "hybrid 4:4+2", &[]),
    variant("page", "page map", &PAGE),
];

/// The page map among them; the aged phone is run on this one only.
pub const PAGE_BASE: usize = 1;

/// The same work on both file systems.
pub struct Compared {
    pub work: Work,
    /// On which of [`BASES`].
    pub base: usize,
    pub f2fs: Phases,
    /// The real one, whose requests were recorded.
    pub ext4: Phases,
    /// Ours.
    pub ext4_live: Phases,
}

impl Compared {
    /// How much more ext4 takes, as a share: the paper's "Improv.".
    pub fn improvement(&self, cycles: f64) -> f64 {
        self.ext4.measured(cycles) / self.f2fs.measured(cycles) - 1.0
    }
}

/// What came of all.
pub struct Runs {
    /// Benchmarks and phone, in the order of [`Work::compared`].
    pub compared: Vec<Compared>,
    /// Cleaning by policy, without threaded logging and with it, by seed.
    pub cleaned: Vec<Vec<Cleaned>>,
    /// Sustained random writes, on each of [`BASES`].
    pub sustained: [Vec<Sustained>; 2],
    /// Files that come and go, in the order of [`DEVICES`], by seed.
    pub devices: Vec<Vec<Served>>,
    /// Bursts of writes, in the order of [`PAUSES`], by seed.
    pub idle: Vec<Vec<Waited>>,
    /// Beyond the paper, in the order of [`rivals::all`].
    pub rivals: Vec<rivals::Run>,
    /// Updates, in the order of [`DEPTHS`].
    pub trees: Vec<Taken>,
}

/// Which of [`WRITERS`] are run on one of [`BASES`].
fn writers(base: usize, size: Size) -> Vec<Case> {
    let is_wanted = |case: &&Case| match (base, size) {
        (PAGE_BASE, Size::Small) => case.trims && !["in-place", "ext4-live"].contains(&case.key),
        (PAGE_BASE, _) => true,
        (_, Size::Small) => case.key == "ext4",
        _ => case.trims && case.key != "in-place",
    };
    WRITERS.iter().filter(is_wanted).copied().collect()
}

/// Runs one job for each seed of each item; gives the results by item.
fn by_seed<T: Sync, R: Send>(
    jobs: &Jobs<'_>,
    items: &[(T, u64)],
    job: impl Fn(&T, u64) -> Result<R, PaperError> + Sync,
) -> Result<Vec<Vec<R>>, PaperError> {
    let seeds = items.iter().enumerate();
    let all: Vec<(usize, u64)> = seeds
        .flat_map(|(at, (_, count))| (1..=*count).map(move |seed| (at, seed)))
        .collect();
    let done = jobs.each(&all, |(at, seed)| job(&items[*at].0, *seed))?;
    let mut results: Vec<Vec<R>> = items.iter().map(|_| Vec::new()).collect();
    for ((at, _), result) in all.into_iter().zip(done) {
        results[at].push(result);
    }
    Ok(results)
}

impl Runs {
    pub fn all(watch: Watch<'_>, size: Size) -> Result<Self, PaperError> {
        let works: Vec<Work> = Work::compared().collect();
        let seeds = if size == Size::Small { 1 } else { SEEDS as u64 };
        let policies: Vec<_> = [false, true]
            .into_iter()
            .flat_map(|threaded| cleaning::POLICIES.map(|policy| ((policy, threaded), seeds)))
            .collect();
        let devices = DEVICES.map(|device| {
            let is_judged = JUDGED.contains(&device.key);
            (device, if is_judged { seeds } else { 1 })
        });
        let pauses =
            PAUSES.map(|pauses| (pauses, if size == Size::Small { 1 } else { IDLE_SEEDS }));
        let pairs: Vec<(usize, Work)> = (0..BASES.len())
            .flat_map(|base| {
                works
                    .iter()
                    .filter(move |work| base == PAGE_BASE || !work.aged)
                    .map(move |work| (base, *work))
            })
            .collect();
        let writers: Vec<(usize, Case)> = (0..BASES.len())
            .flat_map(|base| {
                writers(base, size)
                    .into_iter()
                    .map(move |case| (base, case))
            })
            .collect();
        let rivals = rivals::all(size);
        let seeded = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>() as usize;
        let all = 3 * pairs.len()
            + seeded(&mut policies.iter().map(|(_, count)| *count))
            + seeded(&mut devices.iter().map(|(_, count)| *count))
            + seeded(&mut pauses.iter().map(|(_, count)| *count))
            + writers.len()
            + rivals.len()
            + DEPTHS.len();
        let jobs = Jobs::new(watch, "runs", all);
        let written = jobs.each(&writers, |(base, case)| {
            let amounts = match *base {
                PAGE_BASE => Amounts::of(size),
                _ => Amounts::of_hybrid(size),
            };
            sustained::run(*case, amounts, BASES[*base].settings)
        })?;
        let mut by_base = [Vec::new(), Vec::new()];
        for ((base, _), run) in writers.iter().zip(written) {
            by_base[*base].push(run);
        }
        let compared = pairs.par_iter().map(|(base, work)| {
            let settings = |own: Settings| [BASES[*base].settings, work.memory(), own].concat();
            Ok(Compared {
                work: *work,
                base: *base,
                f2fs: jobs.one(|| cells::live(work, &settings(&[]), F2FS))?,
                ext4: jobs.one(|| cells::replayed(work, BASES[*base].settings))?,
                ext4_live: jobs.one(|| cells::live(work, &settings(&cells::LIVE), EXT4))?,
            })
        });
        Ok(Self {
            sustained: by_base,
            devices: by_seed(&jobs, &devices, |device, seed| {
                devices::run(device, size, seed)
            })?,
            idle: by_seed(&jobs, &pauses, |pauses, seed| idle::run(pauses, size, seed))?,
            cleaned: by_seed(&jobs, &policies, |(policy, threaded), seed| {
                cleaning::run(*policy, *threaded, (cleaning::SCALE, seed))
            })?,
            rivals: jobs.each(&rivals, |which| rivals::run(*which, size))?,
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

    /// One writer, if it was run.
    pub fn writer(&self, base: usize, key: &str) -> Option<&Sustained> {
        self.sustained[base].iter().find(|run| run.case.key == key)
    }

    /// The cleaning runs of a policy, by seed.
    pub fn cleaning(&self, policy: &str, threaded: bool) -> &[Cleaned] {
        let is_it = |runs: &&Vec<Cleaned>| {
            let first = runs.first();
            first.is_some_and(|run| run.policy == policy && run.threaded == threaded)
        };
        self.cleaned
            .iter()
            .find(is_it)
            .expect("every policy was run")
    }

    /// The runs on a device, by seed.
    pub fn device(&self, key: &str) -> &[Served] {
        let at = DEVICES.iter().position(|device| device.key == key);
        &self.devices[at.expect("a device of the list")]
    }
}

/// A figure of each of two runs by seed, as a sample of their ratios.
pub fn ratios<R>(of: &[R], to: &[R], figure: impl Fn(&R) -> f64) -> Sample {
    let pairs = of.iter().zip(to);
    let ratios: Vec<f64> = pairs.map(|(of, to)| figure(of) / figure(to)).collect();
    Sample::of(&ratios)
}

/// A figure by seed.
pub fn sample<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> Sample {
    Sample::of(&runs.iter().map(figure).collect::<Vec<_>>())
}
