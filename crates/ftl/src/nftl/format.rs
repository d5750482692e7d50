//! What the replacement-block layer puts on flash: the media header, and ten OOB bytes of every
//! sector, as Linux has them (`include/uapi/mtd/nftl-user.h`, `nftl_format` of mtd-utils). All
//! integers are little-endian; `docs/formats/nftl.md` has every field and what is done with it.
//!
//! **OOB** of a sector, bytes 6 to 15 of the spare area:
//!
//! | bytes | field |
//! |---|---|
//! | 6, 7 | status of the sector, twice |
//! | 8-15 | of sector 0: virtual unit, next unit, and both again; of sector 1: erases (4 bytes), erase mark, and again; of sector 2: fold mark, and again |
//!
//! A field that is there twice counts as the OR of the two.

use nandlab_mtd::{Geometry, MtdError};

use crate::AttachError;

/// Bytes of a sector, and of a page.
pub const SECTOR: u32 = 512;
/// The layer's OOB bytes: the last user bytes of a page.
pub(super) const OOB: usize = 10;
/// Where they begin among the user bytes, at the most.
const MOST_OOB: usize = 16;
/// Most sectors of a unit, so that a set of them is a word.
pub(super) const MOST_SECTORS: u32 = 64;
/// Most units: the numbers above have other meanings in Linux's tables and in links.
pub(super) const MOST_UNITS: u32 = 0x7fff;

const ERASE_MARK: u16 = 0x3c69;
const FOLD_MARK: u16 = 0x5555;
const REPLACEMENT: u16 = 0x8000;
const NONE: u16 = 0xffff;

/// What a sector holds of its place on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Nothing: it may be written.
    Free = 0xff,
    /// The sector holds contents that count.
    Used = 0x55,
    /// That it reads as zeros.
    Deleted = 0x00,
    /// Nothing, and it must not be written. So are values that are not known taken.
    Ignore = 0x11,
    /// That its contents were lost to a media error. Not Linux's, which ignores it.
    Lost = 0x01,
}

/// A unit's name: what sector 0 says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The virtual unit whose chain it is in.
    pub chain: u16,
    /// Not the first unit of its chain.
    pub replacement: bool,
    /// The next unit of the chain.
    pub next: Option<u16>,
    /// The unit before, where there is no next one and a guarded layer has said so.
    pub before: Option<u16>,
}

/// The OOB bytes of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oob([u8; OOB]);

