//! What the page-mapped layer puts on flash: a tag in the OOB of every page, map pages, and pages
//! of remap records. All integers are little-endian.
//!
//! **Tag**: the layout of `tag` with the magic "NLP1". The kind is 0 for data, 1 for a map page and
//! 2 for a remap record; the number is the logical page, the map index or the part of the record.
//! The date has no flags. Bit 23 of the wear is set in blocks in SLC mode.
//!
//! **Map page** (data of a page of kind map): a 32-byte header and `count` entries of 4 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | magic "NLPM" |
//! | 4-5 | version 2; version 1 is the same without [`REMAPPED`] and without records; 3 in the header page if blocks may be in SLC mode |
//! | 6-7 | zero |
//! | 8-11 | map index; the index after the last map page is the header page, whose entries are listed at [`Header`] |
//! | 12-15 | count of entries |
//! | 16-23 | sequence number: the entries hold whatever was written before it |
//! | 24-27 | zero |
//! | 28-31 | CRC-32 (IEEE) of bytes 0 to 27 and of the entries |
//!
//! An entry is 0 (unmapped), 0xFFFF_FFFF (contents lost to a media error) or the flash page plus
//! one, with [`REMAPPED`] if the page's tag names another logical page.
//!
//! **Record page** (data of a page of kind remap record): a 32-byte header and `count` pairs of 12
//! bytes. One remap is one record of one or more pages; it counts once its last page is there, and
//! all others are.
//!
//! | bytes | field |
//! |---|---|
//! | 0-3 | magic "NLPR" |
//! | 4-5 | version 2 |
//! | 6-7 | 1 in the last page of the record, 0 in the others |
//! | 8-11 | part: place of the page in its record, from 0 |
//! | 12-15 | count of pairs |
//! | 16-23 | number of the record: the sequence number when it was begun |
//! | 24-27 | last page: sequence number of the record (that of this page when it was first programmed) less the number; zero in the others |
//! | 28-31 | CRC-32 (IEEE) of bytes 0 to 27 and of the pairs |
//!
//! A pair is the logical page that becomes unmapped (bytes 0-3) and the logical page that takes its
//! place (4-7). Then comes the entry that it takes (8-11, as in a map page, without [`REMAPPED`]).
//! Of two pairs of one record with the same logical pages the later one counts.

use crate::tag::{self, Fields, TAG, Tail};

/// Bytes of a map page before its entries.
pub(crate) const MAP_HEADER: usize = 32;
/// Bytes of a pair in a record page.
pub(crate) const PAIR: usize = 12;
/// Flag of an entry on flash: the tag of the page names another logical page, which gave the page
/// away. Only on arrays of at most [`REMAPPED_PAGES_MAX`] pages.
pub(crate) const REMAPPED: u32 = 1 << 31;
/// Most pages of an array that offers remaps; on larger ones bit 31 of an entry belongs to the
/// page.
pub(crate) const REMAPPED_PAGES_MAX: u32 = REMAPPED - 2;
/// Entry of a logical page whose contents are lost.
pub(crate) const LOST: u32 = u32::MAX;
/// Sequence numbers of a block span less than this.
pub(crate) const SPAN: u64 = 1 << 24;
/// The most logical pages that the format can name.
pub(crate) const MAX_PAGES: u32 = tag::NUMBERS - 1;

const TAG_MAGIC: [u8; 4] = *b"NLP1";
const MAGIC: [u8; 4] = *b"NLPM";
const RECORD_MAGIC: [u8; 4] = *b"NLPR";
/// The version that is written; older ones are read.
pub(crate) const VERSION: u16 = 2;
/// The version of a header page whose medium may have blocks in SLC mode.
pub(crate) const SLC_VERSION: u16 = 3;
/// Flag of the wear: the block is in SLC mode.
const SLC: u32 = 1 << 23;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageId {
    Data(u32),
    Map(u32),
    /// A part of a remap record.
    Record(u32),
}

impl PageId {
    #[inline]
    pub fn encode(self) -> u32 {
        match self {
            Self::Data(lpn) => tag::id(0, lpn),
            Self::Map(index) => tag::id(1, index),
            Self::Record(part) => tag::id(2, part),
        }
    }

    /// None for kinds that this version does not know, erased pages among them.
    #[inline]
    pub fn decode(word: u32) -> Option<Self> {
        match tag::split_id(word) {
            (0, lpn) => Some(Self::Data(lpn)),
            (1, index) => Some(Self::Map(index)),
            (2, part) => Some(Self::Record(part)),
            _ => None,
        }
    }
}

