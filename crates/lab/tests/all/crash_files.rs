//! Whole stacks, the power cut at every flash operation of a mixed run: chip, page-mapped layer and
//! file system keep what the file system promises. ext3 does so in each mode, whether committed
//! blocks come home by copying or by remapping, at once or late, also on a disk that writes in an
//! order of its own; e2fsck agrees. Where a rule is left out, the explorer says so.

use crate::file_stacks::judged::Judged;
use crate::file_stacks::scrambled::{Manner, Scrambled};
use crate::file_stacks::{PageMapped, WAYS, ext3, fat16, rounds};
use nandlab_block::BlockDevice;
use nandlab_ext::{Checkpoint, Mode};
use nandlab_ftl::page::SeededBug;
use nandlab_lab::crash::files::{ExtVolume, Mounted, Nature, Promise, Volume, mixed};
use nandlab_lab::crash::{
    CrashReport, Cuts, FileOp, Files, Id, Layer, Plan, SecondLevel, explore, replay,
};

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

/// No cut of the run does any harm.
fn survives(
    layer: impl Layer<Device: 'static>,
    volume: impl Volume,
    ops: &[FileOp],
    plan: &Plan,
) -> CrashReport {
    let report = explore(&Files { layer, volume }, ops, plan).unwrap();
    println!("{report}");
    assert_eq!(report.violations_total, 0, "{report}");
    report
}

fn survives_everywhere(volume: impl Volume, seed: u64, count: usize) {
    let report = survives(
        PageMapped::default(),
        volume,
        &mixed(seed, count),
        &plan(400),
    );
    assert_eq!(report.states, 3 * report.chip_ops);
    assert!(report.chip_ops > 100, "{report}");
}

#[test]
fn fat_keeps_what_was_fsynced() {
    (1..7).for_each(|seed| survives_everywhere(fat16(), seed, 100));
}

#[test]
fn ext2_keeps_what_was_fsynced() {
    (1..7).for_each(|seed| survives_everywhere(ExtVolume::default(), seed, 100));
}

#[test]
fn ext2_and_fat_keep_their_promises_in_other_runs() {
    let (sample, layer) = (
        Plan {
            cuts: Cuts::Sample(150),
            ..plan(100)
        },
        PageMapped::default(),
    );
    for seed in 7..31 {
        survives(
            layer.clone(),
            ExtVolume::default(),
            &mixed(seed, 120),
            &sample,
        );
        survives(layer.clone(), fat16(), &mixed(seed, 120), &sample);
    }
}

#[test]
fn ext3_keeps_the_promise_of_each_mode_at_every_cut() {
    WAYS.map(ext3)
        .into_iter()
        .for_each(|volume| survives_everywhere(volume, 1, 80));
}

#[test]
fn ext3_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(150),
        ..plan(100)
    };
    for seed in 2..6 {
        for volume in WAYS.map(ext3) {
            survives(PageMapped::default(), volume, &mixed(seed, 120), &sample);
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
        let (volume, ops) = (ext3((Mode::Journal, checkpoint)), mixed(9, 500));
        let rounds = rounds::of(&volume, &ops);
        println!("{rounds} rounds");
        assert!(rounds > 1.0, "{rounds}");
        survives(PageMapped::default(), volume, &ops, &sample);
    }
}

#[test]
fn a_disk_with_an_order_of_its_own_does_no_harm_while_flushes_are_kept() {
    let (layer, sample) = (
        Scrambled(PageMapped::default(), Manner::Honest),
        Plan {
            cuts: Cuts::Sample(300),
            ..plan(100)
        },
    );
    for volume in WAYS.map(ext3).into_iter().chain([ExtVolume::default()]) {
        survives(layer.clone(), volume, &mixed(1, 80), &sample);
    }
    survives(layer, fat16(), &mixed(1, 80), &sample);
}

#[test]
fn e2fsck_finds_nothing_to_mend_before_and_after_a_recovery() {
    let sample = Plan {
        cuts: Cuts::Sample(40),
        ..plan(0)
    };
    for volume in WAYS.map(ext3) {
        // Each state is mounted at least twice.
        assert_eq!(
            survives(
                PageMapped::default(),
                Judged(volume),
                &mixed(1, 80),
                &sample
            )
            .states,
            40
        );
    }
}

/// The explorer finds what is wrong; its name makes the same state again, and there is a smaller
/// case.
fn is_found(layer: impl Layer<Device: 'static>, volume: impl Volume) {
    let (subject, ops, plan) = (Files { layer, volume }, mixed(1, 80), plan(0));
    let report = explore(&subject, &ops, &plan).unwrap();
    println!("{report}");
    let first = report
        .violations
        .first()
        .unwrap_or_else(|| panic!("nothing was found:\n{report}"));
    let smallest = report.smallest.as_ref().unwrap();
    assert!(
        !first.id.ends_with("uncut") && smallest.host_ops.len() < ops.len(),
        "{report}"
    );
    for violation in [first, &smallest.violation] {
        let id: Id = violation.id.parse().unwrap();
        assert_eq!(
            replay(&subject, &ops, &plan, &id).unwrap().as_ref(),
            Some(violation)
        );
    }
}

#[test]
fn a_disk_that_ignores_flushes_is_found() {
    let layer = Scrambled(PageMapped::default(), Manner::IgnoresFlushes);
    for way in [WAYS[0], WAYS[1], WAYS[2]] {
        is_found(layer.clone(), ext3(way));
    }
    is_found(layer.clone(), ExtVolume::default());
    is_found(layer, fat16());
}

#[test]
fn barriers_left_out_are_found_on_a_disk_with_an_order_of_its_own() {
    for way in [WAYS[0], WAYS[1], WAYS[2]] {
        let mut volume = ext3(way);
        volume.options.barriers = false;
        is_found(Scrambled(PageMapped::default(), Manner::Honest), volume);
    }
}

#[test]
fn a_remap_that_is_not_atomic_is_found() {
    for &way in &WAYS[3..] {
        is_found(
            Scrambled(PageMapped::default(), Manner::RemapsInPieces),
            ext3(way),
        );
    }
    is_found(
        PageMapped {
            bug: Some(SeededBug::RemapInPieces),
        },
        ext3(WAYS[3]),
    );
}

/// A file system held to a promise that is not its own.
struct HeldTo(ExtVolume, Promise);

impl Volume for HeldTo {
    fn nature(&self) -> Nature {
        Nature {
            promise: self.1,
            ..self.0.nature()
        }
    }

    fn format(&self, disk: &mut dyn BlockDevice) -> Result<(), String> {
        self.0.format(disk)
    }

    fn mount<'a, D: BlockDevice + 'a>(&self, disk: D) -> Result<Box<dyn Mounted<D> + 'a>, String> {
        self.0.mount(disk)
    }
}

#[test]
fn each_promise_is_more_than_the_next_mode_keeps() {
    is_found(
        PageMapped::default(),
        HeldTo(ext3((Mode::Ordered, Checkpoint::Copy)), Promise::Atomic),
    );
    is_found(
        PageMapped::default(),
        HeldTo(ext3((Mode::Writeback, Checkpoint::Copy)), Promise::Ordered),
    );
    is_found(
        PageMapped::default(),
        HeldTo(ExtVolume::default(), Promise::Structure),
    );
}
