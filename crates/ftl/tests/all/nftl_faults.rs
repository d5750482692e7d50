//! What the replacement-block layer does with pages that decay, and with programs and erases that
//! fail where it hurts.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering};
use nandlab_ftl::{CauseCounts, Ftl};
use nandlab_mtd::{Block, Fault, FaultInjector, Geometry, Mtd, Page};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Place, Schedule};
use nandlab_testkit::share::whole_or;

type Device = Nftl<FaultInjector<Chip>>;

const ORDERINGS: [Ordering; 2] = [Ordering::Guarded, Ordering::Linux];

fn options(ordering: Ordering) -> NftlOptions {
    NftlOptions {
        spare_units: 8,
        ordering,
        verify_free: false,
        ..NftlOptions::default()
    }
}

fn chip(ordering: Ordering) -> FaultInjector<Chip> {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 32,
        pages_per_block: 8,
        ..spec.geometry
    };
    spec.rules.partial_programs = if ordering == Ordering::Linux { 4 } else { 3 };
    FaultInjector::new(Chip::new(spec).unwrap())
}

fn write(device: &mut Device, lba: u64, stamp: u8) {
    device.write(Lba(lba), &[stamp; 512]).unwrap();
}

fn read(device: &mut Device, lba: u64) -> Result<u8, BlockError> {
    let mut buf = [0; 512];
    let read = device.read(Lba(lba), &mut buf).map(|()| buf[0]);
    read.map_err(BlockError::without_cause)
}

/// A device whose sectors hold one each, but the one at `lba`, which holds two, in a second unit of
/// its chain.
fn filled(ordering: Ordering, lba: u64) -> Device {
    let mut device = Nftl::format(chip(ordering), options(ordering)).unwrap();
    (0..device.geometry().sectors).for_each(|lba| write(&mut device, lba, 1));
    write(&mut device, lba, 2);
    device
}

/// The flash page that holds a sector of that stamp.
fn page_of(medium: &mut FaultInjector<Chip>, lba: u64, stamp: u8) -> Page {
    let pages = medium.geometry().pages_per_block;
    let mut data = [0; 512];
    let mut holds = |page: Page| {
        medium.read(page, &mut data, &mut []).is_ok()
            && data == [stamp; 512]
            && u64::from(page.0 % pages) == lba % 8
    };
    (0..32 * pages).map(Page).find(|&page| holds(page)).unwrap()
}

#[test]
fn a_decayed_sector_reads_as_lost_through_folds_and_attaches_until_it_is_written() {
    for (ordering, lba) in [
        (Ordering::Guarded, 3 * 8 + 7),
        (Ordering::Guarded, 3 * 8),
        (Ordering::Linux, 3 * 8 + 7),
        (Ordering::Linux, 3 * 8),
    ] {
        let mut medium = filled(ordering, lba).into_medium();
        let page = page_of(&mut medium, lba, 2);
        // It decays after the attach has read it: the read below fails, and what folds read of it.
        let reads = if lba % 8 == 0 { 2..5 } else { 2..4 };
        medium.add(Fault::uncorrectable(page..=page).when(Schedule::listed(reads)));
        let mut device = Nftl::attach(medium, options(ordering)).unwrap();
        let lost = Err(BlockError::lost(Lba(lba)));
        assert_eq!(read(&mut device, lba), lost, "{ordering:?} {lba}");
        // Several folds of its chain.
        (0..100).for_each(|i| write(&mut device, (3 + i % 2) * 8 + 4, 3));
        assert!(device.tally().merges.folds_in_place + device.tally().merges.folds_elsewhere > 10);
        assert_eq!(read(&mut device, lba), lost, "{ordering:?} {lba}");
        let mut device = Nftl::attach(device.into_medium(), options(ordering)).unwrap();
        assert_eq!(read(&mut device, lba), lost, "{ordering:?} {lba}");
        write(&mut device, lba, 5);
        assert_eq!(
            (read(&mut device, lba), read(&mut device, lba + 9)),
            (Ok(5), Ok(1))
        );
        let mut device = Nftl::attach(device.into_medium(), options(ordering)).unwrap();
        assert_eq!(
            (read(&mut device, lba), read(&mut device, lba + 9)),
            (Ok(5), Ok(1))
        );
    }
}

#[test]
fn a_write_ends_though_nothing_can_be_read() {
    type Unreadable = fn(std::ops::RangeFull) -> Fault;
    let kinds: [(Unreadable, bool); 2] = [
        (Fault::uncorrectable_data, true),
        (Fault::uncorrectable, false),
    ];
    for (ordering, (unreadable, has_oob)) in ORDERINGS
        .into_iter()
        .flat_map(|o| kinds.map(|kind| (o, kind)))
    {
        let medium = filled(ordering, 3 * 8 + 7).into_medium();
        let device = Nftl::attach(medium, options(ordering)).unwrap();
        // The next attach reads as often as this one.
        let struck = |n: &CauseCounts| {
            if has_oob {
                n.reads - n.oob_reads
            } else {
                n.reads
            }
        };
        let reads = device.tally().rows().map(|(_, n)| struck(&n)).sum();
        let mut medium = device.into_medium();
        medium.add(unreadable(..).when(Schedule::from_nth(reads)));
        let mut device = Nftl::attach(medium, options(ordering)).unwrap();
        let mut refused = 0;
        for round in 0..3 {
            for lba in 0..device.geometry().sectors {
                let written = device.write(Lba(lba), &[7; 512]);
                if has_oob {
                    assert_eq!(written, Ok(()), "{ordering:?} {round} {lba}");
                } else if let Err(error) = written {
                    let BlockError::Lost {
                        lba: at,
                        cause: Some(cause),
                    } = error
                    else {
                        panic!("{ordering:?} {round} {lba}: {error:?}");
                    };
                    refused += 1;
                    assert_eq!((at, cause.layer), (Lba(lba), "NFTL"));
                    assert!(matches!(cause.cause.place, Place::Page { .. }), "{cause:?}");
                }
            }
        }
        assert_eq!(refused > 0, !has_oob, "{ordering:?}");
        let mut buf = [0; 512];
        for lba in 0..device.geometry().sectors {
            let read = device
                .read(Lba(lba), &mut buf)
                .map_err(BlockError::without_cause);
            assert_eq!(read, Err(BlockError::lost(Lba(lba))), "{ordering:?} {lba}");
        }
    }
}

