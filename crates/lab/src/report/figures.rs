//! The figures of a report: progress over time, latency, causes of flash operations, chip maps.

use super::axis::{Axis, range};
use super::bars::{self, Bar, Length};
use super::heat::HeatMap;
use super::markup::{Element, el, legend};
use super::names::{capital, operations, union};
use super::number::{Quantity, grouped};
use super::plot::{COLUMNS, HALF, Mark, Plot, Series, WIDE};
use super::section::Section;
use super::table::{Cell, Table};
use crate::result::{FlashRow, HostRow, Latency, Point, RunResult};

/// Runs further apart than this share a logarithmic axis.
const FAR_APART: f64 = 25.0;

/// Bins that a histogram has space for.
const BINS: f64 = 60.0;

/// All sections that have something to show.
pub fn all(runs: &[RunResult], names: &[String]) -> Vec<Section> {
    let sections = [
        over_time(runs, names),
        latency(runs, names),
        causes(runs, names),
        chips(runs, names),
    ];
    sections
        .into_iter()
        .filter(|section| !section.body.is_empty())
        .collect()
}

fn over_time(runs: &[RunResult], names: &[String]) -> Section {
    type Pick = fn(&Point) -> Option<f64>;
    let charts: [(&str, &str, Quantity, Pick); 3] = [
        (
            "Write throughput",
            "Host data written per second",
            Quantity::Rate,
            |point| Some(point.written_per_s),
        ),
        (
            "Read throughput",
            "Host data read per second",
            Quantity::Rate,
            |point| Some(point.read_per_s),
        ),
        (
            "Write amplification",
            "Pages programmed per page of host data",
            Quantity::Factor,
            |point| point.write_amplification,
        ),
    ];
    let mut body = Vec::new();
    for (title, label, quantity, pick) in charts {
        let points = |run: &RunResult| {
            run.series
                .iter()
                .map(|p| (p.at_ns as f64, pick(p).unwrap_or(f64::NAN)))
                .collect::<Vec<_>>()
        };
        let series: Vec<Series> = (runs.iter().zip(names).enumerate())
            .map(|(slot, (run, name))| (slot, name, points(run)))
            .filter(|(_, _, points)| points.iter().any(|p| p.1.is_finite() && p.1 > 0.0))
            .map(|(slot, name, points)| Series {
                name: name.clone(),
                slot,
                mark: Mark::Step {
                    from: 0.0,
                    filled: false,
                },
                points,
            })
            .collect();
        if !series.is_empty() {
            let y = fit(
                "",
                quantity,
                series
                    .iter()
                    .map(|s| s.points.iter().map(|p| p.1).collect())
                    .collect(),
            );
            let scale = if y.is_log() {
                ", on a logarithmic scale"
            } else {
                ""
            };
            let thinned = series.iter().any(|s| s.points.len() > COLUMNS);
            let band = if thinned {
                " Lines are means; the bands around them hold every interval."
            } else {
                ""
            };
            let about = format!("{label}{scale}.{band}");
            let x = fit(
                "virtual time",
                Quantity::Nanoseconds,
                series
                    .iter()
                    .map(|s| s.points.iter().map(|p| p.0).collect())
                    .collect(),
            );
            let end = series
                .iter()
                .flat_map(|s| s.points.last())
                .map(|p| p.0)
                .fold(0.0, f64::max);
            body.push(
                Plot {
                    title: title.into(),
                    about,
                    x: x.until(end),
                    y,
                    series,
                    width: WIDE,
                    named: true,
                }
                .draw(),
            );
        }
    }
    Section {
        title: "Over time".into(),
        body,
    }
}

/// A linear axis, or a logarithmic one where the groups' medians lie far apart.
fn fit(label: &str, quantity: Quantity, groups: Vec<Vec<f64>>) -> Axis {
    let median = |group: &Vec<f64>| {
        let mut positive: Vec<f64> = group
            .iter()
            .copied()
            .filter(|v| v.is_finite() && *v > 0.0)
            .collect();
        positive.sort_by(f64::total_cmp);
        positive.get(positive.len() / 2).copied()
    };
    let far =
        range(groups.iter().filter_map(median)).is_some_and(|(low, high)| high > FAR_APART * low);
    Axis::new(far, label, quantity, groups.into_iter().flatten())
}

fn latency(runs: &[RunResult], names: &[String]) -> Section {
    let mut body = Vec::new();
    for operation in operations(runs) {
        let rows = rows_of(runs, &operation);
        if rows.is_empty() {
            continue;
        }
        let title = capital(&operation);
        let key: Vec<(usize, &str)> = rows
            .iter()
            .map(|(at, _)| (*at, names[*at].as_str()))
            .collect();
        body.push(
            el("div")
                .class("pair")
                .child(legend(&key))
                .child(histogram(&title, &rows, names))
                .child(tail(&title, &rows, names)),
        );
    }
    Section {
        title: "Latency".into(),
        body,
    }
}

