//! Whole stacks, the power cut at every flash operation of a mixed run: chip, page-mapped layer and
//! file system keep what the file system promises. ext3 does so in each mode, whether committed
//! blocks come home by copying or by remapping, at once or late. It does so on a disk that writes
//! in an order of its own, too; e2fsck agrees. Where a rule is left out, the explorer says so.

mod judged;
mod rounds;
pub mod volumes;

use judged::Judged;
use nandlab_block::BlockDevice;
use nandlab_crash::files::mixed;
use nandlab_crash::{
    Cuts, FileOp, Files, Plan, SecondLevel, Subject, assert_found, assert_survives,
};
use nandlab_ext::{Checkpoint, ExtVolume, Mode};
use nandlab_ftl::page::{PageOptions, SeededBug};
use nandlab_testkit::scrambled::{Manner, Scrambled};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Mounted, Nature, Promise, Volume, VolumeError};
use volumes::{WAYS, chip, delayed, ext3, ext4, fast, large_chip, layer, unjournaled};

/// Before, within and after every operation; one recovery in so many is cut again at all of its
/// own.
fn plan(second: u64) -> Plan {
    Plan {
        words: 1,
        second: SecondLevel::Every(second),
        shrink_states: 200,
        listed: 3,
        ..Plan::default()
    }
}

/// The modes and ways home for a seed. A sample has each mode once, and each way home once: three
/// seeds in a row have all pairs.
fn ways(seed: u64) -> impl Iterator<Item = (Mode, Checkpoint)> {
    let (step, count) = whole_or((1, 9), (4, 3));
    let turned = WAYS.into_iter().cycle().skip(3 * seed as usize);
    turned.step_by(step).take(count)
}

/// The file system on the page-mapped layer.
fn stack<V>(volume: V) -> Files<PageOptions, V> {
    Files {
        chip: chip(),
        layer: layer(None),
        volume,
    }
}

/// The same on large pages.
fn large_stack<V>(volume: V) -> Files<PageOptions, V> {
    Files {
        chip: large_chip(),
        ..stack(volume)
    }
}

/// The same on a disk that writes in an order of its own.
fn scrambled<V>(volume: V, manner: Manner) -> Files<Scrambled<PageOptions>, V> {
    Files {
        chip: chip(),
        layer: Scrambled(layer(None), manner),
        volume,
    }
}

fn survives_everywhere(volume: ExtVolume, seed: u64, count: usize) {
    let report = assert_survives(&stack(volume), &mixed(seed, count), &plan(400));
    assert_eq!(report.states, 3 * report.chip_ops);
    assert!(report.chip_ops > 100, "{report}");
}

/// Other runs, with a second cut in each fourth recovery.
fn survives_second_cuts(subject: &impl Subject<Op = FileOp>) {
    let (seeds, cuts) = whole_or((2..8, 120), (2..3, 60));
    let sample = Plan {
        cuts: Cuts::Sample(cuts),
        second: SecondLevel::Every(4),
        ..plan(100)
    };
    for seed in seeds {
        assert_survives(subject, &mixed(seed, 120), &sample);
    }
}

#[test]
fn ext2_keeps_what_was_fsynced() {
    (1..whole_or(7, 4)).for_each(|seed| survives_everywhere(ExtVolume::default(), seed, 100));
}

#[test]
fn ext2_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(150),
        ..plan(100)
    };
    let stack = stack(ExtVolume::default());
    for seed in 7..15 {
        assert_survives(&stack, &mixed(seed, 120), &sample);
    }
}

#[test]
fn ext3_keeps_the_promise_of_each_mode_at_every_cut() {
    ways(1)
        .map(ext3)
        .for_each(|volume| survives_everywhere(volume, 1, whole_or(80, 50)));
}

#[test]
fn ext4_keeps_the_promise_of_each_mode_at_every_cut() {
    for way in WAYS {
        let report = assert_survives(&large_stack(ext4(way)), &mixed(1, 60), &plan(400));
        assert_eq!(report.states, 3 * report.chip_ops);
    }
}

#[test]
fn ext4_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(120),
        ..plan(100)
    };
    for seed in 2..5 {
        for volume in ways(seed).map(ext4) {
            assert_survives(&large_stack(volume), &mixed(seed, 120), &sample);
        }
    }
}

#[test]
fn ext4_without_a_journal_keeps_what_was_fsynced() {
    for seed in 1..7 {
        let report = assert_survives(&large_stack(unjournaled()), &mixed(seed, 100), &plan(400));
        assert_eq!(report.states, 3 * report.chip_ops);
    }
}

#[test]
fn fast_commits_keep_the_promise_of_the_mode_at_every_cut() {
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap, Checkpoint::RemapLate] {
        let volume = large_stack(fast(checkpoint));
        let report = assert_survives(&volume, &mixed(1, 60), &plan(400));
        assert_eq!(report.states, 3 * report.chip_ops);
        survives_second_cuts(&volume);
    }
}

