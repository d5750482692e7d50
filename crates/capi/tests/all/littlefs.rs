//! littlefs, in C, on a chip of nandlab: power cuts at every chip operation of a run.

use crate::build::{Link, compile, folder, printed, run, source};
use nandlab_testkit::vendored;
use std::collections::BTreeMap;

/// Builds the exploration and runs it; gives the last lines, by their first words, and all it said.
fn explore(defines: &[&str]) -> (BTreeMap<String, u64>, String) {
    let scratch = tempfile::tempdir().unwrap();
    let littlefs = vendored::littlefs();
    let include = format!("-isystem{}", littlefs.display());
    let own = format!("-I{}", folder().join("tests/c").display());
    let sources = [source("littlefs_glue.c"), source("littlefs_cuts.c")];
    let theirs = ["lfs.c", "lfs_util.c"].map(|name| littlefs.join(name).display().to_string());
    // Its messages about damaged media would hide ours.
    let mut arguments = vec!["-DLFS_NO_DEBUG", "-DLFS_NO_WARN", "-DLFS_NO_ERROR"];
    arguments.extend(defines);
    arguments.extend([include.as_str(), own.as_str()]);
    arguments.extend(sources.iter().chain(&theirs).map(String::as_str));
    let program = compile("littlefs", Link::Static, &arguments, scratch.path());
    let text = printed(&run(&program));
    let line = |line: &str| {
        let (words, number) = line.rsplit_once(' ')?;
        Some((words.to_owned(), number.parse().ok()?))
    };
    (text.lines().filter_map(line).collect(), text)
}

#[test]
fn littlefs_keeps_what_a_close_promised_at_every_cut() {
    let (found, text) = explore(&[]);
    assert_eq!(found.get("violations"), Some(&0), "{text}");
    assert!(
        found["operations"] > 400 && found["states"] > 20_000,
        "{text}"
    );
    let shown = crate::page::text();
    assert!(
        shown.contains(&text),
        "docs/own-layer-c.md does not show:\n{text}"
    );
}

/// The judge bites: a version that is promised before its close is missing after some cuts.
#[test]
fn a_promise_before_the_close_is_found_broken() {
    let (found, text) = explore(&["-DPROMISE_EARLY"]);
    assert!(found["violations"] > 0, "{text}");
    assert!(text.contains("a closed version is lost"), "{text}");
}

/// A page that a cut has torn may look erased. The chip refuses the program that littlefs tries,
/// and a glue that calls this an input error stops the volume.
#[test]
fn a_glue_that_gives_up_at_a_refused_program_stops_littlefs() {
    let (found, text) = explore(&["-DREFUSED_IS_FATAL"]);
    assert!(found["refused programs"] > 0, "{text}");
    assert!(text.contains("takes no more writes"), "{text}");
}
