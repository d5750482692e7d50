//! The 15-byte tag that page mapping and the log-block layers put into the OOB of every page. All
//! integers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | id: bits 31-30 kind, bits 29-0 number |
//! | 4-6 | sequence: the page's number less the block's base, and the layer's flags above it |
//! | 7-10 | base of the block: sequence number when it was opened, in units of 256 |
//! | 11-13 | wear: the block's erase count, and the layer's flags above it |
//! | 14 | CRC-8 (polynomial 0x07) of the layer's magic and bytes 7 to 13 |
//!
//! Bytes 7 to 14 are the block header, equal in all pages of a block. The page's error correction
//! covers its tag and tells a torn page. The CRC tells the layer's blocks from foreign ones.

use alloc::vec::Vec;
use crc::{CRC_8_SMBUS, Crc};
use nandlab_mtd::{Move, Mtd, MtdError, Page};

/// Bytes of a tag.
pub(crate) const TAG: usize = 15;
/// Bytes of a tag that identify the page and stay with it when it is copied.
const ID: usize = 4;
/// Bytes of a tag after the identity.
const TAIL: usize = TAG - ID;
/// Bytes of the field with the sequence number.
const SEQUENCE: usize = 3;
const FIELD_MASK: u64 = (1 << (8 * SEQUENCE)) - 1;
/// Unit of a block's base.
pub(crate) const BASE_UNIT: u64 = 256;
/// Numbers that an identity can hold.
pub(crate) const NUMBERS: u32 = 1 << 30;

const CRC8: Crc<u8> = Crc::<u8>::new(&CRC_8_SMBUS);

/// An identity of two bits of kind and 30 of number.
#[inline]
pub(crate) fn id(kind: u32, number: u32) -> u32 {
    number | kind << 30
}

/// The kind and the number of an identity.
#[inline]
pub(crate) fn split_id(id: u32) -> (u32, u32) {
    (id >> 30, id & (NUMBERS - 1))
}

/// The fields of a tag, before a layer gives its kinds and flags a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub id: u32,
    pub sequence: u32,
    /// A sequence number, a multiple of [`BASE_UNIT`].
    pub base: u64,
    pub wear: u32,
}

impl Fields {
    /// None if the page is erased or foreign.
    pub fn decode(magic: [u8; 4], bytes: &[u8; TAG]) -> Option<Self> {
        let sound = bytes[14] == header_crc(magic, &bytes[7..14]);
        sound.then(|| Self {
            id: le(&bytes[..4]) as u32,
            sequence: le(&bytes[4..7]) as u32,
            base: le(&bytes[7..11]) * BASE_UNIT,
            wear: le(&bytes[11..14]) as u32,
        })
    }
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

fn header_crc(magic: [u8; 4], bytes: &[u8]) -> u8 {
    let mut digest = CRC8.digest();
    digest.update(&magic);
    digest.update(bytes);
    digest.finalize()
}

/// The bytes after the identity that a block's pages carry: its header ready-made, the sequence
/// number to be filled in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    base: u64,
    bytes: [u8; TAIL],
}

impl Tail {
    /// Of a block with this base and wear, in a layer with this magic.
    pub fn new(magic: [u8; 4], base: u64, wear: u32) -> Self {
        let mut bytes = [0; TAIL];
        bytes[SEQUENCE..7].copy_from_slice(&((base / BASE_UNIT) as u32).to_le_bytes());
        bytes[7..10].copy_from_slice(&wear.to_le_bytes()[..3]);
        bytes[10] = header_crc(magic, &bytes[SEQUENCE..10]);
        Self { base, bytes }
    }

    /// Sequence numbers since the block was opened.
    #[inline]
    pub fn age(&self, sequence: u64) -> u64 {
        sequence - self.base
    }

    /// The bytes after the identity, of a page with this sequence number.
    #[inline]
    pub fn at(&self, sequence: u64, flags: u32) -> [u8; TAIL] {
        let mut bytes = self.bytes;
        let field = self.age(sequence) as u32 | flags;
        // With the bytes behind it the field makes a word; it is zero in a block's tail.
        let (word, _) = bytes.split_first_chunk_mut().expect("longer than a word");
        let filled = u64::from_le_bytes(*word) | u64::from(field) & FIELD_MASK;
        *word = filled.to_le_bytes();
        bytes
    }

