//! The runs behind Table 2 and Figure 3, and the same with what the paper leaves open chosen
//! otherwise.

use super::published::SIZES;
use crate::PaperError;
use crate::runs::{Described, Runs, Settings, Variant, Watch, described, variant};
use nandlab_lab::run::{FilesOutcome, PhaseOutcome};
use nandlab_workload::Op;

const TIOBENCH: Described = described!("jffs2-wb/tiobench.toml");

const EXT2: Settings = &["fs.type=ext2", "fs.compression=", "ftl.scheme=mtdblock"];

/// What is compared, in the order of Table 2.
pub const SYSTEMS: [Variant; 3] = [
    variant("ext2", "EXT2 on mtdblock", EXT2),
    variant("jffs2", "JFFS2", &[]),
    variant("jffs2-wb", "JFFS2-WB", &["write-back.deferred=true"]),
];
/// Lengths of a block.
pub const BLOCKS: [u64; 3] = [4096, 65_536, 131_072];

/// Places in [`OPTIONS`].
pub const FOUR_THREADS: usize = 0;
pub const MERGED_IN_PAGES: usize = 12;
pub const MERGED_IN_NODES: usize = 13;
const THREADS: &str = "workload.threads=4";

/// What the paper leaves open, chosen otherwise: what it is, settings, whether only the routine
/// knows them.
pub const OPTIONS: [(&str, Settings, bool); 14] = [
    ("four threads that share the length", &[THREADS], false),
    ("text", &["workload.contents=text"], false),
    ("random bytes", &["workload.contents=random"], false),
    (
        "a file of no length first",
        &["workload.truncate-first=false"],
        false,
    ),
    (
        "four cycles an instruction",
        &["host.instruction-ns=20.8"],
        false,
    ),
    ("memory of 64 MiB", &["memory.size=64 MiB"], false),
    ("no summaries", &["fs.summary=false"], true),
    (
        "passes every 100 ms",
        &["write-back.flash-writeback=100 ms"],
        true,
    ),
    (
        "passes every 5 s",
        &["write-back.flash-writeback=5 s"],
        true,
    ),
    (
        "passes of 256 elements, up to 1 s",
        &["write-back.threshold=256", "write-back.slice=1 s"],
        true,
    ),
    (
        "pinned pages up to 16 MiB",
        &["write-back.memory=16 MiB"],
        true,
    ),
    (
        "pinned pages up to 20 MiB",
        &["write-back.memory=20 MiB"],
        true,
    ),
    (
        "merged up to an erase block, in nodes of a page",
        &["write-back.merge=128 KiB"],
        true,
    ),
    (
        "merged up to an erase block, in nodes of up to 64 KiB",
        &["write-back.merge=128 KiB", "fs.node-bytes=64 KiB"],
        true,
    ),
];
/// Where the open choices are looked at: a length within the memory and one beyond it.
pub const LOOKED_AT: [u64; 2] = [8 << 20, 32 << 20];
/// The deferral in front of another file system: what it is, settings.
pub const ELSEWHERE: [(&str, Settings); 4] = [
    ("ext2 on a page map, written at once", &ON_EXT2),
    (
        "the same behind the routine, merged up to an erase block",
        &[
            ON_EXT2[0], ON_EXT2[1], ON_EXT2[2], ON_EXT2[3], DEFERRED, MERGED,
        ],
    ),
    ("FAT16 on a page map, written at once", &ON_FAT),
    (
        "the same behind the routine, merged up to an erase block",
        &[
            ON_FAT[0], ON_FAT[1], ON_FAT[2], ON_FAT[3], ON_FAT[4], DEFERRED, MERGED,
        ],
    ),
];
const ON_EXT2: [&str; 4] = [
    "fs.type=ext2",
    "fs.compression=",
    "ftl.scheme=page",
    "fs.sync=true",
];
const ON_FAT: [&str; 5] = [
    "fs.type=fat16",
    "fs.compression=",
    "fs.cluster=4096",
    "ftl.scheme=page",
    "fs.sync=true",
];
const DEFERRED: &str = "write-back.deferred=true";
const MERGED: &str = "write-back.merge=128 KiB";

/// Names one run of the study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Length of the file.
    pub size: u64,
    /// Length of a block.
    pub block: u64,
    /// The system and what is chosen otherwise, or a place in [`ELSEWHERE`].
    pub what: What,
}

