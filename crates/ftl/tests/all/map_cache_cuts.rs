//! Power cuts and the map cache: the explorer cuts a run before, within and after every operation,
//! and again within recoveries. Further tests read the rules of the cache off what it asks of its
//! chip.

use crate::common::{SMALL_PAGE, serve, small_pages};
use nandlab_block::{BlockDevice, Lba};
use nandlab_crash::{Disk, DiskOp, Plan, SecondLevel, assert_found, explore, operations};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::{Hook, Hooked, Layer, Outcome, Page, Request};
use nandlab_nand::{Chip, ChipSpec, LoggedKind, Reliability};
use nandlab_testkit::bugs::assert_row;
use nandlab_testkit::share::whole_or;
use nandlab_workload::pattern::{Amount, Order};
use nandlab_workload::{Pattern, Spec};
use std::cell::RefCell;
use std::rc::Rc;

/// Entries of a map page.
const ENTRIES: u64 = 120;

/// A chip of one die or four.
fn chip_of(dies: u32, blocks: u32) -> ChipSpec {
    let seed = if dies == 1 { 0 } else { 2 };
    small_pages(seed, blocks, Reliability::default())
}

/// A map of four pages, or five, of which two are in memory.
fn layer(dies: u32, bug: Option<SeededBug>) -> Disk<PageOptions> {
    let blocks = if dies == 1 { 72 } else { 104 };
    Disk {
        chip: chip_of(dies, blocks),
        layer: PageOptions {
            over_provisioning: 0.5,
            map_interval: 64,
            map_cache: Some(u64::from(2 * SMALL_PAGE)),
            spare_blocks: 0,
            seeded_bug: bug,
            ..PageOptions::default()
        },
    }
}

fn list(subject: &Disk<PageOptions>, spec: &Spec) -> Vec<DiskOp> {
    let geometry = subject.geometry().unwrap();
    let mut pattern = Pattern::new(spec).unwrap();
    operations(&mut pattern, &geometry, usize::MAX).unwrap()
}

/// Fills the disk in order.
fn fill(subject: &Disk<PageOptions>) -> Vec<DiskOp> {
    let bytes = subject.geometry().unwrap().bytes();
    let spec = Spec {
        order: Order::Sequential,
        block: 32 * 512,
        amount: Amount::Bytes(bytes),
        ..Spec::new(bytes)
    };
    list(subject, &spec)
}

/// Fills the disk, and then writes three sectors at a time anywhere.
fn workload(subject: &Disk<PageOptions>, requests: u64) -> Vec<DiskOp> {
    let spec = Spec {
        order: Order::Uniform,
        reads: 0.1,
        discards: 0.15,
        block: 1536,
        align: 512,
        amount: Amount::Requests(requests),
        flush_every: 12,
        seed: 5,
        ..Spec::new(subject.geometry().unwrap().bytes())
    };
    let mut ops = fill(subject);
    ops.extend(list(subject, &spec));
    ops
}

/// Evictions, collection and discards all occur in the run, so that a cut falls into each.
fn assert_run_has_everything(subject: &Disk<PageOptions>, ops: &[DiskOp]) {
    let mut device = subject
        .layer
        .format(Chip::new(subject.chip.clone()).unwrap())
        .unwrap();
    serve(&mut device, ops);
    let tally = device.tally();
    let mut rows = tally.rows();
    let collection = rows.find(|row| row.0 == Cause::Collection).unwrap().1;
    assert!(tally.map_cache.write_backs > 60, "{tally:?}");
    assert!(
        collection.copies > 80 && collection.erases > 40,
        "{tally:?}"
    );
}

fn survives_every_cut(dies: u32, collection: Collection) {
    let mut subject = layer(dies, None);
    subject.layer.collection = collection;
    let ops = workload(&subject, 200);
    assert_run_has_everything(&subject, &ops);
    let plan = Plan {
        words: 2,
        second: SecondLevel::Every(whole_or(40, 160)),
        ..Plan::default()
    };
    let report = explore(&subject, &ops, &plan).unwrap();
    assert_eq!(report.violations_total, 0, "{report}");
    assert_eq!(report.cut_points, 3 * report.chip_ops);
    assert!(report.second_level_states > whole_or(500, 80), "{report}");
}

#[test]
fn a_map_cache_survives_every_cut_on_one_die() {
    survives_every_cut(1, Collection::Whole);
}

#[test]
fn a_map_cache_survives_every_cut_on_four_dies() {
    survives_every_cut(4, Collection::Whole);
}

#[test]
fn a_map_cache_with_collection_in_steps_survives_every_cut() {
    survives_every_cut(1, Collection::Steps);
}

#[test]
fn an_evicted_map_page_that_does_not_wait_for_what_it_names_is_found() {
    let bug = SeededBug::MapUnfenced;
    let mut subject = layer(4, Some(bug));
    // Only evictions write map pages.
    subject.layer.map_interval = 1_000_000;
    let plan = Plan {
        second: SecondLevel::Off,
        shrink_states: 2_000,
        listed: 3,
        ..Plan::default()
    };
    let report = assert_found(&subject, &workload(&subject, 60), &plan);
    let states = report.states_to_first.unwrap_or(0);
    assert_row("FTL, map cache", bug, states, &report.shrunk());
}

/// The run itself only fills the disk. Then the explorer reads the disk, cut or not.
#[test]
fn an_evicted_map_page_that_is_not_written_is_found_without_a_cut() {
    let mut subject = layer(1, Some(SeededBug::EvictUnwritten));
    subject.layer.map_interval = 1_000_000;
    let plan = Plan {
        second: SecondLevel::Off,
        ..Plan::default()
    };
    let report = explore(&subject, &fill(&subject), &plan).unwrap();
    let smallest = report.smallest.unwrap();
    assert!(report.violations_total > 0 && smallest.host_ops.len() == 1);
    let found = smallest.violation.to_string();
    let says = "a map page with entries was never written";
    assert!(found.contains(says), "{found}");
}

