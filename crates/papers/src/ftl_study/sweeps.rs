//! What the paper leaves open, run through: FAST's options at every place of the partition, NFTL's
//! options.
//!
//! The file system's requests are those of one run, served again by each stack; nothing is
//! calibrated in a sweep.

use super::cells::{Cells, Layer, Study, TABLE_1};
use crate::runs::{Jobs, Settings, Watch};
use crate::{Exhibit, PaperError, Size, line};
use nandlab_lab::result::FlashRow;
use nandlab_lab::run::{Again, run_again};

/// Sectors of an erase block: as many places can a partition begin at within one.
const PLACES: u32 = 32;

/// FAST's open options: name, settings.
const FAST: [(&str, Settings); 4] = [
    (
        "skip stale, merge",
        &["ftl.skip-stale=true", "ftl.mismatch=merge"],
    ),
    (
        "skip stale, random",
        &["ftl.skip-stale=true", "ftl.mismatch=random"],
    ),
    (
        "merge all, merge",
        &["ftl.skip-stale=false", "ftl.mismatch=merge"],
    ),
    (
        "merge all, random",
        &["ftl.skip-stale=false", "ftl.mismatch=random"],
    ),
];

const NFTL: [(&str, Settings); 4] = [
    (
        "longest chain, verified (Linux)",
        &["ftl.victim=longest", "ftl.verify-free=true"],
    ),
    (
        "longest chain, not verified",
        &["ftl.victim=longest", "ftl.verify-free=false"],
    ),
    (
        "fewest copies, verified",
        &["ftl.victim=min-copy", "ftl.verify-free=true"],
    ),
    (
        "fewest copies, not verified",
        &["ftl.victim=min-copy", "ftl.verify-free=false"],
    ),
];

/// Bytes of the write cache, in KiB.
const SIZES: [u32; 5] = [8, 32, 64, 128, 256];

/// A small study looks at every eighth place, at two caches, and at two of NFTL's options.
const SMALL_STEP: usize = 8;
const SMALL_SIZES: [u32; 2] = [32, 128];
const SMALL_NFTL: usize = 2;

/// Its policies: name, settings.
const POLICIES: [(&str, Settings); 5] = [
    ("LRU", &["nvram.policy=lru"]),
    ("FAB", &["nvram.policy=fab"]),
    ("BPLRU", &["nvram.policy=bplru"]),
    (
        "BPLRU without padding",
        &["nvram.policy=bplru", "nvram.padding=false"],
    ),
    ("LB-CLOCK", &["nvram.policy=lb-clock"]),
];

/// Seconds, and what the flash did.
struct Served {
    seconds: f64,
    again: Again,
}

/// Everything that was swept.
pub struct Sweeps {
    /// Where the partition begins within an erase block, in sectors.
    firsts: Vec<u32>,
    /// KiB of the write caches.
    sizes: &'static [u32],
    /// For each place: BAST, and FAST with each of its options, in seconds.
    places: Vec<[f64; 1 + FAST.len()]>,
    /// Switch merges of each FAST variant.
    switches: Vec<[u64; 1 + FAST.len()]>,
    /// FAST over BAST as published.
    published: Option<f64>,
    nftl: Vec<Served>,
    /// For each layer of Table 1 and each policy: one for each size.
    cached: Vec<Served>,
}

