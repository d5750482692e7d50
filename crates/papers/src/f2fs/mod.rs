//! J.-Y. Hwang, "F2FS: A New File System Designed for Flash Storage in Mobile" (ELC Europe 2012):
//! its benchmarks, its tables and its experiments run, its claims judged.
//!
//! | module | its one idea |
//! |---|---|
//! | [`work`] | what was run, as streams of calls; [`streams`] makes them of others |
//! | [`cells`] | a run of F2FS, our ext4, or ext4's recorded requests ([`rival`]), on one device |
//! | [`processor`] | the kernel's instructions for both, and their seconds |
//! | [`sustained`] | random writes of both until windows agree |
//! | [`volume`] | F2FS on a part of a device ([`disk`]), call by call |
//! | [`devices`] | mappings, logs and streams after collection has begun |
//! | [`idle`] | cleaning in gaps |
//! | [`cleaning`] | valid blocks by segment under three policies |
//! | [`tree`] | what an update takes along |
//! | [`rivals`] | beyond the paper: ext4 in four modes and F2FS, new and old |
//! | `requests` | only in tests: requests of ext4 beside those of ours |
//! | [`runs`] | all of it |

mod cells;
mod claims;
mod cleaning;
mod devices;
mod disk;
mod figures;
mod idle;
mod processor;
#[cfg(test)]
mod requests;
mod rival;
mod rivals;
mod runs;
mod streams;
mod sustained;
mod tree;
mod volume;
mod work;

pub use processor::counted;
pub use rival::{MARK_BYTES, MARKS, place_of_mark};
pub use work::{SET_UP, Work};

use super::{Assumption, Found, PaperError, Row, Size, Watch};
use crate::runs::{Variant, described};
use cleaning::{Cleaned, POLICIES};
use devices::{DEVICES, Served};
use idle::PAUSES;
use rivals::{RIVALS, TASKS};
use runs::{BASES, PAGE_BASE, Runs, sample};
use work::{BENCHMARKS, PHONE};

/// The Galaxy Nexus tables, clean and aged: ext4's value and F2FS's; seconds, for IOzone MB/s of
/// writing and of reading.
pub const PUBLISHED: [[[f64; 2]; 5]; 2] = [
    [
        [431.0, 358.0],
        [459.0, 457.0],
        [92.6, 78.9],
        [8.9, 9.9],
        [18.1, 18.4],
    ],
    [
        [437.0, 375.0],
        [362.0, 370.0],
        [99.4, 85.1],
        [7.3, 7.8],
        [16.2, 18.1],
    ],
];
/// The states of the phone.
pub const STATES: [&str; 2] = ["clean", "aged"];

pub fn reproduce(watch: Watch<'_>, size: Size) -> Result<Found, PaperError> {
    let runs = Runs::all(watch, size)?;
    Ok(Found {
        rows: rows(&runs),
        claims: claims::all(&runs),
        assumptions: Assumption::all(&described!("f2fs/assumptions.toml"), None)?,
        exhibits: figures::all(&runs),
    })
}

/// One cell of the phone's tables.
pub struct PhoneCell {
    /// Its name in ids.
    pub key: &'static str,
    /// What was run, and which part of the paper's row that is.
    pub what: &'static str,
    /// Seconds or MB/s, of ext4 and of F2FS, as published.
    pub published: [f64; 2],
    /// The two values measured here.
    pub here: [f64; 2],
    /// Whether a greater value is better.
    pub rate: bool,
}

impl PhoneCell {
    /// "Improv.": by which share F2FS is better, as the paper counts.
    pub fn improvement([ext4, f2fs]: [f64; 2], rate: bool) -> f64 {
        if rate {
            f2fs / ext4 - 1.0
        } else {
            ext4 / f2fs - 1.0
        }
    }
}

/// The states of the phone that were run on one of [`BASES`].
pub fn states(base: usize) -> impl Iterator<Item = (usize, &'static str)> {
    STATES
        .into_iter()
        .enumerate()
        .filter(move |(state, _)| *state == 0 || base == PAGE_BASE)
}

/// The rows of one state of the phone, on one of [`BASES`], with so many cycles an instruction.
pub fn phone(runs: &Runs, (base, state): (usize, usize), cycles: f64) -> [PhoneCell; 5] {
    let of = |row: usize| runs.of(base, PHONE[row][state].key);
    let both = |row: usize| [&of(row).ext4, &of(row).f2fs];
    let seconds = |row: usize| both(row).map(|run| run.measured(cycles));
    let rate = |phase: &str| both(3).map(|run| run.rate(phase, cycles) / 1e6);
    let published = PUBLISHED[state];
    let cell = |at: usize, key, what, here, rate| PhoneCell {
        key,
        what,
        published: published[at],
        here,
        rate,
    };
    [
        cell(
            0,
            "contacts",
            "Contact sync; here: 400 transactions of SQLite, the device and the kernel",
            seconds(0),
            false,
        ),
        cell(
            1,
            "install",
            "App install; here: 30 packages written, the device and the kernel",
            seconds(1),
            false,
        ),
        cell(
            2,
            "rlbench",
            "RLBench; here: its 1000 single INSERTs, the device and the kernel",
            seconds(2),
            false,
        ),
        cell(
            3,
            "iozone-write",
            "IOzone with app install, write",
            rate("write"),
            true,
        ),
        cell(
            4,
            "iozone-read",
            "IOzone with app install, read",
            rate("read"),
            true,
        ),
    ]
}

