//! littlefs, in C, on a chip of nandlab: power cuts at every chip operation of a run.

use crate::cuts::{self, Found};
use nandlab_testkit::vendored;

/// Explores littlefs, with its glue and its workload.
fn explore(defines: &[&str]) -> Found {
    let littlefs = vendored::littlefs();
    let include = format!("-isystem{}", littlefs.display());
    let theirs = ["lfs.c", "lfs_util.c"].map(|name| littlefs.join(name).display().to_string());
    // Its messages about damaged media would hide ours.
    let mut arguments = vec!["-DLFS_NO_DEBUG", "-DLFS_NO_WARN", "-DLFS_NO_ERROR"];
    arguments.extend(defines);
    arguments.push(&include);
    arguments.extend(theirs.iter().map(String::as_str));
    cuts::explore(
        "littlefs",
        &["littlefs_glue.c", "littlefs_cuts.c"],
        &arguments,
    )
}

#[test]
fn littlefs_keeps_what_a_close_promised_at_every_cut() {
    let found = explore(&[]);
    cuts::keeps_its_promises(&found, 20_000);
    assert!(found.0["operations"] > 400, "{}", found.1);
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