pub fn run(
    study: &Study,
    cells: &Cells,
    watch: Watch<'_>,
    size: Size,
) -> Result<Sweeps, PaperError> {
    let (step, sizes, nftl_options) = match size {
        Size::Small => (SMALL_STEP, &SMALL_SIZES[..], &NFTL[..SMALL_NFTL]),
        Size::Usual | Size::Published => (1, &SIZES[..], &NFTL[..]),
    };
    let firsts: Vec<u32> = (0..PLACES).step_by(step).collect();
    let mut wanted = Vec::new();
    let [nftl, bast, fast] = TABLE_1;
    let on = |layer: &Layer, options: Settings, more: &[String]| -> Vec<String> {
        let fixed = layer.settings.iter().chain(options);
        let fixed = fixed.map(ToString::to_string);
        fixed.chain(more.iter().cloned()).collect()
    };
    for place in &firsts {
        let start = [format!("fs.start-sector={place}")];
        wanted.push(on(&bast, &[], &start));
        wanted.extend(FAST.map(|(_, options)| on(&fast, options, &start)));
    }
    let nftl_from = wanted.len();
    wanted.extend(
        nftl_options
            .iter()
            .map(|(_, options)| on(&nftl, options, &[])),
    );
    let cached_from = wanted.len();
    for layer in TABLE_1 {
        for (_, policy) in POLICIES {
            wanted.extend(sizes.iter().map(|size| {
                let size = format!("nvram.size={size} KiB");
                on(&layer, policy, &["nvram.holds=writes".into(), size])
            }));
        }
    }
    let mut served = Jobs::new(watch, "sweeps", wanted.len())
        .each(&wanted, |settings| serve(study, cells, settings))?;
    let cached = served.split_off(cached_from);
    let nftl = served.split_off(nftl_from);
    let chunks = || served.chunks_exact(1 + FAST.len());
    let places = chunks()
        .map(|chunk| std::array::from_fn(|at| chunk[at].seconds))
        .collect();
    let switches = chunks()
        .map(|chunk| std::array::from_fn(|at| chunk[at].again.merges.switch))
        .collect();
    let published = study
        .published(&fast, true)
        .zip(study.published(&bast, true));
    Ok(Sweeps {
        firsts,
        sizes,
        places,
        switches,
        published: published.map(|(fast, bast)| fast / bast),
        nftl,
        cached,
    })
}

fn serve(study: &Study, cells: &Cells, settings: &[String]) -> Result<Served, PaperError> {
    let experiment = study.experiment(settings)?;
    let again = run_again(&experiment, cells.hot())
        .map_err(|error| PaperError::Run(settings.join(" "), error.into()))?;
    let calls = cells.hot().calls_ns;
    Ok(Served {
        seconds: (again.ns + calls) as f64 / 1e9,
        again,
    })
}

impl Sweeps {
    /// In how many of FAST's cells it is slower than BAST at the same place, and of how many.
    pub fn fast_behind_bast(&self) -> (usize, usize) {
        let behind = self
            .places
            .iter()
            .flat_map(|place| place[1..].iter().map(|fast| *fast > place[0]));
        (
            behind.clone().filter(|behind| *behind).count(),
            behind.count(),
        )
    }

    pub fn exhibits(&self) -> Vec<Exhibit> {
        vec![
            self.cache(),
            self.fast_summary(),
            self.nftl_options(),
            self.fast_grid(),
            self.fast_map(),
        ]
    }

    fn fast_summary(&self) -> Exhibit {
        let row = |at: usize, name: &str| {
            let mut seconds: Vec<f64> = self.places.iter().map(|place| place[at]).collect();
            seconds.sort_by(f64::total_cmp);
            let behind = self
                .places
                .iter()
                .filter(|place| place[at] > place[0])
                .count();
            let [least, middle, most] =
                [0, seconds.len() / 2, seconds.len() - 1].map(|i| format!("{:.1}", seconds[i]));
            vec![
                name.to_string(),
                least,
                middle,
                most,
                format!("{behind} of {}", self.places.len()),
            ]
        };
        let rows = [row(0, "log block (BAST)")].into_iter().chain(
            FAST.iter()
                .enumerate()
                .map(|(at, (name, _))| row(at + 1, &format!("FAST: {name}"))),
        );
        Exhibit::table(
            "FAST's open options",
            "Seconds with metadata on flash, nothing calibrated, over places of an erase block where the partition can begin. Skip stale: a page whose newest \
                    version is elsewhere is not merged. Merge or random: what a write that does not continue the sequential log block does.",
            [
                "",
                "least",
                "median",
                "most",
                "slower than BAST at the same place",
            ],
            rows,
        )
    }

