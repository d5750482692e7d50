//! The table of seeded bugs in `docs/mutants.md`, compared with what the explorer finds.
//!
//! ```console
//! NANDLAB_RESULTS=1 cargo test -p nandlab-ext -- bugs
//! ```
//!
//! writes the numbers of its rows anew, and rows that are missing at the end of the page.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mutants.md");
/// Set to write the rows anew.
const WRITE: &str = "NANDLAB_RESULTS";
/// The size of a run that no explorer has shrunk.
pub const NOT_SHRUNK: &str = "not shrunk";
/// One test at a time reads and writes the page.
static PAGE: Mutex<()> = Mutex::new(());

/// Asserts that the table has this row: the bug of a layer, the states looked at until the first
/// violation, and the size of the smallest run.
///
/// # Panics
/// If the table has other numbers, or no such row.
pub fn assert_row(layer: &str, bug: impl Debug, states: u64, smallest: &str) {
    let _one = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = std::fs::read_to_string(BOOK).expect("the book is beside the crates");
    let start = format!("| {layer} | `{bug:?}` |");
    let row = page.lines().find(|line| line.starts_with(&start));
    let what = row.and_then(|row| row[start.len()..].split('|').next());
    let what = what.unwrap_or(" ");
    let found = format!("{start}{what}| {states} | {smallest} |");
    if std::env::var_os(WRITE).is_none() {
        assert_eq!(
            row,
            Some(&found[..]),
            "{BOOK} has another row than this run; if the run is right, set {WRITE}"
        );
        return;
    }
    let page = match row {
        Some(row) => page.replace(row, &found),
        None => format!("{page}{found}\n"),
    };
    std::fs::write(BOOK, page).expect("the book can be written");
}
