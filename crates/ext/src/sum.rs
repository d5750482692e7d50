//! Checksums of metadata: crc32c of everything (`metadata_csum`), or crc16 of the group descriptors
//! only (`uninit_bg`); Linux `fs/ext4`, `lib/ext2fs/csum.c` of e2fsprogs.
//!
//! *Promises* the numbers of Linux, and where they lie. Bytes that make no sense have no checksum;
//! nothing panics. *Knows nothing of* when blocks are read and written.

use crate::{
    ExtError,
    format::{INODE_OLD, Layout, desc, le16, le32, ro_compat, sb},
};
use crc::{CRC_16_MODBUS, Crc};
use nandlab_jbd::crc32c;

static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_MODBUS);

/// Bytes of the record at the end of a block of names that holds the checksum.
pub(crate) const TAIL: usize = 12;
/// The type of that record.
pub(crate) const TAIL_KIND: u8 = 0xDE;
/// The word before the checksum of a block of orphans.
pub(crate) const ORPHAN_MAGIC: u32 = 0x0B10_CA04;
/// Byte of a block of attributes at which the checksum lies.
const ATTRIBUTES_AT: usize = 16;
/// Bytes of an inode at which the halves of the checksum lie.
const INODE_LOW: usize = 124;
const INODE_HIGH: usize = 130;
/// The kind of checksum that the superblock names: crc32c.
const CRC32C: u8 = 1;

/// The metadata that has checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sums {
    /// None has.
    #[default]
    None,
    /// Group descriptors have a crc16.
    Groups,
    /// All metadata has a crc32c.
    All,
}

impl Sums {
    /// The checksums of a volume; the superblock's own must be right.
    pub(crate) fn of(superblock: &[u8], features: u32) -> Result<Self, ExtError> {
        if features & ro_compat::METADATA_CSUM == 0 {
            return Ok(match features & ro_compat::GDT_CSUM {
                0 => Self::None,
                _ => Self::Groups,
            });
        }
        let wrong = |offset: usize, field, found, expected| ExtError::Super {
            offset: offset as u16,
            field,
            found,
            expected,
        };
        let kind = superblock[sb::CHECKSUM_TYPE];
        if kind != CRC32C {
            let field = "kind of checksums";
            return Err(wrong(sb::CHECKSUM_TYPE, field, kind.into(), "1, crc32c"));
        }
        let found = le32(superblock, sb::CHECKSUM);
        if found != of_super(superblock) {
            let expected = "the crc32c of the superblock";
            return Err(wrong(sb::CHECKSUM, "checksum", found, expected));
        }
        Ok(Self::All)
    }
}

/// The checksum of a superblock.
pub(crate) fn of_super(bytes: &[u8]) -> u32 {
    crc32c(!0, &bytes[..sb::CHECKSUM])
}

/// A block of metadata whose checksum lies in it, with the seed of the inode that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// Names of a directory, or a part of its index.
    Directory(u32),
    /// A part of the tree of an inode's extents.
    Extents(u32),
    /// Attributes, which inodes may share.
    Attributes,
    /// Slots of the file of orphans.
    Orphans(u32),
}

impl Sum {
    /// The structure in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory(_) => "a block of names",
            Self::Extents(_) => "a block of extents",
            Self::Attributes => "a block of attributes",
            Self::Orphans(_) => "a block of orphans",
        }
    }

    /// Where a block holds its checksum, and which that should be; none if the block has no place
    /// for one.
    pub fn of(self, layout: &Layout, block: u32, bytes: &[u8]) -> Option<(usize, u32)> {
        match self {
            Self::Directory(seed) => of_names(seed, bytes),
            Self::Extents(seed) => {
                let at = 12 + 12 * usize::from(le16(bytes, 4));
                (at + 4 <= bytes.len()).then(|| (at, crc32c(seed, &bytes[..at])))
            }
            Self::Orphans(seed) => {
                let at = bytes.len() - 4;
                let start = crc32c(seed, &u64::from(block).to_le_bytes());
                Some((at, crc32c(start, &bytes[..at - 4])))
            }
            Self::Attributes => {
                let start = crc32c(layout.seed, &u64::from(block).to_le_bytes());
                let own = ATTRIBUTES_AT..ATTRIBUTES_AT + 4;
                Some((
                    ATTRIBUTES_AT,
                    without(start, bytes, core::slice::from_ref(&own)),
                ))
            }
        }
    }
}

