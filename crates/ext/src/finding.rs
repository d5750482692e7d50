//! What a check can find, in words.

use alloc::vec::Vec;
use nandlab_vfs::report::{self, Severity};

/// A deviation from the format that a check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The volume was not unmounted.
    #[error("marked as in use")]
    InUse,
    /// A count in superblock or descriptor is another.
    #[error("{what} of {place}: {found}, expected {expected}")]
    Count {
        /// The name of the count.
        what: &'static str,
        /// Where: a group, or the superblock where there is none.
        place: Place,
        /// The count on the volume.
        found: u32,
        /// The count that the check found.
        expected: u32,
    },
    /// Blocks that are marked as taken and that nothing uses.
    #[error("group {group}: blocks that are taken and used by nothing: {count}, the first {first}")]
    LostBlocks {
        /// The number of the group.
        group: u32,
        /// The number of lost blocks.
        count: u32,
        /// The number of the first of them.
        first: u32,
    },
    /// Inodes that are marked as taken and that are not in use.
    #[error("group {group}: inodes that are taken and not in use: {count}, the first {first}")]
    LostInodes {
        /// The number of the group.
        group: u32,
        /// The number of lost inodes.
        count: u32,
        /// The number of the first of them.
        first: u32,
    },
    /// Two of the volume's own structures claim a block: bitmaps, inode tables, or descriptors.
    #[error("block {block} belongs to two structures of the volume itself")]
    Overlap {
        /// The first such block.
        block: u32,
    },
    /// An inode in use has no name.
    #[error("inode {inode}: no name leads to it")]
    Nameless {
        /// The number of the inode.
        inode: u32,
        /// The volume has a journal: no power cut takes a name and leaves its inode.
        journaled: bool,
    },
    /// A block in use is marked as free.
    #[error("block {block} is used by inode {inode} and marked as free")]
    FreeBlock {
        /// The number of the block.
        block: u32,
        /// Whose; 0 for the volume's own metadata.
        inode: u32,
    },
    /// An inode in use is marked as free.
    #[error("inode {inode} is in use and marked as free")]
    FreeInode {
        /// The number of the inode.
        inode: u32,
    },
    /// A block number that cannot be.
    #[error("inode {inode}: block {block}, expected a block for contents")]
    Stray {
        /// The number of the inode.
        inode: u32,
        /// The block pointer that the inode holds.
        block: u32,
    },
    /// A block belongs to two inodes, or twice to one.
    #[error("inode {inode}: block {block} is used already")]
    CrossLink {
        /// The second to be visited.
        inode: u32,
        /// The number of the block.
        block: u32,
    },
    /// A field of an inode cannot be.
    #[error("inode {inode}: {field} is {found}, expected {expected}")]
    Field {
        /// The number of the inode.
        inode: u32,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// An inode has more or fewer names than it says.
    #[error("inode {inode}: links are {found}, expected {expected} by its names")]
    Links {
        /// The number of the inode.
        inode: u32,
        /// The link count in the inode.
        found: u32,
        /// The number of names that lead to it.
        expected: u32,
        /// Whether it is a directory.
        directory: bool,
    },
    /// A block of names, block pointers or attributes cannot be read as such.
    #[error("inode {inode}: {error}")]
    Unreadable {
        /// The number of the unreadable inode.
        inode: u32,
        /// The error that reading it gave.
        error: crate::ExtError,
    },
    /// A name leads to an inode that is not in use.
    #[error(
        "directory {dir}, block {block}, byte {offset}: leads to inode {found}, which is not in use"
    )]
    Dangling {
        /// The inode number of the directory.
        dir: u32,
        /// The number of the block.
        block: u32,
        /// The offset of the entry in the block.
        offset: u32,
        /// The inode number in the entry.
        found: u32,
    },
    /// A name tells another type than its inode.
    #[error("directory {dir}, block {block}, byte {offset}: type {found}, expected {expected}")]
    Type {
        /// The inode number of the directory.
        dir: u32,
        /// The number of the block.
        block: u32,
        /// The offset of the entry in the block.
        offset: u32,
        /// The type in the entry.
        found: u8,
        /// What its inode is.
        expected: u8,
    },
    /// A name that no path can hold: with a slash or a NUL in it.
    #[error(
        "directory {dir}, block {block}, byte {offset}: \"{}\" is no name of a file",
        name.escape_ascii()
    )]
    Name {
        /// The inode number of the directory.
        dir: u32,
        /// The number of the block.
        block: u32,
        /// The offset of the entry in the block.
        offset: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
    },
    /// A second entry of one name: a lookup finds the first only.
    #[error(
        "directory {dir}, block {block}, byte {offset}: \"{}\" is there a second time",
        name.escape_ascii()
    )]
    Twice {
        /// The inode number of the directory.
        dir: u32,
        /// The number of the block.
        block: u32,
        /// The offset of the entry in the block.
        offset: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
    },
    /// The index of a directory does not lead to a name.
    #[error("directory {dir}, block {block}, byte {offset}: the index does not lead here")]
    Index {
        /// The inode number of the directory.
        dir: u32,
        /// The number of the block.
        block: u32,
        /// The offset of the entry in the block.
        offset: u32,
    },
    /// A directory has two names.
    #[error("directory {inode} lies in {first} and in {second}")]
    TwoParents {
        /// The inode number of the directory with two names.
        inode: u32,
        /// The directory that holds the first name.
        first: u32,
        /// The directory that holds the second name.
        second: u32,
    },
    /// `.` or `..` lead elsewhere.
    #[error("directory {dir}: {name} leads to inode {found}, expected {expected}")]
    Dots {
        /// The inode number of the directory.
        dir: u32,
        /// The name: `.` or `..`.
        name: &'static str,
        /// The inode number in the entry.
        found: u32,
        /// The inode number that it should hold.
        expected: u32,
    },
    /// A field of the superblock that no read depends on.
    #[error("superblock, byte {at}: {field} is {found}, expected {expected}")]
    Super {
        /// Where the field is.
        at: u16,
        /// The name of the wrong field.
        field: &'static str,
        /// The value that the field holds.
        found: u32,
        /// What it should be.
        expected: u32,
    },
    /// A group is marked as one whose tables were never written, which only ext4 has.
    #[error("group {group}: flags {flags:#x} and {unused} unused inodes of ext4, expected none")]
    Unwritten {
        /// The number of the group.
        group: u32,
        /// The flags in the descriptor.
        flags: u16,
        /// Inodes that are called unused.
        unused: u16,
    },
    /// The checksum of a group's descriptor or of one of its bitmaps is another.
    #[error("group {group}: {error}")]
    Sum {
        /// The number of the group.
        group: u32,
        /// The structure, with both checksums.
        error: crate::ExtError,
    },
    /// Bits behind the end of a bitmap are not set.
    #[error("group {group}: bit {first}, behind the end of the bitmap of {what}, is not set")]
    Padding {
        /// The number of the group.
        group: u32,
        /// The bitmap: blocks or inodes.
        what: &'static str,
        /// The first bit that is not set.
        first: u32,
    },
    /// An inode that is not in use was deleted at no time.
    #[error("inode {inode}: not in use, without a time of deletion")]
    Undated {
        /// The number of the inode.
        inode: u32,
    },
    /// An inode's time of deletion is the number of an inode: it is part of a list of orphans that
    /// the superblock does not begin.
    #[error("inode {inode}: time of deletion is {next}, the number of an inode")]
    Linked {
        /// The number of the inode.
        inode: u32,
        /// The next of the list.
        next: u32,
    },
    /// `.` or `..` without a NUL behind it.
    #[error("directory {dir}: no NUL follows {name}")]
    Unended {
        /// The inode number of the directory.
        dir: u32,
        /// The name: `.` or `..`.
        name: &'static str,
    },
    /// The mount could not end what the last one had begun, or had to give up its journal.
    #[error("recovery: {error}")]
    Mount {
        /// The error of the recovery.
        error: crate::ExtError,
    },
    /// A directory from which no way leads to the root.
    #[error("directory {inode} does not hang on the root")]
    Adrift {
        /// The inode number of the directory.
        inode: u32,
    },
}

