//! What a check may find.

use alloc::vec::Vec;
use nandlab_vfs::report::{self, Severity};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The last mount did not end.
    #[error("the volume was not unmounted")]
    InUse,
    /// One of the two checkpoints cannot be read: a power cut tore it, or it was damaged.
    #[error("checkpoint at block {first}: not whole; the other one counts, which may be older")]
    Pack {
        /// The block at which the pack begins.
        first: u32,
    },
    /// One of the two superblocks is not valid; the other counts.
    #[error("{} superblock: {error}; the other one counts", ordinal(*.block))]
    Super {
        /// Its block: 0 or 1.
        block: u32,
        /// The reason why it is not valid.
        error: crate::F2fsError,
    },
    /// A count of the checkpoint is wrong.
    #[error("checkpoint: {what} is {found}, expected {expected}")]
    Count {
        /// The name of the count.
        what: &'static str,
        /// The count in the checkpoint.
        found: u64,
        /// The count that the check found.
        expected: u64,
    },
    /// A node or a part of a file cannot be read as such.
    #[error("node {nid}: {error}")]
    Unreadable {
        /// The node, or the inode of the file.
        nid: u32,
        /// The error that reading it gave.
        error: crate::F2fsError,
    },
    /// An address outside of the main area.
    #[error("node {nid}: block at {addr}, expected a block of the main area")]
    Stray {
        /// The node that says so.
        nid: u32,
        /// The address that the node holds.
        addr: u32,
    },
    /// A block that is used twice.
    #[error("node {nid}: block {addr} is used already")]
    CrossLink {
        /// The second to be visited.
        nid: u32,
        /// The address of the block.
        addr: u32,
    },
    /// A block that is used and not marked as valid.
    #[error("node {nid}: block {addr} is not marked as valid")]
    Invalid {
        /// The number of the node.
        nid: u32,
        /// The address of the block.
        addr: u32,
    },
    /// A block whose summary names another owner, so that it cannot be cleaned.
    #[error("block {addr}: the summary names {field} {found}, expected {expected}")]
    Summary {
        /// The address of the block.
        addr: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the summary holds.
        found: u32,
        /// The value that the owner implies.
        expected: u32,
    },
    /// A segment that a log writes has another type in the table.
    #[error("segment {segment}: type {found}, its log has type {expected}")]
    Type {
        /// The number of the segment.
        segment: u32,
        /// The type in the segment table.
        found: u8,
        /// The type of the log.
        expected: u8,
    },
    /// Blocks of a segment that are marked as valid and that nothing uses.
    #[error("segment {segment}: valid blocks that are used by nothing: {count}, the first {first}")]
    LostBlocks {
        /// The number of the segment.
        segment: u32,
        /// The number of lost blocks.
        count: u32,
        /// The address of the first of them.
        first: u32,
    },
    /// A node that no file leads to.
    #[error("node {nid} belongs to no file")]
    LostNode {
        /// The number of the node.
        nid: u32,
    },
    /// An entry of the node address table is wrong by itself.
    #[error("node address table, node {nid}: {field} is {found:#x}, expected {expected:#x}")]
    Table {
        /// The number of the node.
        nid: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the entry holds.
        found: u32,
        /// What it should be.
        expected: u32,
    },
    /// The checkpoint's list of inodes without a name has a number that no inode has.
    #[error("checkpoint: orphan {ino} is no inode")]
    Orphan {
        /// The inode number in the list.
        ino: u32,
    },
    /// The superblock names a quota file that does not exist, or that the volume's features do not
    /// have.
    #[error("superblock: quota file {kind} is inode {ino}, expected none")]
    Quota {
        /// 0 for users, 1 for groups, 2 for projects.
        kind: usize,
        /// The inode number in the superblock.
        ino: u32,
    },
    /// An inode that no name leads to.
    #[error("inode {ino} has no name")]
    Nameless {
        /// The number of the inode.
        ino: u32,
    },
    /// A field of an inode is wrong.
    #[error("inode {ino}: {field} is {found}, expected {expected}")]
    Field {
        /// The number of the inode.
        ino: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// An inode has more or fewer names than it says.
    #[error("inode {ino}: links are {found}, expected {expected} by its names")]
    Links {
        /// The number of the inode.
        ino: u32,
        /// The link count in the inode.
        found: u32,
        /// The number of names that lead to it.
        expected: u32,
    },
    /// A name leads to an inode that is not in use.
    #[error("directory {dir}: a name leads to inode {found}, which is not in use")]
    Dangling {
        /// The inode number of the directory.
        dir: u32,
        /// The inode number in the entry.
        found: u32,
    },
    /// A name that no path can hold: with a slash or a NUL in it.
    #[error(
        "directory {dir}, block {index}, slot {slot}: \"{}\" is no name of a file",
        name.escape_ascii()
    )]
    Name {
        /// The inode number of the directory.
        dir: u32,
        /// The index of the block in the directory.
        index: u32,
        /// The slot in that block.
        slot: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
    },
    /// A second entry of one name: a lookup finds the first only.
    #[error(
        "directory {dir}, block {index}, slot {slot}: \"{}\" is there a second time",
        name.escape_ascii()
    )]
    Twice {
        /// The inode number of the directory.
        dir: u32,
        /// The index of the block in the directory.
        index: u32,
        /// The slot in that block.
        slot: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
    },
    /// A name whose entry says something wrong.
    #[error("directory {dir}, block {index}, slot {slot}: {field} is {found}, expected {expected}")]
    Entry {
        /// The inode number of the directory.
        dir: u32,
        /// The index of the block in the directory.
        index: u32,
        /// The slot in that block.
        slot: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the entry holds.
        found: u32,
        /// What it should be.
        expected: u32,
    },
}

/// The name of a superblock by its block.
fn ordinal(block: u32) -> &'static str {
    match block {
        0 => "first",
        _ => "second",
    }
}

impl report::Finding for Finding {
    /// Counts lose nothing. An older checkpoint may be without what the newer one had.
    fn may_lose(&self) -> bool {
        let older = matches!(self, Self::Pack { .. });
        older || self.severity() > Severity::Note && !matches!(self, Self::Count { .. })
    }

    fn severity(&self) -> Severity {
        match self {
            Self::InUse | Self::Pack { .. } | Self::Super { .. } => Severity::Note,
            Self::Count { .. } | Self::LostBlocks { .. } => Severity::Waste,
            _ => Severity::Damage,
        }
    }
}

/// What a check found.
pub type Report = report::Report<Finding, Totals>;

/// What a check counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files, links and devices.
    pub files: u32,
    /// Directories that the check read.
    pub directories: u32,
    /// Blocks that a file or a node uses.
    pub used: u64,
}