/// One request to the chip, as the map cache sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Fence,
    Read(Page),
    Data(Page),
    /// A map page with the entry of its first logical page.
    Map(u32, Page, u32),
}

/// Requests that succeeded, in order.
struct Requests(Rc<RefCell<Vec<Request>>>);

impl Hook for Requests {
    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
        if outcome.is_ok() {
            self.0.borrow_mut().push(*request);
        }
        outcome
    }
}

/// The requests, with the contents of the map pages from the chip's log.
fn described(requests: &[Request], chip: &Chip) -> Vec<Asked> {
    let word = |data: &[u8], at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
    let mut programs = chip.logged().iter().filter_map(|op| match &op.kind {
        LoggedKind::Program { page, data, .. } => Some((*page, data)),
        _ => None,
    });
    let mut describe = |request: &Request| match *request {
        Request::Fence(_) => Some(Asked::Fence),
        Request::Read { page, .. } => Some(Asked::Read(page)),
        Request::Program { page, .. } => {
            let (logged, data) = programs.next().unwrap();
            assert_eq!(page, logged);
            let map = Asked::Map(word(data, 8), page, word(data, 32));
            Some(match data.starts_with(b"NLPM") {
                true => map,
                false => Asked::Data(page),
            })
        }
        _ => None,
    };
    requests.iter().filter_map(&mut describe).collect()
}

/// With two map pages in memory, the third look-up evicts the first one.
#[test]
fn an_evicted_map_page_is_written_before_its_entries_are_used_again() {
    let mut chip = Chip::new(chip_of(1, 72)).unwrap();
    chip.start_log();
    let requests = Rc::new(RefCell::new(Vec::new()));
    let flash = Hooked::with(chip, Requests(requests.clone()));
    let mut device = PageFtl::format(flash, layer(1, None).layer).unwrap();
    let begun = requests.borrow().len();
    for index in 0..3 {
        device
            .write(Lba(index * ENTRIES), &[1; SMALL_PAGE as usize])
            .unwrap();
    }
    device.read(Lba(0), &mut [0; SMALL_PAGE as usize]).unwrap();
    let chip = device.into_medium().into_inner();
    let requests = requests.borrow();
    let before = described(&requests[..begun], &chip).len();
    let asked = described(&requests, &chip).split_off(before);
    let [
        Asked::Data(first),
        Asked::Data(second),
        Asked::Fence,
        Asked::Map(0, place, entry),
        Asked::Data(_),
        Asked::Fence,
        Asked::Map(1, _, other),
        Asked::Read(map),
        Asked::Read(data),
    ] = asked[..]
    else {
        panic!("{asked:?}");
    };
    assert_eq!((entry, other), (first.0 + 1, second.0 + 1));
    assert_eq!((map, data), (place, first));
}

/// Wear levelling moves blocks at rest, whose eight pages lie in one range or two. Nothing else
/// writes a map page.
#[test]
fn collection_writes_a_map_page_once_for_all_pages_of_a_victim() {
    let options = PageOptions {
        map_interval: 1_000_000,
        wear_threshold: 2,
        ..layer(1, None).layer
    };
    let mut device = PageFtl::format(Chip::new(chip_of(1, 144)).unwrap(), options).unwrap();
    let sectors = device.geometry().sectors;
    let of = |device: &PageFtl<Chip>, cause| {
        let mut rows = device.tally().rows();
        rows.find(|row| row.0 == cause).unwrap().1
    };
    let write = |device: &mut PageFtl<Chip>, lba| {
        device.write(Lba(lba), &[1; SMALL_PAGE as usize]).unwrap();
    };
    (0..sectors).for_each(|lba| write(&mut device, lba));
    (0..2).for_each(|_| write(&mut device, 0));
    let before = of(&device, Cause::Mapping);
    (0..6_000).for_each(|number| write(&mut device, number % ENTRIES));
    let victims = of(&device, Cause::Wear).copies / 8;
    let after = of(&device, Cause::Mapping);
    let programs = after.programs - before.programs;
    assert!(victims > 50, "{victims}");
    assert!(
        (victims..2 * victims).contains(&programs),
        "{programs} for {victims} victims"
    );
    assert_eq!(after.reads - before.reads, programs);
}

/// Page reads of an attach after many writes to one map page, with the others at rest.
fn attach_reads(map_cache: Option<u64>) -> u64 {
    let options = PageOptions {
        map_cache,
        map_interval: 16,
        ..layer(1, None).layer
    };
    let chip = Chip::new(chip_of(1, 144)).unwrap();
    let mut device = PageFtl::format(chip, options.clone()).unwrap();
    let sectors = device.geometry().sectors;
    for lba in (0..sectors).chain((0..5_000).map(|i| i % ENTRIES)) {
        device.write(Lba(lba), &[1; SMALL_PAGE as usize]).unwrap();
    }
    let device = PageFtl::attach(device.into_medium(), options).unwrap();
    let mut rows = device.tally().rows();
    let attach = rows.find(|row| row.0 == Cause::Attach);
    attach.map_or(0, |(_, counts)| counts.reads)
}

#[test]
fn a_map_page_at_rest_does_not_lengthen_the_scan_of_an_attach() {
    let whole = attach_reads(None);
    let cached = attach_reads(Some(u64::from(2 * SMALL_PAGE)));
    assert!(
        cached < whole + whole / 10,
        "{cached} reads, {whole} without a cache"
    );
}
