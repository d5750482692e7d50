//! The bytes of UBIFS, as in Linux's `fs/ubifs/ubifs-media.h`. All numbers are little-endian.
//!
//! *Promises.* A node is believed only if its magic number, its type, its length and its checksum
//! fit. *Knows nothing of* where nodes lie.

pub(crate) mod bits;
pub(crate) mod draft;
mod entry;
mod header;
mod inode;
mod key;
mod leaf;
mod lpt;
mod master;
#[cfg(test)]
pub(crate) mod rules;
mod sb;

pub(crate) use draft::Draft;
pub use entry::{Branch, Entry, IndexNode, kind_of_entry, number_of_kind};
pub(crate) use entry::{index_bytes, index_draft};
pub use header::{Fault, Group, HEADER, Header, Kind, MAGIC, PAD, SQNUM_LIMIT, is_erased, node};
pub use inode::{INODE, InodeNode, XATTR_NAMES_MAX};
pub(crate) use inode::{IS_PACKED, IS_XATTR};
pub use key::{Key, KeyHash, KeyKind};
pub use leaf::{DataNode, Orphans, Ref, Truncation};
pub(crate) use leaf::{commit_start, orphans};
pub use lpt::{LptShape, Ltab, Place, Props};
pub(crate) use master::{DIRTY, NO_ORPHANS, RECOVERED};
pub use master::{Master, Space};
pub(crate) use sb::{BIG_LPT, DOUBLE_HASH};
pub use sb::{Geometry, Super};

/// Bytes of a block of a file.
pub const BLOCK: u32 = 4096;
/// Bytes of a file at most.
pub const FILE_MAX: u64 = 1 << 41;
/// Bytes that a padding piece shorter than a padding node is filled with.
pub const PADDING: u8 = 0xCE;
/// Bytes of the longest name of a file.
pub const NAME_MAX: usize = 255;
/// The longest symbolic link or attribute.
pub const INLINE_MAX: u32 = 4096;

pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

/// The next multiple of 8: where the next node begins.
pub(crate) fn align8(len: u32) -> u32 {
    len.saturating_add(7) & !7
}
