//! What the cache puts into its memory: a header, a tag for each slot, and the slots, each of one
//! page.
//!
//! Numbers are little-endian; L is the memory's sector, P the page, S the number of slots.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `NLWRCAC1` |
//! | 8..12 | P |
//! | 12..16 | S |
//! | 16..24 | sectors of the disk |
//! | 24..28 | bytes of a sector of the disk |
//! | 28..32 | CRC-32 of bytes 0..28 |
//! | L.. | S tags of 16 bytes; zeros: the slot is free |
//! | from the next multiple of L | S slots of P bytes |
//!
//! **Tag.**
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | bit 31: the page was discarded and reads as zeros, whatever the slot holds; bits 30..0: the page, plus one |
//! | 4..12 | sequence number of the version, from one |
//! | 12..16 | CRC-32 of bytes 0..12 and the header's CRC |
//!
//! A tag lies within one sector of the memory, so it is there as a whole or not at all. Of two tags
//! of one page the one with the larger number counts.

use super::CacheError;
use nandlab_block::BlockGeometry;

pub(super) const HEADER: usize = 32;
pub(super) const TAG: usize = 16;
const MAGIC: u64 = u64::from_le_bytes(*b"NLWRCAC1");
const DISCARDED: u32 = 1 << 31;
/// Fewer slots leave nothing to choose from.
const LEAST_SLOTS: u32 = 4;

/// Where everything lies, and for which disk. Lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Of a sector of the memory.
    pub line: u32,
    pub page: u32,
    pub slots: u32,
    disk_sectors: u64,
    disk_sector: u32,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub page: u32,
    pub discarded: bool,
    pub sequence: u64,
}

impl Layout {
    /// As many slots as fit into `bytes` of a memory.
    pub fn new(
        disk: &BlockGeometry,
        memory: &BlockGeometry,
        bytes: Option<u64>,
    ) -> Result<Self, CacheError> {
        let line = memory.sector;
        let unfit = |what, found, expected| {
            Err(CacheError::Unsuitable {
                what,
                found,
                expected,
            })
        };
        if !line.is_multiple_of(TAG as u32)
            || (line as usize) < HEADER
            || !disk.sector.is_multiple_of(line)
        {
            return unfit(
                "bytes of a sector of the non-volatile memory",
                line.into(),
                "a multiple of 16 from 32 up that divides the disk's sector",
            );
        }
        if disk.page == 0 || !disk.page.is_multiple_of(disk.sector) {
            return unfit(
                "bytes of a page of the disk",
                disk.page.into(),
                "a multiple of its sector",
            );
        }
        if !disk.bytes().is_multiple_of(disk.page.into())
            || disk.bytes() / u64::from(disk.page) >= DISCARDED.into()
        {
            return unfit(
                "bytes of the disk",
                disk.bytes(),
                "a multiple of its page, of less than 2^31 pages",
            );
        }
        let bytes = memory.bytes().min(bytes.unwrap_or(u64::MAX));
        let slots = bytes.saturating_sub(2 * u64::from(line)) / (u64::from(disk.page) + TAG as u64);
        if slots < LEAST_SLOTS.into() {
            return Err(CacheError::TooSmall {
                bytes,
                pages: slots,
                page: disk.page,
                least: LEAST_SLOTS,
            });
        }
        // Half of all numbers, so that tables of twice as many can be numbered too.
        let slots = slots.min(u64::from(u32::MAX / 2)) as u32;
        Ok(Self {
            line,
            page: disk.page,
            slots,
            disk_sectors: disk.sectors,
            disk_sector: disk.sector,
        })
    }

