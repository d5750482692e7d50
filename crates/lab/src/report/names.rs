//! Names that figures and tables share.

use crate::result::RunResult;
use std::collections::BTreeSet;

/// Every kind of request that any run served, in order of first appearance.
pub fn operations(runs: &[RunResult]) -> Vec<String> {
    let served = runs
        .iter()
        .flat_map(|run| run.host.operations.iter().filter(|row| row.count > 0));
    union(served.map(|row| row.operation.as_str()))
}

/// `text` with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// Names without repetition, in order of first appearance.
pub fn union<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names
        .filter(|name| seen.insert(*name))
        .map(String::from)
        .collect()
}