/// The rows of an operation that has latencies, with the numbers of their runs.
fn rows_of<'a>(runs: &'a [RunResult], operation: &str) -> Vec<(usize, &'a HostRow)> {
    (runs.iter().enumerate())
        .filter_map(|(at, run)| Some((at, run.operation(operation)?)))
        .filter(|(_, row)| row.latency.buckets.iter().any(|bucket| bucket.1 > 0))
        .collect()
}

fn histogram(title: &str, rows: &[(usize, &HostRow)], names: &[String]) -> Element {
    let per_decade = if 24.0 * time_axis(rows).decades() > BINS {
        12.0
    } else {
        24.0
    };
    let series: Vec<Series> = (rows.iter())
        .map(|(slot, row)| {
            let (from, counts) = rebin(&row.latency, per_decade);
            let total: f64 = counts.iter().map(|bin| bin.1).sum();
            let points = counts
                .into_iter()
                .map(|(bound, count)| (bound, count / total))
                .collect();
            Series {
                name: names[*slot].clone(),
                slot: *slot,
                mark: Mark::Step { from, filled: true },
                points,
            }
        })
        .collect();
    let y = Axis::linear(
        "",
        Quantity::Share,
        series.iter().flat_map(|s| s.points.iter().map(|p| p.1)),
    );
    let about = format!("Share of requests per bin, {per_decade} bins a decade.");
    Plot {
        title: format!("{title} latency"),
        about,
        x: time_axis(rows),
        y,
        series,
        width: HALF,
        named: false,
    }
    .draw()
}

/// The complementary distribution: for each latency, the share of requests that took at least as
/// long.
fn tail(title: &str, rows: &[(usize, &HostRow)], names: &[String]) -> Element {
    let per_decade = (COLUMNS as f64 / time_axis(rows).decades())
        .floor()
        .min(200.0);
    let series: Vec<Series> = (rows.iter())
        .map(|(slot, row)| {
            let (from, counts) = rebin(&row.latency, per_decade);
            let total: f64 = counts.iter().map(|bin| bin.1).sum();
            let points = counts.into_iter().scan(total, |left, (bound, count)| {
                let share = *left / total;
                *left -= count;
                Some((bound, share))
            });
            let points = points.take_while(|point| point.1 > 0.0).collect();
            Series {
                name: names[*slot].clone(),
                slot: *slot,
                mark: Mark::Step {
                    from,
                    filled: false,
                },
                points,
            }
        })
        .collect();
    let y = Axis::log(
        "",
        Quantity::Exceedance,
        series.iter().flat_map(|s| s.points.iter().map(|p| p.1)),
    );
    let about = "Percentiles, spaced to show the rare slow requests.".to_string();
    Plot {
        title: format!("{title} latency, tail"),
        about,
        x: time_axis(rows),
        y: y.until(1.0),
        series,
        width: HALF,
        named: false,
    }
    .draw()
}

fn time_axis(rows: &[(usize, &HostRow)]) -> Axis {
    let bounds = rows.iter().flat_map(|(_, row)| {
        row.latency
            .buckets
            .iter()
            .filter(|bucket| bucket.1 > 0)
            .map(|bucket| bucket.0 as f64)
    });
    let (low, high) = range(bounds).unwrap_or((1.0, 10.0));
    Axis::log(
        "latency, logarithmic",
        Quantity::Nanoseconds,
        [low.max(1.0) / 1.1, high.max(1.0) * 1.1],
    )
}

/// Counts in logarithmic bins, `per_decade` each: the lower end of the first, then (upper bound in
/// ns, count) of all, empty ones included.
fn rebin(latency: &Latency, per_decade: f64) -> (f64, Vec<(f64, f64)>) {
    let bin = |ns: u64| (ns.max(1) as f64).log10() * per_decade;
    let used = || latency.buckets.iter().filter(|bucket| bucket.1 > 0);
    let place = |ns: u64| (bin(ns) - 1e-9).ceil() as i64;
    let first = used().map(|bucket| place(bucket.0)).min().unwrap_or(0);
    let last = used().map(|bucket| place(bucket.0)).max().unwrap_or(0);
    let bound = |at: i64| 10f64.powf(at as f64 / per_decade);
    let mut bins: Vec<(f64, f64)> = (first..=last).map(|at| (bound(at), 0.0)).collect();
    for &(upper, count) in used() {
        bins[(place(upper) - first) as usize].1 += count as f64;
    }
    (bound(first - 1), bins)
}

