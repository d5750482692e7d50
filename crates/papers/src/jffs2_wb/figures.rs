//! Table 2, Figure 3, and the tables behind them.

use super::cells::{BLOCKS, Cell, Cells, ELSEWHERE, LOOKED_AT, OPTIONS, Place, SYSTEMS, What};
use super::published::{CLASSES, SIZES, TABLE};
use crate::{Drawn, Exhibit, Figure, Quantity, line};
use nandlab_stack::units::write_size;
use nandlab_workload::Op;

/// A time in ms, to three digits or so.
fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 1000.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms => format!("{ms:.3}"),
    }
}

/// Table 2 for one system: published and here in each class.
pub fn table(cells: &Cells, system: usize) -> Exhibit {
    let part = &TABLE[system];
    let row = |(at, size): (usize, &u64)| {
        let here = part.classify(cells.of(system, *size, 4096).latencies(Op::Write));
        let both = (0..CLASSES).map(|class| match (part.counts[at][class], here[class]) {
            (0, 0) => String::new(),
            (published, here) => format!("{published} / {here}"),
        });
        line(write_size(*size), both)
    };
    let bounds = part.names.iter().map(|name| format!("{name} ms"));
    Exhibit::table(
        format!("Table 2, {}", SYSTEMS[system].name),
        "Writes of 4 KiB in each class of latency, published / here. What is faster than the first class is counted with it.",
        line("", bounds),
        SIZES.iter().enumerate().map(row),
    )
}

/// How often the write buffer is filled.
pub fn fills(cells: &Cells) -> Exhibit {
    let row = |size: &u64| {
        let cell = cells.of(1, *size, 4096);
        // A node of 68 bytes and what Linux's zlib makes of a page of zeros, 48
        // (docs/kernel-costs.md).
        let by_linux = (size >> 12) * 116 / 2048;
        vec![
            write_size(*size),
            cell.programs().to_string(),
            by_linux.to_string(),
        ]
    };
    Exhibit::table(
        "Fills of JFFS2's write buffer",
        "A page of zeros becomes a short node, and many nodes a page of the flash. Our zlib makes \
        33 bytes of a page of zeros, Linux's 48. So ours come a little later.",
        ["", "page programs here", "if a page became 48 bytes"],
        SIZES.iter().map(row),
    )
}

/// Figure 3: mean and longest latency over the length of the file.
pub fn figure(cells: &Cells, op: Op) -> Exhibit {
    let verb = if op == Op::Write { "write" } else { "read" };
    let plot = |block: u64, what: &str, of: &dyn Fn(&Cell) -> f64| Figure {
        title: format!("{what} latency of a {verb}, blocks of {} KiB", block >> 10),
        about: String::new(),
        x: "length of the file".into(),
        y: format!("{what} latency"),
        drawn: Drawn::LinesOverLog,
        of: (Quantity::Memory, Quantity::Nanoseconds),
        series: SYSTEMS
            .iter()
            .enumerate()
            .map(|(at, system)| {
                let value = |size: &u64| (*size as f64, of(cells.of(at, *size, block)));
                (system.name.into(), SIZES.iter().map(value).collect())
            })
            .collect(),
    };
    let plots = BLOCKS.into_iter().flat_map(|block| {
        let longest = |cell: &Cell| cell.longest(op) as f64;
        [
            plot(block, "mean", &|cell| cell.mean(op)),
            plot(block, "longest", &longest),
        ]
    });
    Exhibit::Figures(format!("Figure 3: {verb}s"), plots.collect())
}

/// The same as numbers.
pub fn latencies(cells: &Cells, op: Op) -> Exhibit {
    let row = |system: usize, block: u64| {
        let values = SIZES.iter().map(|size| {
            let cell = cells.of(system, *size, block);
            format!("{} / {}", ms(cell.mean(op)), ms(cell.longest(op) as f64))
        });
        let name = format!("{}, {} KiB", SYSTEMS[system].name, block >> 10);
        line(name, values)
    };
    let verb = if op == Op::Write { "writes" } else { "reads" };
    Exhibit::table(
        format!("Latency of {verb}"),
        "Mean / longest, in ms, over the length of the file. Reads follow the writes, so that what is still in memory is read from there.",
        line("", SIZES.map(write_size)),
        (0..SYSTEMS.len()).flat_map(|system| BLOCKS.map(|block| row(system, block))),
    )
}

