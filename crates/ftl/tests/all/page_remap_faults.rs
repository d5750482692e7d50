//! What the page-mapped layer does with remaps that it must refuse, with programs that fail where
//! it hurts, and with records that decay.

use nandlab_block::{BlockDevice, BlockError, Lba, Remap};
use nandlab_ftl::page::{PageFtl, PageOptions, RemapError, RemapRecords};
use nandlab_ftl::{Cause, CauseCounts, Ftl};
use nandlab_mtd::{Fault, FaultInjector, Geometry, Mtd, Page};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Chain, Schedule, mix};
use nandlab_testkit::share::whole_or;

type Device = PageFtl<FaultInjector<Chip>>;

/// Kind of a page of a record, in the last bits of its tag's first four bytes.
const RECORD: u32 = 2;

fn options() -> PageOptions {
    PageOptions {
        over_provisioning: 0.3,
        map_interval: 24,
        ..PageOptions::default()
    }
}

/// Blocks of eight pages of 512 bytes.
fn chip() -> FaultInjector<Chip> {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 48,
        pages_per_block: 8,
        ..spec.geometry
    };
    FaultInjector::new(Chip::new(spec).unwrap())
}

fn pairs(of: impl IntoIterator<Item = (u64, u64)>) -> Vec<Remap> {
    of.into_iter()
        .map(|(from, to)| Remap {
            from: Lba(from),
            to: Lba(to),
        })
        .collect()
}

fn count(device: &Device, cause: Cause) -> CauseCounts {
    device.tally().rows().find(|row| row.0 == cause).unwrap().1
}

fn check(device: &mut Device, model: &[u8], when: &str) {
    for (lba, &stamp) in (0..).zip(model) {
        let mut buf = [0; 512];
        assert_eq!(
            device.read(Lba(lba), &mut buf),
            Ok(()),
            "sector {lba} {when}"
        );
        assert_eq!(buf, [stamp; 512], "sector {lba} {when}");
    }
}

fn write(device: &mut Device, model: &mut [u8], lba: u64, stamp: u8) {
    device.write(Lba(lba), &[stamp; 512]).unwrap();
    model[lba as usize] = stamp;
}

fn remap(device: &mut Device, model: &mut [u8], of: impl IntoIterator<Item = (u64, u64)>) {
    let pairs = pairs(of);
    device.remap(&pairs).unwrap();
    pairs.iter().for_each(|pair| {
        model[pair.to.0 as usize] = core::mem::take(&mut model[pair.from.0 as usize])
    });
}

/// A disk whose sectors are all written.
fn filled(medium: FaultInjector<Chip>) -> (Device, Vec<u8>) {
    let mut device = PageFtl::format(medium, options()).unwrap();
    let mut model = vec![0; device.geometry().sectors as usize];
    (0..model.len() as u64)
        .for_each(|lba| write(&mut device, &mut model, lba, lba as u8 % 250 + 1));
    (device, model)
}

/// Remaps of many pages and few, on a disk so full that collection runs within them.
fn work(device: &mut Device, model: &mut [u8]) {
    for round in 0..6u64 {
        (0..50).for_each(|i| {
            write(
                device,
                model,
                mix(round, i) % 290,
                (round * 40 + i) as u8 + 1,
            )
        });
        // The first hundred, from or to any of the others.
        let stride = [1, 7, 11][round as usize % 3];
        let start = mix(9, round) % 190;
        let there = |i: u64| 100 + (start + i * stride) % 190;
        let count = [90, 3][round as usize % 2];
        remap(
            device,
            model,
            (0..count).map(|i| {
                if round < 3 {
                    (there(i), i)
                } else {
                    (i, there(i))
                }
            }),
        );
        // The disk is full again, so that collection has work.
        (0..model.len() as u64)
            .filter(|&lba| model[lba as usize] == 0)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|lba| write(device, model, lba, 251));
    }
}

