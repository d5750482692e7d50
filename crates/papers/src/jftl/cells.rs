//! The runs behind Figures 7 and 8, and the same with what the paper leaves open chosen otherwise.

use crate::PaperError;
use crate::runs::{Described, Runs, Settings, Variant, Watch, described, variant};
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};
use std::fmt;

const BONNIE: Described = described!("jftl/bonnie.toml");
const IOZONE: Described = described!("jftl/iozone.toml");

/// The ways to mount: the paper's four, and the mode that it leaves out, each without JFTL, then
/// with it. Beyond the paper the same remapping late: at a checkpoint, of many commits at once.
pub const MODES: [Variant; 8] = [
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
/// How many of these the paper has.
pub const PUBLISHED: usize = 4;

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
    /// The values on the horizontal axis, in bytes.
    pub fn points(self) -> &'static [u64] {
        const MIB: u64 = 1 << 20;
        match self {
            Self::Bonnie => &[4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 48 * MIB, 64 * MIB],
            Self::Iozone => &RECORDS,
        }
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

    /// The sum of something over all phases, what is left for the unmount included.
    pub fn sum(&self, of: impl Fn(&PhaseOutcome) -> u64) -> u64 {
        self.0.phases.iter().map(of).sum()
    }
}

/// What the paper leaves open, chosen otherwise: name, settings, for IOzone only or for both.
pub const OPTIONS: [(&str, Settings, bool); 8] = [
    (
        "an fsync, without a sync of everything",
        &["workload.sync-all=false"],
        false,
    ),
    ("blocks of 4 KiB", &["fs.block=4096"], false),
    ("journal of 16 MiB", &["fs.journal-size=16 MiB"], false),
    ("a fresh device", &["run.precondition=none"], false),
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
/// Where the open choices are looked at: of Bonnie's files and of IOzone's records.
pub const LOOKED_AT: [(Bench, u64); 2] = [(Bench::Bonnie, 16 << 20), (Bench::Iozone, 64 << 10)];

/// Which run: the benchmark, its place on the horizontal axis, which of the open choices was made
/// otherwise (none in the figures), how the volume was mounted.
type Place = (Bench, u64, Option<usize>, Variant);

/// The outcomes of all runs.
pub struct Cells(Runs<Place, Cell>);

impl Cells {
    pub fn run(watch: Watch<'_>) -> Result<Self, PaperError> {
        let mut wanted = wanted();
        wanted.sort_by_key(|(bench, point, ..)| (*bench != Bench::Bonnie, u64::MAX - point));
        Ok(Self(Runs::all(wanted, (watch, "cells"), cell)?))
    }

    /// A run of a figure.
    pub fn of(&self, bench: Bench, point: u64, mode: &Variant) -> &Cell {
        self.with(bench, point, None, mode)
    }

    /// A run with one of the open choices made otherwise.
    pub fn with(&self, bench: Bench, point: u64, option: Option<usize>, mode: &Variant) -> &Cell {
        self.0.of(&(bench, point, option, *mode))
    }

    /// Bandwidths of a mode along a figure, in bytes a second.
    pub fn curve(&self, bench: Bench, phase: &str, mode: &Variant) -> Vec<f64> {
        bench
            .points()
            .iter()
            .map(|point| self.of(bench, *point, mode).bandwidth(phase))
            .collect()
    }
}

/// The cells of both figures, and of all options where they are looked at.
fn wanted() -> Vec<Place> {
    let figures = [Bench::Bonnie, Bench::Iozone]
        .into_iter()
        .flat_map(|bench| {
            bench
                .points()
                .iter()
                .map(move |point| (bench, *point, None))
        });
    let open = LOOKED_AT.into_iter().flat_map(|(bench, point)| {
        let fits = move |option: &usize| bench == Bench::Iozone || !OPTIONS[*option].2;
        (0..OPTIONS.len())
            .filter(fits)
            .map(move |option| (bench, point, Some(option)))
    });
    figures
        .chain(open)
        .flat_map(|(bench, point, option)| MODES.map(|mode| (bench, point, option, mode)))
        .collect()
}

fn cell((bench, point, option, mode): &Place) -> Result<Cell, PaperError> {
    let at = format!("{}={point}", bench.key());
    let changed = option.map_or(&[][..], |option| OPTIONS[option].1);
    let settings = mode.settings.iter().chain(changed).copied().chain([&*at]);
    let name = format!("{bench} {point} {}", mode.key);
    Ok(Cell(bench.described().run(&name, settings, false)?))
}
