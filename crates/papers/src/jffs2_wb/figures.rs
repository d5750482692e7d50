//! Table 2, Figure 3, and the tables behind them.

use super::cells::{BLOCKS, Cell, Cells, ELSEWHERE, LOOKED_AT, OPTIONS, Place, SYSTEMS, What};
use super::published::{CLASSES, FILLS, SIZES, TABLE};
use crate::{Drawn, Exhibit, Figure, Quantity, TableExhibit};
use nandlab_workload::Op;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

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
        [mib(*size)].into_iter().chain(both).collect()
    };
    let bounds = part.names.iter().map(|name| format!("{name} ms"));
    Exhibit::Table(TableExhibit {
        title: format!("Table 2, {}", SYSTEMS[system].name),
        about: "Writes of 4 KiB in each class of latency, published / here. What is faster than the first class is counted with it.".into(),
        heads: [String::new()].into_iter().chain(bounds).collect(),
        rows: SIZES.iter().enumerate().map(row).collect(),
    })
}

/// How often the write buffer is filled.
pub fn fills(cells: &Cells) -> Exhibit {
    let row = |(at, size): (usize, &u64)| {
        let cell = cells.of(1, *size, 4096);
        // A node of 68 bytes and what Linux's zlib makes of a page of zeros, 48
        // (docs/kernel-costs.md).
        let by_linux = (size >> 12) * 116 / 2048;
        vec![
            mib(*size),
            TABLE[1].counts[at][FILLS].to_string(),
            cell.programs().to_string(),
            by_linux.to_string(),
        ]
    };
    Exhibit::Table(TableExhibit {
        title: "Fills of JFFS2's write buffer".into(),
        about: "A page of zeros becomes a short node, and many nodes a page of the flash. The paper's class of 4 to 5 ms has about as many writes as there are such fills. Our zlib makes 33 bytes of a page of zeros, Linux's 48, so that ours come a little later.".into(),
        heads: strings(&["", "published, 4< ms", "page programs here", "if a page became 48 bytes"]),
        rows: SIZES.iter().enumerate().map(row).collect(),
    })
}

/// Figure 3: mean and longest latency over the length of the file.
pub fn figure(cells: &Cells, op: Op) -> Exhibit {
    let names: Vec<String> = SYSTEMS
        .iter()
        .map(|system| system.name.to_string())
        .collect();
    let verb = if op == Op::Write { "write" } else { "read" };
    let plot = |block: u64, what: &str, of: &dyn Fn(&Cell) -> f64| Figure {
        title: format!("{what} latency of a {verb}, blocks of {} KiB", block >> 10),
        about: String::new(),
        x: "length of the file".into(),
        y: format!("{what} latency"),
        drawn: Drawn::LinesOverLog,
        of: (Quantity::Memory, Quantity::Nanoseconds),
        names: names.clone(),
        series: (0..SYSTEMS.len())
            .map(|system| {
                (
                    names[system].clone(),
                    SIZES
                        .iter()
                        .map(|size| (*size as f64, of(cells.of(system, *size, block))))
                        .collect(),
                )
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
        [format!("{}, {} KiB", SYSTEMS[system].name, block >> 10)]
            .into_iter()
            .chain(values)
            .collect()
    };
    let verb = if op == Op::Write { "writes" } else { "reads" };
    Exhibit::Table(TableExhibit {
        title: format!("Latency of {verb}"),
        about: "Mean / longest, in ms, over the length of the file. Reads follow the writes, so that what is still in memory is read from there.".into(),
        heads: [String::new()].into_iter().chain(SIZES.iter().map(|size| mib(*size))).collect(),
        rows: (0..SYSTEMS.len()).flat_map(|system| BLOCKS.map(|block| row(system, block))).collect(),
    })
}

/// What the routine has written for whom.
pub fn deferred(cells: &Cells) -> Exhibit {
    let row = |size: &u64| {
        let run = &cells.of(2, *size, 4096).run.deferred;
        let values = [
            run.deferred,
            run.fflush,
            run.writers,
            run.synced,
            run.writes,
        ];
        [mib(*size)]
            .into_iter()
            .chain(values.map(|value| value.to_string()))
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "The routine at work".into(),
        about:
            "Elements of the list flash_bh: queued, and written by fflush, by a writer that found the memory full, by the fsync at the end."
                .into(),
        heads: strings(&["", "queued", "by fflush", "by the writer", "by the fsync", "writes to JFFS2"]),
        rows: SIZES.iter().map(row).collect(),
    })
}

fn outcome(cell: &Cell) -> [String; 4] {
    [
        ms(cell.mean(Op::Write)),
        ms(cell.longest(Op::Write) as f64),
        cell.programs().to_string(),
        format!("{:.2} s", cell.seconds()),
    ]
}

/// What is left open, run through.
pub fn open(cells: &Cells) -> Exhibit {
    let row = |name: &str, option: Option<usize>, system: usize| {
        let values = LOOKED_AT.map(|size| {
            outcome(cells.at(Place {
                size,
                block: 4096,
                what: What::System(system, option),
            }))
        });
        [format!("{name}: {}", SYSTEMS[system].name)]
            .into_iter()
            .chain(values.into_iter().flatten())
            .collect::<Vec<String>>()
    };
    let mut rows: Vec<Vec<String>> = (0..SYSTEMS.len())
        .map(|system| row("as in the table", None, system))
        .collect();
    for (at, (name, _, routine_only)) in OPTIONS.iter().enumerate() {
        let systems = if *routine_only { 2..3 } else { 0..3 };
        rows.extend(systems.map(|system| row(name, Some(at), system)));
    }
    Exhibit::Table(TableExhibit {
        title: "What the paper leaves open".into(),
        about: "Blocks of 4 KiB: mean and longest latency of a write in ms, pages programmed, time until all is on the flash; for a file of 8 MiB, and of 32 MiB.".into(),
        heads: heads(),
        rows,
    })
}

fn heads() -> Vec<String> {
    let of = |size: u64| {
        ["mean", "longest", "programs", "all written"].map(|what| format!("{what}, {}", mib(size)))
    };
    [String::new()]
        .into_iter()
        .chain(LOOKED_AT.into_iter().flat_map(of))
        .collect()
}

/// The routine in front of other file systems.
pub fn elsewhere(cells: &Cells) -> Exhibit {
    let row = |(at, (name, _)): (usize, &(&str, &[&str]))| {
        let values = LOOKED_AT.map(|size| {
            outcome(cells.at(Place {
                size,
                block: 4096,
                what: What::Elsewhere(at),
            }))
        });
        [name.to_string()]
            .into_iter()
            .chain(values.into_iter().flatten())
            .collect()
    };
    Exhibit::Table(TableExhibit {
        title: "The routine in front of other file systems".into(),
        about: "As its authors left to future work. Both write at once by themselves here, as mounted with `sync`.".into(),
        heads: heads(),
        rows: ELSEWHERE.iter().enumerate().map(row).collect(),
    })
}