/// Programs and copies so far.
fn programs(device: &Device) -> u64 {
    device
        .tally()
        .rows()
        .map(|(_, counts)| counts.programs + counts.copies)
        .sum()
}

#[test]
fn every_program_may_fail_once_whether_it_was_done_or_not() {
    let (device, filled) = filled(chip());
    let base = device.into_medium().into_inner();
    let medium = || FaultInjector::new(base.fork().unwrap());
    let mut sound = PageFtl::attach(medium(), options()).unwrap();
    work(&mut sound, &mut filled.clone());
    let records = count(&sound, Cause::Mapping).programs;
    let all = programs(&sound);
    assert!(
        records > 15 && all > 500 && count(&sound, Cause::Collection).programs > 50,
        "{:?}",
        sound.tally()
    );
    for done in [false, true] {
        for n in (0..all).step_by(whole_or(1, 5)) {
            let mut medium = medium();
            let mut model = filled.clone();
            let fault = Fault::program(..).when(Schedule::nth(n));
            medium.add(if done { fault.done() } else { fault });
            let mut device = PageFtl::attach(medium, options()).unwrap();
            work(&mut device, &mut model);
            check(&mut device, &model, &format!("program {n}"));
            let mut device = PageFtl::attach(device.into_medium(), options()).unwrap();
            check(&mut device, &model, &format!("program {n}, attached again"));
            work(&mut device, &mut model);
            let mut device = PageFtl::attach(device.into_medium(), options()).unwrap();
            check(&mut device, &model, &format!("program {n}, work goes on"));
        }
    }
}

/// Pages whose tag says that they are of a kind.
fn pages_of_kind(medium: &mut FaultInjector<Chip>, kind: u32) -> Vec<Page> {
    let pages = medium.geometry().pages();
    let of_kind = |&page: &Page| {
        let mut oob = [0; 15];
        medium.read(page, &mut [], &mut oob).unwrap();
        u32::from_le_bytes(oob[..4].try_into().unwrap()) >> 30 == kind
    };
    (0..pages).map(Page).filter(of_kind).collect()
}

#[test]
fn a_record_that_decays_is_written_again_when_it_is_moved() {
    // Records are at rest: only wear levelling moves them soon.
    let options = PageOptions {
        map_interval: 100_000,
        wear_threshold: 4,
        ..options()
    };
    let (mut device, mut model) = filled(chip());
    remap(&mut device, &mut model, (0..90).map(|i| (i, 100 + i)));
    let mut medium = device.into_medium();
    let records = pages_of_kind(&mut medium, RECORD);
    assert_eq!(records.len(), 3);
    let mut device = PageFtl::attach(medium, options.clone()).unwrap();
    check(&mut device, &model, "attached");
    let mut medium = device.into_medium();
    // They decay once the attach has read them: the tag (that of a first or last page of a block
    // twice) and the page.
    for page in &records {
        let reads = 2 + u64::from([0, 7].contains(&(page.0 % 8)));
        medium.add(Fault::uncorrectable(*page..=*page).when(Schedule::nth(reads)));
    }
    let mut device = PageFtl::attach(medium, options.clone()).unwrap();
    (0..5_000).for_each(|i| write(&mut device, &mut model, mix(3, i) % 290, 9));
    let mut medium = device.into_medium();
    let moved = pages_of_kind(&mut medium, RECORD);
    assert!(
        moved.len() >= 3 && records.iter().all(|page| !moved.contains(page)),
        "{records:?} {moved:?}"
    );
    let mut device = PageFtl::attach(medium, options).unwrap();
    check(&mut device, &model, "written again");
}