#[test]
fn delayed_allocation_keeps_its_promise_at_every_cut() {
    for way in [WAYS[1], WAYS[2], WAYS[4], WAYS[7]] {
        let report = assert_survives(&large_stack(delayed(way)), &mixed(1, 60), &plan(400));
        assert_eq!(report.states, 3 * report.chip_ops);
    }
}

#[test]
fn delayed_allocation_with_fast_commits_keeps_its_promise_at_every_cut() {
    let mut volume = delayed(WAYS[1]);
    volume.format.fast_commit = true;
    volume.options.fast_commit = true;
    let volume = large_stack(volume);
    assert_survives(&volume, &mixed(1, 60), &plan(400));
    survives_second_cuts(&volume);
}

#[test]
fn delayed_allocation_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(120),
        ..plan(100)
    };
    for seed in 2..whole_or(8, 4) {
        for volume in [WAYS[1], WAYS[2]].map(delayed) {
            assert_survives(&large_stack(volume), &mixed(seed, 120), &sample);
        }
    }
}

#[test]
fn ext3_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(150),
        ..plan(100)
    };
    for seed in 2..4 {
        for volume in ways(seed).map(ext3) {
            assert_survives(&stack(volume), &mixed(seed, 120), &sample);
        }
    }
}

#[test]
fn a_journal_that_has_gone_round_is_recovered() {
    let sample = Plan {
        cuts: Cuts::Sample(200),
        ..plan(100)
    };
    for checkpoint in [Checkpoint::Copy, Checkpoint::Remap, Checkpoint::RemapLate] {
        let volume = ext3((Mode::Journal, checkpoint));
        let ops = mixed(9, 500);
        let rounds = rounds::of(&volume, &ops);
        println!("{rounds} rounds");
        assert!(rounds > 1.0, "{rounds}");
        assert_survives(&stack(volume), &ops, &sample);
    }
}

#[test]
fn a_disk_with_an_order_of_its_own_does_no_harm_while_flushes_are_kept() {
    let sample = Plan {
        cuts: Cuts::Sample(300),
        ..plan(100)
    };
    for volume in ways(2).map(ext3).chain([ExtVolume::default()]) {
        assert_survives(&scrambled(volume, Manner::Honest), &mixed(1, 80), &sample);
    }
}

#[test]
fn e2fsck_finds_nothing_to_repair_before_and_after_a_recovery() {
    let states = whole_or(40, 10);
    let sample = Plan {
        cuts: Cuts::Sample(states),
        ..plan(0)
    };
    for volume in ways(0).map(ext3) {
        // Each state is mounted at least twice.
        let report = assert_survives(&stack(Judged(volume)), &mixed(1, 80), &sample);
        assert_eq!(report.states, states);
    }
}

fn is_found(stack: &impl Subject<Op = FileOp>) {
    let plan = Plan {
        cuts: whole_or(Cuts::All, Cuts::Sample(600)),
        ..plan(0)
    };
    assert_found(stack, &mixed(1, 80), &plan);
}

#[test]
fn a_disk_that_ignores_flushes_is_found() {
    let volumes = [WAYS[0], WAYS[1], WAYS[2]].map(ext3).into_iter();
    for volume in volumes.chain([ExtVolume::default()]) {
        is_found(&scrambled(volume, Manner::IgnoresFlushes));
    }
}

#[test]
fn barriers_left_out_are_found_on_a_disk_with_an_order_of_its_own() {
    for way in [WAYS[0], WAYS[1], WAYS[2]] {
        let mut volume = ext3(way);
        volume.options.barriers = false;
        is_found(&scrambled(volume, Manner::Honest));
    }
}

#[test]
fn a_remap_that_is_not_atomic_is_found() {
    for &way in WAYS[3..].iter().step_by(whole_or(1, 4)) {
        is_found(&scrambled(ext3(way), Manner::RemapsInPieces));
    }
    is_found(&Files {
        chip: chip(),
        layer: layer(Some(SeededBug::RemapInPieces)),
        volume: ext3(WAYS[3]),
    });
}

/// A file system held to a promise that is not its own.
struct HeldTo(ExtVolume, Promise);

impl<D: BlockDevice + 'static> Volume<D> for HeldTo {
    fn nature(&self, disk: &D) -> Nature {
        Nature {
            promise: self.1,
            lags: false,
            ..self.0.nature(disk)
        }
    }

    fn format(&self, disk: &mut D) -> Result<(), VolumeError> {
        self.0.format(disk)
    }

    fn mount(&self, disk: D) -> Result<Box<dyn Mounted<D>>, VolumeError> {
        self.0.mount(disk)
    }
}

#[test]
fn delayed_allocation_keeps_less_than_the_mode_alone() {
    is_found(&large_stack(HeldTo(delayed(WAYS[1]), Promise::Ordered)));
}

#[test]
fn each_promise_is_more_than_the_next_mode_keeps() {
    for (volume, promise) in [
        (ext3((Mode::Ordered, Checkpoint::Copy)), Promise::Atomic),
        (ext3((Mode::Writeback, Checkpoint::Copy)), Promise::Ordered),
        (ExtVolume::default(), Promise::Metadata),
    ] {
        is_found(&stack(HeldTo(volume, promise)));
    }
}