/// The part of a tag that all pages of a block share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Sequence number when the block was opened; a multiple of [`BASE_UNIT`](tag::BASE_UNIT).
    pub base: u64,
    pub erases: u32,
    /// The block was erased into SLC mode, and has fewer pages.
    pub slc: bool,
}

impl BlockHeader {
    /// What the block's tags end with.
    pub fn tail(self) -> Tail {
        let flag = if self.slc { SLC } else { 0 };
        Tail::new(TAG_MAGIC, self.base, self.erases & (SLC - 1) | flag)
    }
}

/// A tag read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub id: PageId,
    pub sequence: u64,
    pub block: BlockHeader,
}

impl Tag {
    /// None if the page is erased, foreign, or of a kind unknown here.
    pub fn decode(bytes: &[u8; TAG]) -> Option<Self> {
        let fields = Fields::decode(TAG_MAGIC, bytes)?;
        Some(Self {
            id: PageId::decode(fields.id)?,
            sequence: fields.base + u64::from(fields.sequence),
            block: BlockHeader {
                base: fields.base,
                erases: fields.wear & (SLC - 1),
                slc: fields.wear & SLC != 0,
            },
        })
    }
}

/// Entries of a map page of `page` bytes.
pub(crate) fn entries_per_page(page: u32) -> u32 {
    (page - MAP_HEADER as u32) / 4
}

/// Pairs of a record page of `page` bytes.
pub(crate) fn pairs_per_page(page: u32) -> u32 {
    (page - MAP_HEADER as u32) / PAIR as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes the header over a page whose `count` items of `size` bytes are in place.
fn seal(page: &mut [u8], magic: [u8; 4], index: u32, (count, size): (usize, usize), sequence: u64) {
    page[..4].copy_from_slice(&magic);
    page[4..6].copy_from_slice(&VERSION.to_le_bytes());
    put(page, 8, index);
    put(page, 12, count as u32);
    page[16..24].copy_from_slice(&sequence.to_le_bytes());
    put(page, 28, page_crc(page, count * size));
}

/// The items of a page with this magic; none if anything about it is wrong.
fn unseal(page: &[u8], magic: [u8; 4], size: usize) -> Option<core::slice::ChunksExact<'_, u8>> {
    let count = word(page, 12) as usize;
    if page[..4] != magic
        || count > (page.len() - MAP_HEADER) / size
        || page_crc(page, count * size) != word(page, 28)
    {
        return None;
    }
    Some(page[MAP_HEADER..MAP_HEADER + count * size].chunks_exact(size))
}

fn page_crc(page: &[u8], items: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page[..28]);
    hasher.update(&page[MAP_HEADER..MAP_HEADER + items]);
    hasher.finalize()
}

fn version(page: &[u8]) -> u16 {
    u16::from_le_bytes([page[4], page[5]])
}

fn sequence(page: &[u8]) -> u64 {
    u64::from(word(page, 16)) | u64::from(word(page, 20)) << 32
}

/// Fills `page` with a map page.
pub(crate) fn encode_map(
    page: &mut [u8],
    index: u32,
    sequence: u64,
    entries: impl ExactSizeIterator<Item = u32>,
) {
    let count = entries.len();
    let (words, _) = page[MAP_HEADER..].as_chunks_mut::<4>();
    for (bytes, entry) in words.iter_mut().zip(entries) {
        *bytes = entry.to_le_bytes();
    }
    words[count..].fill([0xff; 4]);
    page[..MAP_HEADER].fill(0);
    seal(page, MAGIC, index, (count, 4), sequence);
}

/// Gives the header page in `page` the version `version`.
pub(crate) fn set_version(page: &mut [u8], version: u16) {
    page[4..6].copy_from_slice(&version.to_le_bytes());
    let entries = word(page, 12) as usize * 4;
    put(page, 28, page_crc(page, entries));
}

/// A map page read back: its version, its sequence number and its entries. None if anything about
/// it is wrong.
pub(crate) fn decode_map(
    page: &[u8],
    index: u32,
) -> Option<(u16, u64, impl Iterator<Item = u32> + '_)> {
    let entries = unseal(page, MAGIC, 4).filter(|_| word(page, 8) == index)?;
    Some((
        version(page),
        sequence(page),
        entries.map(|entry| word(entry, 0)),
    ))
}

/// One logical page takes over what another one held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub from: u32,
    pub to: u32,
    /// The entry that goes over.
    pub entry: u32,
}

/// Where a page stands in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPart {
    /// The sequence number of the record.
    pub number: u64,
    pub part: u32,
    /// In the last page: the record's sequence number.
    pub sequence: Option<u64>,
}

