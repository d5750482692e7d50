//! The page's first two sections: the figures of all runs side by side, and the settings that made
//! them.

use super::markup::{Element, el, swatch};
use super::names::{capital, operations, union};
use super::number::{Quantity, grouped};
use super::section::Section;
use super::table::{Cell, Table};
use crate::result::{Cost, HostRow, RunResult, Setting};

/// Which of two values a reader wants.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Low,
    High,
    Neither,
}
use Better::{High, Low, Neither};

/// A table with one column per run.
struct Comparison<'a> {
    runs: &'a [RunResult],
    table: Table,
}

impl Comparison<'_> {
    /// A row of `quantity`, unless no run has the value.
    fn row(
        &mut self,
        name: &str,
        better: Better,
        quantity: Quantity,
        value: impl Fn(&RunResult) -> Option<f64>,
    ) {
        self.written(name, better, |v| quantity.write(v), value);
    }

    /// A row of exact counts.
    fn count(&mut self, name: &str, better: Better, value: impl Fn(&RunResult) -> Option<u64>) {
        self.written(
            name,
            better,
            |v| grouped(v as u64),
            |run| value(run).map(|v| v as f64),
        );
    }

    fn written(
        &mut self,
        name: &str,
        better: Better,
        write: impl Fn(f64) -> String,
        value: impl Fn(&RunResult) -> Option<f64>,
    ) {
        let values: Vec<Option<f64>> = self
            .runs
            .iter()
            .map(|run| value(run).filter(|v| v.is_finite()))
            .collect();
        if values.iter().all(Option::is_none) {
            return;
        }
        let best = best(better, &values);
        let cell = |value: &Option<f64>| match value {
            Some(v) => Cell {
                text: write(*v),
                note: String::new(),
                best: Some(*v) == best,
            },
            None => Cell::from("–".to_string()),
        };
        self.table.row(name, values.iter().map(cell));
    }
}

/// The best value, where at least two runs have one and they differ.
fn best(better: Better, values: &[Option<f64>]) -> Option<f64> {
    let (low, high) = super::axis::range(values.iter().flatten().copied())?;
    match better {
        _ if low == high => None,
        Low => Some(low),
        High => Some(high),
        Neither => None,
    }
}

pub fn summary(runs: &[RunResult], names: &[String], costs: &[Cost]) -> Section {
    let start = || Comparison {
        runs,
        table: Table::new(heads("", names)),
    };
    let mut asked = start();
    let mut did = start();
    for operation in operations(runs) {
        host(&mut asked, &operation);
    }
    flash(&mut did);
    wear(&mut did);
    simulation(&mut did, costs);
    let mut body = failures(runs, names);
    // Up to three columns fit twice beside each other.
    let class = if runs.len() <= 3 { "pair" } else { "" };
    body.push(
        el("div")
            .class(class)
            .child(asked.table.draw("numbers"))
            .child(did.table.draw("numbers")),
    );
    if runs.len() > 1 {
        body.push(
            el("p")
                .class("hint")
                .text("Bold marks the best run of a row."),
        );
    }
    Section {
        title: "Results".into(),
        body,
    }
}

fn host(table: &mut Comparison<'_>, operation: &str) {
    let row = |run: &RunResult| {
        run.operation(operation)
            .filter(|row| row.count > 0)
            .cloned()
    };
    table.table.group(&capital(operation));
    table.row("Throughput", High, Quantity::Rate, |run| {
        row(run)
            .filter(|row| row.bytes > 0)
            .and_then(|row| run.per_second(row.bytes))
    });
    table.row("Requests per second", High, Quantity::Count, |run| {
        row(run).and_then(|row| run.per_second(row.count))
    });
    table.row("Data", Neither, Quantity::Bytes, |run| {
        row(run)
            .filter(|row| row.bytes > 0)
            .map(|row| row.bytes as f64)
    });
    table.count("Requests", Neither, |run| row(run).map(|row| row.count));
    type Pick = fn(&HostRow) -> f64;
    let latencies: [(&str, Pick); 6] = [
        ("Latency, mean", |row| row.latency.mean_ns),
        ("Latency, median", |row| row.latency.p50_ns as f64),
        ("Latency, p90", |row| row.latency.p90_ns as f64),
        ("Latency, p99", |row| row.latency.p99_ns as f64),
        ("Latency, p99.9", |row| row.latency.p999_ns as f64),
        ("Latency, largest", |row| row.latency.max_ns as f64),
    ];
    for (name, pick) in latencies {
        table.row(name, Low, Quantity::Nanoseconds, |run| {
            row(run).map(|row| pick(&row))
        });
    }
}

fn flash(table: &mut Comparison<'_>) {
    table.table.group("Flash");
    table.row("Write amplification", Low, Quantity::Factor, |run| {
        run.flash.write_amplification
    });
    table.row("… without mapping", Low, Quantity::Factor, |run| {
        run.flash.collection_amplification
    });
    table.count("Page reads", Neither, |run| {
        Some(run.flash.total(|row| row.reads))
    });
    table.count("Page programs", Neither, |run| {
        Some(run.flash.total(|row| row.programs))
    });
    table.count("Page copies", Neither, |run| {
        Some(run.flash.total(|row| row.copies))
    });
    table.count("Block erases", Neither, |run| {
        Some(run.flash.total(|row| row.erases))
    });
    let busy = |run: &RunResult| super::axis::range(run.flash.die_busy.iter().copied());
    table.row("Dies busy, mean", Neither, Quantity::Share, |run| {
        Some(run.flash.die_busy.iter().sum::<f64>() / run.flash.die_busy.len() as f64)
    });
    table.row("… least busy die", Neither, Quantity::Share, |run| {
        busy(run).map(|range| range.0)
    });
    table.row("… busiest die", Neither, Quantity::Share, |run| {
        busy(run).map(|range| range.1)
    });
    table.count("Bits corrected", Neither, |run| {
        Some(run.flash.corrected_bits)
    });
    table.count("Reads beyond correction", Low, |run| {
        Some(run.flash.uncorrectable)
    });
}

