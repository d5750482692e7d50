//! The runs behind Figures 7 and 8, and the same with what the paper leaves open chosen otherwise.

use crate::runs::{Described, Runs, Settings, Variant, Watch, described, variant};
use crate::{PaperError, Size};
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};
use nandlab_lab::verdict::Sample;
use std::fmt;

const BONNIE: Described = described!("jftl/bonnie.toml");
const IOZONE: Described = described!("jftl/iozone.toml");

/// The ways to mount: the paper's four, then JFTL with its map in memory only, which is what the
/// paper says. Then the mode that it leaves out, without JFTL and with it. Beyond the paper the
/// same remapping late: at a checkpoint, of many commits at once.
pub const MODES: [Variant; 10] = [
    variant(
        "ordered",
        "ordered",
        &["fs.mode=ordered", "fs.checkpoint=copy"],
    ),
    variant(
        "ordered-jftl",
        "ordered + JFTL",
        &["fs.mode=ordered", "fs.checkpoint=remap"],
    ),
    variant(
        "journaled",
        "journaled",
        &["fs.mode=journal", "fs.checkpoint=copy"],
    ),
    variant(
        "journaled-jftl",
        "journaled + JFTL",
        &["fs.mode=journal", "fs.checkpoint=remap"],
    ),
    variant(
        "ordered-memory",
        "ordered + JFTL, map in memory",
        &["fs.mode=ordered", "fs.checkpoint=remap", IN_MEMORY],
    ),
    variant(
        "journaled-memory",
        "journaled + JFTL, map in memory",
        &["fs.mode=journal", "fs.checkpoint=remap", IN_MEMORY],
    ),
    variant(
        "writeback",
        "writeback",
        &["fs.mode=writeback", "fs.checkpoint=copy"],
    ),
    variant(
        "writeback-jftl",
        "writeback + JFTL",
        &["fs.mode=writeback", "fs.checkpoint=remap"],
    ),
    variant(
        "ordered-late",
        "ordered + late JFTL",
        &["fs.mode=ordered", "fs.checkpoint=remap-late"],
    ),
    variant(
        "journaled-late",
        "journaled + late JFTL",
        &["fs.mode=journal", "fs.checkpoint=remap-late"],
    ),
];
const IN_MEMORY: &str = "ftl.remap-records=memory";
/// How many of these the paper has.
pub const PUBLISHED: usize = 4;
/// How many of these are judged, with several seeds each.
const JUDGED: usize = 6;
/// Modes by their places.
pub const ORDERED: usize = 0;
pub const ORDERED_JFTL: usize = 1;
pub const JOURNALED: usize = 2;
pub const JOURNALED_JFTL: usize = 3;
pub const ORDERED_MEMORY: usize = 4;
pub const JOURNALED_MEMORY: usize = 5;

/// IOzone's records: 4 KiB to 4 MiB.
const RECORDS: [u64; 11] = {
    let mut records = [4 << 10; 11];
    let mut at = 1;
    while at < records.len() {
        records[at] = records[at - 1] * 2;
        at += 1;
    }
    records
};

/// Those of a small reproduction.
const SMALL_RECORDS: [u64; 3] = [RECORDS[0], RECORDS[4], RECORDS[RECORDS.len() - 1]];

/// A benchmark of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Bonnie, as in figure 7.
    Bonnie,
    /// IOzone, as in figure 8.
    Iozone,
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bonnie => "Bonnie",
            Self::Iozone => "IOzone",
        })
    }
}

