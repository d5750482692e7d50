//! What a check finds, in words.

use crate::{Jffs2Error, LostNode};
use alloc::vec::Vec;
use core::fmt;
use nandlab_vfs::report::{self, Severity};

/// A deviation from the format that a check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// Bytes that are neither erased nor a node.
    #[error("byte {at:#x}: {len} bytes that are no node{}", if *torn { "" } else { ", nor what an interrupted write leaves" })]
    Garbage {
        /// The offset of the first byte that is no node.
        at: u32,
        /// The number of bytes.
        len: u32,
        /// An interrupted write may have left them.
        torn: bool,
    },
    /// A checksum in a node is wrong.
    #[error("byte {at:#x}: node of kind {kind:#06x}: {what}{holds}")]
    Node {
        /// Where the node is.
        at: u32,
        /// The node type, with its compatibility bits.
        kind: u16,
        /// The part whose checksum is wrong.
        what: &'static str,
        /// What is lost with it.
        holds: Holds,
    },
    /// A page beyond correction.
    #[error("byte {at:#x}: a page that cannot be corrected{}", if *torn { ", where a write may have been interrupted" } else { "" })]
    Page {
        /// Where the page begins; the first of its erase block.
        at: u32,
        /// No node lies behind it in its block.
        torn: bool,
    },
    /// Bytes of a file that no node holds, where a node of the file cannot be read.
    #[error("inode {ino}: no node holds {}, and {lost}", Bytes(ranges))]
    Missing {
        /// The inode number of the file.
        ino: u32,
        /// Ranges of the file, each up to the byte behind its last.
        ranges: Vec<(u32, u32)>,
        /// The newest node that was given up.
        lost: LostNode,
    },
    /// Bytes of a file that no node holds and that a missing version may have held. This is a hole
    /// if no node of the medium was lost.
    #[error(
        "inode {ino}: no node holds {}, and versions of the inode are missing",
        Bytes(ranges)
    )]
    Gap {
        /// The inode number of the file.
        ino: u32,
        /// Ranges of the file, each up to the byte behind its last.
        ranges: Vec<(u32, u32)>,
    },
    /// An inode that no path leads to.
    #[error("inode {ino}: \"{}\" below inode {dir} cannot be reached: {why}", path.escape_ascii())]
    Unreachable {
        /// The directory above, which can be reached; 0 if it is not known.
        dir: u32,
        /// Its path below that, as far as it is known.
        path: Vec<u8>,
        /// The number of the unreachable inode.
        ino: u32,
        /// The reason why no path leads to it.
        why: Unreached,
    },
    /// A name of an inode that is not there.
    #[error(
        "inode {dir}: name {:?} of inode {ino}, which has no node",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Dangling {
        /// The inode number of the directory.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number in the entry.
        ino: u32,
    },
    /// A directory has a name too many.
    #[error(
        "inode {dir}: name {:?} of directory {ino}, which has another one",
        alloc::string::String::from_utf8_lossy(name)
    )]
    TwoNames {
        /// The directory in which it is.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number in the entry.
        ino: u32,
    },
    /// A directory lies below itself.
    #[error(
        "inode {dir}: name {:?} leads back to directory {ino}, which is above it",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Cycle {
        /// The directory in which the name is.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number of the directory above.
        ino: u32,
    },
    /// A name gives a directory a second parent. The type in the name hides it from a mount.
    #[error(
        "inode {dir}: name {:?} of directory {ino}, which lies in directory {first} too",
        alloc::string::String::from_utf8_lossy(name)
    )]
    TwoParents {
        /// The directory in which the name is.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number in the entry.
        ino: u32,
        /// The directory that holds the first name.
        first: u32,
    },
    /// A name tells another type than its inode.
    #[error(
        "inode {dir}: name {:?} of inode {ino} has type {found}, expected {expected}",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Type {
        /// The inode number of the directory.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number in the entry.
        ino: u32,
        /// The type in the name.
        found: u8,
        /// The type of the inode.
        expected: u8,
    },
    /// A name that no path can hold: `.`, `..`, empty, or with a slash or a NUL in it.
    #[error("byte {at:#x}: inode {dir}: name \"{}\" {} is no name of a file{}", name.escape_ascii(), Named(*ino), if *ino == 0 { "" } else { ": it cannot be listed or opened" })]
    Name {
        /// Where the node is.
        at: u32,
        /// The inode number of the directory.
        dir: u32,
        /// The name as the entry holds it.
        name: Vec<u8>,
        /// The inode number in the entry.
        ino: u32,
    },
    /// A node with the right checksum that is longer than the rest of its erase block.
    #[error(
        "byte {at:#x}: node of {len} bytes crosses the end of its erase block of {block} bytes"
    )]
    CrossesBlock {
        /// Where the node is.
        at: u32,
        /// The length in the node header, in bytes.
        len: u32,
        /// Bytes of an erase block.
        block: u32,
    },
    /// The list of an erase block has good checksums and cannot be right. A mount reads the nodes
    /// themselves; Linux believes the list and crashes.
    #[error("byte {at:#x}: list of the erase block names nodes that overlap, or are none")]
    List {
        /// Where the list is.
        at: u32,
    },
    /// A directory other than the root has no node but its entries.
    #[error("inode {ino}: a directory without a node of its own: permissions and owner are lost")]
    Bare {
        /// The inode number of the directory.
        ino: u32,
    },
    /// An inode or its contents cannot be read.
    #[error("inode {ino}: {error}")]
    Unreadable {
        /// The number of the unreadable inode.
        ino: u32,
        /// The error that reading it gave.
        error: Jffs2Error,
    },
    /// A file is shorter than its newest version says.
    #[error("inode {ino}: {found} bytes, its newest version says {expected}")]
    Short {
        /// The inode number of the file.
        ino: u32,
        /// The length that the file has, in bytes.
        found: u32,
        /// What there should be.
        expected: u32,
    },
}