fn wear(table: &mut Comparison<'_>) {
    table.table.group("Wear");
    table.row("Erases per block, mean", Neither, Quantity::Factor, |run| {
        Some(run.flash.wear.mean)
    });
    table.row("… standard deviation", Neither, Quantity::Factor, |run| {
        Some(run.flash.wear.deviation)
    });
    table.count("… least worn block", Neither, |run| {
        Some(run.flash.wear.min.into())
    });
    table.count("… most worn block", Neither, |run| {
        Some(run.flash.wear.max.into())
    });
    table.count("Rated erases", Neither, |run| {
        run.flash.wear.rated.map(u64::from)
    });
    table.row("Host data until worn out", High, Quantity::Bytes, |run| {
        run.flash.lifetime_bytes.map(|bytes| bytes as f64)
    });
}

fn simulation(table: &mut Comparison<'_>, costs: &[Cost]) {
    table.table.group("Simulation");
    table.row("Simulated time", Neither, Quantity::Nanoseconds, |run| {
        Some(run.simulated_ns as f64)
    });
    if costs.is_empty() {
        return;
    }
    let known = |value: f64| Some(value).filter(|v| v.is_finite() && *v > 0.0);
    let row = |table: &mut Comparison<'_>,
               name: &str,
               quantity: Quantity,
               value: &dyn Fn(&RunResult, &Cost) -> Option<f64>| {
        let cells = table
            .runs
            .iter()
            .enumerate()
            .map(|(at, run)| costs.get(at).and_then(|cost| value(run, cost)));
        let cells: Vec<Cell> = cells
            .map(|value| Cell::from(value.map_or("–".into(), |v| quantity.write(v))))
            .collect();
        table.table.row(name, cells);
    };
    row(table, "Wall time", Quantity::Nanoseconds, &|_, cost| {
        known(cost.wall_s * 1e9)
    });
    row(table, "Peak memory", Quantity::Memory, &|_, cost| {
        known(cost.peak_bytes as f64)
    });
    row(
        table,
        "Requests per wall second",
        Quantity::Count,
        &|run, cost| {
            known(
                run.host
                    .operations
                    .iter()
                    .map(|row| row.count as f64)
                    .sum::<f64>()
                    / cost.wall_s,
            )
        },
    );
}

fn failures(runs: &[RunResult], names: &[String]) -> Vec<Element> {
    let failed = runs
        .iter()
        .zip(names)
        .filter(|(run, _)| run.host.failed > 0);
    let notice = |(run, name): (&RunResult, &String)| {
        let reason = run
            .host
            .first_failure
            .as_deref()
            .unwrap_or("no reason given");
        el("p").class("notice").text(&format!(
            "{name}: the device refused {} requests; the first: {reason}",
            grouped(run.host.failed)
        ))
    };
    failed.map(notice).collect()
}

/// The settings: those that differ in the open, all of them folded away.
pub fn settings(runs: &[RunResult], names: &[String]) -> Section {
    let keys = union(
        runs.iter()
            .flat_map(|run| run.settings.iter().map(|setting| setting.key.as_str())),
    );
    let values = |key: &str| -> Vec<Option<&Setting>> {
        runs.iter()
            .map(|run| run.settings.iter().find(|setting| setting.key == key))
            .collect()
    };
    let differs = |key: &str| {
        values(key)
            .windows(2)
            .any(|pair| pair[0].map(|s| &s.value) != pair[1].map(|s| &s.value))
    };
    let cell = |setting: Option<&Setting>| match setting {
        Some(setting) => Cell {
            text: setting.value.clone(),
            note: setting.origin.clone(),
            best: false,
        },
        None => Cell::from("–".to_string()),
    };
    let mut different = Table::new(heads("Setting", names));
    let mut all = Table::new(heads("Setting", names));
    for key in &keys {
        if differs(key) {
            different.row(key, values(key).into_iter().map(cell));
            all.marked(key, values(key).into_iter().map(cell));
        } else {
            all.row(key, values(key).into_iter().map(cell));
        }
    }
    let count = keys.iter().filter(|key| differs(key)).count();
    let mut body = Vec::new();
    match (runs.len(), count) {
        (1, _) => {}
        (_, 0) => body.push(el("p").text("The runs share every setting.")),
        _ => body.extend([
            el("p").text(&format!(
                "{count} of {} settings differ between the runs:",
                keys.len()
            )),
            different.draw("words"),
        ]),
    }
    let summary = el("summary").text(&format!("All {} settings", keys.len()));
    body.push(el("details").child(summary).child(all.draw("words")));
    Section {
        title: "Settings".into(),
        body,
    }
}

fn heads<'a>(first: &'a str, names: &'a [String]) -> impl Iterator<Item = Element> + 'a {
    let run = |(at, name): (usize, &String)| el("span").child(swatch(at)).text(name);
    std::iter::once(el("span").text(first)).chain(names.iter().enumerate().map(run))
}
