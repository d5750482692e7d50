//! The crash explorer on the page-mapped layer: a sound layer survives every cut, and each rule
//! that its power-loss argument stands on is missed when it is left out. What is found can be made
//! again by its name, is shrunk, and does not depend on threads.

use crate::common::{hot_and_cold, serve};
use nandlab_crash::{
    CrashError, CrashReport, Cuts, Disk, DiskOp, Id, Kind, Plan, SecondLevel, Workload,
    assert_found, explore, explore_watched, replay,
};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::{Geometry, Layer, LayerError, Mtd, Page};
use nandlab_nand::{Chip, ChipSpec, Contents, PageOrder, Reliability, Rules, Timing};
use nandlab_testkit::bugs::assert_row;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks of eight 1 KiB pages; two dies have two planes each.
fn layer(dies: u32, bug: Option<SeededBug>) -> Disk<PageOptions> {
    let timing = Timing {
        read_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        bus_ps_per_byte: 25_000,
        oob_bus_bytes: 16,
        oob_read_ns: None,
        oob_program_ns: None,
        cache_program: dies == 4,
        multi_plane: dies == 2,
        copy_back: dies == 1,
    };
    let planes = if dies == 2 { 2 } else { 1 };
    // Each die and plane has open blocks of its own.
    let blocks = if dies == 1 { 32 } else { 48 };
    let geometry = Geometry {
        dies,
        planes,
        ..Geometry::single_die(1024, 15, 8, blocks)
    };
    let rules = Rules {
        order: PageOrder::Ascending,
        partial_programs: 1,
    };
    let chip = ChipSpec {
        geometry,
        timing,
        rules,
        reliability: Reliability::default(),
        contents: Contents::Kept,
        seed: 1,
        superblock: None,
        slc: None,
    };
    let over_provisioning = if dies == 1 { 1.0 } else { 0.65 };
    // Sequence numbers matter for whatever is newer than its map page.
    let map_interval = if bug == Some(SeededBug::IgnoreSequence) {
        64
    } else {
        8
    };
    Disk {
        chip,
        layer: PageOptions {
            over_provisioning,
            map_interval,
            seeded_bug: bug,
            ..PageOptions::default()
        },
    }
}

/// Writes of three sectors, half a page more than one, some reads and discards, most of it in a
/// part of the disk.
fn workload(
    subject: &Disk<PageOptions>,
    requests: u64,
    flush_every: u64,
    discards: f64,
) -> Vec<DiskOp> {
    let geometry = subject.geometry().unwrap();
    hot_and_cold(&geometry, requests, flush_every, discards)
}

/// Collection, map pages, discards and flushes all occur in the run, so that they are what is cut.
fn assert_run_has_everything(subject: &Disk<PageOptions>, ops: &[DiskOp]) {
    let mut device = subject.format().unwrap();
    serve(&mut device, ops);
    let tally = device.tally();
    let of = |cause| tally.rows().find(|row| row.0 == cause).unwrap().1;
    let collection = of(Cause::Collection);
    assert!(
        collection.copies > 20 && collection.erases > 20 && of(Cause::Mapping).programs > 20,
        "{tally:?}"
    );
    assert!(
        ops.iter()
            .filter(|op| matches!(op, DiskOp::Discard { .. }))
            .count()
            > 20
    );
    assert!(ops.iter().filter(|op| matches!(op, DiskOp::Flush)).count() > 10);
}

fn survives_every_cut(dies: u32, collection: Collection) {
    let mut subject = layer(dies, None);
    subject.layer.collection = collection;
    let ops = workload(&subject, 300, 12, 0.15);
    assert_run_has_everything(&subject, &ops);
    let report = explore(
        &subject,
        &ops,
        &Plan {
            words: 3,
            second: SecondLevel::Every(40),
            ..Plan::default()
        },
    )
    .unwrap();
    assert_eq!(report.violations_total, 0, "{report}");
    assert_eq!(report.host_ops, ops.len() as u64);
    // Before, within (three times) and after each chip operation.
    assert_eq!(
        (report.cut_points, report.states),
        (3 * report.chip_ops, 5 * report.chip_ops)
    );
    assert!(report.second_level_states > 500, "{report}");
}

#[test]
fn page_mapping_survives_every_cut_on_one_die() {
    survives_every_cut(1, Collection::Whole);
}

#[test]
fn page_mapping_survives_every_cut_on_two_dies_of_two_planes() {
    survives_every_cut(2, Collection::Whole);
}

#[test]
fn page_mapping_survives_every_cut_on_four_dies() {
    survives_every_cut(4, Collection::Whole);
}

#[test]
fn collection_in_steps_survives_every_cut_on_one_die() {
    survives_every_cut(1, Collection::Steps);
}

