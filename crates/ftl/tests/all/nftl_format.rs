//! The replacement-block layer's bytes: those that it writes, at exact offsets, and those that
//! Linux leaves, which it reads.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::AttachError;
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering};
use nandlab_mtd::{Block, Image, ImageFormat, Layout, Mtd};

type Medium = Image<Vec<u8>>;

/// Sectors of a unit, bytes of a sector with its spare area, units.
const PAGES: usize = 4;
const STRIDE: usize = 528;
const UNITS: usize = 12;

fn image(layout: Layout) -> ImageFormat {
    ImageFormat {
        page: 512,
        oob: 16,
        pages_per_block: PAGES as u32,
        layout,
        ecc: None,
    }
}

fn medium(bytes: Vec<u8>) -> Medium {
    Image::new(bytes, image(Layout::DiskOnChip)).unwrap()
}

fn blank() -> Vec<u8> {
    vec![0xff; STRIDE * PAGES * UNITS]
}

fn at(unit: usize, sector: usize) -> usize {
    (unit * PAGES + sector) * STRIDE
}

/// OOB bytes 6 to 15 of a sector.
fn oob(bytes: &[u8], unit: usize, sector: usize) -> [u8; 10] {
    bytes[at(unit, sector) + 518..][..10].try_into().unwrap()
}

fn set_oob(bytes: &mut [u8], unit: usize, sector: usize, oob: [u8; 10]) {
    bytes[at(unit, sector) + 518..][..10].copy_from_slice(&oob);
}

fn options(ordering: Ordering) -> NftlOptions {
    NftlOptions {
        spare_units: 3,
        ordering,
        ..NftlOptions::default()
    }
}

const FREE: [u8; 10] = [0xff; 10];
const ERASED_ONCE: [u8; 10] = [0xff, 0xff, 1, 0, 0, 0, 0x69, 0x3c, 0x69, 0x3c];

#[test]
fn a_fresh_medium_is_what_nftl_format_makes() {
    let mut bytes = blank();
    // A bad unit in front, as a table of its own knows it.
    bytes[at(0, 0) + 517] = 0;
    let bad_first = Image::new(bytes, image(Layout::MarkerOnly)).unwrap();
    for (medium, first) in [(medium(blank()), 0), (bad_first, 1)] {
        let bytes = Nftl::format(medium, options(Ordering::Guarded))
            .unwrap()
            .into_medium()
            .into_backing();
        let virtual_units = UNITS - first - 2 - 3 - 2;
        let mut header = *b"ANAND\0\x0c\0\0\0\0\0\0\0\xff\xff";
        (header[6], header[8]) = ((UNITS - first) as u8, first as u8);
        header[10..14].copy_from_slice(&((virtual_units * PAGES * 512) as u32).to_le_bytes());
        for unit in [first, first + 1] {
            assert_eq!(bytes[at(unit, 0)..][..16], header);
            assert!(
                bytes[at(unit, 0) + 16..at(unit, 1)]
                    .iter()
                    .all(|&b| b == 0xff)
            );
            let table = &bytes[at(unit, 1)..][..512];
            assert!((0..512).all(|u| table[u] == if u < first { 0 } else { 0xff }));
            assert_eq!(
                [0, 1, 2, 3].map(|sector| oob(&bytes, unit, sector)),
                [FREE, ERASED_ONCE, FREE, FREE]
            );
        }
        for unit in first + 2..UNITS {
            assert_eq!(
                [0, 1, 2, 3].map(|sector| oob(&bytes, unit, sector)),
                [FREE, ERASED_ONCE, FREE, FREE],
                "unit {unit}"
            );
            assert!(
                (0..PAGES)
                    .all(|sector| bytes[at(unit, sector)..][..512].iter().all(|&b| b == 0xff))
            );
        }
    }
}

