//! What remaps cost in programs: one record page for as many pairs as it holds, and the map pages
//! of scattered targets where records would fill the spare space.

use nandlab_block::{BlockDevice, Lba, Remap};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, Contents, preset};

type Device = PageFtl<Chip>;

/// An array of 64 MiB in blocks of `pages_per_block` pages.
fn device(page: u32, pages_per_block: u32) -> Device {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    let blocks = (64 << 20) / page / pages_per_block;
    spec.geometry = Geometry {
        page,
        write_unit: page,
        pages_per_block,
        blocks,
        ..spec.geometry
    };
    spec.contents = Contents::Dropped;
    PageFtl::format(Chip::new(spec).unwrap(), PageOptions::default()).unwrap()
}

fn mapping(device: &Device) -> u64 {
    device
        .tally()
        .rows()
        .find(|row| row.0 == Cause::Mapping)
        .unwrap()
        .1
        .programs
}

/// Pairs of whole pages.
fn sectors(per_page: u64, pages: impl Iterator<Item = (u64, u64)>) -> Vec<Remap> {
    pages
        .flat_map(|(from, to)| {
            (0..per_page).map(move |i| Remap {
                from: Lba(from * per_page + i),
                to: Lba(to * per_page + i),
            })
        })
        .collect()
}

/// A journal of a sixteenth of the disk is written in turn and given to scattered homes in batches,
/// until each home has been given something. Gives the map's programs in remaps per pair.
fn journal(device: &mut Device, batch: u64) -> f64 {
    let per_page = u64::from(device.geometry().page / 512);
    let pages = u64::from(device.logical_pages());
    let data = vec![0; device.geometry().page as usize];
    let ring = pages / 16;
    let homes = pages - ring;
    let mut pairs = 0;
    let mut programs = 0;
    while pairs < homes {
        let batch: Vec<(u64, u64)> = (pairs..pairs + batch)
            .map(|i| (i % ring, ring + i * 7919 % homes))
            .collect();
        batch
            .iter()
            .for_each(|&(from, _)| device.write(Lba(from * per_page), &data).unwrap());
        let before = mapping(device);
        device
            .remap(&sectors(per_page, batch.iter().copied()))
            .unwrap();
        programs += mapping(device) - before;
        pairs += batch.len() as u64;
    }
    programs as f64 / pairs as f64
}

#[test]
fn a_batch_costs_the_record_pages_that_hold_it() {
    for (page, pages_per_block, in_a_page) in [(512, 32, 40), (2048, 64, 168), (4096, 64, 338)] {
        let mut device = device(page, pages_per_block);
        let per_page = u64::from(page / 512);
        for batch in [1, 8, 32, 128, 508] {
            let before = mapping(&device);
            device
                .remap(&sectors(per_page, (0..batch).map(|i| (i, 4_000 + i))))
                .unwrap();
            assert_eq!(
                mapping(&device) - before,
                batch.div_ceil(in_a_page),
                "{batch} pairs on pages of {page} bytes"
            );
        }
    }
}

#[test]
fn scattered_homes_cost_map_pages_only_when_records_wait_too_long() {
    for (page, pages_per_block) in [(512, 32), (2048, 64), (4096, 64)] {
        let mut last = f64::INFINITY;
        for batch in [1, 8, 32, 128, 508] {
            let cost = journal(&mut device(page, pages_per_block), batch);
            eprintln!("{page} bytes, batches of {batch}: {cost:.4} programs a pair");
            assert!(
                cost < 1.02 * last,
                "{page} bytes, batches of {batch}: {cost} programs a pair, {last} in smaller ones"
            );
            last = cost;
        }
    }
}