#[test]
fn collection_in_steps_survives_every_cut_on_four_dies() {
    survives_every_cut(4, Collection::Steps);
}

/// The explorer finds the bug; its name makes the same state again; the smallest case is smaller,
/// and its name makes it again, too.
fn bites(bug: SeededBug, dies: u32, requests: u64, flush_every: u64, discards: f64) -> CrashReport {
    let subject = layer(dies, Some(bug));
    let report = bites_in(&subject, requests, flush_every, discards);
    let states = report.states_to_first.unwrap_or(0);
    assert_row("FTL, pages", bug, states, &report.shrunk());
    report
}

fn bites_in(
    subject: &Disk<PageOptions>,
    requests: u64,
    flush_every: u64,
    discards: f64,
) -> CrashReport {
    let ops = workload(subject, requests, flush_every, discards);
    let plan = Plan {
        second: SecondLevel::Off,
        shrink_states: 4_000,
        listed: 3,
        ..Plan::default()
    };
    assert_found(subject, &ops, &plan)
}

#[test]
fn an_erase_that_does_not_wait_for_what_replaces_the_block_is_found() {
    bites(SeededBug::EraseUnfenced, 4, 250, 40, 0.15);
}

#[test]
fn a_map_page_that_does_not_wait_for_what_it_names_is_found() {
    let report = bites(SeededBug::MapUnfenced, 4, 100, 40, 0.15);
    assert!(report.smallest.unwrap().minimal);
}

#[test]
fn a_discard_that_collection_forgets_is_found() {
    bites(SeededBug::DiscardForgotten, 1, 400, 60, 0.15);
}

#[test]
fn rules_that_collection_in_steps_leaves_out_are_found() {
    for (bug, dies) in [
        (SeededBug::EraseUnfenced, 4),
        (SeededBug::DiscardForgotten, 1),
    ] {
        let mut subject = layer(dies, Some(bug));
        subject.layer.collection = Collection::Steps;
        // Else a map page in its turn says in time what was discarded.
        subject.layer.map_interval = 256;
        bites_in(&subject, 500, 40, 0.15);
    }
}

#[test]
fn a_flush_that_does_not_wait_is_found_and_shrunk_to_a_write_and_a_flush() {
    let report = bites(SeededBug::FlushWithoutSync, 1, 60, 12, 0.15);
    let smallest = report.smallest.unwrap();
    assert!(
        smallest.minimal && smallest.violation.kind == Kind::Contents,
        "{smallest}"
    );
    assert_eq!(
        smallest.host_ops,
        ["37: write 3 at sector 61 (#38)", "38: flush"]
    );
}

#[test]
fn filling_a_block_that_was_open_at_the_cut_is_found() {
    let smallest = bites(SeededBug::ReuseOpenBlock, 1, 60, 12, 0.15)
        .smallest
        .unwrap();
    assert!(
        smallest.minimal && smallest.host_ops.len() < 4,
        "{smallest}"
    );
}

#[test]
fn taking_the_last_tag_for_the_newest_is_found() {
    bites(SeededBug::IgnoreSequence, 1, 300, 12, 0.0);
}

#[test]
fn a_report_does_not_depend_on_threads() {
    let subject = layer(4, Some(SeededBug::MapUnfenced));
    let ops = workload(&subject, 60, 12, 0.15);
    let plan = Plan {
        second: SecondLevel::Every(5),
        shrink_states: 300,
        ..Plan::default()
    };
    let [one, two, five] = [1, 2, 5].map(|threads| {
        explore(
            &subject,
            &ops,
            &Plan {
                threads,
                ..plan.clone()
            },
        )
        .unwrap()
    });
    assert!(
        one.violations_total > 0 && one.second_level_states > 0,
        "{one}"
    );
    assert_eq!(one, two);
    assert_eq!(one, five);
}

#[test]
fn every_listed_state_can_be_made_again() {
    let subject = layer(4, Some(SeededBug::MapUnfenced));
    let ops = workload(&subject, 60, 12, 0.15);
    let plan = Plan {
        second: SecondLevel::Every(3),
        listed: 1_000,
        shrink_states: 0,
        ..Plan::default()
    };
    let report = explore(&subject, &ops, &plan).unwrap();
    assert_eq!(report.violations.len() as u64, report.violations_total);
    assert!(report.smallest.is_none());
    for violation in &report.violations {
        let id: Id = violation.id.parse().unwrap();
        assert_eq!(
            replay(&subject, &ops, &plan, &id).unwrap().as_ref(),
            Some(violation)
        );
    }
}

#[test]
fn a_report_reads_back_from_its_json() {
    let subject = layer(1, Some(SeededBug::FlushWithoutSync));
    let ops = workload(&subject, 60, 12, 0.15);
    let report = explore(&subject, &ops, &Plan::default()).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<CrashReport>(&text).unwrap(), report);
}