impl Bench {
    /// The values on the horizontal axis, in bytes. A small reproduction has both ends and the
    /// point of [`Self::looked_at`].
    fn points(self, size: Size) -> &'static [u64] {
        const MIB: u64 = 1 << 20;
        match (self, size) {
            (Self::Bonnie, Size::Small) => &[4 * MIB, 16 * MIB, 64 * MIB],
            (Self::Bonnie, _) => &[4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 48 * MIB, 64 * MIB],
            (Self::Iozone, Size::Small) => &SMALL_RECORDS,
            (Self::Iozone, _) => &RECORDS,
        }
    }

    /// Where the open choices are looked at: the length of the file, or of a record.
    pub fn looked_at(self) -> u64 {
        match self {
            Self::Bonnie => 16 << 20,
            Self::Iozone => RECORDS[4],
        }
    }

    /// The open choices that make a difference to it.
    pub fn options(self) -> impl Iterator<Item = usize> + Clone {
        let fits = move |option: &usize| self == Self::Iozone || !OPTIONS[*option].2;
        (0..OPTIONS.len()).filter(fits)
    }

    /// The phases that are plotted: as the program calls them, and as the paper does.
    pub fn phases(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Bonnie => [("putc", "character write"), ("write", "block write")],
            Self::Iozone => [("write", "write"), ("rewrite", "rewrite")],
        }
    }

    /// The number of its figure.
    pub fn figure(self) -> u32 {
        match self {
            Self::Bonnie => 7,
            Self::Iozone => 8,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Bonnie => "workload.size",
            Self::Iozone => "workload.record",
        }
    }

    pub fn described(self) -> Described {
        match self {
            Self::Bonnie => BONNIE,
            Self::Iozone => IOZONE,
        }
    }
}

/// The outcome of one run.
pub struct Cell(pub FilesOutcome);

impl Cell {
    /// Bytes a second in one of its phases.
    pub fn bandwidth(&self, phase: &str) -> f64 {
        let mut phases = self.0.named(phase);
        let phase = phases.next().expect("the benchmark has this phase");
        phase.bandwidth().unwrap_or(0.0)
    }

    /// Pages that collection moved.
    pub fn collected(&self) -> u64 {
        let moved = |phase: &PhaseOutcome| {
            let rows = phase.causes.iter();
            rows.filter(|row| row.cause == "collection")
                .map(|row| row.programs + row.copies)
                .sum()
        };
        self.sum(moved)
    }

    /// The sum of something over all phases, what is left for the unmount included.
    pub fn sum(&self, of: impl Fn(&PhaseOutcome) -> u64) -> u64 {
        self.0.phases.iter().map(of).sum()
    }
}

/// What the paper leaves open, chosen otherwise: name, settings, for IOzone only or for both.
pub const OPTIONS: [(&str, Settings, bool); 9] = [
    (
        "an fsync, without a sync of everything",
        &["workload.sync-all=false"],
        false,
    ),
    ("blocks of 4 KiB", &["fs.block=4096"], false),
    ("journal of 16 MiB", &["fs.journal-size=16 MiB"], false),
    (
        "a fresh device",
        &["run.precondition=none", "run.precondition-zero="],
        false,
    ),
    (
        "a device written once in order",
        &["run.precondition=sequential"],
        false,
    ),
    (
        "over-provisioning 20 %",
        &["ftl.over-provisioning=0.2"],
        false,
    ),
    (
        "a processor that costs nothing",
        &["host.platform=none"],
        false,
    ),
    ("barriers", &["fs.barriers=true"], false),
    (
        "nothing after each record, all at the end (-e)",
        &["workload.sync=false"],
        true,
    ),
];
/// Which run: the benchmark, its place on the horizontal axis, which of the open choices was made
/// otherwise (none in the figures), how the volume was mounted, and the seed of the device's past.
type Place = (Bench, u64, Option<usize>, Variant, usize);

/// The outcomes of all runs.
pub struct Cells {
    runs: Runs<Place, Cell>,
    size: Size,
}

impl Cells {
    pub fn run(watch: Watch<'_>, size: Size) -> Result<Self, PaperError> {
        let mut wanted = wanted(size);
        wanted.sort_by_key(|(bench, point, ..)| (*bench != Bench::Bonnie, u64::MAX - point));
        let runs = Runs::all(wanted, (watch, "cells"), cell)?;
        Ok(Self { runs, size })
    }

