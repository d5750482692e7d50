//! Collection in steps: no request waits for a whole victim, and the work is the same.

use crate::common::large_pages;
use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions};
use nandlab_ftl::{Cause, Ftl, Tally};
use nandlab_nand::Chip;
use nandlab_sim::mix;

/// Pages of an erase block.
const PAGES: u32 = 128;
/// Sectors of a page.
const SECTORS: u64 = 8;

/// Pages that collection moved so far.
fn copies(tally: &Tally) -> u64 {
    let mut rows = tally.rows();
    rows.find(|(cause, _)| *cause == Cause::Collection)
        .map_or(0, |(_, operations)| operations.copies)
}

/// Pages that collection moved during each of many random writes on a full device, ascending.
fn moved(collection: Collection) -> Vec<u64> {
    let spec = large_pages(512, PAGES);
    let options = PageOptions {
        over_provisioning: 0.15,
        collection,
        ..PageOptions::default()
    };
    let mut device = PageFtl::format(Chip::new(spec).unwrap(), options).unwrap();
    let pages = device.geometry().sectors / SECTORS;
    let write = |device: &mut PageFtl<Chip>, page: u64| {
        let before = copies(device.tally());
        device.write(Lba(page * SECTORS), &[0; 4096]).unwrap();
        copies(device.tally()) - before
    };
    for page in 0..pages {
        write(&mut device, page);
    }
    for number in 0..pages {
        write(&mut device, mix(1, number) % pages);
    }
    let mut moved: Vec<u64> = (pages..2 * pages)
        .map(|number| write(&mut device, mix(1, number) % pages))
        .collect();
    moved.sort_unstable();
    moved
}

#[test]
fn steps_bound_what_a_request_waits_for_and_cost_nothing() {
    let whole = moved(Collection::Whole);
    let steps = moved(Collection::Steps);
    let p999 = |moved: &[u64]| moved[moved.len() * 999 / 1000];
    let sum = |moved: &[u64]| moved.iter().sum::<u64>() as f64;
    let most = u64::from(PAGES) / 2;
    assert!(p999(&whole) > most, "whole: {}", p999(&whole));
    assert!(p999(&steps) <= 16, "steps: {}", p999(&steps));
    let ratio = sum(&steps) / sum(&whole);
    assert!(ratio < 1.02, "{ratio} times the copies");
}
