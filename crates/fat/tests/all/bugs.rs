//! A power cut finds each rule that FAT may leave out, on a disk that writes in an order of
//! its own. `docs/mutants.md` lists the states that it took.

use crate::crash_stack::stack;
use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, Plan, SecondLevel, assert_found, assert_survives};
use nandlab_fat::SeededBug;
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::scrambled::{Manner, Scrambled};

const OPERATIONS: usize = 80;

/// The run without a bug survives; the explorer finds each bug.
fn are_found(seed: u64, bugs: &[SeededBug]) {
    let plan = Plan {
        cuts: Cuts::Sample(200),
        words: 1,
        second: SecondLevel::Off,
        shrink_states: 1_000,
        listed: 1,
        ..Plan::default()
    };
    let ops = mixed(seed, OPERATIONS);
    let disk = |seeded_bug| {
        let mut disk = stack(|layer| Scrambled(layer, Manner::Honest));
        disk.volume.options.seeded_bug = seeded_bug;
        disk
    };
    assert_survives(&disk(None), &ops, &plan);
    for bug in bugs.iter().copied() {
        println!("{bug:?}");
        let report = assert_found(&disk(Some(bug)), &ops, &plan);
        let smallest = report
            .smallest
            .map_or(0, |smallest| smallest.host_ops.len());
        let states = report.states_to_first.unwrap_or(0);
        assert_row("FAT", bug, states, &format!("{smallest} of {OPERATIONS}"));
    }
}

#[test]
fn every_rule_that_is_left_out_is_found() {
    use SeededBug::*;
    let bugs = [ContentsLate, CommitUnflushed, DirectoriesFirst, TableAtOnce];
    are_found(1, &bugs);
    are_found(4, &[RenameAtOnce, NamesAgain]);
    are_found(7, &[ReuseEarly]);
}
