//! What the log-block layers do with pages that decay, programs that fail where it hurts, and media
//! that are not theirs.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::{AttachError, Ftl};
use nandlab_mtd::{Fault, FaultInjector, Geometry, Mtd, Page};
use nandlab_nand::{Chip, preset};
use nandlab_sim::Schedule;

type Device = LogBlockFtl<FaultInjector<Chip>>;

fn options(options: LogBlockOptions) -> LogBlockOptions {
    LogBlockOptions {
        page_order: PageOrder::Any,
        log_blocks: 2,
        spare_blocks: 4,
        ..options
    }
}

fn schemes() -> [LogBlockOptions; 3] {
    [
        LogBlockOptions::bast(),
        LogBlockOptions::sast(4, 2),
        LogBlockOptions::fast(),
    ]
    .map(options)
}

fn chip() -> FaultInjector<Chip> {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 32,
        ..spec.geometry
    };
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

/// A device whose sectors hold one each.
fn filled(options: &LogBlockOptions) -> Device {
    let mut device = LogBlockFtl::format(chip(), options.clone()).unwrap();
    (0..device.geometry().sectors).for_each(|lba| write(&mut device, lba, 1));
    device
}

/// The flash page that holds a sector.
fn page_of(device: &mut FaultInjector<Chip>, lba: u64) -> Page {
    let mut found = (0..device.geometry().pages()).map(Page).filter(|&page| {
        let mut oob = [0; 15];
        device.read(page, &mut [], &mut oob).unwrap();
        u64::from(u32::from_le_bytes(oob[..4].try_into().unwrap())) == lba
    });
    let page = found.next().unwrap();
    assert_eq!(found.next(), None);
    page
}

#[test]
fn a_decayed_page_reads_as_lost_through_merges_and_attaches_until_it_is_written() {
    for options in schemes() {
        let lba = 3 * 32 + 7;
        let mut medium = filled(&options).into_medium();
        let page = page_of(&mut medium, lba);
        // It decays after the attach has read its tag: the read below and the copy of the first
        // merge fail.
        medium.add(Fault::uncorrectable(page..=page).when(Schedule::listed([1, 2])));
        let mut device = LogBlockFtl::attach(medium, options.clone()).unwrap();
        let lost = Err(BlockError::lost(Lba(lba)));
        assert_eq!(read(&mut device, lba), lost, "{:?}", options.scheme);
        // Several merges of its logical block.
        (0..400).for_each(|i| write(&mut device, (3 + i % 2) * 32 + 9, 2));
        assert!(device.tally().merges.full > 3);
        assert_eq!(read(&mut device, lba), lost, "{:?}", options.scheme);
        let mut device = LogBlockFtl::attach(device.into_medium(), options.clone()).unwrap();
        assert_eq!(read(&mut device, lba), lost, "{:?}", options.scheme);
        write(&mut device, lba, 5);
        assert_eq!(read(&mut device, lba), Ok(5));
        assert_eq!(read(&mut device, lba + 2), Ok(2));
    }
}

#[test]
fn every_program_may_fail_once_whether_it_was_done_or_not() {
    for options in schemes() {
        for done in [false, true] {
            for n in 0..300 {
                let mut medium = chip();
                let fault = Fault::program(..).when(Schedule::nth(400 + n));
                medium.add(if done { fault.done() } else { fault });
                let mut device = LogBlockFtl::format(medium, options.clone()).unwrap();
                // Half of the pages written in place, then pages over and over, in order and not.
                let mut model = [0u8; 640];
                let order = (0..320)
                    .map(|i| i * 2)
                    .chain((0..32).map(|i| 96 + i))
                    .chain((0..200).map(|i| i * 37 % 640))
                    .chain((0..99).map(|i| i % 3));
                for (stamp, lba) in order.enumerate() {
                    let stamp = (stamp % 250 + 1) as u8;
                    write(&mut device, lba, stamp);
                    model[lba as usize] = stamp;
                }
                device.flush().unwrap();
                let mut device =
                    LogBlockFtl::attach(device.into_medium(), options.clone()).unwrap();
                for (lba, &stamp) in (0..).zip(&model) {
                    assert_eq!(
                        read(&mut device, lba),
                        Ok(stamp),
                        "{:?}, program {n}, sector {lba}",
                        options.scheme
                    );
                }
            }
        }
    }
}

#[test]
fn a_foreign_medium_and_other_parameters_are_refused_by_name() {
    let attach = |medium, options| {
        LogBlockFtl::attach(medium, options)
            .map(|_| ())
            .unwrap_err()
    };
    let [bast, sast, fast] = schemes();
    assert_eq!(attach(chip(), bast.clone()), AttachError::NotFormatted);
    let medium = || filled(&sast).into_medium();
    let mismatch = |what, found, expected| AttachError::Mismatch {
        what,
        found,
        expected,
    };
    assert_eq!(
        attach(medium(), fast),
        mismatch("scheme (0: BAST or SAST, 1: FAST)", 0, 1)
    );
    assert_eq!(
        attach(medium(), bast),
        mismatch("logical blocks of a group", 4, 1)
    );
    assert_eq!(
        attach(medium(), options(LogBlockOptions::sast(4, 3))),
        mismatch("log blocks of a group", 2, 3)
    );
    let too_many = LogBlockOptions {
        log_blocks: 30,
        ..sast
    };
    assert_eq!(
        LogBlockFtl::format(chip(), too_many)
            .map(|_| ())
            .unwrap_err(),
        AttachError::TooSmall(32, 32, 39)
    );
}

#[test]
fn fewer_log_blocks_than_are_in_use_are_merged_down() {
    for options in schemes() {
        let wide = LogBlockOptions {
            log_blocks: 6,
            spare_blocks: 0,
            ..options.clone()
        };
        let mut device = filled(&wide);
        (0..80).for_each(|i| write(&mut device, i * 32 % 640 + i * 7 % 31 + 1, 2));
        let used = device.logs_in_use();
        assert!(used > 2, "{:?}", options.scheme);
        let mut device = LogBlockFtl::attach(
            device.into_medium(),
            LogBlockOptions {
                spare_blocks: 0,
                ..options.clone()
            },
        )
        .unwrap();
        assert_eq!(device.logs_in_use(), used);
        (0..80).for_each(|i| write(&mut device, i * 32 % 640 + i * 5 % 31 + 1, 3));
        assert!(
            device.logs_in_use() <= 2,
            "{:?}: {}",
            options.scheme,
            device.logs_in_use()
        );
        assert_eq!(read(&mut device, 1), Ok(3));
        assert!(device.medium().geometry().blocks == 32);
    }
}
