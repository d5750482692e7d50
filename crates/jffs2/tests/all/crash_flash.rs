//! JFFS2 on a chip, the power cut at every flash operation of a mixed run, garbage collection
//! included: what was fsynced is there, no checksum fails before the user's eyes, work goes on.
//! Writing at once, and behind the write-back routine, with its nodes of a page and with merged
//! ones.

use nandlab_crash::files::mixed;
use nandlab_crash::{
    CrashReport, Cuts, FileOp, Files, Plan, SecondLevel, Subject, assert_survives,
};
use nandlab_jffs2::{Compression, Jffs2Volume, Options};
use nandlab_mtd::Bare;
use nandlab_nand::{Chip, preset};
use nandlab_pagecache::write_back::{Deferred, Settings};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::Volume;

pub type Flash = Files<Bare, Box<dyn Volume<Chip> + Sync>>;

/// Few small blocks, so that the run goes round several times.
pub fn flash(blocks: u32, mount: Options, node_bytes: u32, write_back: Option<Settings>) -> Flash {
    let mut chip = preset::find("nandsim-jftl").unwrap().spec();
    chip.geometry.blocks = blocks;
    let options = Options {
        seed: 1,
        node_bytes,
        ..mount
    };
    let volume = Jffs2Volume { options };
    Files {
        chip,
        layer: Bare,
        volume: match write_back {
            None => Box::new(volume),
            Some(settings) => Box::new(Deferred { volume, settings }),
        },
    }
}

/// A pass of a few elements every few operations, and little memory: all three who write come to
/// their turn.
pub fn routine(merge_bytes: u64) -> Option<Settings> {
    Some(Settings {
        merge_bytes,
        threshold: 3,
        interval: 4_000_000_000,
        memory: 48 << 10,
        ..Settings::default()
    })
}

pub fn plain() -> Options {
    Options {
        compression: Compression::NONE,
        ..Options::default()
    }
}

/// Blocks that the run erases: what collects garbage does.
fn erased(subject: &Flash, ops: &[FileOp]) -> u64 {
    let (chip, oracle) = subject.formatted().unwrap();
    let before = chip.counts().erases;
    let mut device = subject.attach(chip).unwrap();
    ops.iter()
        .for_each(|op| subject.apply(&mut device, op, &oracle).unwrap());
    subject.power_off(device).unwrap().counts().erases - before
}

fn survives(subject: &Flash, seed: u64, count: usize, plan: &Plan) -> CrashReport {
    let ops = mixed(seed, count);
    let report = assert_survives(subject, &ops, plan);
    let erased = erased(subject, &ops);
    assert!(erased >= 3, "{erased} blocks erased");
    report
}

/// Every cut, or a sample of them.
fn everywhere(second: u64) -> Plan {
    Plan {
        cuts: whole_or(Cuts::All, Cuts::Sample(300)),
        words: 2,
        second: SecondLevel::Every(second),
        shrink_states: 200,
        listed: 3,
        ..Plan::default()
    }
}

#[test]
fn writing_at_once_keeps_what_was_fsynced_at_every_cut() {
    for (seed, mount) in [
        (1, plain()),
        (2, Options::default()),
        (
            3,
            Options {
                summary: false,
                ..plain()
            },
        ),
    ] {
        let report = survives(&flash(13, mount, 4096, None), seed, 150, &everywhere(200));
        assert!(report.chip_ops > 300, "{report}");
    }
}

#[test]
fn deferred_writes_keep_what_was_fsynced_at_every_cut() {
    for (seed, node_bytes, merge) in [(1, 4096, 4096), (2, 4096, 16 << 10), (3, 8192, 16 << 10)] {
        let report = survives(
            &flash(13, plain(), node_bytes, routine(merge)),
            seed,
            150,
            &everywhere(200),
        );
        assert!(report.chip_ops > 200, "{report}");
    }
}

#[test]
fn other_runs_keep_their_promises() {
    let sample = Plan {
        cuts: Cuts::Sample(120),
        ..everywhere(60)
    };
    for seed in 4..whole_or(12, 7) {
        survives(&flash(13, plain(), 4096, None), seed, 160, &sample);
        survives(
            &flash(13, plain(), 8192, routine(16 << 10)),
            seed,
            160,
            &sample,
        );
    }
}
