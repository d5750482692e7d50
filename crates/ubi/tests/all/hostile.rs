//! Damaged and hostile media: whatever the bytes say, an attach ends, takes no more memory than the
//! medium, and gives a device or an error; and what it gives can be used.

use crate::common::{memories, tried};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::{Rng, rng};
use nandlab_testkit::media::Media;
use nandlab_ubi::format::{HEADER_BYTES, RECORD_BYTES, VolumeKind, crc, crc_of};
use nandlab_ubi::{Options, Ubi, UbiError, VolumeSpec};
use rand::{Rng as _, RngExt as _};

const FORMAT: ImageFormat = ImageFormat {
    page: 1024,
    oob: 0,
    pages_per_block: 8,
    layout: Layout::Raw,
    ecc: None,
};
const BLOCK: usize = 8192;
const BLOCKS: usize = 72;

fn attach(bytes: Vec<u8>, options: Options) -> Result<Ubi<Image<Vec<u8>>>, UbiError> {
    Ubi::attach(Image::new(bytes, FORMAT).unwrap(), options)
}

fn medium(options: Options) -> Vec<u8> {
    let mut ubi = Ubi::format(
        Image::new(vec![0xFF; BLOCK * BLOCKS], FORMAT).unwrap(),
        options,
    )
    .unwrap();
    let fixed = ubi
        .create_volume(&VolumeSpec {
            name: "fixed".into(),
            kind: VolumeKind::Static,
            lebs: 4,
            ..VolumeSpec::default()
        })
        .unwrap();
    let data = ubi
        .create_volume(&VolumeSpec {
            name: "data".into(),
            lebs: 12,
            ..VolumeSpec::default()
        })
        .unwrap();
    ubi.start_update(fixed, 9000).unwrap();
    ubi.write_update(fixed, &[7; 9000]).unwrap();
    for i in 0..40 {
        ubi.change(data, i % 12, &[i as u8; 2048]).unwrap();
        ubi.work().unwrap();
    }
    ubi.detach().unwrap().into_backing()
}

/// Reads the whole device, and writes it until it says that it cannot. Returns a digest of all
/// answers.
fn use_it(mut ubi: Ubi<Image<Vec<u8>>>, options: Options) -> Media {
    let mut seen = Media::default();
    seen.note(&ubi.info());
    for volume in ubi.volumes() {
        seen.note(&volume);
        let mut buf = vec![0; volume.leb_bytes as usize];
        for lnum in 0..volume.record.reserved.min(100) {
            seen.note(&ubi.read(volume.id, lnum, 0, &mut buf));
            seen = seen.bytes(&buf);
        }
        seen.note(&ubi.check_volume(volume.id));
        seen.note(&ubi.change(volume.id, 0, &[1; 1024]));
        seen.note(&ubi.resize_volume(volume.id, 2));
    }
    seen.note(&ubi.create_volume(&VolumeSpec {
        name: "new".into(),
        lebs: 1,
        ..VolumeSpec::default()
    }));
    for _ in 0..300 {
        let done = ubi.work();
        seen.note(&done);
        if !matches!(done, Ok(true)) {
            break;
        }
    }
    match ubi.detach() {
        Ok(image) => {
            let again = attach(image.into_backing(), options);
            seen.note(&again.map(|ubi| ubi.info()));
        }
        Err(error) => seen.note(&error.to_string()),
    }
    seen
}