/// The crc32c of bytes, some of which count as zeros.
fn without(start: u32, bytes: &[u8], zeros: &[core::ops::Range<usize>]) -> u32 {
    let mut sum = start;
    let mut at = 0;
    for zero in zeros {
        sum = crc32c(sum, &bytes[at..zero.start]);
        sum = crc32c(sum, &[0; 4][..zero.len()]);
        at = zero.end;
    }
    crc32c(sum, &bytes[at..])
}

/// Byte at which the pairs of an index begin in this block of a directory; none in a block of
/// names.
fn pairs(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(le16(bytes, 4));
    let is_node = le32(bytes, 0) == 0 && length == bytes.len() && bytes[6] == 0;
    let second = usize::from(le16(bytes, 16));
    let is_root =
        length == 12 && second == bytes.len() - 12 && le32(bytes, 24) == 0 && bytes[29] == 8;
    match (is_node, is_root) {
        (true, _) => Some(8),
        (_, true) => Some(32),
        _ => None,
    }
}

fn of_leaf(seed: u32, bytes: &[u8]) -> Option<(usize, u32)> {
    let at = bytes.len() - TAIL;
    let is_tail = le32(bytes, at) == 0
        && le16(bytes, at + 4) == TAIL as u16
        && bytes[at + 6..at + 8] == [0, TAIL_KIND];
    is_tail.then(|| (at + 8, crc32c(seed, &bytes[..at])))
}

fn of_names(seed: u32, bytes: &[u8]) -> Option<(usize, u32)> {
    let Some(pairs) = pairs(bytes) else {
        return of_leaf(seed, bytes);
    };
    let limit = usize::from(le16(bytes, pairs));
    let count = usize::from(le16(bytes, pairs + 2));
    let tail = pairs + 8 * limit;
    if count > limit || tail + 8 > bytes.len() {
        return None;
    }
    let sum = crc32c(seed, &bytes[..pairs + 8 * count]);
    let sum = crc32c(sum, &bytes[tail..tail + 4]);
    Some((tail + 4, crc32c(sum, &[0; 4])))
}

/// The checksum of an inode's bytes, and whether they hold the upper half of it.
pub(crate) fn of_inode(seed: u32, bytes: &[u8]) -> (u32, bool) {
    let old = INODE_OLD as usize;
    let has_high = bytes.len() > old && le16(bytes, old) >= 4;
    let low = INODE_LOW..INODE_LOW + 2;
    let high = INODE_HIGH..INODE_HIGH + 2;
    match has_high {
        true => (without(seed, bytes, &[low, high]), true),
        false => (without(seed, bytes, &[low]) & 0xFFFF, false),
    }
}

/// The checksum that an inode's bytes hold.
pub(crate) fn in_inode(bytes: &[u8], has_high: bool) -> u32 {
    let high = if has_high { le16(bytes, INODE_HIGH) } else { 0 };
    u32::from(le16(bytes, INODE_LOW)) | u32::from(high) << 16
}

/// Brings the checksum in an inode's bytes up to date.
pub(crate) fn put_inode(seed: u32, bytes: &mut [u8]) {
    let (sum, has_high) = of_inode(seed, bytes);
    bytes[INODE_LOW..INODE_LOW + 2].copy_from_slice(&(sum as u16).to_le_bytes());
    if has_high {
        bytes[INODE_HIGH..INODE_HIGH + 2].copy_from_slice(&((sum >> 16) as u16).to_le_bytes());
    }
}

impl Layout {
    /// Seed of the checksums of an inode and of its blocks.
    pub(crate) fn inode_seed(&self, number: u32, generation: u32) -> u32 {
        let sum = crc32c(self.seed, &number.to_le_bytes());
        crc32c(sum, &generation.to_le_bytes())
    }

    /// The checksum of a group's descriptor.
    pub(crate) fn desc_sum(&self, group: u32, bytes: &[u8]) -> u16 {
        let number = group.to_le_bytes();
        let own = desc::CHECKSUM..desc::CHECKSUM + 2;
        if self.has_sums() {
            return without(crc32c(self.seed, &number), bytes, &[own]) as u16;
        }
        let mut digest = CRC16.digest();
        digest.update(&self.uuid);
        digest.update(&number);
        digest.update(&bytes[..own.start]);
        digest.update(&bytes[own.end..]);
        digest.finalize()
    }

    /// The checksum of a bitmap of so many bits.
    pub(crate) fn bitmap_sum(&self, bytes: &[u8], bits: u32) -> u32 {
        let sum = crc32c(self.seed, &bytes[..bits as usize / 8]);
        match self.desc > desc::BLOCK_SUM_HIGH as u32 {
            true => sum,
            false => sum & 0xFFFF,
        }
    }
}
