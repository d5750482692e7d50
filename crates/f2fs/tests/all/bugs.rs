//! A power cut finds each rule that F2FS may leave out, on a disk that writes in an order of
//! its own. `docs/mutants.md` lists the states that it took.

use crate::crash_stack;
use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, FileOp, Files, Plan, SecondLevel, Subject, assert_each_found};
use nandlab_f2fs::{F2fsVolume, Options, SeededBug};
use nandlab_ftl::page::PageOptions;
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::open::KeptOpen;
use nandlab_testkit::scrambled::{Manner, Scrambled};

/// The run without a bug survives; the explorer finds each bug. `wrap` makes the volume.
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
    let ops = mixed(seed, 60);
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
    assert_each_found(stack, bugs, (&ops, &plan), |bug, report| {
        let states = report.states_to_first.unwrap_or(0);
        assert_row("F2FS", bug, states, &report.shrunk());
    });
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