impl Finding {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::TwoNames { .. } => Severity::Note,
            // There is nothing that it could hide.
            Self::Name { ino: 0, .. } => Severity::Waste,
            Self::Garbage { torn, .. } | Self::Page { torn, .. } if *torn => Severity::Waste,
            Self::Garbage { .. } | Self::Page { .. } => Severity::Damage,
            Self::Node { holds, .. } => holds.severity(),
            Self::Unreachable { why, .. } => match why {
                Unreached::Nameless => Severity::Waste,
                Unreached::NameLost | Unreached::Cycle | Unreached::NoDirectory => Severity::Damage,
            },
            Self::Missing { .. }
            | Self::Gap { .. }
            | Self::Dangling { .. }
            | Self::Cycle { .. }
            | Self::TwoParents { .. }
            | Self::Type { .. }
            | Self::Name { .. }
            | Self::CrossesBlock { .. }
            | Self::List { .. }
            | Self::Bare { .. }
            | Self::Unreadable { .. }
            | Self::Short { .. } => Severity::Damage,
        }
    }
}

impl Finding {
    /// The byte of the flash where it is, if it is one place.
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Garbage { at, .. }
            | Self::Node { at, .. }
            | Self::Page { at, .. }
            | Self::Name { at, .. }
            | Self::CrossesBlock { at, .. }
            | Self::List { at } => Some(u64::from(*at)),
            Self::Missing { lost, .. } => Some(u64::from(lost.at)),
            _ => None,
        }
    }

    /// The inode whose path says where it is, and the path below that.
    pub fn inode(&self) -> Option<(u32, &[u8])> {
        match self {
            Self::Node { holds, .. } => holds.inode(),
            Self::Unreachable { dir: 0, .. } => None,
            Self::Unreachable { dir, path, .. } => Some((*dir, path)),
            Self::Missing { ino, .. }
            | Self::Gap { ino, .. }
            | Self::Unreadable { ino, .. }
            | Self::Bare { ino }
            | Self::Short { ino, .. } => Some((*ino, &[])),
            Self::Dangling { dir, name, .. }
            | Self::TwoNames { dir, name, .. }
            | Self::Cycle { dir, name, .. }
            | Self::TwoParents { dir, name, .. }
            | Self::Type { dir, name, .. } => Some((*dir, name)),
            Self::Name { dir, .. } => Some((*dir, &[])),
            Self::Garbage { .. }
            | Self::Page { .. }
            | Self::CrossesBlock { .. }
            | Self::List { .. } => None,
        }
    }

    /// Whether reading the file is an error of its own: nothing else is lost.
    pub fn is_met_by_reading(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Unreadable { .. } => true,
            Self::Node {
                holds: Holds::Contents { older, torn, .. },
                ..
            } => older.is_empty() && !torn,
            _ => false,
        }
    }

    /// Whether structures were passed over that may have held anything.
    pub fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::Garbage { .. }
                | Self::Page { .. }
                | Self::CrossesBlock { .. }
                | Self::Node {
                    holds: Holds::Unknown { .. },
                    ..
                }
        )
    }
}

