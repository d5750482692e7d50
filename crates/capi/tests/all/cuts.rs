//! Explorations in C: a layer above its glue, cut at every chip operation of a run.

use crate::build::{Link, compile, folder, printed, run, source};
use std::collections::BTreeMap;

/// The numbers that an exploration printed, by the words before them, and all it said.
pub type Found = (BTreeMap<String, u64>, String);

/// Builds the sources with the loop of cuts, and runs them.
pub fn explore(name: &str, sources: &[&str], arguments: &[&str]) -> Found {
    let scratch = tempfile::tempdir().unwrap();
    let own = format!("-I{}", folder().join("tests/c").display());
    let sources = [&["cuts.c"], sources].concat();
    let sources: Vec<String> = sources.into_iter().map(source).collect();
    let mut all = vec![own.as_str()];
    all.extend(arguments);
    all.extend(sources.iter().map(String::as_str));
    let text = printed(&run(&compile(name, Link::Static, &all, scratch.path())));
    let line = |line: &str| {
        let (words, number) = line.rsplit_once(' ')?;
        Some((words.to_owned(), number.parse().ok()?))
    };
    (text.lines().filter_map(line).collect(), text)
}

/// Checks that a run kept every promise in enough states, and that the page for C shows it.
pub fn keeps_its_promises((found, text): &Found, states: u64) {
    assert_eq!(found.get("violations"), Some(&0), "{text}");
    assert!(found["states"] > states, "{text}");
    let shown = crate::page::text();
    assert!(
        shown.contains(text),
        "docs/own-layer-c.md does not show:\n{text}"
    );
}