#[test]
fn what_cannot_be_remapped_is_refused_by_name_and_changes_nothing() {
    let (mut device, model) = filled(chip());
    let sectors = device.geometry().sectors;
    let outside = BlockError::OutOfRange {
        lba: Lba(sectors),
        count: 1,
        sectors,
    };
    let most = (1..)
        .take_while(|&n| {
            device
                .check_remap(&pairs((0..n).map(|i| (i, sectors - 1 - i))))
                .is_ok()
        })
        .last()
        .unwrap();
    assert!((40..=sectors / 2).contains(&most), "{most}");
    for (of, why) in [
        (vec![(0, 9), (1, 9)], RemapError::ToTwice(Lba(9))),
        (vec![(3, 9), (3, 10)], RemapError::FromTwice(Lba(3))),
        (vec![(3, 9), (9, 10)], RemapError::FromAndTo(Lba(9))),
        (vec![(3, sectors)], RemapError::OutOfRange(outside)),
    ] {
        let pairs = pairs(of);
        assert_eq!(device.check_remap(&pairs), Err(why));
        assert_eq!(device.remap(&pairs), Err(why.into()));
    }
    assert_eq!(device.remap(&[]), Ok(()));
    check(&mut device, &model, "after refusals");
}

#[test]
fn a_lost_page_is_lost_under_its_new_number() {
    let (mut device, _) = filled(chip());
    device.detach().unwrap();
    let mut medium = device.into_medium();
    let named = |medium: &mut FaultInjector<Chip>, lpn: u32| {
        let mut oob = [0; 15];
        let pages = medium.geometry().pages();
        (0..pages).map(Page).find(|&page| {
            medium.read(page, &mut [], &mut oob).unwrap();
            oob[..4] == lpn.to_le_bytes()
        })
    };
    let page = named(&mut medium, 5).unwrap();
    // An attach need not read it: the map says all. The host does, and then collection.
    medium.add(Fault::uncorrectable(page..=page).when(Schedule::first(2)));
    let mut device = PageFtl::attach(medium, options()).unwrap();
    device.remap(&pairs([(5, 17)])).unwrap();
    let mut buf = [0; 512];
    let error = device.read(Lba(17), &mut buf).unwrap_err();
    let Page(number) = page;
    let block = device.medium().geometry().block_of(page).0;
    assert_eq!(
        Chain(&error).to_string(),
        format!(
            "sector 17: contents lost to a media error: page mapping: \
             page {number} in block {block}: uncorrectable"
        )
    );
    assert_eq!((device.read(Lba(5), &mut buf), buf), (Ok(()), [0; 512]));
    // Collection learns of it, too, and says so after another attach and under another number.
    (0..3_000).for_each(|i| device.write(Lba(20 + i % 150), &[1; 512]).unwrap());
    device.remap(&pairs([(17, 3)])).unwrap();
    let mut device = PageFtl::attach(device.into_medium(), options()).unwrap();
    let read = device.read(Lba(3), &mut buf);
    assert_eq!(
        read.map_err(BlockError::without_cause),
        Err(BlockError::lost(Lba(3)))
    );
    assert_eq!((device.read(Lba(17), &mut buf), buf), (Ok(()), [0; 512]));
    device.write(Lba(3), &[8; 512]).unwrap();
    assert_eq!((device.read(Lba(3), &mut buf), buf), (Ok(()), [8; 512]));
}

#[test]
fn a_remap_kept_in_memory_costs_no_program_and_is_undone_by_a_cut() {
    let options = PageOptions {
        remap_records: RemapRecords::InMemory,
        ..options()
    };
    let (device, mut model) = filled(chip());
    let before = model.clone();
    let mut device = PageFtl::attach(device.into_medium(), options.clone()).unwrap();
    let programmed = programs(&device);
    remap(&mut device, &mut model, (0..90).map(|i| (i, 100 + i)));
    assert_eq!(programs(&device), programmed);
    check(&mut device, &model, "remapped");
    let mut cut = PageFtl::attach(device.into_medium(), options.clone()).unwrap();
    check(&mut cut, &before, "after a cut");
    // Collection gives pages their new numbers; nothing is lost while the power stays on.
    let (device, mut model) = filled(chip());
    let mut device = PageFtl::attach(device.into_medium(), options).unwrap();
    work(&mut device, &mut model);
    assert!(count(&device, Cause::Collection).programs > 50);
    check(&mut device, &model, "at work");
}
