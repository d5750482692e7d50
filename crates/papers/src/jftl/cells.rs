//! The runs behind Figures 7 and 8, and the same with what the paper leaves open chosen otherwise.

use crate::PaperError;
use nandlab_lab::Experiment;
use nandlab_lab::run::{FilesOutcome, PhaseOutcome, run_files};
use nandlab_stack::Document;
use rayon::prelude::*;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const BONNIE: (&str, &str) = (
    "papers/jftl/bonnie.toml",
    include_str!("../../../../papers/jftl/bonnie.toml"),
);
const IOZONE: (&str, &str) = (
    "papers/jftl/iozone.toml",
    include_str!("../../../../papers/jftl/iozone.toml"),
);

/// A way to mount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What describes it.
    settings: [&'static str; 2],
}

const fn mode(key: &'static str, name: &'static str, settings: [&'static str; 2]) -> Mode {
    Mode {
        key,
        name,
        settings,
    }
}

/// The paper's four, and the mode that it leaves out: each without JFTL, then with it. Beyond the
/// paper the same remapping late: at a checkpoint, of many commits at once.
pub const MODES: [Mode; 8] = [
    mode(
        "ordered",
        "ordered",
        ["fs.mode=ordered", "fs.checkpoint=copy"],
    ),
    mode(
        "ordered-jftl",
        "ordered + JFTL",
        ["fs.mode=ordered", "fs.checkpoint=remap"],
    ),
    mode(
        "journaled",
        "journaled",
        ["fs.mode=journal", "fs.checkpoint=copy"],
    ),
    mode(
        "journaled-jftl",
        "journaled + JFTL",
        ["fs.mode=journal", "fs.checkpoint=remap"],
    ),
    mode(
        "writeback",
        "writeback",
        ["fs.mode=writeback", "fs.checkpoint=copy"],
    ),
    mode(
        "writeback-jftl",
        "writeback + JFTL",
        ["fs.mode=writeback", "fs.checkpoint=remap"],
    ),
    mode(
        "ordered-late",
        "ordered + late JFTL",
        ["fs.mode=ordered", "fs.checkpoint=remap-late"],
    ),
    mode(
        "journaled-late",
        "journaled + late JFTL",
        ["fs.mode=journal", "fs.checkpoint=remap-late"],
    ),
];
/// How many of these the paper has.
pub const PUBLISHED: usize = 4;

/// A benchmark of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Figure 7.
    Bonnie,
    /// Figure 8.
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
        const KIB: u64 = 1 << 10;
        match self {
            Self::Bonnie => &[4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 48 * MIB, 64 * MIB],
            Self::Iozone => &[
                4 * KIB,
                8 * KIB,
                16 * KIB,
                32 * KIB,
                64 * KIB,
                128 * KIB,
                256 * KIB,
                512 * KIB,
                1024 * KIB,
                2048 * KIB,
                4096 * KIB,
            ],
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

    /// The experiment with some settings changed.
    pub fn experiment(self, settings: &[String]) -> Result<Experiment, PaperError> {
        let (file, text) = match self {
            Self::Bonnie => BONNIE,
            Self::Iozone => IOZONE,
        };
        Ok(Experiment::take(Document::parse(
            file,
            Path::new("papers/jftl"),
            text,
            settings,
        )?)?)
    }
}

/// One run.
pub struct Cell {
    /// Its benchmark.
    pub bench: Bench,
    /// Its place on the horizontal axis, in bytes.
    pub point: u64,
    /// How the volume was mounted.
    pub mode: Mode,
    /// Which of the open choices was made otherwise; none in the figures.
    pub option: Option<usize>,
    /// What came of it.
    pub run: FilesOutcome,
}

impl Cell {
    /// One of its phases.
    pub fn phase(&self, name: &str) -> &PhaseOutcome {
        self.run
            .phases
            .iter()
            .find(|phase| phase.name == name)
            .expect("the benchmark has this phase")
    }

    /// Bytes a second in one of its phases.
    pub fn bandwidth(&self, phase: &str) -> f64 {
        self.phase(phase).bandwidth().unwrap_or(0.0)
    }
}

/// What the paper leaves open, chosen otherwise: name, settings, for IOzone only or for both.
pub const OPTIONS: [(&str, &[&str], bool); 8] = [
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

/// All runs.
pub struct Cells {
    cells: Vec<Cell>,
}

impl Cells {
    /// Runs everything.
    pub fn run(watch: &(dyn Fn(f64) + Sync)) -> Result<Self, PaperError> {
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
        let mut wanted: Vec<_> = figures
            .chain(open)
            .flat_map(|run| MODES.map(|mode| (run, mode)))
            .collect();
        // The longest first, so that none is left alone at the end.
        wanted.sort_by_key(|((bench, point, _), _)| (*bench != Bench::Bonnie, u64::MAX - point));
        let done = AtomicUsize::new(0);
        let one = |((bench, point, option), mode): &((Bench, u64, Option<usize>), Mode)| {
            let cell = cell(*bench, *point, *option, *mode)?;
            watch((done.fetch_add(1, Relaxed) + 1) as f64 / wanted.len() as f64);
            Ok(cell)
        };
        Ok(Self {
            cells: wanted
                .par_iter()
                .map(one)
                .collect::<Result<_, PaperError>>()?,
        })
    }

    /// A run of a figure.
    pub fn of(&self, bench: Bench, point: u64, mode: &Mode) -> &Cell {
        self.with(bench, point, None, mode)
    }

    /// A run with one of the open choices made otherwise.
    pub fn with(&self, bench: Bench, point: u64, option: Option<usize>, mode: &Mode) -> &Cell {
        let it = |cell: &&Cell| {
            (cell.bench, cell.point, cell.option) == (bench, point, option) && cell.mode == *mode
        };
        self.cells.iter().find(it).expect("every cell was run")
    }

    /// Bandwidths of a mode along a figure, in bytes a second.
    pub fn curve(&self, bench: Bench, phase: &str, mode: &Mode) -> Vec<f64> {
        bench
            .points()
            .iter()
            .map(|point| self.of(bench, *point, mode).bandwidth(phase))
            .collect()
    }
}

fn cell(bench: Bench, point: u64, option: Option<usize>, mode: Mode) -> Result<Cell, PaperError> {
    let at = format!("{}={point}", bench.key());
    let changed = option.map_or(&[][..], |option| OPTIONS[option].1);
    let settings: Vec<String> = mode
        .settings
        .iter()
        .chain(changed)
        .copied()
        .chain([at.as_str()])
        .map(String::from)
        .collect();
    let experiment = bench.experiment(&settings)?;
    let name = format!("{bench} {point} {}", mode.key);
    let files = experiment
        .workload
        .files()
        .ok_or_else(|| PaperError::Wrong(name.clone(), "no workload on files".into()))?;
    let run = run_files(&experiment, files, false, &mut |_| ())
        .map_err(|error| PaperError::Run(name, error.into()))?;
    Ok(Cell {
        bench,
        point,
        mode,
        option,
        run,
    })
}
