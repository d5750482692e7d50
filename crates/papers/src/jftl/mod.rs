//! S.-H. Lim, H. J. Choi, K. H. Park, "Journal Remap-Based FTL for Journaling File System with
//! Flash Memory" (HPCC 2007): its figures run, its claims judged.
//!
//! Its text has no numbers but the chip's; its figures are plots, and what it says of them is
//! judged here.

mod cells;
mod figures;
mod recovery;

use super::{Assumption, Claim, Found, PaperError, Row, Size, Watch, range};
use crate::runs::described;
use cells::{
    Bench, Cells, JOURNALED, JOURNALED_JFTL, JOURNALED_MEMORY, MODES, ORDERED, ORDERED_JFTL,
    ORDERED_MEMORY, PUBLISHED,
};
use figures::RATIOS;
use nandlab_lab::verdict::{Sample, Verdict};
use recovery::Recoveries;

/// Runs both figures and what surrounds them.
pub fn reproduce(watch: Watch<'_>, size: Size) -> Result<Found, PaperError> {
    let cells = Cells::run(watch, size)?;
    let recoveries = Recoveries::run(watch)?;
    let benches = [Bench::Bonnie, Bench::Iozone];
    let figures = benches.into_iter().flat_map(|bench| {
        [
            figures::figure(&cells, bench),
            figures::bandwidths(&cells, bench),
            figures::programs(&cells, bench),
        ]
    });
    let behind = [
        recoveries.table(),
        figures::wear(&cells),
        figures::open(&cells),
    ];
    let mut claims = claims(&cells);
    claims.push(recoveries.claim());
    Ok(Found {
        rows: rows(&cells)?,
        claims,
        assumptions: Assumption::all(&described!("jftl/assumptions.toml"), Some("pc-3ghz"))?,
        exhibits: figures.chain(behind).collect(),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
                mean_of(&cells.ratios((bench, phase), *upper, *lower)),
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

fn mean_of(samples: &[Sample]) -> f64 {
    mean(&samples.iter().map(|one| one.mean).collect::<Vec<_>>())
}

/// The least and the largest mean, and the widest interval.
fn spanned(samples: &[Sample]) -> String {
    let means: Vec<f64> = samples.iter().map(|one| one.mean).collect();
    let (low, high) = range(&means);
    let half = samples.iter().filter_map(|one| one.half);
    format!(
        "{low:.3} to {high:.3} (+- {:.3} at most)",
        half.fold(0.0, f64::max)
    )
}

/// A claim on ratios along plots: whether all points are within bounds.
fn on_ratio(
    cells: &Cells,
    (id, statement): (&'static str, &str),
    pairs: &[(usize, usize)],
    bench: Bench,
    judge: impl Fn(&Sample) -> Verdict,
) -> Claim {
    let mut verdict = Verdict::Holds;
    let mut evidence = Vec::new();
    for (phase, title) in bench.phases() {
        for (upper, lower) in pairs {
            let found = cells.ratios((bench, phase), *upper, *lower);
            verdict = verdict.and(Verdict::all(found.iter().map(&judge)));
            evidence.push(format!(
                "{title}, {} over {}: {}",
                MODES[*upper].name,
                MODES[*lower].name,
                spanned(&found)
            ));
        }
    }
    let verdict = verdict.if_happened(cells.collected(bench));
    Claim::new(id, statement, verdict, evidence.join("; "))
}

/// A figure of a whole curve, and the verdict on it.
type Judged<'a> = (&'a dyn Fn(&[f64]) -> f64, &'a dyn Fn(&Sample) -> Verdict);

/// A claim on a figure of whole curves, of some phases and modes.
fn on_curves(
    cells: &Cells,
    (id, statement): (&'static str, &str),
    (bench, phases): (Bench, &[&str]),
    modes: &[usize],
    (of, judge): Judged<'_>,
) -> Claim {
    let mut verdict = Verdict::Holds;
    let mut evidence = Vec::new();
    for phase in phases {
        for mode in modes {
            let found = cells.of_curves((bench, phase), *mode, of);
            verdict = verdict.and(judge(&found));
            let found = found.reported(|value| format!("{value:.3}"));
            evidence.push(format!("{phase}, {} {found}", MODES[*mode].name));
        }
    }
    let verdict = verdict.if_happened(cells.collected(bench));
    Claim::new(id, statement, verdict, evidence.join("; "))
}

fn largest_over_least(curve: &[f64]) -> f64 {
    let (low, high) = range(curve);
    high / low
}

fn last_over_first(curve: &[f64]) -> f64 {
    curve[curve.len() - 1] / curve[0]
}

/// What the paper claims.
fn claims(cells: &Cells) -> Vec<Claim> {
    let published = [ORDERED, ORDERED_JFTL, JOURNALED, JOURNALED_JFTL];
    let below = |bound: f64| move |found: &Sample| found.below(bound);
    let above = |bound: f64| move |found: &Sample| found.above(bound);
    let at_most = below(1.15);
    let both = ["putc", "write"];
    vec![
        on_ratio(
            cells,
            (
                "jftl-near-ordered",
                "Journaled with JFTL gives similar performance to ordered: within 10 %, over file \
                 size",
            ),
            &[(JOURNALED_JFTL, ORDERED)],
            Bench::Bonnie,
            above(0.9),
        ),
        on_ratio(
            cells,
            (
                "journaled-half",
                "Journaled mode has at most about half of ordered's bandwidth, over file size",
            ),
            &[(JOURNALED, ORDERED)],
            Bench::Bonnie,
            below(0.55),
        ),
        on_ratio(
            cells,
            (
                "ordered-jftl-slightly",
                "Ordered with JFTL is slightly better than ordered, over file size",
            ),
            &[(ORDERED_JFTL, ORDERED)],
            Bench::Bonnie,
            |found| found.within(1.0, 1.1),
        ),
        on_ratio(
            cells,
            (
                "ordered-memory-slightly",
                "The same with the map in memory only, as the paper has it",
            ),
            &[(ORDERED_MEMORY, ORDERED)],
            Bench::Bonnie,
            |found| found.within(1.0, 1.1),
        ),
        on_curves(
            cells,
            (
                "flat-over-size",
                "Bandwidth does not change largely as the file grows: largest over least at most \
                 1.15",
            ),
            (Bench::Bonnie, &both),
            &published,
            (&largest_over_least, &at_most),
        ),
        on_curves(
            cells,
            (
                "small-records-slow",
                "New data is written more slowly in small records, in every mode: 4096 KiB over 4 \
                 KiB",
            ),
            (Bench::Iozone, &["write"]),
            &published,
            (&last_over_first, &above(1.25)),
        ),
        on_curves(
            cells,
            (
                "rewrite-flat",
                "Rewriting in ordered mode is constant through the record sizes: largest over \
                 least at most 1.15",
            ),
            (Bench::Iozone, &["rewrite"]),
            &[ORDERED, ORDERED_JFTL],
            (&largest_over_least, &at_most),
        ),
        on_ratio(
            cells,
            (
                "jftl-outperforms",
                "In all IOzone experiments both modes with JFTL outperform those without",
            ),
            &[(ORDERED_JFTL, ORDERED), (JOURNALED_JFTL, JOURNALED)],
            Bench::Iozone,
            above(1.0),
        ),
        on_ratio(
            cells,
            (
                "jftl-memory-outperforms",
                "The same with the map in memory only, as the paper has it",
            ),
            &[(ORDERED_MEMORY, ORDERED), (JOURNALED_MEMORY, JOURNALED)],
            Bench::Iozone,
            above(1.0),
        ),
        on_curves(
            cells,
            (
                "journaled-sinks",
                "In journaled mode bandwidth sinks slowly as the file grows: 64 MiB over 4 MiB",
            ),
            (Bench::Bonnie, &both),
            &[JOURNALED],
            (&last_over_first, &below(1.0)),
        ),
    ]
}