fn rows(runs: &Runs) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..BASES.len())
        .flat_map(|base| rows_on(runs, base))
        .collect();
    for (policy, _) in POLICIES {
        for (threaded, key) in [(false, "cleaning"), (true, "adaptive")] {
            let moved = sample(runs.cleaning(policy, threaded), Cleaned::moved).mean;
            rows.push(Row::new(
                format!("cleaning/{policy}/{key}"),
                format!("blocks moved for each written: {policy}, {key}"),
                "",
                None,
                moved,
            ));
        }
    }
    for (laid, seeds) in DEVICES.iter().zip(&runs.devices) {
        rows.push(Row::new(
            format!("device/{}/amplification", laid.key),
            format!(
                "{}: bytes programmed for each that the files got",
                laid.name
            ),
            "",
            None,
            sample(seeds, Served::amplification).mean,
        ));
    }
    for run in &runs.rivals {
        rows.extend(of_rival(run));
    }
    for (pauses, seeds) in PAUSES.iter().zip(&runs.idle) {
        rows.push(Row::new(
            format!("idle/{}/p99.9", pauses.key),
            format!("4 KiB and an fsync, {}: p99.9", pauses.name),
            "ms",
            None,
            sample(seeds, |run| run.per_mille(999)).mean,
        ));
    }
    rows
}

/// Those of one device.
/// Figures of each task.
fn of_rival(run: &rivals::Run) -> Vec<Row> {
    let (_, key, name) = RIVALS[run.rival];
    let on = &BASES[run.base];
    let state = if run.is_old { "old" } else { "new" };
    let of_task = |((_, task, what), done): (&(_, &str, &str), &rivals::Done)| {
        let id = |figure: &str| format!("rivals/{}/{state}/{task}/{key}/{figure}", on.key);
        let what = format!("{}, {state} volume: {what}, {name}", on.name);
        let row = |figure: &str, of: &str, unit, value| {
            Row::new(id(figure), format!("{what}: {of}"), unit, None, value)
        };
        [
            row("rate", "written", "MB/s", done.rate() / 1e6),
            row("p99.9", "p99.9 of durable calls", "ms", done.per_mille(999)),
            row(
                "amplification",
                "programmed for each written",
                "",
                done.amplification(),
            ),
        ]
    };
    TASKS.iter().zip(&run.done).flat_map(of_task).collect()
}

fn rows_on(runs: &Runs, base: usize) -> Vec<Row> {
    let Variant {
        key: on,
        name: device,
        ..
    } = BASES[base];
    let mut rows = Vec::new();
    for work in BENCHMARKS {
        let compared = runs.of(base, work.key);
        for (key, name, phases) in [
            ("ext4", "ext4", &compared.ext4),
            ("ext4-live", "ext4, ours", &compared.ext4_live),
            ("f2fs", "F2FS", &compared.f2fs),
        ] {
            let what = format!("{device}: {}, {name}", work.name);
            let id = format!("benchmark/{on}/{}/{key}", work.key);
            let parts = [
                ("", ": the device and the kernel", processor::USUAL),
                ("/device", ": the device", 0.0),
            ];
            rows.extend(parts.map(|(part, of, cycles)| {
                let seconds = phases.measured(cycles);
                Row::new(
                    format!("{id}{part}"),
                    format!("{what}{of}"),
                    "s",
                    None,
                    seconds,
                )
            }));
        }
    }
    for (state, name) in states(base) {
        for cell in phone(runs, (base, state), processor::USUAL) {
            let unit = if cell.rate { "MB/s" } else { "s" };
            for (at, system) in ["ext4", "f2fs"].into_iter().enumerate() {
                let what = format!(
                    "{device}, {name}: {}, {}",
                    cell.what,
                    if at == 0 { "ext4" } else { "F2FS" }
                );
                rows.push(Row::new(
                    format!("phone/{on}/{name}/{}/{system}", cell.key),
                    what,
                    unit,
                    Some(cell.published[at]),
                    cell.here[at],
                ));
            }
            let [published, here] = [cell.published, cell.here]
                .map(|pair| PhoneCell::improvement(pair, cell.rate) * 100.0);
            let what = format!("{device}, {name}: {}: improvement", cell.what);
            rows.push(Row::new(
                format!("phone/{on}/{name}/{}/improvement", cell.key),
                what,
                "%",
                Some(published),
                here,
            ));
        }
    }
    for run in &runs.sustained[base] {
        // "Ext4 shows about 4MB/s sustained performance."
        let published = (run.case.key == "ext4").then_some(4.0);
        let steady = if run.is_steady() { "" } else { ", not steady" };
        rows.push(Row::new(
            format!("sustained/{on}/{}", run.case.key),
            format!(
                "{device}: sustained random write, {}{steady}",
                run.case.name
            ),
            "MB/s",
            published,
            run.end().rate() / 1e6,
        ));
    }
    rows
}