    fn fast_grid(&self) -> Exhibit {
        let row = |(first, place): (&u32, &[f64; 1 + FAST.len()])| {
            line(
                first.to_string(),
                place.iter().map(|seconds| format!("{seconds:.1}")),
            )
        };
        let heads = ["first sector", "BAST"]
            .into_iter()
            .chain(FAST.iter().map(|(name, _)| *name));
        Exhibit::table(
            "FAST's open options: every cell",
            "Seconds with metadata on flash, nothing calibrated. The FAT begins one sector behind the partition's first, the root directory 129; a partition at 63, as \
                    of old, lies as one at 31.",
            heads,
            self.firsts.iter().zip(&self.places).map(row),
        )
    }

    /// Whether a ratio is within a tenth of the published one.
    fn reaches(&self, ratio: f64) -> bool {
        self.published
            .is_some_and(|published| (ratio / published - 1.0).abs() <= 0.1)
    }

    fn fast_map(&self) -> Exhibit {
        let cell = |place: &[f64], switches: &[u64], at: usize| {
            let ratio = place[at] / place[0];
            let mark = if self.reaches(ratio) { "*" } else { "" };
            format!("{ratio:.2}{mark} ({})", switches[at])
        };
        let both = self.places.iter().zip(&self.switches);
        let both = self.firsts.iter().zip(both);
        let row = |(first, (place, switches)): (&u32, (&[f64; 5], &[u64; 5]))| {
            let fast = (1..place.len()).map(|at| cell(place, switches, at));
            line(
                first.to_string(),
                [format!("({})", switches[0])].into_iter().chain(fast),
            )
        };
        let reached = (1..=FAST.len()).map(|at| {
            let found = self.places.iter();
            let found = found.filter(|place| self.reaches(place[at] / place[0]));
            format!("{} of {}", found.count(), self.places.len())
        });
        let sum = line(
            "reach the published ratio",
            [String::new()].into_iter().chain(reached),
        );
        let heads = ["first sector", "BAST"]
            .into_iter()
            .chain(FAST.iter().map(|(name, _)| *name));
        let published = self.published.unwrap_or(f64::NAN);
        Exhibit::table(
            "FAST over BAST: every cell",
            &format!(
                "Seconds of FAST over those of BAST at the same place, metadata on flash, nothing \
                calibrated; switch merges in brackets. A star: within a tenth of the published \
                {published:.2}."
            ),
            heads,
            [sum].into_iter().chain(both.map(row)),
        )
    }

    fn nftl_options(&self) -> Exhibit {
        let row = |((name, _), served): (&(&str, Settings), &Served)| {
            let sum = |pick: fn(&FlashRow) -> u64| {
                let sum: u64 = served.again.causes.iter().map(pick).sum();
                sum.to_string()
            };
            vec![
                name.to_string(),
                format!("{:.0}", served.seconds),
                sum(|row| row.reads),
                sum(|row| row.programs),
                sum(|row| row.erases),
            ]
        };
        Exhibit::table(
            "NFTL's options",
            &format!(
                "{}, metadata on flash, nothing calibrated.",
                TABLE_1[0].name
            ),
            ["", "seconds", "reads", "programs", "erases"],
            NFTL.iter().zip(&self.nftl).map(row),
        )
    }

    fn cache(&self) -> Exhibit {
        let names = TABLE_1.iter().flat_map(|layer| {
            POLICIES
                .iter()
                .map(move |(policy, _)| format!("{}, {policy}", layer.name))
        });
        let row = |(name, served): (String, &[Served])| {
            let seconds = |served: &Served| format!("{:.1}", served.seconds);
            line(name, served.iter().map(seconds))
        };
        Exhibit::table(
            "A write cache in the translation layer",
            "Seconds with metadata written to the disk, nothing calibrated, by size of the non-volatile memory in the layer: what the paper leaves to future work. Memory \
                    takes its time as in the file system's cache.",
            line("", self.sizes.iter().map(|size| format!("{size} KiB"))),
            names.zip(self.cached.chunks(self.sizes.len())).map(row),
        )
    }
}
