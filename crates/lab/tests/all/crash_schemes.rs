//! Every translation layer, cut at every flash operation of a run of two hundred writes: what was
//! flushed survives, the layer attaches, work goes on. Where a rule is left out, the explorer says
//! so.
//!
//! `mtdblock` is not here: Linux's scheme cannot keep this promise, and `ftl/tests/mtdblock.rs`
//! tests the weaker one that it makes.

use nandlab_ftl::logblock::{LogBlockOptions, SeededBug};
use nandlab_lab::Experiment;
use nandlab_lab::crash::{
    CrashReport, Described, Disk, DiskOp, Plan, Prepared, SecondLevel, explore,
};
use nandlab_stack::{Document, Scheme};
use std::path::Path;

/// A small chip of small pages, and writes of one to three sectors of which most hit a few places:
/// merges of every kind, and folds, happen.
const EXPERIMENT: &str = "
[chip]
preset = \"small-block-64MiB\"
pages-per-block = 8
blocks = 32
partial-programs = 4
[workload]
pattern = \"hot-cold\"
hot-requests = 0.7
hot-space = 0.2
block = 1536
align = 512
reads = 0.05
discards = 0.05
flush-every = 9
requests = 220
[ftl]
";

fn prepared(scheme: &str, change: impl Fn(&mut Scheme)) -> Prepared<Disk<Described>> {
    let document = Document::parse(
        "small.toml",
        Path::new("."),
        &format!("{EXPERIMENT}{scheme}"),
        &[],
    )
    .unwrap();
    let mut experiment = Experiment::take(document).unwrap();
    change(&mut experiment.stack.ftl.scheme);
    Prepared::new(&experiment, usize::MAX).unwrap()
}

fn explored(prepared: &Prepared<Disk<Described>>, second: SecondLevel) -> CrashReport {
    explore(
        &prepared.subject,
        &prepared.ops,
        &Plan {
            words: 3,
            second,
            ..Plan::default()
        },
    )
    .unwrap()
}

/// No cut of the run does any harm.
fn survives(scheme: &str) {
    let prepared = prepared(scheme, |_| ());
    let writes = prepared
        .ops
        .iter()
        .filter(|op| matches!(op, DiskOp::Write { .. }))
        .count();
    assert!(writes >= 190, "{writes} writes");
    let report = explored(&prepared, SecondLevel::Every(60));
    assert_eq!(report.violations_total, 0, "{report}");
    // Before, within (three ways) and after each chip operation.
    assert_eq!(report.states, 5 * report.chip_ops, "{report}");
    assert!(
        report.chip_ops > 500 && report.second_level_states > 500,
        "{report}"
    );
}

#[test]
fn page_mapping_survives_every_cut() {
    survives("scheme = \"page\"\nover-provisioning = 1.0\nmap-interval = 16\n");
}

#[test]
fn bast_survives_every_cut() {
    survives("scheme = \"bast\"\nlog-blocks = 4\nspare-blocks = 2\n");
}

#[test]
fn bast_with_eager_merges_and_no_writes_in_place_survives_every_cut() {
    survives(
        "scheme = \"bast\"\nlog-blocks = 3\nspare-blocks = 2\neager = true\nfirst-write = \"log\"\nvictim = \"fifo\"\n",
    );
}

#[test]
fn sast_survives_every_cut() {
    survives("scheme = \"sast\"\nlog-blocks = 6\nspare-blocks = 2\n");
}

#[test]
fn fast_survives_every_cut() {
    survives("scheme = \"fast\"\nlog-blocks = 5\nspare-blocks = 2\n");
}

#[test]
fn fast_with_its_other_choices_survives_every_cut() {
    survives(
        "scheme = \"fast\"\nlog-blocks = 4\nspare-blocks = 2\nmismatch = \"random\"\nskip-stale = false\nowner = \"full\"\n",
    );
}

#[test]
fn nftl_survives_every_cut() {
    survives("scheme = \"nftl\"\nspare-units = 6\n");
}

#[test]
fn nftl_with_its_other_choices_survives_every_cut() {
    survives(
        "scheme = \"nftl\"\nspare-units = 4\nvictim = \"min-copy\"\nallocation = \"least-worn\"\nverify-free = false\nwear-threshold = 3\n",
    );
}

#[test]
fn linuxs_order_of_operations_in_nftl_loses_data() {
    let prepared = prepared(
        "scheme = \"nftl\"\nspare-units = 6\nordering = \"linux\"\n[host]\n",
        |_| (),
    );
    let report = explored(&prepared, SecondLevel::Off);
    assert!(
        report.violations_total > 0,
        "a torn second program of a page may take what it held: {report}"
    );
}

#[test]
fn a_rule_left_out_of_a_log_block_layer_is_missed() {
    for (scheme, bug) in [
        (
            "scheme = \"bast\"\nlog-blocks = 4\nspare-blocks = 2\n",
            SeededBug::FlushWithoutSync,
        ),
        (
            "scheme = \"sast\"\nlog-blocks = 6\nspare-blocks = 2\n",
            SeededBug::IgnoreSequence,
        ),
        (
            "scheme = \"fast\"\nlog-blocks = 5\nspare-blocks = 2\n",
            SeededBug::ReuseOpenBlock,
        ),
    ] {
        let prepared = prepared(scheme, |scheme| {
            if let Scheme::LogBlock(options) = scheme {
                *options = LogBlockOptions {
                    seeded_bug: Some(bug),
                    ..options.clone()
                };
            }
        });
        let report = explored(&prepared, SecondLevel::Every(60));
        assert!(
            report.violations_total > 0,
            "{bug:?} was not caught in {scheme}"
        );
    }
}