/// Where a count stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The count is in the superblock.
    Super,
    /// In a group's descriptor.
    Group(u32),
    /// In a shared block of attributes.
    Block(u32),
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Super => write!(f, "superblock"),
            Self::Group(group) => write!(f, "group {group}"),
            Self::Block(block) => write!(f, "block {block}"),
        }
    }
}

impl report::Finding for Finding {
    /// Counts and marks lose nothing. Blocks and inodes that nothing leads to may be lost.
    fn may_lose(&self) -> bool {
        let counts = matches!(
            self,
            Self::Count { .. }
                | Self::Padding { .. }
                | Self::Undated { .. }
                | Self::Linked { .. }
                | Self::Unended { .. }
        );
        self.severity() > Severity::Note && !counts
    }

    fn severity(&self) -> Severity {
        match self {
            // Type 0 says that the inode has to be looked at.
            Self::InUse
            | Self::Type { found: 0, .. }
            | Self::Count {
                place: Place::Super,
                ..
            } => Severity::Note,
            Self::Count { .. }
            | Self::LostBlocks { .. }
            | Self::LostInodes { .. }
            | Self::Padding { .. }
            | Self::Undated { .. }
            | Self::Linked { .. }
            | Self::Unended { .. }
            | Self::Nameless {
                journaled: false, ..
            } => Severity::Waste,
            // More links than names keep an inode too long, fewer end it too early; a directory
            // ends when it has no name.
            Self::Links {
                found,
                expected,
                directory,
                ..
            } if *directory || found >= expected => Severity::Waste,
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
    /// Blocks that nothing uses.
    pub free: u32,
}