    /// The layout that a header describes, for the same disk and memory as `self`; none if the
    /// memory was never used.
    pub fn found(&self, header: &[u8], memory_bytes: u64) -> Result<Option<Self>, CacheError> {
        let magic = le64(header, 0);
        if magic == 0 && header[..HEADER].iter().all(|&b| b == 0) {
            return Ok(None);
        }
        if magic != MAGIC {
            return Err(CacheError::NotACache { found: magic });
        }
        if le32(header, 28) != crc32fast::hash(&header[..28]) {
            return Err(CacheError::Damaged {
                offset: 0,
                what: "the header does not match its CRC",
            });
        }
        let page = le32(header, 8);
        let slots = le32(header, 12);
        let disk_sectors = le64(header, 16);
        let disk_sector = le32(header, 24);
        let expected = [
            ("page", u64::from(page), u64::from(self.page)),
            ("number of sectors", disk_sectors, self.disk_sectors),
            ("sector", disk_sector.into(), self.disk_sector.into()),
        ];
        if let Some(&(what, found, expected)) = expected.iter().find(|e| e.1 != e.2) {
            return Err(CacheError::Foreign {
                what,
                found,
                expected,
            });
        }
        let found = Self { slots, ..*self };
        if slots < LEAST_SLOTS || found.place(slots) > memory_bytes {
            return Err(CacheError::Damaged {
                offset: 12,
                what: "more slots than the memory has space for, or too few",
            });
        }
        Ok(Some(found))
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        header[8..12].copy_from_slice(&self.page.to_le_bytes());
        header[12..16].copy_from_slice(&self.slots.to_le_bytes());
        header[16..24].copy_from_slice(&self.disk_sectors.to_le_bytes());
        header[24..28].copy_from_slice(&self.disk_sector.to_le_bytes());
        let crc = crc32fast::hash(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// What sets the tags of this cache apart from those of others.
    pub fn key(&self) -> u32 {
        le32(&self.encode(), 28)
    }

    /// Pages of the disk.
    pub fn disk_pages(&self) -> u32 {
        (self.disk_sectors * u64::from(self.disk_sector) / u64::from(self.page)) as u32
    }

    /// Where the tag of a slot is.
    pub fn tag(&self, slot: u32) -> u64 {
        u64::from(self.line) + u64::from(slot) * TAG as u64
    }

    /// Where a slot begins; `slots` for the end of the last.
    pub fn place(&self, slot: u32) -> u64 {
        let tags = (u64::from(self.slots) * TAG as u64).next_multiple_of(self.line.into());
        u64::from(self.line) + tags + u64::from(slot) * u64::from(self.page)
    }
}

impl Tag {
    pub fn encode(self, key: u32) -> [u8; TAG] {
        let mut bytes = [0; TAG];
        let name = (self.page + 1) | if self.discarded { DISCARDED } else { 0 };
        bytes[..4].copy_from_slice(&name.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = tag_crc(&bytes, key);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The tag, if there is one; what is wrong with it, if it cannot be one.
    pub fn decode(bytes: &[u8], key: u32, disk_pages: u32) -> Result<Option<Self>, &'static str> {
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        if le32(bytes, 12) != tag_crc(bytes, key) {
            return Err("the tag does not match its CRC");
        }
        let name = le32(bytes, 0);
        let sequence = le64(bytes, 4);
        match (name & !DISCARDED).checked_sub(1) {
            // The last number is kept free, for one more to follow.
            Some(page) if page < disk_pages && (1..u64::MAX).contains(&sequence) => {
                Ok(Some(Self {
                    page,
                    discarded: name & DISCARDED != 0,
                    sequence,
                }))
            }
            _ => Err("the tag names no page of the disk"),
        }
    }
}

fn tag_crc(bytes: &[u8], key: u32) -> u32 {
    let mut digest = crc32fast::Hasher::new();
    digest.update(&bytes[..12]);
    digest.update(&key.to_le_bytes());
    digest.finalize()
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: BlockGeometry = BlockGeometry {
        sector: 512,
        sectors: 4096,
        page: 2048,
    };
    const MEMORY: BlockGeometry = BlockGeometry {
        sector: 64,
        sectors: 1024,
        page: 64,
    };

    #[test]
    fn as_many_slots_as_fit() {
        let layout = Layout::new(&DISK, &MEMORY, None).unwrap();
        assert_eq!((layout.slots, layout.disk_pages()), (31, 1024));
        assert!(layout.place(31) <= MEMORY.bytes());
        // Header, one line of four tags, and four pages; one byte less holds three.
        let least = 64 + 64 + 4 * 2048 + 4 * 16;
        assert_eq!(Layout::new(&DISK, &MEMORY, Some(least)).unwrap().slots, 4);
        let refused = Layout::new(&DISK, &MEMORY, Some(least - 1)).unwrap_err();
        assert_eq!(
            refused,
            CacheError::TooSmall {
                bytes: least - 1,
                pages: 3,
                page: 2048,
                least: 4
            }
        );
    }

    #[test]
    fn headers_and_tags_come_back() {
        let layout = Layout::new(&DISK, &MEMORY, Some(20_000)).unwrap();
        let whole = Layout::new(&DISK, &MEMORY, None).unwrap();
        assert_eq!(
            whole.found(&layout.encode(), MEMORY.bytes()),
            Ok(Some(layout))
        );
        assert_eq!(whole.found(&[0; HEADER], MEMORY.bytes()), Ok(None));
        for (page, discarded) in [(0, true), (1023, false)] {
            let tag = Tag {
                page,
                discarded,
                sequence: 77,
            };
            assert_eq!(Tag::decode(&tag.encode(5), 5, 1024), Ok(Some(tag)));
            assert!(
                Tag::decode(&tag.encode(5), 6, 1024).is_err()
                    && Tag::decode(&tag.encode(5), 5, page).is_err()
            );
        }
        assert_eq!(Tag::decode(&[0; TAG], 5, 1024), Ok(None));
    }

    #[test]
    fn any_flipped_bit_of_a_header_or_tag_is_noticed() {
        let layout = Layout::new(&DISK, &MEMORY, None).unwrap();
        let tag = Tag {
            page: 9,
            discarded: false,
            sequence: 1,
        }
        .encode(layout.key());
        for bit in 0..HEADER * 8 {
            let mut header = layout.encode();
            header[bit / 8] ^= 1 << (bit % 8);
            assert!(layout.found(&header, MEMORY.bytes()).is_err(), "bit {bit}");
        }
        for bit in 0..TAG * 8 {
            let mut tag = tag;
            tag[bit / 8] ^= 1 << (bit % 8);
            assert!(Tag::decode(&tag, layout.key(), 1024).is_err(), "bit {bit}");
        }
    }
}
