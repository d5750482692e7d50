//! Copies paired over the planes of a die: collection shares programs, on planes of its own blocks
//! and of superblocks, and everything that was written stays: through failing chips, and through
//! power cuts before, within and after every operation.

use crate::common::{flaky, hot_and_cold, large_pages, least_spare, serve, step_or_remap};
use crate::lives::{Outcome, lives};
use nandlab_block::{BlockDevice, Lba};
use nandlab_crash::{Disk, DiskOp, Plan, SecondLevel, assert_found, explore};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{Cause, CauseCounts, Ftl, Victim};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Reliability};
use nandlab_sim::mix;
use nandlab_testkit::chip;
use nandlab_testkit::share::whole_or;

/// Sectors of a page of 4 KiB.
const SECTORS: u64 = 8;

/// Chip and time after random writes on a full disk.
#[derive(Debug)]
struct Worked {
    copies: u64,
    joined: u64,
    collection: CauseCounts,
    ns: u64,
}

fn overwrite(spec: ChipSpec, options: &PageOptions) -> Worked {
    let mut device = PageFtl::format(Chip::new(spec).unwrap(), options.clone()).unwrap();
    let clock = device.medium().clock().clone();
    let pages = device.geometry().sectors / SECTORS;
    let random = (0..2 * pages).map(|number| mix(1, number) % pages);
    for page in (0..pages).chain(random) {
        device.write(Lba(page * SECTORS), &[0; 4096]).unwrap();
    }
    device.flush().unwrap();
    let mut rows = device.tally().rows();
    let (_, collection) = rows.find(|row| row.0 == Cause::Collection).unwrap();
    Worked {
        copies: device.medium().counts().copies,
        joined: device.medium().joined_copies(),
        collection,
        ns: clock.now(),
    }
}

fn options(collection: Collection, multi_plane_copies: bool) -> PageOptions {
    PageOptions {
        over_provisioning: 0.2,
        collection,
        multi_plane_copies,
        ..PageOptions::default()
    }
}

/// Two dies of so many planes.
fn spec(planes: u32) -> ChipSpec {
    let spec = large_pages(256, 64);
    ChipSpec {
        geometry: Geometry {
            planes,
            ..spec.geometry
        },
        ..spec
    }
}

#[test]
fn collection_joins_most_of_its_programs_and_takes_less_time() {
    // In steps fewer blocks are free, so that planes are more often without one.
    for (planes, collection, joined, faster) in [
        (2, Collection::Whole, 0.9, 1.4),
        (4, Collection::Whole, 0.9, 2.0),
        (2, Collection::Steps, 0.5, 1.2),
        (4, Collection::Steps, 0.5, 1.2),
    ] {
        let single = overwrite(spec(planes), &options(collection, false));
        let paired = overwrite(spec(planes), &options(collection, true));
        assert_eq!(single.joined, 0);
        let share = paired.joined as f64 / paired.copies as f64;
        let speed = single.ns as f64 / paired.ns as f64;
        let copies = paired.collection.copies as f64 / single.collection.copies as f64;
        let what = format!(
            "{planes} planes, {collection:?}: {share:.3} joined, {speed:.2} times as fast, \
             {copies:.3} times the copies"
        );
        eprintln!("{what}");
        assert!(share > joined && speed > faster && copies < 1.15, "{what}");
    }
}

#[test]
fn a_superblock_pairs_the_copies_of_its_planes() {
    let joined = |paired| {
        let mut spec = spec(2);
        spec.geometry.blocks *= 4;
        spec.geometry.pages_per_block = 16;
        overwrite(spec.in_superblocks(), &options(Collection::Whole, paired))
    };
    let [single, paired] = [false, true].map(joined);
    assert_eq!(single.joined, 0);
    assert_eq!(paired.copies, single.copies);
    let share = paired.joined as f64 / paired.copies as f64;
    assert!(
        share > 0.8 && paired.ns < single.ns,
        "{single:?} {paired:?}"
    );
}

/// Without multi-plane programs the same copies go one after another.
#[test]
fn the_option_costs_no_time_where_planes_do_not_program_together() {
    let run = |paired| {
        let mut spec = spec(2);
        spec.timing.multi_plane = false;
        overwrite(spec, &options(Collection::Whole, paired))
    };
    let [single, paired] = [false, true].map(run);
    assert_eq!(paired.joined, 0);
    let ratio = paired.ns as f64 / single.ns as f64;
    assert!((0.9..1.02).contains(&ratio), "{ratio}");
}

