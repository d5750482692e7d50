//! Every translation layer, cut at every flash operation of a run of two hundred writes: what was
//! flushed survives, the layer attaches, work goes on. Where a rule is left out, the explorer says
//! so.
//!
//! `mtdblock` is not here: Linux's scheme cannot keep this promise, and `ftl/tests/mtdblock.rs`
//! tests the weaker one that it makes.

use nandlab_block::BlockDevice;
use nandlab_crash::{
    CrashReport, Disk, DiskOp, Plan, SecondLevel, assert_found, explore, operations,
};
use nandlab_ftl::logblock::{
    FirstWrite, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme,
    SeededBug,
};
use nandlab_ftl::nftl::{Allocation, ChainVictim, NftlOptions, Ordering};
use nandlab_ftl::page::PageOptions;
use nandlab_mtd::Layer;
use nandlab_nand::{Chip, preset};
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::media::Media;
use nandlab_workload::pattern::{Amount, Order};
use nandlab_workload::{Pattern, Spec};

/// A small chip of small pages.
fn disk<L>(layer: L) -> Disk<L> {
    let mut chip = preset::find("small-block-64MiB").unwrap().spec();
    chip.geometry.pages_per_block = 8;
    chip.geometry.blocks = 32;
    chip.rules.partial_programs = 4;
    Disk { chip, layer }
}

/// Writes of one to three sectors of which most hit a few places: merges of every kind, and folds,
/// happen.
fn workload<L: Layer<Chip, Device: BlockDevice>>(disk: &Disk<L>) -> Vec<DiskOp> {
    let geometry = disk.geometry().unwrap();
    let spec = Spec {
        order: Order::HotCold {
            requests: 0.7,
            space: 0.2,
        },
        reads: 0.05,
        discards: 0.05,
        block: 1536,
        align: 512,
        amount: Amount::Requests(220),
        flush_every: 9,
        ..Spec::new(geometry.bytes())
    };
    operations(&mut Pattern::new(&spec).unwrap(), &geometry, usize::MAX).unwrap()
}

fn explored<L>(layer: L, second: SecondLevel) -> CrashReport
where
    L: Layer<Chip, Device: BlockDevice> + Sync,
{
    let disk = disk(layer);
    let plan = Plan {
        words: 3,
        second,
        ..Plan::default()
    };
    explore(&disk, &workload(&disk), &plan).unwrap()
}

/// No cut of the run does any harm, and the states and the times of the recoveries are the kept
/// ones of this name.
fn survives<L: Layer<Chip, Device: BlockDevice> + Clone + Sync>(name: &str, layer: L) {
    let ops = workload(&disk(layer.clone()));
    let writes = ops
        .iter()
        .filter(|op| matches!(op, DiskOp::Write { .. }))
        .count();
    assert!(writes >= 190, "{writes} writes");
    let report = explored(layer, SecondLevel::Every(60));
    assert_eq!(report.violations_total, 0, "{report}");
    // Before, within (three ways) and after each chip operation.
    assert_eq!(report.states, 5 * report.chip_ops, "{report}");
    assert!(
        report.chip_ops > 500 && report.second_level_states > 500,
        "{report}"
    );
    let mut seen = Media::default();
    seen.note(&report);
    seen.assert(&format!("explored, {name}"));
}

/// A log-block layer that programs pages in any order, as the chip permits.
fn logs(options: LogBlockOptions, log_blocks: u32) -> LogBlockOptions {
    LogBlockOptions {
        log_blocks,
        spare_blocks: 2,
        page_order: PageOrder::Any,
        ..options
    }
}

#[test]
fn page_mapping_survives_every_cut() {
    survives(
        "page map",
        PageOptions {
            over_provisioning: 1.0,
            map_interval: 16,
            ..PageOptions::default()
        },
    );
}

#[test]
fn bast_survives_every_cut() {
    survives("BAST", logs(LogBlockOptions::bast(), 4));
}

#[test]
fn bast_with_eager_merges_and_no_writes_in_place_survives_every_cut() {
    survives(
        "BAST, eager",
        LogBlockOptions {
            scheme: Scheme::Bast {
                victim: LogVictim::Fifo,
            },
            eager: true,
            first_write: FirstWrite::Logged,
            ..logs(LogBlockOptions::bast(), 3)
        },
    );
}

#[test]
fn sast_survives_every_cut() {
    survives("SAST", logs(LogBlockOptions::sast(4, 2), 6));
}

#[test]
fn fast_survives_every_cut() {
    survives("FAST", logs(LogBlockOptions::fast(), 5));
}

#[test]
fn fast_with_its_other_choices_survives_every_cut() {
    survives(
        "FAST, other choices",
        LogBlockOptions {
            scheme: Scheme::Fast {
                mismatch: Mismatch::Random,
                pending: Pending::default(),
                owner: OwnerMerge::Full,
            },
            skip_stale: false,
            ..logs(LogBlockOptions::fast(), 4)
        },
    );
}

#[test]
fn nftl_survives_every_cut() {
    survives(
        "NFTL",
        NftlOptions {
            spare_units: 6,
            ..NftlOptions::default()
        },
    );
}

#[test]
fn nftl_with_its_other_choices_survives_every_cut() {
    survives(
        "NFTL, other choices",
        NftlOptions {
            spare_units: 4,
            victim: ChainVictim::MinCopy,
            allocation: Allocation::LeastWorn,
            verify_free: false,
            wear_threshold: 3,
            ..NftlOptions::default()
        },
    );
}

#[test]
fn linuxs_order_of_operations_in_nftl_loses_data() {
    let linux = NftlOptions {
        spare_units: 6,
        ordering: Ordering::Linux,
        ..NftlOptions::default()
    };
    let report = explored(linux, SecondLevel::Off);
    assert!(
        report.violations_total > 0,
        "a torn second program of a page may take what it held: {report}"
    );
}

#[test]
fn a_rule_left_out_of_a_log_block_layer_is_found() {
    use SeededBug::*;
    let bast = || logs(LogBlockOptions::bast(), 4);
    let sast = || logs(LogBlockOptions::sast(4, 2), 6);
    let fast = || logs(LogBlockOptions::fast(), 5);
    for (name, options, bug) in [
        ("FTL, BAST", bast(), FlushWithoutSync),
        ("FTL, BAST", bast(), ReuseOpenBlock),
        ("FTL, SAST", sast(), FlushWithoutSync),
        ("FTL, SAST", sast(), IgnoreSequence),
        ("FTL, FAST", fast(), IgnoreSequence),
        ("FTL, FAST", fast(), ReuseOpenBlock),
    ] {
        let disk = disk(LogBlockOptions {
            seeded_bug: Some(bug),
            ..options
        });
        let plan = Plan {
            words: 3,
            second: SecondLevel::Off,
            shrink_states: 1_000,
            listed: 1,
            ..Plan::default()
        };
        let report = assert_found(&disk, &workload(&disk), &plan);
        let states = report.states_to_first.unwrap_or(0);
        assert_row(name, bug, states, &report.shrunk());
    }
}
