//! Mechanisms that the usual runs do not reach: commits in the gaps, timers, and names with one
//! hash.

use super::{Case, Recovered, number, sum, with};
use nandlab_testkit::bugs::{NOT_SHRUNK, assert_row};
use nandlab_testkit::share::whole_or;
use nandlab_ubifs::format::KeyHash;
use nandlab_ubifs::{Counts, Format, SeededBug, Switches};
use nandlab_vfs::model::Rules;

/// A run whose commits, those of recoveries too, write between old index nodes.
fn in_gaps(seed: u64) -> Case {
    let case = Case::new(seed);
    Case {
        switches: Switches {
            prefers_gaps: true,
            ..Switches::default()
        },
        ..case
    }
}

#[test]
fn a_cut_within_a_commit_in_the_gaps_loses_no_node_of_the_last_commit() {
    let every = number(super::EVERY, 9) as usize;
    let mut counts = Counts::default();
    let mut recovered = Recovered::default();
    for seed in 1..=number(super::RUNS, whole_or(5, 2)) {
        let case = Case {
            every,
            ..in_gaps(seed)
        };
        let mut run = case.run().unwrap();
        case.explore(&mut run).unwrap_or_else(|why| panic!("{why}"));
        println!(
            "{seed}: {} changes, {} states, {} and {} blocks filled",
            run.ops.len(),
            run.states,
            run.counts.gaps_filled,
            run.recovered.counts.gaps_filled
        );
        counts = sum(counts, run.counts);
        recovered.add(run.recovered);
    }
    let least = whole_or(50, 20);
    assert!(counts.gaps_filled > least, "{counts:?}");
    assert!(recovered.counts.gaps_filled > least, "{recovered:?}");
}

/// Each with the seed of a run that shows it soon.
const BUGS: [(SeededBug, u64); 2] = [(SeededBug::FillKept, 1), (SeededBug::UnmapGaps, 1)];

#[test]
fn every_rule_of_the_gaps_left_out_is_found_by_a_cut() {
    for (bug, seed) in BUGS {
        let switches = Switches {
            bug: Some(bug),
            prefers_gaps: true,
        };
        let case = Case {
            switches,
            every: 3,
            ..in_gaps(seed)
        };
        assert_found(&case, bug);
    }
}

/// Asserts that the run ends, and that a cut of it finds the bug.
fn assert_found(case: &Case, bug: SeededBug) {
    let mut run = case.run().unwrap();
    match case.explore(&mut run) {
        Err(why) => {
            println!("{bug:?}: state {}: {why}", run.states);
            assert_row("UBIFS", bug, run.states, NOT_SHRUNK);
        }
        Ok(()) => panic!("{bug:?}: no violation in {} states", run.states),
    }
}

fn timed(seed: u64) -> Case {
    let case = Case::new(seed);
    Case {
        timers: true,
        sync_every: 9,
        ..case
    }
}

/// Linux writes what its write-buffers hold when their timers end.
#[test]
fn nodes_are_durable_after_their_timer() {
    let mut timers = 0;
    for seed in 1..=3 {
        let case = Case {
            every: number(super::EVERY, 9) as usize,
            ..timed(seed)
        };
        let mut run = case.run().unwrap();
        case.explore(&mut run).unwrap_or_else(|why| panic!("{why}"));
        timers += run.calls.timers;
    }
    assert!(timers > 30, "{timers}");
}

#[test]
fn a_timer_that_forgets_inodes_is_found() {
    let bug = SeededBug::ForgetTimer;
    let case = Case {
        switches: with(bug),
        every: 3,
        ..timed(1)
    };
    assert_found(&case, bug);
}

/// Names of one length and one hash, which is that of their first four bytes.
fn colliding() -> Rules {
    Rules {
        names: &[
            b"name a", b"name b", b"name c", b"name d", b"name e", b"name f", b"name g",
        ],
        ..Rules::unix()
    }
}

/// With [`SeededBug::ReuseNames`] a block that collection emptied gets new nodes before the next
/// commit, as with Linux.
fn of_one_hash(seed: u64, bug: Option<SeededBug>) -> Case {
    let case = Case::new(seed);
    Case {
        rules: colliding,
        switches: Switches {
            bug,
            ..Switches::default()
        },
        format: Format {
            key_hash: KeyHash::Test,
            ..case.format
        },
        sync_every: 9,
        every: number(super::EVERY, 9) as usize,
        ..case
    }
}

#[test]
fn names_with_one_hash_are_told_apart_after_every_cut() {
    let mut collected = 0;
    for bug in [None, Some(SeededBug::ReuseNames)] {
        for seed in 1..=number(super::RUNS, whole_or(3, 1)) {
            let case = of_one_hash(seed, bug);
            let mut run = case.run().unwrap();
            case.explore(&mut run)
                .unwrap_or_else(|why| panic!("{bug:?} {why}"));
            collected += run.counts.collected;
            println!("{bug:?} {seed}: {} states, {:?}", run.states, run.counts);
        }
    }
    assert!(collected > whole_or(10, 3), "{collected}");
}
