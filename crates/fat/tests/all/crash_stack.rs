//! FAT on the page-mapped layer, the power cut at every flash operation of a mixed run: what was
//! fsynced is there, also on a disk that writes in an order of its own.

use nandlab_crash::files::mixed;
use nandlab_crash::{Cuts, Files, Plan, SecondLevel, assert_found, assert_survives};
use nandlab_fat::{Bits, FatVolume, Format};
use nandlab_ftl::page::PageOptions;
use nandlab_nand::preset;
use nandlab_testkit::scrambled::{Manner, Scrambled};
use nandlab_testkit::share::whole_or;

/// 4 MiB in pages of 512 B.
pub fn stack<L>(wrap: impl FnOnce(PageOptions) -> L) -> Files<L, FatVolume> {
    let mut chip = preset::find("nandsim-jftl").unwrap().spec();
    chip.geometry.blocks = 256;
    let layer = PageOptions {
        over_provisioning: 0.15,
        ..PageOptions::default()
    };
    let format = Format {
        bits: Some(Bits::Fat16),
        cluster_sectors: Some(1),
        ..Format::default()
    };
    Files {
        chip,
        layer: wrap(layer),
        volume: FatVolume {
            format,
            ..FatVolume::default()
        },
    }
}

fn plan(second: u64) -> Plan {
    Plan {
        words: 1,
        second: SecondLevel::Every(second),
        shrink_states: 200,
        listed: 3,
        ..Plan::default()
    }
}

#[test]
fn fat_keeps_what_was_fsynced() {
    for seed in 1..whole_or(7, 3) {
        let report = assert_survives(&stack(|layer| layer), &mixed(seed, 100), &plan(400));
        assert_eq!(report.states, 3 * report.chip_ops);
        assert!(report.chip_ops > 100, "{report}");
    }
}

#[test]
fn fat_keeps_its_promises_in_other_runs() {
    let sample = Plan {
        cuts: Cuts::Sample(150),
        ..plan(100)
    };
    for seed in 7..whole_or(15, 10) {
        assert_survives(&stack(|layer| layer), &mixed(seed, 120), &sample);
    }
}

#[test]
fn a_disk_with_an_order_of_its_own_does_no_harm_while_flushes_are_kept() {
    let sample = Plan {
        cuts: Cuts::Sample(300),
        ..plan(100)
    };
    let stack = stack(|layer| Scrambled(layer, Manner::Honest));
    assert_survives(&stack, &mixed(1, 80), &sample);
}

#[test]
fn a_disk_that_ignores_flushes_is_found() {
    let stack = stack(|layer| Scrambled(layer, Manner::IgnoresFlushes));
    assert_found(&stack, &mixed(1, 80), &plan(0));
}