/// What is lost with a node that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing: it does not count any more, or only saves time.
    Nothing,
    /// Part of a file, in ranges that each go up to the byte behind its last.
    Contents {
        /// The inode number of the file.
        ino: u32,
        /// Bytes that no other node holds: they cannot be read.
        lost: Vec<(u32, u32)>,
        /// Bytes of which an older version is shown.
        older: Vec<(u32, u32)>,
        /// It is the end of the log: a power cut may have interrupted the write.
        torn: bool,
    },
    /// A name in a directory.
    Name {
        /// The inode number of the directory.
        dir: u32,
        /// The name as it stands there.
        name: Vec<u8>,
        /// The inode number that the name leads to.
        ino: u32,
        /// It is the end of the log: a power cut may have interrupted the write.
        torn: bool,
    },
    /// That a name was removed: it may be there again.
    Removal {
        /// The inode number of the directory.
        dir: u32,
        /// The name as it stands there.
        name: Vec<u8>,
    },
    /// An extended attribute of an inode.
    Attribute {
        /// An inode that has it.
        ino: u32,
    },
    /// Something of an inode; its fields are not to be trusted.
    Fields {
        /// The number of the inode.
        ino: u32,
    },
    /// It cannot be determined.
    Unknown {
        /// It is the end of the log: a power cut may have interrupted the write.
        torn: bool,
    },
}

impl Holds {
    fn severity(&self) -> Severity {
        match self {
            Self::Nothing
            | Self::Unknown { torn: true }
            | Self::Removal { .. }
            | Self::Contents { torn: true, .. }
            | Self::Name { torn: true, .. } => Severity::Waste,
            _ => Severity::Damage,
        }
    }

    fn inode(&self) -> Option<(u32, &[u8])> {
        match self {
            Self::Contents { ino, .. } | Self::Attribute { ino } | Self::Fields { ino } => {
                Some((*ino, &[]))
            }
            Self::Name { dir, name, .. } | Self::Removal { dir, name } => Some((*dir, name)),
            Self::Nothing | Self::Unknown { .. } => None,
        }
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TORN: &str = ": the write was interrupted, or contents are lost: ";
        match self {
            Self::Nothing => f.write_str(", but the node does not count any more"),
            Self::Contents {
                ino,
                lost,
                older,
                torn,
            } => {
                write!(f, "{}inode {ino}: ", if *torn { TORN } else { ": " })?;
                if !lost.is_empty() {
                    write!(f, "{} cannot be read", Bytes(lost))?;
                }
                if !older.is_empty() {
                    let comma = if lost.is_empty() { "" } else { ", " };
                    write!(f, "{comma}{} are of an older version", Bytes(older))?;
                }
                Ok(())
            }
            Self::Name {
                dir,
                name,
                ino,
                torn,
            } => {
                let why = if *torn { TORN } else { ": " };
                let name = name.escape_ascii();
                write!(f, "{why}name \"{name}\" of inode {ino} in inode {dir}")
            }
            Self::Removal { dir, name } => {
                let name = name.escape_ascii();
                write!(
                    f,
                    ": name \"{name}\" in inode {dir} was removed and may be there again"
                )
            }
            Self::Attribute { ino } => write!(f, ": an attribute of inode {ino} is lost"),
            Self::Fields { ino } => write!(f, ": something of inode {ino} is lost"),
            Self::Unknown { torn } => {
                let why = if *torn { TORN } else { ": " };
                write!(f, "{why}what it held is not known")
            }
        }
    }
}

/// Why no path leads to an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreached {
    /// A name on the way to it cannot be read.
    #[error("a name on the way cannot be read")]
    NameLost,
    /// It lies below itself.
    #[error("it lies in a cycle of directories")]
    Cycle,
    /// It has no name, which is so too where the name was removed.
    #[error("it has no name; the name was removed, or is lost")]
    Nameless,
    /// Its name lies in an inode that no name calls a directory.
    #[error("its name lies in an inode that no name calls a directory")]
    NoDirectory,
}

/// What a name leads to, in words.
struct Named(u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("that was removed"),
            ino => write!(f, "of inode {ino}"),
        }
    }
}

/// Prints ranges of bytes in words.
struct Bytes<'a>(&'a [(u32, u32)]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LISTED: usize = 8;
        for (number, (start, end)) in self.0.iter().take(LISTED).enumerate() {
            let before = if number == 0 { "bytes " } else { ", " };
            write!(f, "{before}{start} to {end}")?;
        }
        match self.0.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more ranges"),
        }
    }
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        self.severity()
    }
}