/// A chip of two or four planes on one die or two.
fn planes(seed: u64, reliability: Reliability) -> ChipSpec {
    let spec = chip::spec(seed, 96, reliability);
    let mut timing = chip::timing(seed);
    timing.multi_plane = true;
    timing.copy_back = seed.is_multiple_of(5);
    ChipSpec {
        geometry: Geometry {
            dies: 1 + seed as u32 % 2,
            planes: [2, 4][seed as usize / 2 % 2],
            ..spec.geometry
        },
        timing,
        ..spec
    }
}

fn against_an_array(first: u64, reliability: fn() -> Reliability) {
    let mut all = Outcome::default();
    for seed in (first..first + 8).step_by(whole_or(1, 3)) {
        let options = PageOptions {
            over_provisioning: 1.0,
            victim: [Victim::Greedy, Victim::CostBenefit][seed as usize % 2],
            collection: [Collection::Whole, Collection::Steps][seed as usize / 2 % 2],
            separate_streams: seed % 4 != 3,
            map_interval: [4, 16, 64][seed as usize % 3],
            map_cache: [None, Some(2048)][seed as usize / 4 % 2],
            multi_plane_copies: true,
            wear_threshold: 8,
            scrub_bits: 3,
            ..PageOptions::default()
        };
        all.add(lives(
            planes(seed, reliability()),
            20_000,
            |chip| PageFtl::format(chip, options.clone()).unwrap(),
            |chip| PageFtl::attach(chip, options.clone()).unwrap(),
            |device, model, random| step_or_remap(device, model, random, 40),
        ));
    }
    assert!(all.cuts > whole_or(300, 100), "{all:?}");
}

#[test]
fn paired_copies_on_perfect_chips() {
    against_an_array(0, Reliability::default);
}

#[test]
fn paired_copies_on_failing_chips() {
    against_an_array(100, flaky);
}

fn layer(seed: u64, collection: Collection, bug: Option<SeededBug>) -> Disk<PageOptions> {
    let mut chip = planes(seed, Reliability::default());
    let lanes = chip.geometry.dies * chip.geometry.planes;
    chip.geometry.blocks = (3 + 24 / lanes) * lanes;
    let options = PageOptions {
        collection,
        map_interval: 8,
        multi_plane_copies: true,
        seeded_bug: bug,
        ..PageOptions::default()
    };
    Disk {
        layer: least_spare(&chip, &options),
        chip,
    }
}

/// Joined copies, so that cuts fall into them.
fn assert_run_joins(subject: &Disk<PageOptions>, ops: &[DiskOp]) {
    let mut device = subject.format().unwrap();
    serve(&mut device, ops);
    let joined = device.medium().joined_copies();
    assert!(joined > 40, "{joined}");
}

fn survives_every_cut(seed: u64, collection: Collection) {
    let subject = layer(seed, collection, None);
    let ops = hot_and_cold(&subject.geometry().unwrap(), 500, 12, 0.15);
    assert_run_joins(&subject, &ops);
    let plan = Plan {
        words: 3,
        second: SecondLevel::Every(whole_or(40, 160)),
        ..Plan::default()
    };
    let report = explore(&subject, &ops, &plan).unwrap();
    assert_eq!(report.violations_total, 0, "{report}");
    assert_eq!(report.cut_points, 3 * report.chip_ops);
    assert!(report.second_level_states > whole_or(500, 80), "{report}");
}

#[test]
fn paired_copies_survive_every_cut_on_two_planes() {
    survives_every_cut(0, Collection::Whole);
}

#[test]
fn paired_copies_survive_every_cut_on_two_dies_of_four_planes() {
    survives_every_cut(3, Collection::Whole);
}

#[test]
fn paired_copies_in_steps_survive_every_cut() {
    survives_every_cut(1, Collection::Steps);
}

#[test]
fn an_erase_that_does_not_wait_for_paired_copies_is_found() {
    for seed in [1, 3] {
        let subject = layer(seed, Collection::Whole, Some(SeededBug::EraseUnfenced));
        let ops = hot_and_cold(&subject.geometry().unwrap(), 500, 40, 0.15);
        let plan = Plan {
            second: SecondLevel::Off,
            shrink_states: 500,
            listed: 3,
            ..Plan::default()
        };
        assert_found(&subject, &ops, &plan);
    }
}