/// The last free unit is taken first, then the one from the front on, as by Linux.
#[test]
fn written_sectors_links_and_folds_lie_where_linux_puts_them() {
    let last = UNITS - 1;
    let next = 2;
    let mut device = Nftl::format(medium(blank()), options(Ordering::Linux)).unwrap();
    // Virtual unit 2: sector 3, then 0 in the same unit, then 3 again in another.
    for (offset, stamp) in [(3, 0x31), (0, 0x30), (3, 0x32)] {
        device
            .write(Lba(2 * PAGES as u64 + offset), &[stamp; 512])
            .unwrap();
    }
    let bytes = device.into_medium().into_backing();
    let used = [0x55, 0x55, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(
        oob(&bytes, last, 0),
        [0x55, 0x55, 2, 0, next as u8, 0, 2, 0, next as u8, 0]
    );
    assert_eq!(
        [1, 2, 3].map(|sector| oob(&bytes, last, sector)),
        [ERASED_ONCE, FREE, used]
    );
    assert_eq!(
        oob(&bytes, next, 0),
        [0xff, 0xff, 2, 0x80, 0xff, 0xff, 2, 0x80, 0xff, 0xff]
    );
    assert_eq!(
        [1, 2, 3].map(|sector| oob(&bytes, next, sector)),
        [ERASED_ONCE, FREE, used]
    );
    assert_eq!(
        [(last, 0), (last, 3), (next, 3)].map(|(unit, sector)| bytes[at(unit, sector)]),
        [0x30, 0x31, 0x32]
    );

    // The same, guarded: the first sector of the first unit is taken for deleted until it is
    // written, which takes a unit; a unit names the one before.
    let mut device = Nftl::format(medium(blank()), options(Ordering::Guarded)).unwrap();
    for (offset, stamp) in [(3, 0x31), (3, 0x32)] {
        device
            .write(Lba(2 * PAGES as u64 + offset), &[stamp; 512])
            .unwrap();
    }
    let bytes = device.into_medium().into_backing();
    assert_eq!(
        oob(&bytes, last, 0),
        [0, 0, 2, 0, next as u8, 0, 2, 0, next as u8, 0]
    );
    assert_eq!(
        oob(&bytes, next, 0),
        [0, 0, 2, 0x80, last as u8, 0, 2, 0x80, 0xff, 0xff]
    );
    assert_eq!([oob(&bytes, last, 3), oob(&bytes, next, 3)], [used, used]);
}

#[test]
fn a_fold_in_place_leaves_its_mark_and_the_name_of_the_chain() {
    for (ordering, first) in [
        (
            Ordering::Linux,
            [0x55, 0x55, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff],
        ),
        (
            Ordering::Guarded,
            [0x55, 0x55, 0, 0, 11, 0, 0, 0, 0xff, 0xff],
        ),
    ] {
        let mut device = Nftl::format(
            medium(blank()),
            NftlOptions {
                spare_units: 2,
                ..options(ordering)
            },
        )
        .unwrap();
        (0..device.geometry().sectors).for_each(|lba| device.write(Lba(lba), &[1; 512]).unwrap());
        device.write(Lba(3), &[2; 512]).unwrap();
        // The other chain has no unit to go to: the first is folded into its second unit.
        device.write(Lba(5), &[3; 512]).unwrap();
        let bytes = device.into_medium().into_backing();
        let unit = (2..UNITS)
            .find(|&unit| oob(&bytes, unit, 2)[2] == 0x55)
            .unwrap();
        assert_eq!(oob(&bytes, unit, 0), first);
        assert_eq!(
            oob(&bytes, unit, 2),
            [0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|sector| bytes[at(unit, sector)]),
            [1, 1, 1, 2]
        );
        // The former first unit was erased a second time, and is free.
        assert_eq!(
            oob(&bytes, UNITS - 1, 1),
            [0xff, 0xff, 2, 0, 0, 0, 0x69, 0x3c, 0x69, 0x3c]
        );
        assert_eq!(oob(&bytes, UNITS - 1, 0), FREE);
    }
}

#[test]
fn a_medium_at_rest_has_nothing_that_linux_would_repair() {
    let mut device = Nftl::format(medium(blank()), options(Ordering::Guarded)).unwrap();
    for i in 0..3_000 {
        device.write(Lba(i * i % 97 % 20), &[i as u8; 512]).unwrap();
        if i % 100 > 0 {
            continue;
        }
        let bytes = device.into_medium().into_backing();
        let names: Vec<_> = (2..UNITS)
            .map(|unit| oob(&bytes, unit, 0))
            .filter(|name| name[2..4] != [0xff; 2])
            .collect();
        let links = names.iter().filter(|name| name[8..] != [0xff; 2]).count();
        let replacements = names.iter().filter(|name| name[3] == 0x80).count();
        assert_eq!(links, replacements, "every replacement unit is linked to");
        // A unit that a fold may go to has the fold mark wherever it could not be added later.
        for unit in (2..UNITS).filter(|&unit| oob(&bytes, unit, 0)[3] == 0x80) {
            let third = oob(&bytes, unit, 2);
            assert_eq!(
                third[..2] == [0xff; 2],
                third[2..] == [0xff; 8],
                "unit {unit}"
            );
        }
        device = Nftl::attach(medium(bytes), options(Ordering::Guarded)).unwrap();
    }
    assert!(device.virtual_units() == 5);
}

#[test]
fn every_layout_has_the_bytes_in_the_same_place() {
    let dump = |layout| {
        let medium = Image::new(blank(), image(layout)).unwrap();
        let mut device = Nftl::format(medium, options(Ordering::Guarded)).unwrap();
        (0..40).for_each(|i| device.write(Lba(i * 7 % 20), &[i as u8; 512]).unwrap());
        device.discard(Lba(3), 4).unwrap();
        device.into_medium().into_backing()
    };
    let expected = dump(Layout::DiskOnChip);
    assert!(dump(Layout::MarkerOnly) == expected && dump(Layout::Raw) == expected);
}

/// A unit as Linux leaves it: its name, and sectors with a status and the byte that fills them.
fn unit(
    bytes: &mut [u8],
    unit: usize,
    name: [u16; 2],
    fold_mark: bool,
    sectors: [(u8, u8); PAGES],
) {
    for (sector, (status, fill)) in sectors.into_iter().enumerate() {
        let mut oob = [0xff; 10];
        oob[..2].fill(status);
        match sector {
            0 => [2, 6].iter().for_each(|&i| {
                oob[i..i + 2].copy_from_slice(&name[0].to_le_bytes());
                oob[i + 2..i + 4].copy_from_slice(&name[1].to_le_bytes());
            }),
            1 => oob[2..].copy_from_slice(&[7, 0, 0, 0, 0x69, 0x3c, 0x69, 0x3c]),
            2 if fold_mark => oob[2..6].fill(0x55),
            _ => {}
        }
        set_oob(bytes, unit, sector, oob);
        bytes[at(unit, sector)..][..512].fill(fill);
    }
}

const USED: u8 = 0x55;
const DELETED: u8 = 0x00;
const IGNORE: u8 = 0x11;
const NEW: (u8, u8) = (0xff, 0xff);
const END: u16 = 0xffff;

/// A medium as Linux has it, from what it has in units 2 and up; virtual units of four sectors,
/// five of them.
fn linux(fill: impl Fn(&mut Vec<u8>)) -> Medium {
    let mut bytes = Nftl::format(medium(blank()), options(Ordering::Linux))
        .unwrap()
        .into_medium()
        .into_backing();
    fill(&mut bytes);
    medium(bytes)
}

fn stamps(medium: Medium) -> Vec<Option<u8>> {
    let options = options(Ordering::Guarded);
    let mut device = Nftl::attach(medium, options).unwrap();
    let mut buf = [0; 512];
    let mut read = |device: &mut Nftl<Medium>| -> Vec<Option<u8>> {
        let sectors = device.geometry().sectors;
        (0..sectors)
            .map(|lba| device.read(Lba(lba), &mut buf).map(|()| buf[0]).ok())
            .collect()
    };
    let seen = read(&mut device);
    // And the same after another attach.
    let mut device = Nftl::attach(
        device.into_medium(),
        NftlOptions {
            spare_units: 3,
            ..NftlOptions::default()
        },
    )
    .unwrap();
    assert_eq!(read(&mut device), seen);
    seen
}

#[test]
fn chains_of_linux_are_read_with_every_status() {
    let seen = stamps(linux(|bytes| {
        unit(
            bytes,
            7,
            [0, 3],
            false,
            [(USED, 1), (USED, 2), (USED, 3), NEW],
        );
        unit(
            bytes,
            3,
            [0x8000, 9],
            true,
            [(IGNORE, 9), (USED, 4), (DELETED, 3), NEW],
        );
        unit(bytes, 9, [0x8000, END], false, [NEW, (USED, 5), NEW, NEW]);
        unit(
            bytes,
            4,
            [4, END],
            true,
            [(IGNORE, 9), NEW, (USED, 6), (0x33, 9)],
        );
    }));
    let mut expected = [Some(0); 20];
    (expected[0], expected[1], expected[18]) = (Some(1), Some(5), Some(6));
    assert_eq!(seen, expected);
}

#[test]
fn folds_that_linux_did_not_finish_are_finished() {
    let old = |bytes: &mut Vec<u8>| {
        unit(
            bytes,
            7,
            [3, 5],
            false,
            [(USED, 1), (USED, 2), (USED, 3), (USED, 4)],
        )
    };
    let mut expected = [Some(0); 20];
    expected[12..16].copy_from_slice(&[Some(1), Some(2), Some(3), Some(9)]);
    // In place, before and after the last unit got the name of the chain, and after the first unit
    // was erased.
    let last = |bytes: &mut Vec<u8>, name, rest| {
        unit(bytes, 5, [name, END], true, [rest, NEW, NEW, (USED, 9)])
    };
    let all = |bytes: &mut Vec<u8>, name| {
        unit(
            bytes,
            5,
            [name, END],
            true,
            [(USED, 1), (USED, 2), (USED, 3), (USED, 9)],
        )
    };
    assert_eq!(
        stamps(linux(|bytes| (old(bytes), last(bytes, 0x8003, (USED, 1))).1)),
        expected
    );
    assert_eq!(
        stamps(linux(|bytes| (old(bytes), all(bytes, 0x0003)).1)),
        expected
    );
    assert_eq!(stamps(linux(|bytes| all(bytes, 0x0003))), expected);
    // Elsewhere, with the chain still there, whole or partly erased.
    let chain = |bytes: &mut Vec<u8>| (old(bytes), last(bytes, 0x8003, NEW)).1;
    let copy = |bytes: &mut Vec<u8>| {
        unit(
            bytes,
            2,
            [3, END],
            false,
            [(USED, 1), (USED, 2), (USED, 3), (USED, 9)],
        )
    };
    assert_eq!(
        stamps(linux(|bytes| (chain(bytes), copy(bytes)).1)),
        expected
    );
    assert_eq!(
        stamps(linux(|bytes| (last(bytes, 0x8003, NEW), copy(bytes)).1)),
        expected
    );
}

#[test]
fn either_copy_of_the_header_will_do_and_user_data_is_not_mistaken_for_one() {
    let mut device = Nftl::format(medium(blank()), options(Ordering::Guarded)).unwrap();
    let mut sector = [0; 512];
    sector[..6].copy_from_slice(b"ANAND\0");
    device.write(Lba(0), &sector).unwrap();
    device.write(Lba(4), &sector).unwrap();
    let bytes = device.into_medium().into_backing();
    for lost in 0..3 {
        let mut bytes = bytes.clone();
        if lost < 2 {
            bytes[at(lost, 0)..][..512].fill(0);
        }
        let mut device = Nftl::attach(medium(bytes), options(Ordering::Guarded)).unwrap();
        let mut seen = [0; 512];
        device.read(Lba(4), &mut seen).unwrap();
        assert_eq!((seen, device.virtual_units()), (sector, 5));
        (0..100).for_each(|i| device.write(Lba(i % 20), &[i as u8; 512]).unwrap());
    }
}

#[test]
fn the_bad_unit_table_is_respected() {
    let mut device = Nftl::format(medium(blank()), options(Ordering::Linux)).unwrap();
    device.write(Lba(0), &[1; 512]).unwrap();
    let mut bytes = device.into_medium().into_backing();
    // Units 5 and 6, one in each copy's table: where the first copy can be read it is believed.
    bytes[at(0, 1) + 5] = 7;
    bytes[at(1, 1) + 6] = 7;
    let device = Nftl::attach(medium(bytes), options(Ordering::Linux)).unwrap();
    assert_eq!(device.free_units(), 12 - 2 - 1 - 1);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let attach = |medium: Medium| {
        Nftl::attach(medium, options(Ordering::Guarded))
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(attach(medium(blank())), AttachError::NotFormatted);
    let small = Image::new(blank(), image(Layout::LinuxSmallPage)).unwrap();
    let mismatch = |what, found, expected| AttachError::Mismatch {
        what,
        found,
        expected,
    };
    let oob = "user bytes of a page's OOB (16 raw, 15 but the marker, 10 of DiskOnChip)";
    assert_eq!(attach(small), mismatch(oob, 8, 10));
    let large = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 4,
        layout: Layout::MarkerOnly,
        ecc: None,
    };
    assert_eq!(
        attach(Image::new(vec![0xff; large.bytes(4) as usize], large).unwrap()),
        mismatch("bytes of a page", 2048, 512)
    );
    let good = Nftl::format(medium(blank()), options(Ordering::Guarded))
        .unwrap()
        .into_medium()
        .into_backing();
    let damaged = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at(0, 0) + offset] = value;
        attach(medium(bytes))
    };
    assert_eq!(damaged(14, 0xfe), mismatch("unit size factor", 0xfe, 0xff));
    assert_eq!(
        damaged(8, 3),
        mismatch(
            "number of the first unit (at most that of its header)",
            3,
            0
        )
    );
    let units = "number of virtual units (formatted size over unit size)";
    assert_eq!(
        damaged(12, 0x40),
        mismatch(units, (0x40 << 16 | 5 << 11) >> 11, 10)
    );
    assert_eq!(damaged(6, 5), mismatch(units, 5, 3));
    let few = |spare_units| {
        Nftl::format(
            medium(blank()),
            NftlOptions {
                spare_units,
                ..NftlOptions::default()
            },
        )
        .map(|_| ())
        .unwrap_err()
    };
    assert_eq!(few(1), mismatch("number of spare units", 1, 2));
    assert_eq!(few(10), AttachError::TooSmall(12, 4, 15));
    assert_eq!(few(u32::MAX), AttachError::TooSmall(12, 4, u32::MAX));
}

#[test]
fn a_medium_that_cannot_be_written_is_read() {
    let mut device = Nftl::format(medium(blank()), options(Ordering::Guarded)).unwrap();
    (0..50).for_each(|i| device.write(Lba(i * 3 % 20), &[i as u8; 512]).unwrap());
    let bytes = device.into_medium().into_backing();
    let mut device = Nftl::attach(medium(bytes).read_only(), options(Ordering::Guarded)).unwrap();
    let mut buf = [0; 512];
    device.read(Lba(9), &mut buf).unwrap();
    assert_eq!(
        (buf[0], device.write(Lba(9), &buf)),
        (43, Err(BlockError::ReadOnly(None)))
    );
    assert_eq!(device.into_medium().is_bad(Block(0)), Ok(false));
}
