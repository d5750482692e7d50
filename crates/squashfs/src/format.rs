//! The superblock, as in Linux's `fs/squashfs/squashfs_fs.h`. All numbers are little-endian.

use crate::compress::Compressor;
use crate::error::{Result, SquashError, field};
use nandlab_block::bytes::{le16, le32, le64};

/// Bytes of the superblock.
pub(crate) const SUPER: usize = 96;
/// Bytes of a metadata block at most, unpacked.
pub(crate) const META: usize = 8192;
/// No table, no fragment, no attributes.
pub(crate) const NONE: u64 = u64::MAX;
pub(crate) const NONE_32: u32 = u32::MAX;
/// Of a data block's length: it is stored as it is.
pub(crate) const PLAIN: u32 = 1 << 24;

/// Fields of the superblock that make sense on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Super {
    /// The number of inodes.
    pub inodes: u32,
    /// When it was made, in seconds since 1970.
    pub made: u32,
    /// Bytes of a data block.
    pub block: u32,
    /// Blocks for the ends of files.
    pub fragments: u32,
    /// How blocks are packed.
    pub compressor: Compressor,
    /// The number of user and group ids.
    pub ids: u16,
    /// Where the root's inode is: its metadata block and a byte in that.
    pub root: u64,
    /// Bytes of the whole.
    pub used: u64,
    pub(crate) id_table: u64,
    pub(crate) xattr_table: u64,
    pub(crate) inode_table: u64,
    pub(crate) directory_table: u64,
    pub(crate) fragment_table: u64,
    pub(crate) export_table: u64,
}

/// Whether bytes begin with a squashfs that this crate may read.
pub fn is_squashfs(head: &[u8]) -> bool {
    head.starts_with(b"hsqs") && head.len() >= SUPER && le16(head, 28) == 4
}

/// Bytes of the file system that a disk begins with.
pub fn declared_bytes(head: &[u8]) -> Option<u64> {
    is_squashfs(head).then(|| le64(head, 40))
}

impl Super {
    /// Reads the first bytes of a volume.
    pub(crate) fn parse(head: &[u8; SUPER]) -> Result<Self> {
        if !head.starts_with(b"hsqs") {
            return field(0, "the magic number", le32(head, 0), "0x73717368");
        }
        let major = le16(head, 28);
        let minor = le16(head, 30);
        if (major, minor) != (4, 0) {
            return Err(SquashError::Feature {
                at: 28,
                what: "version",
                found: major.into(),
                expected: "4.0",
            });
        }
        let compressor = Compressor::from_number(le16(head, 20))?;
        let block = le32(head, 12);
        let log = le16(head, 22);
        if !(12..=20).contains(&log) || block != 1 << log {
            return field(
                12,
                "the length of a block",
                block,
                "4096 to 1048576, a power of two",
            );
        }
        let found = Self {
            inodes: le32(head, 4),
            made: le32(head, 8),
            block,
            fragments: le32(head, 16),
            compressor,
            ids: le16(head, 26),
            root: le64(head, 32),
            used: le64(head, 40),
            id_table: le64(head, 48),
            xattr_table: le64(head, 56),
            inode_table: le64(head, 64),
            directory_table: le64(head, 72),
            fragment_table: le64(head, 80),
            export_table: le64(head, 88),
        };
        found.check()?;
        Ok(found)
    }

    /// Tables lie behind the superblock and before the end.
    fn check(&self) -> Result<()> {
        if self.used < SUPER as u64 || self.used > i64::MAX as u64 {
            return field(40, "the length of the whole", self.used, "96 bytes or more");
        }
        if self.inodes == 0 {
            return field(4, "the number of inodes", 0u32, "1 or more");
        }
        if self.ids == 0 {
            return field(26, "the number of owners", 0u32, "1 or more");
        }
        let needed = [
            (48, "the table of owners", self.id_table),
            (64, "the table of inodes", self.inode_table),
            (72, "the table of directories", self.directory_table),
        ];
        let optional = [
            (56, "the table of attributes", self.xattr_table),
            (80, "the table of fragments", self.fragment_table),
            (88, "the table of inode numbers", self.export_table),
        ];
        let optional = optional.into_iter().filter(|(.., table)| *table != NONE);
        for (at, what, table) in needed.into_iter().chain(optional) {
            if table < SUPER as u64 || table >= self.used {
                return field(
                    at,
                    what,
                    table,
                    "a byte behind the superblock and before the end",
                );
            }
        }
        if self.inode_table >= self.directory_table {
            let expected = "a byte behind the table of inodes";
            return field(
                72,
                "the table of directories",
                self.directory_table,
                expected,
            );
        }
        if self.fragments > 0 && self.fragment_table == NONE {
            return field(
                80,
                "the table of fragments",
                NONE,
                "a table, since there are fragments",
            );
        }
        Ok(())
    }
}