/// The setting that a run varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// One of [`SYSTEMS`], with one of [`OPTIONS`] or as the paper has it.
    System(usize, Option<usize>),
    /// One run of [`ELSEWHERE`].
    Elsewhere(usize),
}

/// The outcome of one run.
pub struct Cell(pub FilesOutcome);

impl Cell {
    /// How long each call of one kind took, ns.
    pub fn latencies(&self, op: Op) -> impl Iterator<Item = u64> {
        self.0
            .latencies
            .iter()
            .filter(move |latency| latency.op == op)
            .map(|latency| latency.ns)
    }

    /// The share of writes that take less than 0.4 ms.
    pub fn quick(&self) -> f64 {
        let all = self.latencies(Op::Write).count();
        let below = self.latencies(Op::Write).filter(|ns| *ns < 400_000).count();
        below as f64 / all as f64
    }

    /// Returns the mean latency in nanoseconds.
    pub fn mean(&self, op: Op) -> f64 {
        let (sum, count) = self.latencies(op).fold((0.0, 0.0), |(sum, count), ns| {
            (sum + ns as f64, count + 1.0)
        });
        sum / count
    }

    /// Returns the longest latency in nanoseconds.
    pub fn longest(&self, op: Op) -> u64 {
        self.latencies(op).max().unwrap_or(0)
    }

    /// Pages programmed while the file was written.
    pub fn programs(&self) -> u64 {
        let causes = self.0.named("write").flat_map(|phase| &phase.causes);
        causes.map(|row| row.programs + row.copies).sum()
    }

    /// Virtual seconds that writing took, the fsync at its end included.
    pub fn seconds(&self) -> f64 {
        self.0.named("write").map(PhaseOutcome::seconds).sum()
    }
}

/// The outcomes of all runs.
pub struct Cells(Runs<Place, Cell>);

impl Cells {
    pub fn run(watch: Watch<'_>) -> Result<Self, PaperError> {
        let figures = SIZES
            .iter()
            .flat_map(|size| BLOCKS.iter().map(move |block| (*size, *block)));
        let figures = figures.flat_map(|(size, block)| {
            (0..SYSTEMS.len()).map(move |at| Place {
                size,
                block,
                what: What::System(at, None),
            })
        });
        let open = LOOKED_AT.into_iter().flat_map(|size| {
            let systems = |option: usize| if OPTIONS[option].2 { 2..3 } else { 0..3 };
            let options = (0..OPTIONS.len()).flat_map(move |option| {
                systems(option).map(move |at| What::System(at, Some(option)))
            });
            options
                .chain((0..ELSEWHERE.len()).map(What::Elsewhere))
                .map(move |what| Place {
                    size,
                    block: 4096,
                    what,
                })
        });
        let mut wanted: Vec<Place> = figures.chain(open).collect();
        wanted.sort_by_key(|place| u64::MAX - place.size);
        Ok(Self(Runs::all(wanted, (watch, "cells"), cell)?))
    }

    /// A run of the table or the figure.
    pub fn of(&self, system: usize, size: u64, block: u64) -> &Cell {
        self.at(Place {
            size,
            block,
            what: What::System(system, None),
        })
    }

    /// A run in blocks of 4 KiB with one of the open choices made otherwise.
    pub fn with(&self, system: usize, option: usize, size: u64) -> &Cell {
        self.at(Place {
            size,
            block: 4096,
            what: What::System(system, Some(option)),
        })
    }

    /// A run, if it was wanted.
    pub fn get(&self, place: Place) -> Option<&Cell> {
        self.0.get(&place)
    }

    pub fn at(&self, place: Place) -> &Cell {
        self.0.of(&place)
    }
}

fn cell(place: &Place) -> Result<Cell, PaperError> {
    let (of_system, changed): (Settings, Settings) = match place.what {
        What::System(at, option) => (
            SYSTEMS[at].settings,
            option.map_or(&[], |option| OPTIONS[option].1),
        ),
        What::Elsewhere(at) => (ELSEWHERE[at].1, &[]),
    };
    let threads = if changed.contains(&THREADS) { 4 } else { 1 };
    let at = [
        format!("workload.size={}", place.size / threads),
        format!("workload.block={}", place.block),
    ];
    let settings = of_system.iter().chain(changed).map(ToString::to_string);
    let name = format!("tiobench {place:?}");
    let run = TIOBENCH.run(&name, settings.chain(at), true)?;
    Ok(Cell(run))
}
