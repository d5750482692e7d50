//! UBI: edits of headers, volume tables, fastmaps and logs, after which their checksums are right
//! again.
//!
//! *A run* attaches the medium, reads and checks its volumes; if the input says so it changes and
//! resizes them, makes one more, lets UBI work, detaches the medium and attaches it again. *Bound:*
//! 1 MiB of heap and 4 bytes for each byte of the medium, which is there itself.

use crate::{
    edit::{Edit, Script},
    heap,
};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_ubi::format::{HEADER_BYTES, RECORD_BYTES, VolumeKind, crc, crc_of};
use nandlab_ubi::{Headers, LogOptions, Memory, Options, Ubi, UbiError, VolumeSpec};
use std::sync::OnceLock;

/// The shape of all media.
pub(crate) const FORMAT: ImageFormat = ImageFormat {
    page: 1024,
    oob: 0,
    pages_per_block: 8,
    layout: Layout::Raw, ecc: None,
};
const BLOCK: usize = 8192;
pub(crate) const BLOCKS: usize = 32;
/// Where data begin in a block with headers: one page for each of them.
const DATA: usize = 2048;

struct Seed {
    bytes: Vec<u8>,
    options: Options,
}

/// One run.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded((1 << 20) + 4 * BLOCK * BLOCKS, || {
        let mut bytes = seed.bytes.clone();
        script.edits().for_each(|one| edit(&mut bytes, one));
        // Another way of remembering than that of the seed: attaching must cope with what it does
        // not know.
        let options = if script.options & 1 == 0 {
            seed.options
        } else {
            seeds[script.options as usize / 2 % seeds.len()].options
        };
        if let Ok(ubi) = attach(bytes, options) {
            survive(ubi, options, script.write);
        }
    });
}

/// The same medium, as edited, for others than this target.
#[cfg(feature = "image")]
pub(crate) fn edited(script: Script<'_>) -> Vec<u8> {
    let seeds = seeds();
    edited_from(&seeds[script.seed % seeds.len()].bytes, script)
}

/// Edits of another medium of this shape.
#[cfg(feature = "image")]
pub(crate) fn edited_from(seed: &[u8], script: Script<'_>) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    script.edits().for_each(|one| edit(&mut bytes, one));
    bytes
}

fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    let with = |memory| Options {
        memory,
        wear_threshold: 16,
        bad_per_1024: 100,
        ..Options::default()
    };
    let log = |compress| {
        with(Memory::Log(LogOptions {
            blocks: 2,
            compress,
            ..LogOptions::default()
        }))
    };
    let all = [
        with(Memory::Fastmap),
        with(Memory::Scan),
        log(false),
        log(true),
        Options {
            headers: Headers::None,
            ..log(false)
        },
    ];
    SEEDS.get_or_init(|| {
        all.map(|options| Seed {
            bytes: medium(options),
            options,
        })
        .into()
    })
}

fn attach(bytes: Vec<u8>, options: Options) -> Result<Ubi<Image<Vec<u8>>>, UbiError> {
    Ubi::attach(Image::new(bytes, FORMAT).expect("whole blocks"), options)
}

fn medium(options: Options) -> Vec<u8> {
    let fill = || -> Result<Vec<u8>, UbiError> {
        let mut ubi = Ubi::format(
            Image::new(vec![0xFF; BLOCK * BLOCKS], FORMAT).expect("whole blocks"),
            options,
        )?;
        let fixed = ubi.create_volume(&VolumeSpec {
            name: "fixed".into(),
            kind: VolumeKind::Static,
            lebs: 3,
            ..VolumeSpec::default()
        })?;
        let data = ubi.create_volume(&VolumeSpec {
            name: "data".into(),
            lebs: 6,
            ..VolumeSpec::default()
        })?;
        ubi.start_update(fixed, 9000)?;
        ubi.write_update(fixed, &[7; 9000])?;
        for i in 0..20 {
            ubi.change(data, i % 6, &[i as u8; 2048])?;
            ubi.work()?;
        }
        Ok(ubi.detach()?.into_backing())
    };
    fill().expect("a medium without faults, with room")
}

