//! A power cut finds each rule that JFFS2 may leave out, with and without the write-back
//! routine in front. `docs/mutants.md` lists the states that it took.

use crate::crash_flash::{flash, plain, routine};
use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, Plan, SecondLevel, assert_each_found};
use nandlab_jffs2::{Options, SeededBug};
use nandlab_pagecache::write_back::Settings;
use nandlab_testkit::bugs::assert_row;

/// The run without a bug survives; the explorer finds each bug.
fn are_found(layer: &str, seed: u64, bugs: &[SeededBug], write_back: Option<Settings>) {
    let plan = Plan {
        cuts: Cuts::Sample(300),
        words: 2,
        second: SecondLevel::Every(100),
        shrink_states: 400,
        listed: 1,
        ..Plan::default()
    };
    let ops = mixed(seed, 150);
    let stack = |seeded_bug| {
        let options = Options {
            seeded_bug,
            ..plain()
        };
        flash(13, options, 4096, write_back)
    };
    assert_each_found(stack, bugs, (&ops, &plan), |bug, report| {
        let states = report.states_to_first.unwrap_or(0);
        assert_row(layer, bug, states, &report.shrunk());
    });
}

#[test]
fn every_rule_that_is_left_out_is_found() {
    use SeededBug::*;
    let bugs = [
        BufferKept,
        FsyncUnsynced,
        EraseEarly,
        MarkerIgnored,
        TornPageReused,
        ChecksumIgnored,
    ];
    are_found("JFFS2", 1, &bugs, None);
    are_found("JFFS2", 5, &[OldNameFirst], None);
    let bugs = [BufferKept, EraseEarly];
    are_found("JFFS2, write-back", 4, &bugs, routine(16 << 10));
}
