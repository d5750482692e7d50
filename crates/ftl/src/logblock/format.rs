//! What the log-block layers put on flash: a 15-byte tag in the OOB of every page, and one anchor
//! page. All integers are little-endian; `docs/formats/log-block-ftl.md` has every field.
//!
//! **Tag** (user OOB bytes 0 to 14):
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | bits 31-30 kind (0 data, 1 discarded, 2 lost, 3 anchor), bits 29-0 logical page |
//! | 4-6 | bit 23 set on the last page of a full merge, bits 22-0 sequence number of the page, less the block's base |
//! | 7-10 | base of the block: sequence number when it was opened, in units of 256 |
//! | 11-13 | bits 23-20 role of the block, bits 19-0 its erase count |
//! | 14 | CRC-8 (polynomial 0x07) of "NLL1" and bytes 7 to 13 |
//!
//! Bytes 7 to 14 are the block header, equal in all pages of a block. A tag is covered by its
//! page's error correction, which is what tells a torn page; the CRC tells these layers' blocks
//! from foreign ones.

use crc::{CRC_8_SMBUS, Crc};

/// Bytes of a tag.
pub(crate) const TAG: usize = 15;
/// Bytes of a tag that name the page and stay with it when it is copied.
const TAG_NAME: usize = 4;
/// Sequence numbers of a block span less than this, and a block's worth more while it is being
/// completed.
const SPAN: u64 = (1 << 23) - (1 << 16);
/// Unit of a block's base.
pub(crate) const BASE_UNIT: u64 = 256;
/// Most logical pages.
pub(crate) const MAX_PAGES: u32 = 1 << 30;
pub(crate) const VERSION: u16 = 1;

const LAST: u32 = 1 << 23;
const MOST_ERASES: u32 = (1 << 20) - 1;
const CRC8: Crc<u8> = Crc::<u8>::new(&CRC_8_SMBUS);

/// What a page holds of its logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its contents.
    Data = 0,
    /// That it was discarded: it reads as zeros. The page has no data.
    Discarded = 1,
    /// That its contents were lost to a media error. The page has no data.
    Lost = 2,
    /// Nothing: this is the anchor page.
    Anchor = 3,
}

impl Kind {
    /// Of the first bytes of a tag.
    #[inline]
    pub fn of(name: u32) -> Self {
        match name >> 30 {
            0 => Self::Data,
            1 => Self::Discarded,
            2 => Self::Lost,
            _ => Self::Anchor,
        }
    }
}

/// What a block was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// First writes in place.
    Data = 0,
    /// A full merge; void until its last page is there.
    Merged = 1,
    /// A log that becomes a data block if it is written in order.
    Log = 2,
    /// A log of any pages.
    Random = 3,
    /// The anchor pages.
    Anchor = 4,
}

/// The part of a tag that all pages of a block share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Sequence number when the block was opened; a multiple of [`BASE_UNIT`].
    pub base: u64,
    pub erases: u32,
    pub role: Role,
}

impl BlockHeader {
    fn encode(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&((self.base / BASE_UNIT) as u32).to_le_bytes());
        let wear = self.erases.min(MOST_ERASES) | (self.role as u32) << 20;
        bytes[4..7].copy_from_slice(&wear.to_le_bytes()[..3]);
        bytes[7] = header_crc(&bytes[..7]);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes[7] != header_crc(&bytes[..7]) {
            return None;
        }
        let wear = le(&bytes[4..7]) as u32;
        let role = match wear >> 20 {
            0 => Role::Data,
            1 => Role::Merged,
            2 => Role::Log,
            3 => Role::Random,
            4 => Role::Anchor,
            _ => return None,
        };
        Some(Self {
            base: le(&bytes[..4]) * BASE_UNIT,
            erases: wear & MOST_ERASES,
            role,
        })
    }
}

fn header_crc(bytes: &[u8]) -> u8 {
    let mut digest = CRC8.digest();
    digest.update(b"NLL1");
    digest.update(bytes);
    digest.finalize()
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// The bytes after the name that a block's pages carry: its header ready-made, the sequence number
/// to be filled in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    base: u64,
    bytes: [u8; TAG - TAG_NAME],
}

impl Tail {
    pub fn new(header: BlockHeader) -> Self {
        let mut bytes = [0; TAG - TAG_NAME];
        bytes[3..].copy_from_slice(&header.encode());
        Self {
            base: header.base,
            bytes,
        }
    }

    /// Whether a page of this sequence number can still go into the block.
    #[inline]
    pub fn spans(&self, sequence: u64) -> bool {
        sequence - self.base < SPAN
    }

    #[inline]
    pub fn at(&self, sequence: u64, last: bool) -> [u8; TAG - TAG_NAME] {
        let mut bytes = self.bytes;
        let word = (sequence - self.base) as u32 | if last { LAST } else { 0 };
        bytes[..3].copy_from_slice(&word.to_le_bytes()[..3]);
        bytes
    }