    /// The whole tag of a page.
    #[inline]
    pub fn tag(&self, id: u32, sequence: u64, flags: u32) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag[..ID].copy_from_slice(&id.to_le_bytes());
        tag[ID..].copy_from_slice(&self.at(sequence, flags));
        tag
    }
}

/// Pages to be copied in one go, each with its identity and a new tail.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    moves: Vec<Move>,
    names: Vec<[u8; ID]>,
    tails: Vec<[u8; TAIL]>,
}

impl Batch {
    /// With space for so many pages before anything is allocated.
    pub fn with_capacity(pages: usize) -> Self {
        Self {
            moves: Vec::with_capacity(pages),
            names: Vec::with_capacity(pages),
            tails: Vec::with_capacity(pages),
        }
    }

    pub fn clear(&mut self) {
        self.moves.clear();
        self.tails.clear();
    }

    /// Leaves the first pages only.
    pub fn truncate(&mut self, pages: usize) {
        self.moves.truncate(pages);
        self.tails.truncate(pages);
    }

    pub fn len(&self) -> usize {
        self.moves.len()
    }

    /// Adds `count` pages that go to consecutive ones from `to` on, with consecutive sequence
    /// numbers; `from` gives the next page.
    #[inline]
    pub fn push_run(
        &mut self,
        count: u32,
        mut from: impl FnMut() -> Page,
        to: Page,
        (tail, sequence): (Tail, u64),
    ) {
        self.moves.extend((0..count).map(|i| Move {
            from: from(),
            to: Page(to.0 + i),
        }));
        self.tails
            .extend((0..count).map(|i| tail.at(sequence + u64::from(i), 0)));
    }

    #[inline]
    pub fn push(&mut self, from: Page, to: Page, tail: [u8; TAIL]) {
        self.moves.push(Move { from, to });
        self.tails.push(tail);
    }

    /// The same for pages that the planes of a die may program together.
    pub fn copy_joined(&mut self, mtd: &mut impl Mtd) -> (usize, Result<(), MtdError>) {
        self.names.resize(self.moves.len(), [0; ID]);
        mtd.copy_joined(
            &self.moves,
            self.names.as_flattened_mut(),
            self.tails.as_flattened(),
        )
    }

    /// Copies until a page fails; gives the number of pages done, and the failure.
    pub fn copy(&mut self, mtd: &mut impl Mtd) -> (usize, Result<(), MtdError>) {
        self.names.resize(self.moves.len(), [0; ID]);
        mtd.copy_many(
            &self.moves,
            self.names.as_flattened_mut(),
            self.tails.as_flattened(),
        )
    }

    /// The first `done` pages and the names that they carry.
    #[inline]
    pub fn done(&self, done: usize) -> impl Iterator<Item = (Move, u32)> + Clone + '_ {
        let names = self.names[..done].iter();
        let names = names.map(|bytes| u32::from_le_bytes(*bytes));
        self.moves[..done].iter().copied().zip(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = *b"TEST";

    #[test]
    fn fields_read_back_in_their_own_layer_alone() {
        let base = 77 * BASE_UNIT;
        let tail = Tail::new(MAGIC, base, 0xa1_0203);
        let tag = tail.tag(id(2, 5), base + 0x1_0203, 1 << 23);
        let fields = Fields {
            id: 0x8000_0005,
            sequence: 0x81_0203,
            base,
            wear: 0xa1_0203,
        };
        assert_eq!(Fields::decode(MAGIC, &tag), Some(fields));
        assert_eq!(Fields::decode(*b"FAKE", &tag), None);
        assert_eq!(split_id(fields.id), (2, 5));
        assert_eq!(
            tag[..14],
            [5, 0, 0, 0x80, 3, 2, 0x81, 77, 0, 0, 0, 3, 2, 0xa1]
        );
    }
}