    /// The values on the horizontal axis of a figure, in bytes.
    pub fn points(&self, bench: Bench) -> &'static [u64] {
        bench.points(self.size)
    }

    /// The first and the last of them.
    pub fn ends(&self, bench: Bench) -> [u64; 2] {
        let points = self.points(bench);
        [points[0], points[points.len() - 1]]
    }

    /// A run of a figure, with the first seed.
    pub fn of(&self, bench: Bench, point: u64, mode: &Variant) -> &Cell {
        self.with(bench, point, None, mode)
    }

    /// A run with one of the open choices made otherwise.
    pub fn with(&self, bench: Bench, point: u64, option: Option<usize>, mode: &Variant) -> &Cell {
        self.runs.of(&(bench, point, option, *mode, 1))
    }

    /// The runs of a point of a figure, by seed.
    fn seeds(&self, bench: Bench, point: u64, mode: &Variant) -> impl Iterator<Item = &Cell> {
        (1..=self.size.seeds())
            .filter_map(move |seed| self.runs.get(&(bench, point, None, *mode, seed)))
    }

    /// Mean bandwidths of a mode along a figure, in bytes a second.
    pub fn curve(&self, bench: Bench, phase: &str, mode: &Variant) -> Vec<f64> {
        let at = |point: &u64| {
            let rates: Vec<f64> = self
                .seeds(bench, *point, mode)
                .map(|cell| cell.bandwidth(phase))
                .collect();
            Sample::of(&rates).mean
        };
        self.points(bench).iter().map(at).collect()
    }

    /// Bandwidth of one mode over that of another with the same seed, at each point of a figure.
    pub fn ratios(&self, (bench, phase): (Bench, &str), upper: usize, lower: usize) -> Vec<Sample> {
        let rates = |point: u64, mode: usize| {
            self.seeds(bench, point, &MODES[mode])
                .map(|cell| cell.bandwidth(phase))
        };
        let at = |point: &u64| {
            let pairs = rates(*point, upper).zip(rates(*point, lower));
            Sample::of(&pairs.map(|(a, b)| a / b).collect::<Vec<_>>())
        };
        self.points(bench).iter().map(at).collect()
    }

    /// A figure of each seed's curve of bandwidths.
    pub fn of_curves(
        &self,
        (bench, phase): (Bench, &str),
        mode: usize,
        of: impl Fn(&[f64]) -> f64,
    ) -> Sample {
        let curve = |seed: usize| {
            let rate = |point: &u64| {
                let place = (bench, *point, None, MODES[mode], seed);
                self.runs.of(&place).bandwidth(phase)
            };
            of(&self.points(bench).iter().map(rate).collect::<Vec<_>>())
        };
        Sample::of(&(1..=self.size.seeds()).map(curve).collect::<Vec<_>>())
    }

    /// The fewest pages that collection moved in any judged run of a benchmark.
    pub fn collected(&self, bench: Bench) -> u64 {
        let runs = self.points(bench).iter().flat_map(|point| {
            MODES[..JUDGED]
                .iter()
                .flat_map(|mode| self.seeds(bench, *point, mode))
        });
        runs.map(Cell::collected).min().unwrap_or(0)
    }
}

/// The cells of both figures, and of all options where they are looked at.
fn wanted(size: Size) -> Vec<Place> {
    let of_bench = |bench: Bench| {
        let points = bench.points(size).iter().map(|point| (*point, None));
        let open = bench.options();
        let open = open.map(move |option| (bench.looked_at(), Some(option)));
        points
            .chain(open)
            .map(move |(point, option)| (bench, point, option))
    };
    let points = [Bench::Bonnie, Bench::Iozone]
        .into_iter()
        .flat_map(of_bench);
    points.flat_map(|point| of_modes(point, size)).collect()
}

/// A point of a figure in all modes, the judged ones with all seeds. A choice made otherwise in the
/// judged modes, with one seed.
fn of_modes(
    (bench, point, option): (Bench, u64, Option<usize>),
    size: Size,
) -> impl Iterator<Item = Place> {
    let modes = if option.is_some() {
        &MODES[..JUDGED]
    } else {
        &MODES
    };
    modes.iter().enumerate().flat_map(move |(at, mode)| {
        let is_judged = option.is_none() && at < JUDGED;
        let seeds = if is_judged { size.seeds() } else { 1 };
        (1..=seeds).map(move |seed| (bench, point, option, *mode, seed))
    })
}

fn cell((bench, point, option, mode, seed): &Place) -> Result<Cell, PaperError> {
    let at = format!("{}={point}", bench.key());
    let seed = format!("run.seed={seed}");
    let changed = option.map_or(&[][..], |option| OPTIONS[option].1);
    let settings = mode.settings.iter().chain(changed).copied();
    let name = format!("{bench} {point} {}, {seed}", mode.key);
    let settings = settings.chain([&*at, &*seed]);
    Ok(Cell(bench.described().run(&name, settings, false)?))
}
