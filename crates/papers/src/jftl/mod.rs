//! S.-H. Lim, H. J. Choi, K. H. Park, "Journal Remap-Based FTL for Journaling File System with
//! Flash Memory" (HPCC 2007): its figures run, its claims judged.
//!
//! Its text has no numbers but the chip's; its figures are plots, and what it says of them is
//! judged here.

mod cells;
mod figures;

use super::{Assumption, Claim, Found, PaperError, Row, Watch, listed, range};
use crate::runs::described;
use cells::{Bench, Cells, MODES, PUBLISHED};
use figures::RATIOS;
use nandlab_lab::verdict::Verdict;

/// Runs both figures and what surrounds them.
pub fn reproduce(watch: Watch<'_>) -> Result<Found, PaperError> {
    let cells = Cells::run(watch)?;
    let benches = [Bench::Bonnie, Bench::Iozone];
    let figures = benches.into_iter().flat_map(|bench| {
        [
            figures::figure(&cells, bench),
            figures::bandwidths(&cells, bench),
            figures::programs(&cells, bench),
        ]
    });
    let behind = [figures::wear(&cells), figures::open(&cells)];
    Ok(Found {
        rows: rows(&cells)?,
        claims: claims(&cells),
        assumptions: Assumption::all(&described!("jftl/assumptions.toml"), Some("pc-3ghz"))?,
        exhibits: figures.chain(behind).collect(),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Bandwidths of one mode over those of another, along a figure.
fn ratios(cells: &Cells, bench: Bench, phase: &str, upper: usize, lower: usize) -> Vec<f64> {
    let upper = cells.curve(bench, phase, &MODES[upper]);
    let lower = cells.curve(bench, phase, &MODES[lower]);
    upper.iter().zip(lower).map(|(a, b)| a / b).collect()
}

/// Means of all curves, and of the ratios that the paper speaks of.
fn rows(cells: &Cells) -> Result<Vec<Row>, PaperError> {
    let published = Bench::Bonnie.described().with([""; 0])?.published;
    let half = published
        .iter()
        .find(|(name, _)| name == "journaled-share")
        .map(|(_, value)| *value);
    let mut rows = Vec::new();
    for (bench, phase, title) in plots() {
        let part = format!("figure-{}", bench.figure());
        rows.extend(MODES.iter().enumerate().map(|(at, mode)| {
            let part = if at < PUBLISHED { &part } else { "extension" };
            Row::new(
                format!("{part}/{phase}/{}", mode.key),
                format!("{bench}, {title}, {}: mean along the figure", mode.name),
                "MB/s",
                None,
                mean(&cells.curve(bench, phase, mode)) / 1e6,
            )
        }));
        let of_ratio = |(at, (name, upper, lower)): (usize, &(&str, usize, usize))| {
            Row::new(
                format!("{part}/{phase}/ratio-{}", MODES[*upper].key),
                format!("{bench}, {title}: {name}"),
                "",
                half.filter(|_| at == 0),
                mean(&ratios(cells, bench, phase, *upper, *lower)),
            )
        };
        rows.extend(RATIOS.iter().enumerate().map(of_ratio));
    }
    Ok(rows)
}

/// The figures' four plots.
fn plots() -> impl Iterator<Item = (Bench, &'static str, &'static str)> {
    [Bench::Bonnie, Bench::Iozone]
        .into_iter()
        .flat_map(|bench| bench.phases().map(|(phase, title)| (bench, phase, title)))
}

/// A claim on a ratio along plots: whether all points are within bounds.
fn on_ratio(
    cells: &Cells,
    id: &'static str,
    statement: &str,
    (_, upper, lower): (&str, usize, usize),
    plots: impl Iterator<Item = (Bench, &'static str, &'static str)>,
    good: impl Fn(f64) -> bool,
) -> Claim {
    let mut holds = true;
    let mut evidence = Vec::new();
    for (bench, phase, title) in plots {
        let found = ratios(cells, bench, phase, upper, lower);
        let (low, high) = range(&found);
        holds &= found.iter().all(|ratio| good(*ratio));
        evidence.push(format!("{bench} {title} {low:.3} to {high:.3}"));
    }
    Claim::new(id, statement, Verdict::of(holds), evidence.join("; "))
}

/// A claim on how far curves reach: largest over least of each.
fn on_spread(
    cells: &Cells,
    id: &'static str,
    statement: &str,
    plots: &[(Bench, &str)],
    modes: &[usize],
    good: impl Fn(f64) -> bool,
) -> Claim {
    let mut holds = true;
    let mut evidence = Vec::new();
    for (bench, phase) in plots {
        let spread = |mode: &usize| {
            let (low, high) = range(&cells.curve(*bench, phase, &MODES[*mode]));
            high / low
        };
        let found: Vec<f64> = modes.iter().map(spread).collect();
        holds &= found.iter().all(|spread| good(*spread));
        let each = modes
            .iter()
            .zip(&found)
            .map(|(mode, spread)| format!("{} {spread:.3}", MODES[*mode].name));
        evidence.push(format!(
            "{bench} {phase}, largest over least: {}",
            listed(each)
        ));
    }
    Claim::new(id, statement, Verdict::of(holds), evidence.join("; "))
}

/// What the paper claims.
fn claims(cells: &Cells) -> Vec<Claim> {
    let bonnie = || plots().filter(|(bench, ..)| *bench == Bench::Bonnie);
    let every = [0, 1, 2, 3];
    let [journaled, remapped, slightly] = RATIOS;
    let small = |phase: &str, mode: usize| {
        let curve = cells.curve(Bench::Iozone, phase, &MODES[mode]);
        curve[0] / curve[curve.len() - 1]
    };
    let remapping: Vec<_> = Bench::Iozone
        .phases()
        .into_iter()
        .flat_map(|(phase, title)| {
            [(1, 0), (3, 2)].map(|(upper, lower)| {
                let what = format!("{title}, {} over {}", MODES[upper].name, MODES[lower].name);
                (
                    what,
                    range(&ratios(cells, Bench::Iozone, phase, upper, lower)),
                )
            })
        })
        .collect();
    vec![
        on_ratio(
            cells,
            "jftl-near-ordered",
            "Journaled with JFTL gives similar performance to ordered: within 10 %, over file size",
            remapped,
            bonnie(),
            |r| r >= 0.9,
        ),
        on_ratio(
            cells,
            "journaled-half",
            "Journaled mode has at most about half of ordered's bandwidth, over file size",
            journaled,
            bonnie(),
            |r| r <= 0.55,
        ),
        on_ratio(
            cells,
            "ordered-jftl-slightly",
            "Ordered with JFTL is slightly better than ordered, over file size",
            slightly,
            bonnie(),
            |r| r > 1.0 && r < 1.1,
        ),
        on_spread(
            cells,
            "flat-over-size",
            "Bandwidth does not change largely as the file grows",
            &[(Bench::Bonnie, "putc"), (Bench::Bonnie, "write")],
            &every,
            |spread| spread <= 1.15,
        ),
        Claim::new(
            "small-records-slow",
            "New data is written more slowly in small records, in every mode",
            Verdict::of(every.iter().all(|mode| small("write", *mode) < 0.8)),
            format!(
                "4 KiB records over 4096 KiB: {}",
                every
                    .map(|mode| format!("{} {:.3}", MODES[mode].name, small("write", mode)))
                    .join(", ")
            ),
        ),
        on_spread(
            cells,
            "rewrite-flat",
            "Rewriting in ordered mode is constant through the record sizes",
            &[(Bench::Iozone, "rewrite")],
            &[0, 1],
            |spread| spread <= 1.15,
        ),
        Claim::new(
            "jftl-outperforms",
            "In all IOzone experiments both modes with JFTL outperform those without",
            Verdict::of(remapping.iter().all(|(_, (low, _))| *low >= 1.0)),
            remapping
                .iter()
                .map(|(what, (low, high))| format!("{what}: {low:.3} to {high:.3}"))
                .collect::<Vec<_>>()
                .join("; "),
        ),
        Claim::new(
            "journaled-sinks",
            "In journaled mode bandwidth sinks slowly as the file grows",
            Verdict::of(bonnie().all(|(bench, phase, _)| {
                cells
                    .curve(bench, phase, &MODES[2])
                    .windows(2)
                    .all(|pair| pair[1] <= pair[0])
            })),
            bonnie()
                .map(|(bench, phase, title)| {
                    let curve = cells.curve(bench, phase, &MODES[2]);
                    let rates = curve.iter().map(|rate| format!("{:.3}", rate / 1e6));
                    format!("{title}: {}", listed(rates))
                })
                .collect::<Vec<_>>()
                .join("; "),
        ),
    ]
}