#[test]
fn a_sample_is_spread_over_the_run_and_progress_reaches_its_end() {
    let subject = layer(1, None);
    let ops = workload(&subject, 120, 12, 0.15);
    let plan = Plan {
        cuts: Cuts::Sample(100),
        second: SecondLevel::Off,
        ..Plan::default()
    };
    let most = AtomicU64::new(0);
    let total = AtomicU64::new(0);
    let watch = |done, all| {
        most.fetch_max(done, Relaxed);
        total.store(all, Relaxed);
    };
    let report = explore_watched(&subject, &Workload::whole(&ops), &plan, &watch).unwrap();
    assert_eq!((report.states, report.violations_total), (100, 0));
    // Progress counts the states that are looked at.
    let looked_at = report.distinct_states;
    assert_eq!(
        (most.into_inner(), total.into_inner()),
        (looked_at, looked_at)
    );
    assert!((50..100).contains(&looked_at), "{report}");
}

#[test]
fn a_recovery_that_breaks_its_promise_is_found_by_the_second_cut() {
    // Nothing is flushed before the first cut, so that only the flush in the recovery can break a
    // promise.
    let subject = layer(1, Some(SeededBug::FlushWithoutSync));
    let ops = workload(&subject, 10, 0, 0.0);
    let plan = Plan {
        second: SecondLevel::Every(1),
        ..Plan::default()
    };
    let report = explore(&subject, &ops, &plan).unwrap();
    let first = report
        .violations
        .first()
        .unwrap_or_else(|| panic!("{report}"));
    let id: Id = first.id.parse().unwrap();
    assert_eq!(id.cuts.len(), 2, "{first}");
    assert_eq!(
        replay(&subject, &ops, &plan, &id).unwrap().as_ref(),
        Some(first)
    );
    let smallest = report.smallest.unwrap();
    assert!(
        smallest.minimal && smallest.host_ops.len() <= 1,
        "{smallest}"
    );
    let off = explore(
        &subject,
        &ops,
        &Plan {
            second: SecondLevel::Off,
            ..plan
        },
    )
    .unwrap();
    assert_eq!(off.violations_total, 0, "{off}");
}

/// What a layer can do wrong besides its data, once the chip has been written to.
#[derive(Clone, Copy)]
enum Manner {
    Refuses,
    Panics,
    NeverEnds,
}

struct IllMannered(PageOptions, Manner);

impl Layer<Chip> for IllMannered {
    type Device = PageFtl<Chip>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.0.format(chip)
    }

    fn attach(&self, mut chip: Chip) -> Result<Self::Device, LayerError> {
        // The third block is the second one to receive data.
        let first = Page(2 * chip.geometry().pages_per_block);
        while chip.is_programmed(first) {
            match self.1 {
                Manner::Refuses => return Err("no".into()),
                Manner::Panics => panic!("at the sight of block 2"),
                Manner::NeverEnds => chip.read(first, &mut [], &mut [0; 4])?,
            };
        }
        self.0.attach(chip)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_medium()
    }
}

#[test]
fn a_layer_that_refuses_panics_or_never_ends_is_reported() {
    for (manner, kind) in [
        (Manner::Refuses, Kind::Attach),
        (Manner::Panics, Kind::Panic),
        (Manner::NeverEnds, Kind::Endless),
    ] {
        let sound = layer(1, None);
        let ops = workload(&sound, 8, 0, 0.0);
        let plan = Plan {
            words: 1,
            second: SecondLevel::Off,
            shrink_states: 0,
            ..Plan::default()
        };
        let subject = Disk {
            chip: sound.chip,
            layer: IllMannered(sound.layer, manner),
        };
        let report = explore(&subject, &ops, &plan).unwrap();
        assert!(!report.violations.is_empty(), "{kind}");
        assert!(
            report
                .violations
                .iter()
                .all(|violation| violation.kind == kind),
            "{report}"
        );
        assert!(report.violations_total < report.states, "{report}");
    }
}

#[test]
fn a_name_that_fits_no_state_of_the_run_is_refused() {
    let subject = layer(1, None);
    let ops = workload(&subject, 8, 0, 0.0);
    for id in [
        "1:99999:torn:0",
        "1:2:before:0/99999:after:0",
        "1:uncut@5-99",
    ] {
        let error = replay(&subject, &ops, &Plan::default(), &id.parse().unwrap()).unwrap_err();
        assert!(
            matches!(&error, CrashError::NoSuchState { id: named, .. } if named == id),
            "{error}"
        );
    }
    let uncut = "1:uncut".parse().unwrap();
    assert_eq!(
        replay(&subject, &ops, &Plan::default(), &uncut).unwrap(),
        None
    );
}