/// Fills `page` with a page of a record.
pub(crate) fn encode_record(page: &mut [u8], place: RecordPart, pairs: &[Pair]) {
    page.fill(0xff);
    for (bytes, pair) in page[MAP_HEADER..].chunks_exact_mut(PAIR).zip(pairs) {
        put(bytes, 0, pair.from);
        put(bytes, 4, pair.to);
        put(bytes, 8, pair.entry);
    }
    page[..MAP_HEADER].fill(0);
    if let Some(sequence) = place.sequence {
        page[6] = 1;
        put(page, 24, (sequence - place.number) as u32);
    }
    seal(
        page,
        RECORD_MAGIC,
        place.part,
        (pairs.len(), PAIR),
        place.number,
    );
}

/// A page of a record read back. None if anything about it is wrong, or it is of a version unknown
/// here.
pub(crate) fn decode_record(page: &[u8]) -> Option<(RecordPart, impl Iterator<Item = Pair> + '_)> {
    let pairs = unseal(page, RECORD_MAGIC, PAIR)
        .filter(|_| version(page) == VERSION && page[6] < 2 && page[7] == 0)?;
    let number = sequence(page);
    let last = number.checked_add(word(page, 24).into())?;
    let place = RecordPart {
        number,
        part: word(page, 8),
        sequence: (page[6] == 1).then_some(last),
    };
    Some((
        place,
        pairs.map(|pair| Pair {
            from: word(pair, 0),
            to: word(pair, 4),
            entry: word(pair, 8),
        }),
    ))
}

/// The header page: what the medium was formatted for. Its entries, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Data bytes of a page.
    pub page: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of the array.
    pub blocks: u32,
    /// The logical pages that the layer offers.
    pub logical_pages: u32,
}

impl Header {
    pub fn encode(self) -> [u32; 4] {
        [
            self.page,
            self.pages_per_block,
            self.blocks,
            self.logical_pages,
        ]
    }

    pub fn decode(mut entries: impl Iterator<Item = u32>) -> Option<Self> {
        let mut next = || entries.next();
        Some(Self {
            page: next()?,
            pages_per_block: next()?,
            blocks: next()?,
            logical_pages: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::BASE_UNIT;
    use alloc::{vec, vec::Vec};

    #[test]
    fn record_pages_read_back_and_damage_is_seen() {
        let pair = |i| Pair {
            from: i,
            to: 1_000 - i,
            entry: [i * 7, LOST, 0][i as usize % 3],
        };
        let pairs: Vec<Pair> = (0..pairs_per_page(512)).map(pair).collect();
        assert_eq!(pairs.len(), 40);
        let mut page = vec![0; 512];
        for sequence in [None, Some((1 << 40) + 5)] {
            let place = RecordPart {
                number: 1 << 40,
                part: 3,
                sequence,
            };
            encode_record(&mut page, place, &pairs);
            let (found, read) = decode_record(&page).unwrap();
            assert_eq!((found, read.collect::<Vec<_>>()), (place, pairs.clone()));
            assert!(decode_map(&page, 3).is_none());
            for byte in 0..page.len() {
                let mut bad = page.clone();
                bad[byte] ^= 0x10;
                assert!(decode_record(&bad).is_none(), "byte {byte}");
            }
        }
        assert_eq!(
            PageId::decode(PageId::Record(9).encode()),
            Some(PageId::Record(9))
        );
    }

    #[test]
    fn tags_and_map_pages_read_back_and_damage_is_seen() {
        let header = BlockHeader {
            base: 77 * BASE_UNIT,
            erases: 70_000,
            slc: true,
        };
        let id = PageId::Map(5).encode();
        let tag = header.tail().tag(id, header.base + 1_000_000, 0);
        let back = Tag::decode(&tag).unwrap();
        assert_eq!(
            (back.id, back.sequence, back.block),
            (PageId::Map(5), 77 * BASE_UNIT + 1_000_000, header)
        );
        assert_eq!(Tag::decode(&[0xff; TAG]), None);
        for bit in 56..120 {
            let mut bad = tag;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Tag::decode(&bad), None, "bit {bit}");
        }
        let mut page = vec![0; 512];
        encode_map(&mut page, 3, 1 << 40, [1u32, LOST, 9].into_iter());
        let (version, sequence, entries) = decode_map(&page, 3).unwrap();
        assert_eq!(
            (version, sequence, entries.collect::<Vec<_>>()),
            (VERSION, 1 << 40, vec![1, LOST, 9])
        );
        for byte in 0..44 {
            let mut bad = page.clone();
            bad[byte] ^= 0x10;
            assert!(decode_map(&bad, 3).is_none(), "byte {byte}");
        }
    }
}