impl Oob {
    pub const ERASED: Self = Self([0xff; OOB]);

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn set(&mut self, at: usize, word: u16) {
        self.0[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }

    pub fn status(&self) -> Status {
        match self.0[0] | self.0[1] {
            0xff => Status::Free,
            0x55 => Status::Used,
            0x00 => Status::Deleted,
            0x01 => Status::Lost,
            _ => Status::Ignore,
        }
    }

    pub fn with_status(mut self, status: Status) -> Self {
        self.0[..2].fill(status as u8);
        self
    }

    /// The unit's name; none if it has none.
    pub fn name(&self) -> Option<Name> {
        let chain = self.word(2) | self.word(6);
        let next = self.word(4) | self.word(8);
        let before = if next == NONE { self.word(4) } else { NONE };
        let some = |unit| (unit != NONE).then_some(unit);
        (chain & !REPLACEMENT != !REPLACEMENT).then_some(Name {
            chain: chain & !REPLACEMENT,
            replacement: chain & REPLACEMENT != 0,
            next: some(next),
            before: some(before),
        })
    }

    /// Names the unit, as the first of its chain or a replacement. A link that is there stays.
    pub fn with_name(mut self, chain: u16, replacement: bool) -> Self {
        let chain = chain | if replacement { REPLACEMENT } else { 0 };
        self.set(2, chain);
        self.set(6, chain);
        self
    }

    /// Whether a link to a next unit can still be written.
    pub fn takes_next(&self) -> bool {
        self.word(8) == NONE
    }

    /// Links the unit to the next one, over what may be there of the unit before: only bits that
    /// are one go to zero.
    pub fn with_next(mut self, next: u16) -> Self {
        self.set(4, self.word(4) & next);
        self.set(8, next);
        self
    }

    /// Says which unit is before, in one of two fields whose OR means that there is no next unit.
    pub fn with_before(mut self, before: u16) -> Self {
        self.set(4, before);
        self
    }

    /// Erases of the unit; none without the mark that the erase was completed.
    pub fn erases(&self) -> Option<u32> {
        let marked = self.word(6) | self.word(8) == ERASE_MARK;
        marked.then(|| u32::from_le_bytes([self.0[2], self.0[3], self.0[4], self.0[5]]))
    }

    pub fn with_erases(mut self, erases: u32) -> Self {
        self.0[2..6].copy_from_slice(&erases.to_le_bytes());
        self.set(6, ERASE_MARK);
        self.set(8, ERASE_MARK);
        self
    }

    /// Whether a fold into this unit has begun.
    pub fn has_fold_mark(&self) -> bool {
        self.word(2) | self.word(4) == FOLD_MARK
    }

    pub fn with_fold_mark(mut self) -> Self {
        self.set(2, FOLD_MARK);
        self.set(4, FOLD_MARK);
        self
    }
}

/// Where the ten bytes lie among a page's user bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Place {
    /// Refuses pages and units that the format does not fit.
    pub fn of(g: &Geometry) -> Result<Self, AttachError> {
        let refuse = |what, found, expected| {
            Err(AttachError::Mismatch {
                what,
                found,
                expected,
            })
        };
        let most_units = MOST_UNITS
            .min((g.pages_per_block - 1) * SECTOR)
            .min(u32::MAX / (g.pages_per_block * SECTOR));
        match g.oob {
            _ if g.page != SECTOR => refuse("bytes of a page", g.page, SECTOR),
            _ if g.pages_per_block < 3 => {
                refuse("pages of a block (at least)", g.pages_per_block, 3)
            }
            _ if g.pages_per_block > MOST_SECTORS => refuse(
                "pages of a block (at most)",
                g.pages_per_block,
                MOST_SECTORS,
            ),
            _ if g.blocks > most_units => {
                refuse("blocks of the chip (at most)", g.blocks, most_units)
            }
            10 | 15 | 16 => Ok(Self(g.oob as usize - OOB)),
            // Raw 0 to 15, raw without the marker, or raw 6 to 15.
            _ => refuse(
                "user bytes of a page's OOB (16 raw, 15 but the marker, 10 of DiskOnChip)",
                g.oob,
                OOB as u32,
            ),
        }
    }

