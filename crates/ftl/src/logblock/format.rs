//! What the log-block layers put on flash: a tag in the OOB of every page, and one anchor page. All
//! integers are little-endian; `docs/formats/log-block-ftl.md` has every field.
//!
//! **Tag**: the layout of `tag` with the magic "NLL1". The kind is that of [`Kind`], the number the
//! logical page. Bit 23 of the sequence field is set on the last page of a full merge. Bits 23-20
//! of the wear are the block's [`Role`].

use crate::tag::{self, Fields, TAG, Tail};

/// Sequence numbers of a block span less than this, and a block's worth more while it is being
/// completed.
pub(crate) const SPAN: u64 = (1 << 23) - (1 << 16);
/// The most logical pages that the format can name.
pub(crate) const MAX_PAGES: u32 = tag::NUMBERS;
pub(crate) const VERSION: u16 = 1;

const TAG_MAGIC: [u8; 4] = *b"NLL1";
/// Flag of the sequence field: the last page of a full merge.
const LAST: u32 = 1 << 23;
const MOST_ERASES: u32 = (1 << 20) - 1;

/// What a page holds of its logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of the volume's contents.
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
    pub fn of(id: u32) -> Self {
        match tag::split_id(id).0 {
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
    /// The block holds the anchor pages.
    Anchor = 4,
}

/// The part of a tag that all pages of a block share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Sequence number when the block was opened; a multiple of [`BASE_UNIT`](tag::BASE_UNIT).
    pub base: u64,
    pub erases: u32,
    pub role: Role,
}

impl BlockHeader {
    /// What the block's tags end with.
    pub fn tail(self) -> Tail {
        let wear = self.erases.min(MOST_ERASES) | (self.role as u32) << 20;
        Tail::new(TAG_MAGIC, self.base, wear)
    }

    fn of(fields: &Fields) -> Option<Self> {
        let role = match fields.wear >> 20 {
            0 => Role::Data,
            1 => Role::Merged,
            2 => Role::Log,
            3 => Role::Random,
            4 => Role::Anchor,
            _ => return None,
        };
        Some(Self {
            base: fields.base,
            erases: fields.wear & MOST_ERASES,
            role,
        })
    }
}

/// The flags of a page's sequence field.
#[inline]
pub(crate) fn flags(last: bool) -> u32 {
    if last { LAST } else { 0 }
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
        let fields = Fields::decode(TAG_MAGIC, bytes)?;
        let block = BlockHeader::of(&fields)?;
        let (_, lpn) = tag::split_id(fields.id);
        Some(Self {
            kind: Kind::of(fields.id),
            lpn,
            sequence: block.base + u64::from(fields.sequence & (LAST - 1)),
            last: fields.sequence & LAST != 0,
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
        let word =
            |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
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
    use crate::tag::BASE_UNIT;
    use alloc::vec;

    #[test]
    fn tags_read_back_and_a_damaged_header_is_seen() {
        let header = BlockHeader {
            base: 77 * BASE_UNIT,
            erases: 70_000,
            role: Role::Merged,
        };
        let id = tag::id(Kind::Lost as u32, 5);
        let tail = header.tail();
        let tag = tail.tag(id, header.base + 1_000_000, flags(true));
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
        assert!(tail.age(header.base + SPAN - 1) < SPAN && tail.age(header.base + SPAN) >= SPAN);
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
