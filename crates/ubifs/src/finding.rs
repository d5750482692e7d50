//! What a check may find.

use crate::error::UbifsError;
use crate::format::Key;
use alloc::vec::Vec;
use core::fmt;
use nandlab_vfs::FileType;
use nandlab_vfs::report::{self, Severity, shown};

/// Something that a check found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A part of the index cannot be read.
    Hole {
        /// The least key in it: inode, type and value.
        from: Key,
        /// The greatest key in it.
        to: Key,
        /// The error that was met there.
        error: UbifsError,
    },
    /// A structure that leads to all nodes is unreadable: a scan found them.
    Scanned {
        /// The structure.
        what: &'static str,
        /// The error of a mount.
        error: UbifsError,
    },
    /// A scan found a damaged node.
    Damaged {
        /// Its place and its damage.
        error: UbifsError,
    },
    /// An inode has no readable node. Another one stands for it, with root as owner.
    StandIn {
        /// The number of the inode.
        inode: u32,
        /// The type of the file.
        kind: FileType,
    },
    /// An inode that no path leads to got a name.
    Reconnected {
        /// The number of the inode.
        inode: u32,
        /// The new path from the root of the volume.
        path: Vec<u8>,
    },
    /// A node cannot be read.
    Unread {
        /// The path; the inode's number where none leads to it.
        path: Vec<u8>,
        /// The part of the inode.
        what: &'static str,
        /// The error that was met there.
        error: UbifsError,
    },
    /// A name that no path can hold.
    Name {
        /// The path from the root of the volume.
        path: Vec<u8>,
    },
    /// An inode that nothing names, or nothing that can be reached.
    Lost {
        /// The number of the inode.
        inode: u32,
    },
    /// A name of an inode that is not there, or may not have it.
    Wrong {
        /// The path from the root of the volume.
        path: Vec<u8>,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A node of the LEB properties tree cannot be read.
    Properties {
        /// The error that was met there.
        error: UbifsError,
    },
    /// A block with nodes in use holds something else, too.
    Contents {
        /// The error that was met there.
        error: UbifsError,
    },
    /// A block holds both index nodes and others.
    Mixed {
        /// The logical block that this is about.
        lnum: u32,
    },
    /// A number of a logical block that is counted otherwise.
    Space {
        /// The logical block that this is about.
        lnum: u32,
        /// The kind of space that is counted.
        what: &'static str,
        /// What the properties say.
        found: u64,
        /// What the check itself counted.
        counted: u64,
    },
    /// A number that is counted otherwise.
    Count {
        /// The path; empty for the whole.
        path: Vec<u8>,
        /// The kind of space that is counted.
        what: &'static str,
        /// What the medium says.
        found: u64,
        /// What the check itself counted.
        counted: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hole { from, to, error } => {
                let (from, to) = (from.inode(), to.inode());
                write!(f, "index of inodes {from} to {to}: {error}")
            }
            Self::Scanned { what, error } => {
                write!(f, "{what}: {error}; its nodes were found by a scan")
            }
            Self::Damaged { error } => write!(f, "a node that a scan found: {error}"),
            Self::StandIn { inode, kind } => {
                let kind = match kind {
                    FileType::Directory => "a directory",
                    _ => "a file up to its last contents",
                };
                write!(
                    f,
                    "inode {inode}: its node is gone; {kind} with root as owner stands for it"
                )
            }
            Self::Reconnected { inode, path } => {
                write!(
                    f,
                    "inode {inode}: no path leads to it; it is {}",
                    shown(path)
                )
            }
            Self::Unread { path, what, error } => write!(f, "{}: {what}: {error}", shown(path)),
            Self::Name { path } => write!(f, "{}: a name that no path can hold", shown(path)),
            Self::Lost { inode } => write!(f, "inode {inode}: no path leads to it"),
            Self::Wrong { path, what } => write!(f, "{}: {what}", shown(path)),
            Self::Properties { error } => write!(f, "properties of blocks: {error}"),
            Self::Contents { error } => write!(f, "contents of a block: {error}"),
            Self::Mixed { lnum } => {
                write!(
                    f,
                    "LEB {lnum}: index nodes beside others, expected one or the other"
                )
            }
            Self::Space {
                lnum,
                what,
                found,
                counted,
            } => write!(f, "LEB {lnum}: {what}: found {found}, counted {counted}"),
            Self::Count {
                path,
                what,
                found,
                counted,
            } => write!(
                f,
                "{}: {what}: found {found}, counted {counted}",
                shown(path)
            ),
        }
    }
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        match self {
            // A writer depends on them, contents do not.
            Self::Count { .. } | Self::Space { .. } => Severity::Waste,
            _ => Severity::Damage,
        }
    }

    fn may_lose(&self) -> bool {
        let is_space = matches!(self, Self::Properties { .. } | Self::Mixed { .. });
        !is_space && self.severity() == Severity::Damage
    }
}

impl Finding {
    /// Whether a write might destroy contents that are in use.
    pub fn endangers_writes(&self) -> bool {
        matches!(
            self,
            Self::Hole { .. }
                | Self::Properties { .. }
                | Self::Contents { .. }
                | Self::Mixed { .. }
                | Self::Space { .. }
        )
    }

    /// The logical block and the byte in it where it was met.
    pub fn leb(&self) -> Option<(u32, u32)> {
        match self {
            Self::Hole { error, .. }
            | Self::Scanned { error, .. }
            | Self::Damaged { error }
            | Self::Unread { error, .. }
            | Self::Properties { error }
            | Self::Contents { error } => error.leb(),
            Self::Mixed { lnum } | Self::Space { lnum, .. } => Some((*lnum, 0)),
            _ => None,
        }
    }
}
