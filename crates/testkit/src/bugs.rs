//! The table of seeded bugs in `docs/mutants.md`, compared with what the explorer finds.
//!
//! ```console
//! NANDLAB_RESULTS=1 cargo test -p nandlab-ext -- bugs
//! ```
//!
//! writes the numbers of its rows anew, and rows that are missing at the end of the page.

use crate::kept::assert_line;
use std::fmt::Debug;

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mutants.md");
/// The size of a run that no explorer has shrunk.
pub const NOT_SHRUNK: &str = "not shrunk";
/// Asserts that the table has this row: the bug of a layer, the states looked at until the first
/// violation, and the size of the smallest run.
///
/// # Panics
/// If the table has other numbers, or no such row.
pub fn assert_row(layer: &str, bug: impl Debug, states: u64, smallest: &str) {
    let start = format!("| {layer} | `{bug:?}` |");
    assert_line(BOOK, &start, |row| {
        let what = row.and_then(|row| row[start.len()..].split('|').next());
        let what = what.unwrap_or(" ");
        format!("{start}{what}| {states} | {smallest} |")
    });
}