    /// Reads OOB bytes with `read`, which fills a page's user bytes. None if they cannot be
    /// corrected.
    #[inline]
    pub fn read<T>(
        self,
        read: impl FnOnce(&mut [u8]) -> Result<T, MtdError>,
    ) -> Result<Option<Oob>, MtdError> {
        let mut user = [0; MOST_OOB];
        match read(&mut user[..self.0 + OOB]) {
            Ok(_) => {
                let mut oob = Oob::ERASED;
                oob.0.copy_from_slice(&user[self.0..self.0 + OOB]);
                Ok(Some(oob))
            }
            Err(MtdError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes OOB bytes with `write`, which is given a page's user bytes.
    #[inline]
    pub fn write<T>(self, oob: Oob, write: impl FnOnce(&[u8]) -> T) -> T {
        let mut user = [0xff; MOST_OOB];
        user[self.0..self.0 + OOB].copy_from_slice(&oob.0);
        write(&user[..self.0 + OOB])
    }
}

/// The media header: the first bytes of the first sector of two units.
///
/// | bytes | field |
/// |---|---|
/// | 0-5 | "ANAND" and a zero |
/// | 6-7 | units, from the first one on |
/// | 8-9 | the first unit: that of this header |
/// | 10-13 | bytes of the disk |
/// | 14 | unit size factor: 0xFF, a unit is an erase block |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MediaHeader {
    pub units: u16,
    pub first: u16,
    pub formatted: u32,
    pub factor: u8,
}

const MAGIC: [u8; 6] = *b"ANAND\0";
/// Bytes of the bad-unit table.
pub(super) const GOOD: u8 = 0xff;
pub(super) const BAD: u8 = 0;

impl MediaHeader {
    pub fn encode(&self, sector: &mut [u8]) {
        sector.fill(0xff);
        sector[..6].copy_from_slice(&MAGIC);
        sector[6..8].copy_from_slice(&self.units.to_le_bytes());
        sector[8..10].copy_from_slice(&self.first.to_le_bytes());
        sector[10..14].copy_from_slice(&self.formatted.to_le_bytes());
        sector[14] = self.factor;
    }

    /// None if this is no media header.
    pub fn decode(sector: &[u8]) -> Option<Self> {
        let half = |at: usize| u16::from_le_bytes([sector[at], sector[at + 1]]);
        sector.starts_with(&MAGIC).then(|| Self {
            units: half(6),
            first: half(8),
            formatted: u32::from_le_bytes([sector[10], sector[11], sector[12], sector[13]]),
            factor: sector[14],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_linux_has_them() {
        let oob = Oob::ERASED
            .with_status(Status::Used)
            .with_name(0x0123, true);
        assert_eq!(
            oob.0,
            [0x55, 0x55, 0x23, 0x81, 0xff, 0xff, 0x23, 0x81, 0xff, 0xff]
        );
        assert_eq!(
            oob.with_next(0x0456).0,
            [0x55, 0x55, 0x23, 0x81, 0x56, 0x04, 0x23, 0x81, 0x56, 0x04]
        );
        assert_eq!(
            Oob::ERASED.with_erases(3).0,
            [0xff, 0xff, 3, 0, 0, 0, 0x69, 0x3c, 0x69, 0x3c]
        );
        assert_eq!(
            Oob::ERASED.with_fold_mark().0,
            [0xff, 0xff, 0x55, 0x55, 0x55, 0x55, 0xff, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn the_unit_before_is_named_until_there_is_a_next_one() {
        let last = Oob::ERASED.with_name(7, true).with_before(0x2345);
        assert_eq!(
            last.name(),
            Some(Name {
                chain: 7,
                replacement: true,
                next: None,
                before: Some(0x2345)
            })
        );
        let linked = last.with_next(0x1a0f);
        assert_eq!(
            linked.name(),
            Some(Name {
                chain: 7,
                replacement: true,
                next: Some(0x1a0f),
                before: None
            })
        );
        assert!(
            last.0
                .iter()
                .zip(&linked.0)
                .all(|(old, new)| !old & new == 0),
            "only bits that are one go to zero"
        );
        let first = last.with_name(7, false);
        assert!(
            !first.name().unwrap().replacement
                && last
                    .0
                    .iter()
                    .zip(&first.0)
                    .all(|(old, new)| !old & new == 0)
        );
        assert_eq!(Oob::ERASED.name(), None);
    }

    #[test]
    fn a_field_counts_if_either_copy_is_damaged_towards_zero() {
        let oob = Oob::ERASED
            .with_status(Status::Used)
            .with_name(0x0123, false);
        for byte in 0..OOB {
            let mut damaged = oob;
            damaged.0[byte] &= 0xf0;
            assert_eq!(
                (damaged.status(), damaged.name().unwrap().chain),
                (Status::Used, 0x0123),
                "byte {byte}"
            );
        }
    }

    #[test]
    fn a_media_header_reads_back() {
        let header = MediaHeader {
            units: 4096,
            first: 1,
            formatted: 0x03f0_0000,
            factor: 0xff,
        };
        let mut sector = [0; 512];
        header.encode(&mut sector);
        assert_eq!(
            sector[..16],
            [
                b'A', b'N', b'A', b'N', b'D', 0, 0, 0x10, 1, 0, 0, 0, 0xf0, 3, 0xff, 0xff
            ]
        );
        assert_eq!(MediaHeader::decode(&sector), Some(header));
        assert_eq!(MediaHeader::decode(&[0xff; 512]), None);
    }
}
