//! F2FS on a page-mapped layer, the power cut at every flash operation of a mixed run: what was
//! fsynced is there, from a checkpoint or rolled forward; the check finds no damage, work goes on.

use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, FileOp, Files, Plan, SecondLevel, assert_survives};
use nandlab_f2fs::{F2fsVolume, Format, Options};
use nandlab_ftl::page::PageOptions;
use nandlab_nand::preset;
use nandlab_testkit::scrambled::{Manner, Scrambled};

/// 64 MiB: F2FS wants some thirty.
pub fn stack<L>(options: Options, wrap: impl FnOnce(PageOptions) -> L) -> Files<L, F2fsVolume> {
    let mut chip = preset::find("slc-2k").unwrap().spec();
    chip.geometry.blocks = 512;
    let layer = PageOptions {
        over_provisioning: 0.15,
        ..PageOptions::default()
    };
    Files {
        chip,
        layer: wrap(layer),
        volume: F2fsVolume {
            format: Format::default(),
            options,
        },
    }
}

fn survives(seed: u64, options: Options, plan: &Plan) {
    let stack = stack(options, |layer| layer);
    let report = assert_survives(&stack, &mixed(seed, 80), plan);
    assert!(report.chip_ops > 80, "{report}");
}

#[test]
fn every_cut_is_survived() {
    let plan = Plan {
        words: 1,
        second: SecondLevel::Every(60),
        ..Plan::default()
    };
    survives(1, Options::default(), &plan);
}

#[test]
fn other_runs_keep_their_promises() {
    let sample = Plan {
        words: 1,
        cuts: Cuts::Sample(60),
        second: SecondLevel::Every(60),
        ..Plan::default()
    };
    let usual = Options::default();
    let choices = [
        Options { logs: 4, ..usual },
        Options { logs: 2, ..usual },
        Options {
            inline_data: false,
            ..usual
        },
        Options {
            roll_forward: false,
            ..usual
        },
    ];
    for (seed, options) in (2..).zip(choices) {
        survives(seed, options, &sample);
    }
}

/// The same on a disk that writes blocks in an order of its own.
fn survives_in_any_order(ops: &[FileOp]) {
    let stack = stack(Options::default(), |layer| {
        Scrambled(layer, Manner::WholeRequests)
    });
    let plan = Plan {
        words: 2,
        second: SecondLevel::Off,
        ..Plan::default()
    };
    assert_survives(&stack, ops, &plan);
}

fn append(path: &str, length: u32) -> FileOp {
    FileOp::Append {
        path: path.into(),
        length,
        seed: length.into(),
    }
}

fn overwrite(path: &str, offset: u32, length: u32) -> FileOp {
    FileOp::Overwrite {
        path: path.into(),
        offset,
        length,
        seed: length.into(),
    }
}

fn create(path: &str) -> FileOp {
    FileOp::Create { path: path.into() }
}

fn fsync(path: &str) -> FileOp {
    FileOp::Fsync { path: path.into() }
}

#[test]
fn contents_that_leave_their_inode_survive_a_checkpoint_before_their_write_back() {
    let ops = [
        create("small"),
        append("small", 2000),
        fsync("small"),
        create("other"),
        // Too long for the inode.
        overwrite("small", 1000, 2600),
        fsync("other"),
        FileOp::Sync,
    ];
    survives_in_any_order(&ops);
}

#[test]
fn an_fsync_waits_for_contents_that_were_written_back_before() {
    let ops = [
        create("file"),
        append("file", 20_000),
        fsync("file"),
        overwrite("file", 0, 16_000),
        FileOp::Pause { bytes: 30_000 },
        fsync("file"),
        overwrite("file", 0, 15_000),
        FileOp::Pause { bytes: 30_000 },
        fsync("file"),
    ];
    survives_in_any_order(&ops);
}