    #[inline]
    pub fn tag(&self, kind: Kind, lpn: u32, sequence: u64, last: bool) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag[..TAG_NAME].copy_from_slice(&(lpn | (kind as u32) << 30).to_le_bytes());
        tag[TAG_NAME..].copy_from_slice(&self.at(sequence, last));
        tag
    }
}

/// A tag read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub kind: Kind,
    pub lpn: u32,
    pub sequence: u64,
    /// The last page of a full merge.
    pub last: bool,
    pub block: BlockHeader,
}

impl Tag {
    /// None if the page is erased or foreign.
    pub fn decode(bytes: &[u8; TAG]) -> Option<Self> {
        let block = BlockHeader::decode(&bytes[7..])?;
        let name = le(&bytes[..4]) as u32;
        let word = le(&bytes[4..7]) as u32;
        let sequence = block.base + u64::from(word & (LAST - 1));
        Some(Self {
            kind: Kind::of(name),
            lpn: name & (MAX_PAGES - 1),
            sequence,
            last: word & LAST != 0,
            block,
        })
    }
}

/// The anchor page: what the medium was formatted for. Written twice, in the first two pages of its
/// block.
///
/// | bytes | field |
/// |---|---|
/// | 0-3 | magic "NLLA" |
/// | 4-5 | version 1 |
/// | 6 | scheme: 0 set-associative (BAST, SAST), 1 FAST |
/// | 7 | zero |
/// | 8-11 | data bytes of a page |
/// | 12-15 | pages of a block |
/// | 16-19 | blocks of the array |
/// | 20-23 | logical blocks offered |
/// | 24-27 | logical blocks of a group (0: FAST) |
/// | 28-31 | log blocks that a group may have (0: FAST) |
/// | 32-35 | CRC-32 (IEEE) of bytes 0 to 31 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub scheme: u8,
    pub page: u32,
    pub pages_per_block: u32,
    pub blocks: u32,
    pub logical_blocks: u32,
    pub group_blocks: u32,
    pub group_logs: u32,
}

const ANCHOR: usize = 36;
const MAGIC: [u8; 4] = *b"NLLA";

impl Anchor {
    /// Fills `page`, which has at least 36 bytes.
    pub fn encode(&self, page: &mut [u8]) {
        page.fill(0xff);
        page[..8].fill(0);
        page[..4].copy_from_slice(&MAGIC);
        page[4..6].copy_from_slice(&VERSION.to_le_bytes());
        page[6] = self.scheme;
        let fields = [
            self.page,
            self.pages_per_block,
            self.blocks,
            self.logical_blocks,
            self.group_blocks,
            self.group_logs,
        ];
        for (bytes, field) in page[8..32].chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32fast::hash(&page[..32]);
        page[32..ANCHOR].copy_from_slice(&crc.to_le_bytes());
    }

    /// The version and the fields; none if anything about the page is wrong.
    pub fn decode(page: &[u8]) -> Option<(u16, Self)> {
        let word = |at: usize| le(&page[at..at + 4]) as u32;
        if page.len() < ANCHOR || page[..4] != MAGIC || word(32) != crc32fast::hash(&page[..32]) {
            return None;
        }
        let anchor = Self {
            scheme: page[6],
            page: word(8),
            pages_per_block: word(12),
            blocks: word(16),
            logical_blocks: word(20),
            group_blocks: word(24),
            group_logs: word(28),
        };
        Some((u16::from_le_bytes([page[4], page[5]]), anchor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn tags_read_back_and_a_damaged_header_is_seen() {
        let header = BlockHeader {
            base: 77 * BASE_UNIT,
            erases: 70_000,
            role: Role::Merged,
        };
        let tag = Tail::new(header).tag(Kind::Lost, 5, header.base + 1_000_000, true);
        let back = Tag::decode(&tag).unwrap();
        assert_eq!(
            back,
            Tag {
                kind: Kind::Lost,
                lpn: 5,
                sequence: header.base + 1_000_000,
                last: true,
                block: header
            }
        );
        assert_eq!(Tag::decode(&[0xff; TAG]), None);
        for bit in 56..120 {
            let mut bad = tag;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Tag::decode(&bad), None, "bit {bit}");
        }
        assert!(
            Tail::new(header).spans(header.base + SPAN - 1)
                && !Tail::new(header).spans(header.base + SPAN)
        );
    }

    #[test]
    fn anchors_read_back_and_damage_is_seen() {
        let anchor = Anchor {
            scheme: 0,
            page: 512,
            pages_per_block: 32,
            blocks: 4096,
            logical_blocks: 4000,
            group_blocks: 4,
            group_logs: 2,
        };
        let mut page = vec![0; 512];
        anchor.encode(&mut page);
        assert_eq!(Anchor::decode(&page), Some((VERSION, anchor)));
        for byte in 0..ANCHOR {
            let mut bad = page.clone();
            bad[byte] ^= 0x10;
            assert_eq!(Anchor::decode(&bad), None, "byte {byte}");
        }
    }
}
