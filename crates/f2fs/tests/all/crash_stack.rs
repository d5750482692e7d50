//! F2FS on a page-mapped layer, the power cut at every flash operation of a mixed run: what was
//! fsynced is there, from a checkpoint or rolled forward; the check finds no damage, work goes on.

use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, Files, Plan, SecondLevel, assert_survives};
use nandlab_f2fs::{F2fsVolume, Format, Options};
use nandlab_ftl::page::PageOptions;
use nandlab_nand::preset;

fn survives(seed: u64, options: Options, plan: &Plan) {
    let mut chip = preset::find("slc-2k").unwrap().spec();
    // 64 MiB: F2FS wants some thirty.
    chip.geometry.blocks = 512;
    let layer = PageOptions {
        over_provisioning: 0.15,
        ..PageOptions::default()
    };
    let stack = Files {
        chip,
        layer,
        volume: F2fsVolume {
            format: Format::default(),
            options,
        },
    };
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