/// Whatever was attached can be read, and written until it says that it cannot.
fn survive(mut ubi: Ubi<Image<Vec<u8>>>, options: Options, write: bool) {
    for volume in ubi.volumes() {
        let mut buf = vec![0; volume.leb_bytes as usize];
        for lnum in 0..volume.record.reserved.min(20) {
            _ = ubi.read(volume.id, lnum, 0, &mut buf);
        }
        _ = ubi.check_volume(volume.id);
        if write {
            _ = ubi.change(volume.id, 0, &[1; 1024]);
            _ = ubi.resize_volume(volume.id, 2);
        }
    }
    if !write {
        return;
    }
    _ = ubi.create_volume(&VolumeSpec {
        name: "new".into(),
        lebs: 1,
        ..VolumeSpec::default()
    });
    for _ in 0..30 {
        if !matches!(ubi.work(), Ok(true)) {
            break;
        }
    }
    if let Ok(image) = ubi.detach() {
        _ = attach(image.into_backing(), options);
    }
}

fn edit(bytes: &mut [u8], edit: Edit) {
    let Edit {
        verb,
        field,
        place,
        value,
    } = edit;
    let (block, inner) = (place % BLOCKS * BLOCK, place / BLOCKS);
    let other = value as usize % (BLOCKS + 2);
    let headed = bytes[block..].starts_with(b"UBI#");
    let data = block + if headed { DATA } else { 0 };
    // A word of the counter's header, of the block's, of the data's head, of an entry behind it.
    let fourth = usize::from(field) % 64;
    let at = match usize::from(field) / 64 {
        0 if headed => block + fourth % 15 * 4,
        1 if headed => block + 1024 + fourth % 15 * 4,
        2 => data + 64 + (inner * 64 + fourth) * 4 % (BLOCK - DATA - 64),
        _ => data + fourth * 4,
    };
    match verb % 7 {
        0 | 1 => bytes[at..at + 4].copy_from_slice(&value.to_be_bytes()),
        2 => bytes[at + (value >> 8 & 3) as usize] = value as u8,
        3 => {
            let old = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            bytes[at..at + 4].copy_from_slice(&old.wrapping_add(value).to_be_bytes());
        }
        4 if other >= BLOCKS => {
            bytes[block..block + BLOCK].fill(if other == BLOCKS { 0xFF } else { 0 })
        }
        4 => bytes.copy_within(other * BLOCK..(other + 1) * BLOCK, block),
        5 => return bytes[value as usize % (BLOCK * BLOCKS)] ^= 1 << (field % 8),
        _ => return bytes[at..at + 4].copy_from_slice(&value.to_be_bytes()),
    }
    let block = &mut bytes[block..block + BLOCK];
    if headed {
        seal(&mut block[..HEADER_BYTES], HEADER_BYTES - 4);
        seal(&mut block[1024..1024 + HEADER_BYTES], HEADER_BYTES - 4);
    }
    mend(&mut block[if headed { DATA } else { 0 }..]);
}

fn seal(bytes: &mut [u8], at: usize) {
    let sum = crc(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Makes the checksums of what a block holds right, by its magic number.
fn mend(data: &mut [u8]) {
    match &data[..4] {
        [0x7B, 0x11, 0xD6, 0x9F] => {
            data[8..12].fill(0);
            let sum = crc_of(&[data]);
            data[8..12].copy_from_slice(&sum.to_be_bytes());
        }
        b"UBLS" => seal(&mut data[..1024], 1020),
        b"UBLC" => {
            data[64..]
                .chunks_exact_mut(64)
                .take(BLOCKS)
                .for_each(|entry| seal(entry, 60));
            let stored = u32::from_be_bytes([data[16], data[17], data[18], data[19]]) as usize;
            let sum = crc_of(&[
                &data[..60],
                &data[64..64usize.saturating_add(stored).min(data.len())],
            ]);
            data[60..64].copy_from_slice(&sum.to_be_bytes());
        }
        b"UBLL" => {
            seal(&mut data[64..128], 60);
            let sum = crc_of(&[&data[..60], &data[64..1024]]);
            data[60..64].copy_from_slice(&sum.to_be_bytes());
        }
        // Only where a table was: other data have no checksums of their own.
        _ if data[..RECORD_BYTES * 4]
            .chunks_exact(RECORD_BYTES)
            .any(|record| record[4..8] == [0, 0, 0, 1] || record[12] != 0) =>
        {
            data[..RECORD_BYTES * 4]
                .chunks_exact_mut(RECORD_BYTES)
                .for_each(|record| seal(record, RECORD_BYTES - 4));
        }
        _ => {}
    }
}
