//! Lines of a file that tests compare with what they find.

use std::sync::{Mutex, PoisonError};

/// Set to write the lines anew.
const WRITE: &str = "NANDLAB_RESULTS";
/// One test at a time reads and writes a file.
static FILE: Mutex<()> = Mutex::new(());

/// Asserts that the line that begins with `start` is the one that `found` makes of it, or of none.
///
/// # Panics
/// If the file has another line, or none.
pub(crate) fn assert_line(path: &str, start: &str, found: impl Fn(Option<&str>) -> String) {
    let _one = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(path).expect("the file is beside the crates");
    let line = text.lines().find(|line| line.starts_with(start));
    let found = found(line);
    if std::env::var_os(WRITE).is_none() {
        assert_eq!(
            line,
            Some(&found[..]),
            "{path} has another line than this run; if the run is right, set {WRITE}"
        );
        return;
    }
    let text = match line {
        Some(line) => text.replace(line, &found),
        None => format!("{text}{found}\n"),
    };
    std::fs::write(path, text).expect("the file can be written");
}
