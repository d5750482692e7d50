//! The runs behind Table 1: IOzone through JFFS2 on a volume of UBI's, and of UBIL's.

use crate::PaperError;
use crate::runs::{Described, Runs, Settings, Variant, Watch, described, variant};
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};
use nandlab_lab::verdict::Sample;

pub const IOZONE: Described = described!("ubil/iozone.toml");

const LOG: &str = "ubi.attach=ubil";
const BARE: &str = "ubi.headers=false";

/// What is compared. The first two are the paper's, as far as it says.
pub const SYSTEMS: [Variant; 6] = [
    variant("ubi", "UBI", &[]),
    variant("ubil", "UBIL, no headers", &[LOG, BARE]),
    variant("ubil-headers", "UBIL, headers too", &[LOG]),
    variant(
        "ubil-chained",
        "UBIL, no headers, incremental and chained",
        &[LOG, BARE, "ubi.incremental=true", "ubi.chained=true"],
    ),
    variant("fastmap", "UBI, fastmap", &["ubi.attach=fastmap"]),
    variant(
        "none",
        "JFFS2 without UBI",
        &[
            "ftl.scheme=none",
            "ubi.attach=",
            "ubi.volume-size=",
            "ubi.trust-free=",
            "chip.blocks=160",
        ],
    ),
];
/// Systems by their places.
pub const UBI: usize = 0;
pub const UBIL: usize = 1;
pub const WITH_HEADERS: usize = 2;
/// Those whose rates are compared, with several seeds each.
const COMPARED: usize = 3;
/// How many. One run in twenty reads some five per cent slower on UBI than the rest, so ten do not
/// decide a difference of one per cent.
const SEEDS: usize = 20;

/// Phases of IOzone, and what the paper calls those that it has.
pub const PHASES: [(&str, &str); 6] = [
    ("read", "Read"),
    ("write", "Write"),
    ("reread", "Re-read"),
    ("rewrite", "Re-write"),
    ("random-read", "Random read"),
    ("random-write", "Random write"),
];
/// Those of Table 1.
pub const IN_TABLE: usize = 4;

/// What the paper leaves open, chosen otherwise: what it is, settings.
pub const OPTIONS: [(&str, Settings); 7] = [
    (
        "compressed with LZO, as UBIFS does",
        &["fs.compression=lzo"],
    ),
    ("records of 4 KiB", &["workload.record=4096"]),
    ("four cycles an instruction", &["host.instruction-ns=12.1"]),
    ("headers in sub-pages of one page", &["chip.write-unit=512"]),
    ("a log of 8 blocks", &["ubi.log-blocks=8"]),
    (
        "what a scan finds free is erased once more, as is our default",
        &["ubi.trust-free=false"],
    ),
    ("the erasing thread at rest", &["ubi.background=false"]),
];

/// Which run: the system, what is chosen otherwise, and the seed.
type Place = (usize, Option<usize>, usize);

/// The outcome of one run.
pub struct Cell(FilesOutcome);

/// The outcomes of all runs.
pub struct Cells(Runs<Place, Cell>);

impl Cell {
    pub fn new(outcome: FilesOutcome) -> Self {
        Self(outcome)
    }

    fn phase(&self, name: &str) -> Option<&PhaseOutcome> {
        self.0.named(name).next()
    }

    pub fn rate(&self, phase: &str) -> f64 {
        self.phase(phase)
            .and_then(PhaseOutcome::bandwidth)
            .unwrap_or(0.0)
    }

    /// Pages programmed, pages read, blocks erased for each page of the program's data.
    pub fn work(&self, phase: &str) -> [f64; 3] {
        let Some(phase) = self.phase(phase) else {
            return [0.0; 3];
        };
        let pages = (phase.bytes_read + phase.bytes_written) as f64 / 2048.0;
        let sum = |of: fn(&nandlab_lab::result::FlashRow) -> u64| {
            phase.causes.iter().map(of).sum::<u64>() as f64 / pages
        };
        [
            sum(|row| row.programs + row.copies),
            sum(|row| row.reads),
            sum(|row| row.erases),
        ]
    }
}

impl Cells {
    pub fn run(watch: Watch<'_>) -> Result<Self, PaperError> {
        let seeds = |system: usize| if system < COMPARED { SEEDS } else { 1 };
        let plain = (0..SYSTEMS.len())
            .flat_map(|system| (1..=seeds(system)).map(move |seed| (system, None, seed)));
        let open = (0..OPTIONS.len())
            .flat_map(|option| [UBI, UBIL].map(|system| (system, Some(option), 1)))
            .filter(|(system, option, _)| applies(*system, *option));
        let wanted = plain.chain(open).collect();
        Ok(Self(Runs::all(wanted, (watch, "IOzone"), cell)?))
    }

    /// A run; none if what is chosen otherwise does not concern the system.
    pub fn at(&self, system: usize, option: Option<usize>) -> Option<&Cell> {
        self.0.get(&(system, option, 1))
    }

    /// A run with the first seed.
    pub fn of(&self, system: usize) -> &Cell {
        self.0.of(&(system, None, 1))
    }

    /// Bytes a second, of all seeds.
    pub fn rate(&self, system: usize, phase: &str) -> Sample {
        let seeds = (1..=SEEDS).filter_map(|seed| self.0.get(&(system, None, seed)));
        Sample::of(&seeds.map(|cell| cell.rate(phase)).collect::<Vec<_>>())
    }

    /// The rate over that on UBI with the same seed.
    pub fn over_ubi(&self, system: usize, phase: &str) -> Sample {
        let rate = |system, seed| self.0.of(&(system, None, seed)).rate(phase);
        let ratios = (1..=SEEDS).map(|seed| rate(system, seed) / rate(UBI, seed));
        Sample::of(&ratios.collect::<Vec<_>>())
    }
}

/// UBI has no log, and headers that are not there lie nowhere.
fn applies(system: usize, option: Option<usize>) -> bool {
    let of_log = |settings: &[&str]| {
        settings
            .iter()
            .any(|setting| setting.starts_with("ubi.log"))
    };
    option.is_none_or(|option| !(system == UBI && of_log(OPTIONS[option].1)))
}

fn cell(&(system, option, seed): &Place) -> Result<Cell, PaperError> {
    let Variant { name, settings, .. } = SYSTEMS[system];
    let changed = option.map_or(&[][..], |option| OPTIONS[option].1);
    let name = format!("IOzone, {name}, seed {seed}");
    let settings = settings.iter().chain(changed).map(ToString::to_string);
    let seeds = ["run", "chip"].map(|of| format!("{of}.seed={seed}"));
    Ok(Cell(IOZONE.run(&name, settings.chain(seeds), false)?))
}
