//! Data, truncation, reference and orphan nodes. All of them are sound nodes of their types.

use super::{BLOCK, Draft, FILE_MAX, Fault, HEADER, Key, KeyKind, Kind, le16, le32, le64};

/// A data node: one block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataNode<'a> {
    /// Which block of which inode.
    pub key: Key,
    /// Bytes of it, unpacked.
    pub size: u32,
    /// The number of the compressor.
    pub compressor: u16,
    /// The bytes, packed as the compressor says.
    pub packed: &'a [u8],
}

impl<'a> DataNode<'a> {
    /// Reads the node from its bytes, header included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let key = Key::parse(bytes, 24)?;
        let is_data = key.kind() == KeyKind::Data;
        Fault::unless(
            is_data,
            "the key type of a data node",
            key.kind() as u8,
            "1",
        )?;
        let size = le32(bytes, 40);
        let fits = (1..=BLOCK).contains(&size);
        Fault::unless(fits, "the size of a data node", size, "1 to 4096")?;
        Ok(Self {
            key,
            size,
            compressor: le16(bytes, 44),
            packed: &bytes[48..],
        })
    }

    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let mut node = Draft::new(Kind::Data, 48 + self.packed.len() as u32);
        node.key(24, self.key);
        node.put32(40, self.size);
        node.put16(44, self.compressor);
        node.bytes(48, self.packed);
        node
    }

    /// The byte of the file behind it.
    pub fn end(&self) -> u64 {
        u64::from(self.key.value()) * u64::from(BLOCK) + u64::from(self.size)
    }
}

/// A truncation node, which only the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The number of the inode.
    pub inode: u32,
    /// Bytes of the file before the truncation.
    pub old: u64,
    /// Bytes of the file after the truncation.
    pub new: u64,
}

impl Truncation {
    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let mut node = Draft::new(Kind::Truncation, 56);
        node.put32(24, self.inode);
        node.put64(40, self.old);
        node.put64(48, self.new);
        node
    }

    /// Reads the node from its bytes, header included.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let old = le64(bytes, 40);
        let new = le64(bytes, 48);
        Fault::unless(
            old <= FILE_MAX,
            "the old size of a truncation",
            old,
            "at most 2^41",
        )?;
        Fault::unless(
            new < old,
            "the new size of a truncation",
            new,
            "less than the old one",
        )?;
        Ok(Self {
            inode: le32(bytes, 24),
            old,
            new,
        })
    }
}

/// A reference to a part of the journal, in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The logical block that this is about.
    pub lnum: u32,
    /// The byte in it from which on it is the journal's.
    pub offs: u32,
    /// The journal head that wrote it.
    pub head: u32,
}

impl Ref {
    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let mut node = Draft::new(Kind::Ref, 64);
        node.put32(24, self.lnum);
        node.put32(28, self.offs);
        node.put32(32, self.head);
        node
    }

    /// Reads the node from its bytes, header included.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            lnum: le32(bytes, 24),
            offs: le32(bytes, 28),
            head: le32(bytes, 32),
        }
    }
}

/// The node that a commit begins the log with, its header still to be completed.
pub(crate) fn commit_start(commit: u64) -> Draft {
    let mut node = Draft::new(Kind::Commit, 32);
    node.put64(HEADER as usize, commit);
    node
}

/// A node of orphans, its header still to be completed.
pub(crate) fn orphans(commit: u64, is_last: bool, inodes: &[u32]) -> Draft {
    let mut node = Draft::new(Kind::Orphans, 32 + 8 * inodes.len() as u32);
    node.put64(HEADER as usize, commit | u64::from(is_last) << 63);
    for (at, inode) in (32..).step_by(8).zip(inodes) {
        node.put64(at, u64::from(*inode));
    }
    node
}

/// A node of inodes that had no name when they were still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphans<'a> {
    /// The commit that wrote it.
    pub commit: u64,
    /// Whether it is that commit's last.
    pub is_last: bool,
    inodes: &'a [u8],
}

impl<'a> Orphans<'a> {
    /// Reads the node from its bytes, header included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let inodes = &bytes[32..];
        let fits = inodes.len().is_multiple_of(8);
        let len = bytes.len() as u64;
        Fault::unless(fits, "the length of an orphan node", len, "a multiple of 8")?;
        let number = le64(bytes, HEADER as usize);
        Ok(Self {
            commit: number & (u64::MAX >> 1),
            is_last: number >> 63 == 1,
            inodes,
        })
    }

    /// The numbers of the inodes.
    pub fn inodes(&self) -> impl Iterator<Item = u64> + 'a {
        self.inodes.chunks_exact(8).map(|bytes| le64(bytes, 0))
    }
}