#[test]
fn a_lost_sector_may_be_discarded() {
    let lba = 3 * 8 + 2;
    let mut medium = filled(Ordering::Guarded, lba).into_medium();
    let page = page_of(&mut medium, lba, 2);
    medium.add(Fault::uncorrectable(page..=page).when(Schedule::from_nth(2)));
    let mut device = Nftl::attach(medium, options(Ordering::Guarded)).unwrap();
    assert_eq!(read(&mut device, lba), Err(BlockError::lost(Lba(lba))));
    device.discard(Lba(lba), 1).unwrap();
    assert_eq!(read(&mut device, lba), Ok(0));
}

/// Sectors written in order and not, over and over, with discards.
fn work(device: &mut Device, model: &mut [u8]) {
    let sectors = model.len() as u64;
    let order = (0..sectors / 2)
        .map(|i| i * 2)
        .chain((0..40).map(|i| 9 + i))
        .chain((0..90).map(|i| i * 37 % sectors))
        .chain((0..60).map(|i| i % 3 * 9));
    for (i, lba) in order.enumerate() {
        let stamp = (i % 250 + 1) as u8;
        if i % 11 == 7 {
            device.discard(Lba(lba), 1).unwrap();
            model[lba as usize] = 0;
        } else {
            write(device, lba, stamp);
            model[lba as usize] = stamp;
        }
    }
}

fn survives(fault: Fault, ordering: Ordering, what: &str) {
    let mut medium = chip(ordering);
    medium.add(fault);
    let mut device = Nftl::format(medium, options(ordering)).unwrap();
    let mut model = vec![0; device.geometry().sectors as usize];
    work(&mut device, &mut model);
    let check = |device: &mut Device, when: &str| {
        for (lba, &stamp) in (0..).zip(&model) {
            assert_eq!(
                read(device, lba),
                Ok(stamp),
                "{ordering:?}, {what}, sector {lba} {when}"
            );
        }
    };
    check(&mut device, "before the attach");
    device.flush().unwrap();
    let mut device = Nftl::attach(device.into_medium(), options(ordering)).unwrap();
    check(&mut device, "after the attach");
}

#[test]
fn every_program_may_fail_once_whether_it_was_done_or_not() {
    // Linux's order loses what a failed link's page held.
    for done in [false, true] {
        for n in (0..900).step_by(whole_or(1, 5)) {
            let fault = Fault::program(..).when(Schedule::nth(n));
            survives(
                if done { fault.done() } else { fault },
                Ordering::Guarded,
                &format!("program {n}"),
            );
        }
    }
    for n in (0..900).step_by(whole_or(1, 5)) {
        survives(
            Fault::program(..).when(Schedule::nth(n)).done(),
            Ordering::Linux,
            &format!("program {n}"),
        );
    }
}

#[test]
fn every_erase_may_fail_once() {
    for ordering in ORDERINGS {
        for n in 0..140 {
            survives(
                Fault::erase(..).when(Schedule::nth(n)),
                ordering,
                &format!("erase {n}"),
            );
        }
    }
}

#[test]
fn a_unit_that_is_not_blank_after_its_erase_is_retired() {
    let options = NftlOptions {
        verify_free: true,
        ..options(Ordering::Guarded)
    };
    let mut device = Nftl::format(chip(Ordering::Guarded), options.clone()).unwrap();
    (0..device.geometry().sectors).for_each(|lba| write(&mut device, lba, 1));
    let before = device.free_units();
    let mut medium = device.into_medium();
    let page = page_of(&mut medium, 6, 1);
    let block = medium.geometry().block_of(page);
    // The attach reads the page, and the fold reads it twice. The erase is reported as done, but
    // then the page cannot be read.
    medium.add(Fault::uncorrectable(page..=page).when(Schedule::from_nth(3)));
    let mut device = Nftl::attach(medium, options.clone()).unwrap();
    assert_eq!(device.free_units(), before);
    (0..40).for_each(|i| write(&mut device, i % 2 * 8 + 5, 2));
    let mut medium = device.into_medium();
    assert_eq!(
        (0..32)
            .filter(|&b| medium.is_bad(Block(b)).unwrap())
            .collect::<Vec<_>>(),
        [block.0]
    );
    let mut device = Nftl::attach(medium, options).unwrap();
    assert_eq!(
        [4, 5, 6, 13].map(|lba| read(&mut device, lba)),
        [Ok(1), Ok(2), Ok(1), Ok(2)]
    );
}
