//! A power cut finds each rule that FAT may leave out, on a disk that writes in an order of
//! its own. `docs/mutants.md` lists the states that it took.

use crate::crash_stack::stack;
use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, Plan, SecondLevel, assert_each_found};
use nandlab_fat::SeededBug;
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::scrambled::{Manner, Scrambled};

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
    let ops = mixed(seed, 80);
    let disk = |seeded_bug| {
        let mut disk = stack(|layer| Scrambled(layer, Manner::Honest));
        disk.volume.options.seeded_bug = seeded_bug;
        disk
    };
    assert_each_found(disk, bugs, (&ops, &plan), |bug, report| {
        let states = report.states_to_first.unwrap_or(0);
        assert_row("FAT", bug, states, &report.shrunk());
    });
}

#[test]
fn every_rule_that_is_left_out_is_found() {
    use SeededBug::*;
    let bugs = [ContentsLate, CommitUnflushed, DirectoriesFirst, TableAtOnce];
    are_found(1, &bugs);
    are_found(4, &[RenameAtOnce, NamesAgain]);
    are_found(7, &[ReuseEarly]);
}