fn causes(runs: &[RunResult], names: &[String]) -> Section {
    let keys = union(
        runs.iter()
            .flat_map(|run| run.flash.causes.iter().map(|row| row.cause.as_str())),
    );
    type Pick = fn(&FlashRow) -> u64;
    let kinds: [(&str, &str, Pick); 3] = [
        (
            "Page reads",
            "Shares of all page reads by who caused them.",
            |row| row.reads,
        ),
        (
            "Page programs and copies",
            "Shares of all pages programmed or copied inside the array.",
            |row| row.programs.saturating_add(row.copies),
        ),
        ("Block erases", "Shares of all erases.", |row| row.erases),
    ];
    let of = |run: &RunResult, key: &str, pick: Pick| {
        let of_key = |row: &FlashRow| if row.cause == key { pick(row) } else { 0 };
        run.flash.total(of_key)
    };
    let mut body = Vec::new();
    for (title, about, pick) in kinds {
        let bar = |(run, name): (&RunResult, &String)| {
            let counts: Vec<u64> = keys.iter().map(|key| of(run, key, pick)).collect();
            let note = Quantity::Count.write(counts.iter().map(|&count| count as f64).sum());
            Bar {
                name: name.clone(),
                parts: counts.into_iter().map(|count| count as f64).collect(),
                note,
            }
        };
        let bars: Vec<Bar> = runs.iter().zip(names).map(bar).collect();
        if bars
            .iter()
            .any(|bar| bar.parts.iter().any(|&part| part > 0.0))
        {
            body.push(bars::stacked(title, about, &keys, &bars, Length::Share));
        }
    }
    if !body.is_empty() {
        body.insert(0, bars::legend(&keys));
        body.push(counts(runs, names));
    }
    Section {
        title: "Where the flash operations went".into(),
        body,
    }
}

/// The numbers behind the bars.
fn counts(runs: &[RunResult], names: &[String]) -> Element {
    let mut table =
        Table::new(["", "Reads", "Programs", "Copies", "Erases"].map(|head| el("span").text(head)));
    for (run, name) in runs.iter().zip(names) {
        table.group(name);
        for row in &run.flash.causes {
            table.row(
                &row.cause,
                [row.reads, row.programs, row.copies, row.erases]
                    .map(|count| Cell::from(grouped(count))),
            );
        }
    }
    el("details")
        .child(el("summary").text("Counts"))
        .child(table.draw("numbers"))
}

fn chips(runs: &[RunResult], names: &[String]) -> Section {
    let drawn = runs
        .iter()
        .zip(names)
        .filter(|(run, _)| !run.chip.erases.is_empty() || !run.chip.valid.is_empty());
    let body = drawn.map(|(run, name)| {
        let chip = &run.chip;
        let per_cell = u64::from(chip.blocks_per_cell.max(1));
        let cell = if per_cell > 1 {
            format!("one cell is {} blocks", grouped(per_cell))
        } else {
            "one cell is a block".into()
        };
        let about = |what: &str| format!("{what}; {cell}, rows bear their first block’s number.");
        let map = |title: &str, what: &str, values, range, quantity, scale| {
            HeatMap {
                title: format!("{title}: {name}"),
                about: about(what),
                values,
                bad: &chip.bad,
                per_cell,
                range,
                quantity,
                scale,
            }
            .draw()
        };
        let (low, high) = range(chip.erases.iter().map(|&v| f64::from(v)))
            .map_or((0.0, 1.0), |(low, high)| (low.floor(), high.ceil()));
        let wear = map(
            "Wear",
            "Erases per block",
            &chip.erases,
            (low, high.max(low + 1.0)),
            Quantity::Factor,
            "wear",
        );
        let valid = map(
            "Valid data",
            "Share of valid pages",
            &chip.valid,
            (0.0, 1.0),
            Quantity::Share,
            "valid",
        );
        el("div").class("pair").child(wear).child(valid)
    });
    Section {
        title: "The chip at the end".into(),
        body: body.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_keep_every_request_and_leave_no_hole() {
        let latency = Latency {
            buckets: vec![(100, 3), (1_000, 0), (10_000, 2), (0, 1)],
            ..Latency::default()
        };
        let (from, bins) = rebin(&latency, 12.0);
        assert_eq!(bins.iter().map(|bin| bin.1).sum::<f64>(), 6.0);
        assert_eq!(bins.len(), 4 * 12 + 1);
        assert!(from < 1.0 && (bins[48].0 - 10_000.0).abs() < 1e-6);
        assert_eq!(
            (bins[24].1, bins[48].1),
            (3.0, 2.0),
            "a bucket at a decade's end belongs below it"
        );
    }

    #[test]
    fn runs_far_apart_share_a_logarithmic_axis() {
        let is_log = |groups: Vec<Vec<f64>>| fit("rate", Quantity::Rate, groups).is_log();
        assert!(!is_log(vec![vec![1e6], vec![2e6]]));
        assert!(is_log(vec![vec![1e6, f64::NAN], vec![1e8, 0.0], vec![]]));
    }
}