/// What the routine has written for whom.
pub fn deferred(cells: &Cells) -> Exhibit {
    let row = |size: &u64| {
        let run = &cells.of(2, *size, 4096).0.deferred;
        let values = [
            run.deferred,
            run.fflush,
            run.writers,
            run.synced,
            run.writes,
        ];
        line(write_size(*size), values.map(|value| value.to_string()))
    };
    Exhibit::table(
        "The routine at work",
        "Elements of the list flash_bh: queued, and written by fflush, by a writer that found the memory full, by the fsync at the end.",
        [
            "",
            "queued",
            "by fflush",
            "by the writer",
            "by the fsync",
            "writes to JFFS2",
        ],
        SIZES.iter().map(row),
    )
}

fn outcome(cell: &Cell) -> [String; 4] {
    [
        ms(cell.mean(Op::Write)),
        ms(cell.longest(Op::Write) as f64),
        cell.programs().to_string(),
        format!("{:.2} s", cell.seconds()),
    ]
}

/// The outcomes of a run at all places that are looked at.
fn looked_at(cells: &Cells, name: &str, what: What) -> Vec<String> {
    let outcomes = LOOKED_AT.map(|size| {
        outcome(cells.at(Place {
            size,
            block: 4096,
            what,
        }))
    });
    line(name, outcomes.into_iter().flatten())
}

/// What is left open, run through.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |name: &str, option: Option<usize>, system: usize| {
        let name = format!("{name}: {}", SYSTEMS[system].name);
        looked_at(cells, &name, What::System(system, option))
    };
    let mut rows: Vec<Vec<String>> = (0..SYSTEMS.len())
        .map(|system| row("as in the table", None, system))
        .collect();
    for (at, (name, _, routine_only)) in OPTIONS.iter().enumerate() {
        let systems = if *routine_only { 2..3 } else { 0..3 };
        rows.extend(systems.map(|system| row(name, Some(at), system)));
    }
    Exhibit::table(
        "What the paper leaves open",
        "Blocks of 4 KiB: mean and longest latency of a write in ms, pages programmed, time until all is on the flash; for a file of 8 MiB, and of 32 MiB.",
        heads(),
        rows,
    )
}

/// How far the latencies are from Table 2 at 8 MB, with each open choice made otherwise.
pub fn distances(cells: &Cells) -> Exhibit {
    let size = LOOKED_AT[0];
    let row = |name: &str, option: Option<usize>| {
        let distance = |system: usize| {
            let part = &TABLE[system];
            let what = What::System(system, option);
            let latencies = cells.get(Place {
                size,
                block: 4096,
                what,
            })?;
            let here = part.classify(latencies.latencies(Op::Write));
            let published = SIZES.iter().position(|one| *one == size)?;
            Some(part.distance(&part.counts[published], &here))
        };
        let cell = |system| distance(system).map_or(String::new(), |one| format!("{one:.3}"));
        line(name, (0..SYSTEMS.len()).map(cell))
    };
    let options = OPTIONS.iter().enumerate();
    let rows = options.map(|(at, (name, ..))| row(name, Some(at)));
    Exhibit::table(
        "Distance from Table 2 with the open choices made otherwise",
        "Kolmogorov and Smirnov's, at the bounds of the classes, 8 MiB in blocks of 4 KiB. Below \
        0.043 no test at 5 % tells the distributions apart.",
        line("", SYSTEMS.map(|system| system.name.to_string())),
        [row("as in the table", None)].into_iter().chain(rows),
    )
}

fn heads() -> Vec<String> {
    let of = |size: u64| {
        ["mean", "longest", "programs", "all written"]
            .map(|what| format!("{what}, {}", write_size(size)))
    };
    line("", LOOKED_AT.into_iter().flat_map(of))
}

/// The routine in front of other file systems.
pub fn elsewhere(cells: &Cells) -> Exhibit {
    let row = |(at, (name, _)): (usize, &(&str, _))| looked_at(cells, name, What::Elsewhere(at));
    Exhibit::table(
        "The routine in front of other file systems",
        "As its authors left to future work. Both write at once by themselves here, as mounted with `sync`.",
        heads(),
        ELSEWHERE.iter().enumerate().map(row),
    )
}
