//! The runs behind Table 1: IOzone through JFFS2 on a volume of UBI's, and of UBIL's.

use crate::PaperError;
use nandlab_lab::Experiment;
use nandlab_lab::run::{FilesOutcome, PhaseOutcome, run_files};
use nandlab_stack::Document;
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const IOZONE: (&str, &str) = (
    "papers/ubil/iozone.toml",
    include_str!("../../../../papers/ubil/iozone.toml"),
);

/// What is compared.
pub struct System {
    /// Its name in ids.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    settings: &'static [&'static str],
}

const LOG: &str = "ubi.attach=ubil";
const BARE: &str = "ubi.headers=false";

/// The first two are the paper's, as far as it says.
pub const SYSTEMS: [System; 6] = [
    System {
        key: "ubi",
        name: "UBI",
        settings: &[],
    },
    System {
        key: "ubil",
        name: "UBIL, no headers",
        settings: &[LOG, BARE],
    },
    System {
        key: "ubil-headers",
        name: "UBIL, headers too",
        settings: &[LOG],
    },
    System {
        key: "ubil-chained",
        name: "UBIL, no headers, incremental and chained",
        settings: &[LOG, BARE, "ubi.incremental=true", "ubi.chained=true"],
    },
    System {
        key: "fastmap",
        name: "UBI, fastmap",
        settings: &["ubi.attach=fastmap"],
    },
    System {
        key: "none",
        name: "JFFS2 without UBI",
        settings: &[
            "ftl.scheme=none",
            "ubi.attach=",
            "ubi.volume-size=",
            "ubi.trust-free=",
            "chip.blocks=160",
        ],
    },
];
/// Systems by their places.
pub const UBI: usize = 0;
pub const UBIL: usize = 1;

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
pub const OPTIONS: [(&str, &[&str]); 7] = [
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

/// One run.
pub struct Cell {
    system: usize,
    option: Option<usize>,
    run: FilesOutcome,
}

/// All runs.
pub struct Cells(Vec<Cell>);

impl Cell {
    fn phase(&self, name: &str) -> Option<&PhaseOutcome> {
        self.run.phases.iter().find(|phase| phase.name == name)
    }

    /// Bytes a second.
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
    /// Runs everything.
    pub fn run(watch: &(dyn Fn(f64) + Sync)) -> Result<Self, PaperError> {
        let plain = (0..SYSTEMS.len()).map(|system| (system, None));
        let open = (0..OPTIONS.len())
            .flat_map(|option| [UBI, UBIL].map(|system| (system, Some(option))))
            .filter(|(system, option)| applies(*system, *option));
        let wanted: Vec<(usize, Option<usize>)> = plain.chain(open).collect();
        let done = AtomicUsize::new(0);
        let one = |&(system, option): &(usize, Option<usize>)| {
            let cell = cell(system, option)?;
            watch((done.fetch_add(1, Relaxed) + 1) as f64 / wanted.len() as f64);
            Ok(cell)
        };
        Ok(Self(
            wanted
                .par_iter()
                .map(one)
                .collect::<Result<_, PaperError>>()?,
        ))
    }

    /// A run; none if what is chosen otherwise does not concern the system.
    pub fn at(&self, system: usize, option: Option<usize>) -> Option<&Cell> {
        self.0
            .iter()
            .find(|cell| (cell.system, cell.option) == (system, option))
    }

    /// A run of the table.
    pub fn of(&self, system: usize) -> &Cell {
        self.at(system, None).expect("every system was run")
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

/// The experiment with some settings changed.
pub fn experiment(settings: &[String]) -> Result<Experiment, PaperError> {
    let (file, text) = IOZONE;
    Ok(Experiment::take(Document::parse(
        file,
        Path::new("papers/ubil"),
        text,
        settings,
    )?)?)
}

fn cell(system: usize, option: Option<usize>) -> Result<Cell, PaperError> {
    let changed = option.map_or(&[][..], |option| OPTIONS[option].1);
    let settings: Vec<String> = SYSTEMS[system]
        .settings
        .iter()
        .chain(changed)
        .map(ToString::to_string)
        .collect();
    let experiment = experiment(&settings)?;
    let name = format!("IOzone, {}", SYSTEMS[system].name);
    let files = experiment
        .workload
        .files()
        .ok_or_else(|| PaperError::Wrong(name.clone(), "no workload on files".into()))?;
    let run = run_files(&experiment, files, false, &mut |_| ())
        .map_err(|error| PaperError::Run(name, error.into()))?;
    Ok(Cell {
        system,
        option,
        run,
    })
}
