//! UBI: edits of headers, volume tables, fastmaps and logs, after which their checksums are right
//! again.

use crate::edit::{Edit, Script};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_ubi::format::{HEADER_BYTES, RECORD_BYTES, VolumeKind, crc, crc_of};
use nandlab_ubi::{Headers, LogOptions, Memory, Options, Ubi, UbiError, VolumeSpec};
use std::sync::OnceLock;

const BLOCK: usize = 8192;
/// Erase blocks of a medium.
pub const BLOCKS: usize = 32;
/// Bytes of a medium.
pub const BYTES: usize = BLOCK * BLOCKS;

/// Pages and blocks of media without a log: those of the smallest chip that Linux can simulate.
pub const SMALL: ImageFormat = ImageFormat {
    page: 512,
    oob: 0,
    pages_per_block: 16,
    layout: Layout::Raw,
    ecc: None,
};
/// Those of media with a log, whose lists need longer pages.
pub const LARGE: ImageFormat = ImageFormat {
    page: 1024,
    pages_per_block: 8,
    ..SMALL
};

/// A good medium that edits start from.
#[derive(Debug)]
pub struct Seed {
    bytes: Vec<u8>,
    /// Its pages and blocks.
    pub format: ImageFormat,
    /// How it was made.
    pub options: Options,
}

impl Seed {
    fn new(options: Options) -> Self {
        let format = match options.memory {
            Memory::Log(_) => LARGE,
            _ => SMALL,
        };
        Self {
            bytes: medium(format, options),
            format,
            options,
        }
    }

    /// A medium of yours, of one of the two shapes.
    pub fn of(bytes: Vec<u8>, format: ImageFormat, options: Options) -> Self {
        Self {
            bytes,
            format,
            options,
        }
    }

    /// The medium as edited.
    pub fn edited(&self, script: Script<'_>) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let page = self.format.page as usize;
        script.edits().for_each(|one| edit(&mut bytes, page, one));
        bytes
    }
}

/// Good media: scanned, with a fastmap, with a log, without headers.
pub fn seeds() -> &'static [Seed] {
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
    SEEDS.get_or_init(|| all.map(Seed::new).into())
}

fn medium(format: ImageFormat, options: Options) -> Vec<u8> {
    let fill = || -> Result<Vec<u8>, UbiError> {
        let erased = Image::new(vec![0xFF; BYTES], format).expect("whole blocks");
        let mut ubi = Ubi::format(erased, options)?;
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
        write(&mut ubi, fixed, data)?;
        Ok(ubi.detach()?.into_backing())
    };
    fill().expect("a medium without faults, with space")
}

fn write(ubi: &mut Ubi<Image<Vec<u8>>>, fixed: u32, data: u32) -> Result<(), UbiError> {
    ubi.start_update(fixed, 9000)?;
    ubi.write_update(fixed, &[7; 9000])?;
    for i in 0..20 {
        ubi.change(data, i % 6, &[i as u8; 2048])?;
        ubi.work()?;
    }
    Ok(())
}

fn edit(bytes: &mut [u8], page: usize, edit: Edit) {
    let Edit {
        verb,
        field,
        place,
        value,
    } = edit;
    let block = place % BLOCKS * BLOCK;
    let inner = place / BLOCKS;
    let other = value as usize % (BLOCKS + 2);
    let headed = bytes[block..].starts_with(b"UBI#");
    // Where data begin in a block with headers: one page for each of them.
    let behind = if headed { 2 * page } else { 0 };
    let data = block + behind;
    // A word of the counter's header, of the block's, of the data's head, of an entry behind it.
    let fourth = usize::from(field) % 64;
    let at = match usize::from(field) / 64 {
        0 if headed => block + fourth % 15 * 4,
        1 if headed => block + page + fourth % 15 * 4,
        2 => data + 64 + (inner * 64 + fourth) * 4 % (BLOCK - 2 * page - 64),
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
        seal(&mut block[page..page + HEADER_BYTES], HEADER_BYTES - 4);
    }
    repair(&mut block[behind..]);
}

fn seal(bytes: &mut [u8], at: usize) {
    let sum = crc(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Makes the checksums of what a block holds right, by its magic number.
fn repair(data: &mut [u8]) {
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