fn put_random(bytes: &mut [u8], random: &mut Rng) {
    let at = random.random_range(0..bytes.len() / 4) * 4;
    let value = [
        0,
        1,
        5,
        63,
        64,
        128,
        u32::MAX,
        i32::MAX as u32,
        0x7FFF_EFFF,
        random.next_u32(),
    ][random.random_range(0..10)];
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn seal(bytes: &mut [u8], at: usize) {
    let sum = crc(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// One change of a block that leaves checksums right where it can: the magic numbers say of what.
fn forge(block: &mut [u8], random: &mut Rng) {
    let data = if block[..4] == *b"UBI#" { 2048 } else { 0 };
    match random.random_range(0..8) {
        0 => {
            let at = random.random_range(0..block.len());
            let bit = random.random_range(0..8);
            block[at] ^= 1 << bit;
        }
        1 => block.fill([0, 0xFF][random.random_range(0..2)]),
        2 if data > 0 => {
            put_random(&mut block[..HEADER_BYTES - 4], random);
            seal(&mut block[..HEADER_BYTES], HEADER_BYTES - 4);
        }
        3 | 4 if data > 0 => {
            put_random(&mut block[1024 + 4..1024 + HEADER_BYTES - 4], random);
            seal(&mut block[1024..1024 + HEADER_BYTES], HEADER_BYTES - 4);
        }
        _ => forge_data(&mut block[data..], random),
    }
}

fn forge_data(data: &mut [u8], random: &mut Rng) {
    match &data[..4] {
        [0x7B, 0x11, 0xD6, 0x9F] => {
            put_random(&mut data[4..4000], random);
            data[8..12].fill(0);
            let sum = crc_of(&[data]);
            data[8..12].copy_from_slice(&sum.to_be_bytes());
        }
        b"UBLS" => {
            put_random(&mut data[4..300], random);
            seal(&mut data[..1024], 1020);
        }
        b"UBLC" => {
            let entry = 64 + random.random_range(0..BLOCKS) * 64;
            put_random(&mut data[entry..entry + 60], random);
            seal(&mut data[entry..entry + 64], 60);
            let stored = u32::from_be_bytes(data[16..20].try_into().unwrap()) as usize;
            let sum = crc_of(&[&data[..60], &data[64..(64 + stored).min(data.len())]]);
            data[60..64].copy_from_slice(&sum.to_be_bytes());
        }
        b"UBLT" => forge_leaf(data, random),
        b"UBLA" => {
            put_random(&mut data[4..56], random);
            seal(&mut data[..64], 60);
        }
        b"UBLL" => {
            put_random(&mut data[64..124], random);
            seal(&mut data[64..128], 60);
            let sum = crc_of(&[&data[..60], &data[64..1024]]);
            data[60..64].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {
            let record = random.random_range(0..3) * RECORD_BYTES;
            put_random(&mut data[record..record + RECORD_BYTES - 4], random);
            seal(&mut data[record..record + RECORD_BYTES], RECORD_BYTES - 4);
        }
    }
}

/// A leaf of an incremental commit, or an index, somewhere in a block of them.
fn forge_leaf(data: &mut [u8], random: &mut Rng) {
    let page = &mut data[random.random_range(0..6) * 1024..][..1024];
    if page.starts_with(b"UBLI") {
        put_random(&mut page[8..400], random);
        let length = 64 + 8 * page[19] as usize + 28 * page[23] as usize;
        let sum = crc_of(&[&page[..60], &page[64..length.clamp(64, 1024)]]);
        page[60..64].copy_from_slice(&sum.to_be_bytes());
    } else {
        put_random(&mut page[16..700], random);
        let sum = crc_of(&[&page[..28], &page[32..]]);
        page[28..32].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn every_forgery_ends_in_a_device_or_an_error() {
    for (name, options) in tried() {
        let medium = medium(options);
        let mut random = rng(1, name);
        let mut attached = 0;
        let mut refused = 0;
        let mut seen = Media::default();
        for _ in 0..3000 {
            let mut forged = medium.clone();
            for _ in 0..random.random_range(1..4) {
                let block = random.random_range(0..BLOCKS) * BLOCK;
                forge(&mut forged[block..block + BLOCK], &mut random);
            }
            if random.random_bool(0.2) {
                let from = random.random_range(0..BLOCKS) * BLOCK;
                let to = random.random_range(0..BLOCKS) * BLOCK;
                forged.copy_within(from..from + BLOCK, to);
            }
            match attach(forged, options) {
                Ok(ubi) => {
                    attached += 1;
                    seen.add(use_it(ubi, options));
                }
                Err(error) => {
                    refused += 1;
                    seen.note(&error.to_string());
                }
            }
        }
        eprintln!("{name}: {attached} attached, {refused} refused");
        assert!(
            attached > 300 && refused > 0,
            "{name}: {attached} {refused}"
        );
        seen.assert(&format!("damage, ubi {name}"));
    }
}

#[test]
fn a_device_with_each_memory_has_its_kept_bytes() {
    for (name, options) in memories() {
        Media::default()
            .bytes(&medium(options))
            .assert(&format!("ubi, {name}"));
    }
}

#[test]
fn a_header_that_puts_the_others_elsewhere_is_refused() {
    let (_, options) = memories()[0];
    for (field, at) in [
        ("offset of the volume header", 16),
        ("offset of the data", 20),
    ] {
        let mut bytes = medium(options);
        let header = &mut bytes[5 * BLOCK..][..HEADER_BYTES];
        header[at..at + 4].copy_from_slice(&4096u32.to_be_bytes());
        seal(header, HEADER_BYTES - 4);
        let refused = attach(bytes, options).map(drop).unwrap_err();
        let UbiError::Refused { peb, error } = &refused else {
            panic!("{field}: {refused:?}");
        };
        assert_eq!(*peb, 5);
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn noise_is_refused_and_an_erased_flash_is_a_device() {
    let (_, options) = memories()[0];
    let noise: Vec<u8> = (0..BLOCK * BLOCKS / 8)
        .flat_map(|i| nandlab_sim::mix(5, i as u64).to_le_bytes())
        .collect();
    assert!(attach(noise, options).is_err());
    let ubi = attach(vec![0xFF; BLOCK * BLOCKS], options).unwrap();
    assert_eq!(ubi.volumes(), []);
}

/// A sound counter, a damaged volume header and data behind it: nobody can tell whose they are, so
/// that they stay (`check_corruption`, drivers/mtd/ubi/attach.c).
#[test]
fn data_behind_a_damaged_header_are_preserved() {
    let (_, options) = memories()[0];
    let medium = medium(options);
    let holds_data = |block: &[u8]| {
        block[1024..1028] == *b"UBI!"
            && block[1032..1036] == 1u32.to_be_bytes()
            && block[2048] != 0xFF
    };
    let blocks: Vec<usize> = (0..BLOCKS)
        .filter(|i| holds_data(&medium[i * BLOCK..]))
        .collect();
    let damaged = |count: usize| {
        let mut bytes = medium.clone();
        blocks[..count]
            .iter()
            .for_each(|block| bytes[block * BLOCK + 1024 + 15] ^= 0x10);
        bytes
    };
    let before = damaged(2);
    let mut ubi = attach(before.clone(), options).unwrap();
    let id = ubi.find_volume("data").unwrap();
    let room = attach(medium.clone(), options).unwrap().info().available;
    assert_eq!((ubi.info().corrupted, ubi.info().available), (2, room - 2));
    (0..200).for_each(|i| ubi.change(id, i % 12, &[i as u8; 1024]).unwrap());
    let after = ubi.detach().unwrap().into_backing();
    for block in &blocks[..2] {
        assert!(
            after[block * BLOCK..(block + 1) * BLOCK] == before[block * BLOCK..(block + 1) * BLOCK]
        );
    }
    // A twentieth of the blocks, and something else is wrong.
    assert!(matches!(
        attach(damaged(3), options),
        Err(UbiError::Medium { found: 3, .. })
    ));
}

/// What today's tools get wrong, and the kernel right.
#[test]
fn one_lost_structure_loses_no_volume() {
    let (_, options) = memories()[0];
    let medium = medium(options);
    let is_layout = |block: &[u8]| {
        block[1024..1028] == *b"UBI!" && block[1032..1036] == 0x7FFF_EFFFu32.to_be_bytes()
    };
    let layouts: Vec<usize> = (0..BLOCKS)
        .filter(|i| is_layout(&medium[i * BLOCK..]))
        .collect();
    let whole = |bytes: Vec<u8>| {
        let mut ubi = attach(bytes, options).unwrap();
        let mut buf = vec![0; 2048];
        let fixed = ubi.find_volume("fixed").unwrap();
        assert_eq!(ubi.check_volume(fixed), Ok(vec![]));
        for lnum in 0..12 {
            ubi.read(1, lnum, 0, &mut buf).unwrap();
            let last = if lnum < 4 { 36 } else { 24 } + lnum as u8;
            assert_eq!(buf, [last; 2048], "{lnum}");
        }
    };
    whole(medium.clone());
    assert!(layouts.len() >= 2, "{layouts:?}");
    for lost in 0..BLOCKS {
        // A counter's header: the block is as good as before.
        let mut bytes = medium.clone();
        bytes[lost * BLOCK + 9] ^= 0x40;
        whole(bytes);
    }
    for &lost in &layouts {
        let mut bytes = medium.clone();
        bytes[lost * BLOCK..(lost + 1) * BLOCK].fill(0xFF);
        whole(bytes);
    }
}
