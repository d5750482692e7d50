//! Sizes, constants and byte order that all parts of the format share; where the fields of inodes
//! and nodes lie (Linux `include/linux/f2fs_fs.h`).
//!
//! *Knows nothing of* what is valid: the reader of a field judges it.

pub(crate) use nandlab_block::bytes::{le16, le32, le64, put16, put32, put64};

/// Bytes of a block, the only size that Linux takes on machines with pages of 4 KiB.
pub(crate) const BLOCK: usize = 4096;
/// Blocks of a segment.
pub(crate) const SEGMENT: u32 = 512;
/// No block: a hole.
pub(crate) const NULL: u32 = 0;
/// A block that is accounted for and has no place yet.
pub(crate) const NEW: u32 = u32::MAX;
/// The first block of a compressed cluster, which has no place.
pub(crate) const COMPRESSED: u32 = u32::MAX - 1;
/// The superblock's magic number, also the seed of the format's checksums.
pub(crate) const MAGIC: u32 = 0xF2F5_2010;
/// Node numbers of a block of an indirect node, and block addresses of a direct one.
pub(crate) const NODE_SLOTS: u32 = 1018;
/// Block addresses of an inode without anything else in their place.
pub(crate) const INODE_SLOTS: u32 = 923;
/// Node numbers that belong to nobody.
pub(crate) const FIRST_NID: u32 = 3;
/// Entries of a block of the node address table.
pub(crate) const NAT_ENTRIES: u32 = 455;
/// Entries of a block of the segment information table.
pub(crate) const SIT_ENTRIES: u32 = 55;

/// CRC-32 as Linux's `crc32_le`: this seed, no final inversion.
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!seed);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Bitmaps of blocks and of tables' copies count from the highest bit of each byte.
pub(crate) fn bit(map: &[u8], at: usize) -> bool {
    map[at / 8] & 0x80 >> (at % 8) != 0
}

pub(crate) fn set_bit(map: &mut [u8], at: usize, on: bool) {
    let mask = 0x80 >> (at % 8);
    if on {
        map[at / 8] |= mask
    } else {
        map[at / 8] &= !mask
    }
}

/// Whether a number is that of a block with a place.
pub(crate) fn is_placed(addr: u32) -> bool {
    !matches!(addr, NULL | NEW | COMPRESSED)
}

/// Byte offsets in a node's last 24 bytes.
pub(crate) mod footer {
    pub const NID: usize = 4072;
    pub const INO: usize = 4076;
    pub const FLAG: usize = 4080;
    pub const VERSION: usize = 4084;
    pub const NEXT: usize = 4092;
    /// A node of anything but a directory.
    pub const COLD: u32 = 1;
    /// Written by an fsync.
    pub const FSYNC: u32 = 2;
    /// Written by an fsync, of an inode whose name the last checkpoint does not have.
    pub const DENTRY: u32 = 4;
    /// The place in its file's tree lies in the bits from here on.
    pub const OFFSET_SHIFT: u32 = 3;
    /// The place of a block of attributes.
    pub const XATTR_OFFSET: u32 = u32::MAX >> OFFSET_SHIFT;
}

/// Byte offsets in an inode.
pub(crate) mod inode {
    pub const MODE: usize = 0;
    pub const ADVISE: usize = 2;
    pub const INLINE: usize = 3;
    pub const UID: usize = 4;
    pub const GID: usize = 8;
    pub const LINKS: usize = 12;
    pub const SIZE: usize = 16;
    pub const BLOCKS: usize = 24;
    pub const ATIME: usize = 32;
    pub const CTIME: usize = 40;
    pub const MTIME: usize = 48;
    pub const ATIME_NANOS: usize = 56;
    pub const CTIME_NANOS: usize = 60;
    pub const MTIME_NANOS: usize = 64;
    pub const GENERATION: usize = 68;
    pub const DEPTH: usize = 72;
    pub const XATTR_NID: usize = 76;
    pub const FLAGS: usize = 80;
    pub const PARENT: usize = 84;
    pub const NAME_LEN: usize = 88;
    pub const NAME: usize = 92;
    pub const DIR_LEVEL: usize = 347;
    pub const EXTENT: usize = 348;
    pub const SLOTS: usize = 360;
    pub const NIDS: usize = 4052;
    pub const EXTRA_SIZE: usize = 360;
    pub const XATTR_SLOTS: usize = 362;
    pub const CHECKSUM: usize = 368;
    pub const BIRTH: usize = 372;
    pub const BIRTH_NANOS: usize = 380;
    pub const COMPRESSED_BLOCKS: usize = 384;

