//! A table of instructions, counted again and held against the one that `docs/kernel-costs.md` has.
//!
//! Everything is counted at one tick an instruction and at two: what grows is instructions, the
//! rest is something that was waited for. (At eight, the clock interrupts most runs of a path of
//! 200,000 instructions.) A second boot at the first speed must give the same.

use super::costs::{Measured, Row};
use nandlab_oracle::{Guest, Report};
use std::{collections::BTreeMap, fs, thread};

/// Where the tables are published, and how far a number may be from there: another kernel of the
/// same series is a little different.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernel-costs.md");
const TOLERANCE: f64 = 0.05;

/// Three boots of the same guest: at one tick an instruction, once more, and at two.
pub fn counted(guest: &Guest) -> [Report; 3] {
    thread::scope(|scope| {
        [0, 0, 1]
            .map(|shift| scope.spawn(move || super::boot(guest.clone().icount(shift))))
            .map(|boot| {
                boot.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
    })
}

/// Fails if the table of these boots is not the one under the heading, with what should be there.
pub fn assert_published(
    heading: &str,
    reports: &[Report; 3],
    table: impl Fn(&Measured) -> Vec<Row>,
) {
    let [quick, again, slow] = reports
        .each_ref()
        .map(|report| table(&Measured::of(report)));
    for (quick, again) in quick.iter().zip(&again) {
        let near = (quick.ticks - again.ticks).abs() <= 0.002 * quick.ticks;
        assert!(
            near,
            "{}: {} instructions, and {} in another boot",
            quick.name, quick.ticks, again.ticks
        );
    }
    let found = instructions(&quick, &slow);
    let row = |(row, (_, instructions)): (&Row, &(_, f64))| {
        format!("| {} | {} | {instructions:.0} |\n", row.name, row.what)
    };
    let text = quick.iter().zip(&found).map(row).fold(
        "| name | path | instructions |\n|---|---|---:|\n".to_owned(),
        |text, row| text + &row,
    );
    println!("{text}");
    let published = published(heading);
    assert_eq!(
        published.len(),
        found.len(),
        "{PAGE} should have under {heading:?}\n{text}"
    );
    for (name, instructions) in &found {
        let published = *published
            .get(*name)
            .unwrap_or_else(|| panic!("{PAGE} lacks {name}, and should have\n{text}"));
        let near = (instructions - published).abs() <= TOLERANCE * published + 2.0;
        assert!(
            near,
            "{name}: {instructions}, {PAGE} has {published}, and should have\n{text}"
        );
    }
}

/// Fails if a path's instructions are not those under the heading.
pub fn assert_near(heading: &str, found: &[(&str, f64)]) {
    let published = published(heading);
    for (name, instructions) in found {
        let known = published.get(*name).copied().unwrap_or_default();
        let near = (instructions - known).abs() <= TOLERANCE * known;
        assert!(near, "{name}: {instructions}, {PAGE} has {known}");
    }
}

/// Fails if a comparison's rows are not those under the heading: names, and the kernel's and our
/// instructions.
pub fn assert_compared(heading: &str, table: &str) {
    let published = comparison(heading);
    let found: Vec<_> = table.lines().filter_map(compared).collect();
    let names = |rows: &[(String, [f64; 2])]| -> Vec<String> {
        rows.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(
        names(&published),
        names(&found),
        "{PAGE} should have under {heading:?}\n{table}"
    );
    for ((name, published), (_, found)) in published.iter().zip(&found) {
        let near = |at: usize| (found[at] - published[at]).abs() <= TOLERANCE * published[at];
        assert!(
            near(0) && near(1),
            "{name}: {found:?}, {PAGE} has {published:?}, and should have\n{table}"
        );
    }
}

/// The kernel's instructions of each row of the comparison under the heading.
pub fn kernels(heading: &str) -> BTreeMap<String, f64> {
    let rows = comparison(heading).into_iter();
    rows.map(|(name, [kernel, _])| (name, kernel)).collect()
}

fn comparison(heading: &str) -> Vec<(String, [f64; 2])> {
    rows(heading, compared)
}

/// The rows that the page has from a heading to the next.
fn rows<T, C: FromIterator<T>>(heading: &str, row: impl Fn(&str) -> Option<T>) -> C {
    let page = fs::read_to_string(PAGE).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
    let after = page.lines().skip_while(|line| *line != heading).skip(1);
    let section = after.take_while(|line| !line.starts_with('#'));
    section.filter_map(row).collect()
}

/// A row of a comparison: its name, the kernel's and our instructions.
fn compared(line: &str) -> Option<(String, [f64; 2])> {
    match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
        ["", name, _, kernel, ours, _, ""] => {
            Some((name.to_owned(), [kernel.parse().ok()?, ours.parse().ok()?]))
        }
        _ => None,
    }
}

/// The instructions of each row, from the same table at one tick an instruction and at two. Nothing
/// is waited for.
fn instructions<'a>(quick: &'a [Row], slow: &[Row]) -> Vec<(&'a str, f64)> {
    let of = |(quick, slow): (&'a Row, &Row)| {
        let instructions = slow.ticks - quick.ticks;
        let waited = quick.ticks - instructions;
        assert!(
            waited.abs() <= 0.02 * instructions + 2.0,
            "{}: {instructions} instructions and {waited} ns",
            quick.name
        );
        (quick.name, instructions)
    };
    quick.iter().zip(slow).map(of).collect()
}

/// The published numbers by name: the rows of three columns whose last is a number, from a heading
/// to the next.
fn published(heading: &str) -> BTreeMap<String, f64> {
    rows(heading, |line| {
        match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            ["", name, _, number, ""] => Some((name.to_owned(), number.parse().ok()?)),
            _ => None,
        }
    })
}
