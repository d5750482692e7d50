//! Every byte that UBI puts on flash: headers, volume table, fastmap. Nothing here reads flash or
//! judges more than one structure.
//!
//! The layouts are Linux's (`drivers/mtd/ubi/ubi-media.h`), all integers big-endian. Parsing has
//! three outcomes: *empty*, *damaged* (no magic, or a wrong checksum: what a power cut or decay
//! leaves), and *refused* (a sound structure that says something impossible: never an accident of
//! the medium).

mod fastmap;
mod headers;
mod table;

pub use fastmap::{
    FM_DATA_VOLUME, FM_MAX_BLOCKS, FM_MAX_POOL, FM_MAX_START, FM_SB_VOLUME, Fastmap, FmVolume,
    Pool, SUPER_BYTES, SuperBlock, fastmap_bytes,
};
pub use headers::{Compat, EC_MAX, EcHeader, HEADER_BYTES, VidHeader};
pub use table::{
    FLAG_AUTORESIZE, FLAG_SKIP_CHECK, NAME_MAX, RECORD_BYTES, Record, TableLimits, VOLUMES_MAX,
    encode_table, parse_table, slots,
};

use core::fmt;

/// The first id of internal volumes, and the one that holds the volume table.
pub const LAYOUT_VOLUME: u32 = 0x7FFF_EFFF;
/// Copies of the volume table, each a logical erase block of [`LAYOUT_VOLUME`].
pub const LAYOUT_LEBS: u32 = 2;

/// CRC-32 as UBI uses it: all ones to begin with, no inversion at the end.
pub fn crc(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// The same over several pieces.
pub fn crc_of(pieces: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    !hasher.finalize()
}

/// What kind of volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeKind {
    /// Written block by block, contents the user's business.
    #[default]
    Dynamic,
    /// Written whole, protected by checksums.
    Static,
}

impl VolumeKind {
    fn code(self) -> u8 {
        match self {
            Self::Dynamic => 1,
            Self::Static => 2,
        }
    }

    fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Dynamic),
            2 => Some(Self::Static),
            _ => None,
        }
    }
}

/// What a field should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The field must have this value.
    Value(u64),
    /// The field must meet this rule.
    Rule(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value:#x}"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

/// A field that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} at offset {offset} is {found:#x}, expected {expected}")]
pub struct FieldError {
    /// Its offset in its structure, in bytes.
    pub offset: u32,
    /// The name of the field.
    pub field: &'static str,
    /// The value of the field.
    pub found: u64,
    /// What it should be.
    pub expected: Expected,
}

/// What a structure's bytes turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// All ones: never written.
    Empty,
    /// Not such a structure, or a damaged one.
    Damaged(FieldError),
    /// Sound, yet impossible here.
    Refused(FieldError),
    /// The header is sound; here are its fields.
    Good(T),
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Refuses a field unless it fits the rule.
pub(crate) fn rule(
    fine: bool,
    offset: u32,
    field: &'static str,
    found: impl Into<u64>,
    expected: &'static str,
) -> Result<(), FieldError> {
    if fine {
        Ok(())
    } else {
        Err(FieldError {
            offset,
            field,
            found: found.into(),
            expected: Expected::Rule(expected),
        })
    }
}

/// Refuses a field unless it has that value.
pub(crate) fn value(
    offset: u32,
    field: &'static str,
    found: impl Into<u64>,
    expected: impl Into<u64>,
) -> Result<(), FieldError> {
    let found = found.into();
    let expected = expected.into();
    if found == expected {
        Ok(())
    } else {
        Err(FieldError {
            offset,
            field,
            found,
            expected: Expected::Value(expected),
        })
    }
}

/// The bytes of `data` without the erased ones at its end, as whole write units
/// (`ubi_calc_data_len`, drivers/mtd/ubi/misc.c).
pub fn data_length(data: &[u8], write_unit: usize) -> usize {
    let used = data
        .iter()
        .rposition(|&byte| byte != 0xFF)
        .map_or(0, |last| last + 1);
    used.next_multiple_of(write_unit).min(data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_an_empty_record() {
        // What Linux and mtd-utils have at the end of every empty record of a volume table.
        assert_eq!(crc(&[0; 168]), 0xF116_C36B);
        assert_eq!(crc_of(&[&[0; 100], &[0; 68]]), 0xF116_C36B);
    }

    #[test]
    fn the_erased_end_is_not_data() {
        let mut data = [0xFF; 2048];
        assert_eq!(data_length(&data, 512), 0);
        data[0] = 0;
        assert_eq!(data_length(&data, 512), 512);
        data[512] = 0xFE;
        assert_eq!(data_length(&data, 512), 1024);
        data[2047] = 0;
        assert_eq!(data_length(&data, 512), 2048);
    }
}