    /// Bits of the byte at [`INLINE`].
    pub const INLINE_XATTR: u8 = 0x01;
    pub const INLINE_DATA: u8 = 0x02;
    pub const INLINE_DENTRY: u8 = 0x04;
    pub const DATA_EXIST: u8 = 0x08;
    pub const EXTRA_ATTR: u8 = 0x20;
    pub const PINNED: u8 = 0x40;
    /// Bits of the byte at [`ADVISE`].
    pub const ADVISE_COLD: u8 = 0x01;
    pub const ADVISE_ENCRYPTED: u8 = 0x04;
    pub const ADVISE_KEEP_SIZE: u8 = 0x10;
    pub const ADVISE_HOT: u8 = 0x20;
    pub const ADVISE_VERITY: u8 = 0x40;
    /// Bits of the word at [`FLAGS`].
    pub const FLAG_COMPRESSED: u32 = 0x4;
    pub const FLAG_CASEFOLD: u32 = 0x4000_0000;
    /// What Linux reserves for attributes in an inode, in units of 4 bytes.
    pub const DEFAULT_XATTR_SLOTS: u32 = 50;
}

/// The six logs, and the types of the segments that they leave.
pub(crate) mod log {
    pub const HOT_DATA: usize = 0;
    pub const WARM_DATA: usize = 1;
    pub const COLD_DATA: usize = 2;
    pub const HOT_NODE: usize = 3;
    pub const WARM_NODE: usize = 4;
    pub const COLD_NODE: usize = 5;
    pub const COUNT: usize = 6;
    /// Logs of data come first.
    pub const DATA: usize = 3;
}

/// Place of a node in its file's tree, from its footer.
pub(crate) fn node_offset(node: &[u8]) -> u32 {
    le32(node, footer::FLAG) >> footer::OFFSET_SHIFT
}

/// Whether a node at this place in the tree holds block addresses (or attributes), rather than node
/// numbers.
pub(crate) fn is_direct(offset: u32) -> bool {
    const DOUBLE: u32 = 5 + 2 * NODE_SLOTS;
    match offset {
        footer::XATTR_OFFSET => true,
        3 => false,
        _ if offset == 4 + NODE_SLOTS || offset == DOUBLE => false,
        _ if offset > DOUBLE => !(offset - DOUBLE - 1).is_multiple_of(NODE_SLOTS + 1),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_linux_crc32_le() {
        assert_eq!(!crc(!0, b"123456789"), 0xCBF4_3926);
        assert_eq!(crc(0, b"\x01"), 0x7707_3096);
    }

    #[test]
    fn bits_count_from_the_highest() {
        let mut map = [0; 2];
        set_bit(&mut map, 0, true);
        set_bit(&mut map, 15, true);
        assert_eq!(
            (map, bit(&map, 15), bit(&map, 14)),
            ([0x80, 1], true, false)
        );
    }

    #[test]
    fn indirect_nodes_are_known_by_their_place() {
        let indirect: alloc::vec::Vec<u32> =
            (0..5000).filter(|offset| !is_direct(*offset)).collect();
        assert_eq!(indirect, [3, 1022, 2041, 2042, 3061, 4080]);
        assert!(is_direct(footer::XATTR_OFFSET));
    }
}
