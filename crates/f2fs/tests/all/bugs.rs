//! A power cut finds each rule that F2FS may leave out, on a disk that writes in an order of
//! its own. `docs/mutants.md` lists the states that it took.

use crate::crash_stack;
use nandlab_crash::files::mixed;
use nandlab_crash::{
    Cuts, FileOp, Files, Plan, SecondLevel, Subject, assert_found, assert_survives,
};
use nandlab_f2fs::{F2fsVolume, Options, SeededBug};
use nandlab_ftl::page::PageOptions;
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::open::KeptOpen;
use nandlab_testkit::scrambled::{Manner, Scrambled};

const OPERATIONS: usize = 60;

/// The run without a bug survives; the explorer finds each bug. `wrap` makes the explored volume.
fn are_found<V>(seed: u64, bugs: &[SeededBug], wrap: impl Fn(F2fsVolume) -> V)
where
    Files<Scrambled<PageOptions>, V>: Subject<Op = FileOp>,
{
    let plan = Plan {
        cuts: Cuts::Sample(150),
        words: 1,
        second: SecondLevel::Off,
        shrink_states: 300,
        listed: 1,
        ..Plan::default()
    };
    let ops = mixed(seed, OPERATIONS);
    let stack = |seeded_bug| {
        let options = Options {
            seeded_bug,
            ..Options::default()
        };
        let Files {
            chip,
            layer,
            volume,
        } = crash_stack::stack(options, |layer| Scrambled(layer, Manner::WholeRequests));
        Files {
            chip,
            layer,
            volume: wrap(volume),
        }
    };
    assert_survives(&stack(None), &ops, &plan);
    for bug in bugs.iter().copied() {
        println!("{bug:?}");
        let report = assert_found(&stack(Some(bug)), &ops, &plan);
        let smallest = report
            .smallest
            .map_or(0, |smallest| smallest.host_ops.len());
        let states = report.states_to_first.unwrap_or(0);
        assert_row("F2FS", bug, states, &format!("{smallest} of {OPERATIONS}"));
    }
}

#[test]
fn every_rule_that_is_left_out_is_found() {
    use SeededBug::*;
    let bugs = [
        PackUnfenced,
        FooterIgnored,
        FsyncUnflushed,
        NameUnmarked,
        LogsStay,
        ContentsUnfenced,
        ParentForgotten,
    ];
    are_found(1, &bugs, |volume| volume);
    are_found(2, &[RenameRolledForward], |volume| volume);
    are_found(2, &[OrphansForgotten], KeptOpen);
}
