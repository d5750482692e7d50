//! JFFS2, Linux's log-structured file system for raw flash.
//!
//! *Promises.* [`Jffs2`] is a [`FileSystem`](nandlab_vfs::FileSystem) on media as Linux has them,
//! NOR and NAND, in both byte orders. No medium, whatever its bytes, makes it panic or loop for
//! ever. Memory is bounded by a constant for each node on the medium, all names during the mount,
//! and one node's data.
//!
//! *Works on* an [`Mtd`](nandlab_mtd::Mtd). *Knows nothing of* disks, processes or clocks.
//!
//! # Writing
//!
//! The medium is one log of nodes. Each holds a version of an inode with a part of its data, a
//! name, or that a name is gone; the highest version counts. A call appends nodes; there is no
//! other structure, and so a mount looks at every block. Where pages are programmed whole, nodes
//! wait until their page is full; fsync and sync program it before.
//!
//! # Power loss
//!
//! Nodes reach the medium in the order of the calls. After a cut every call is there whose nodes
//! are all before some point of the log, with everything that was synced. A call of several nodes
//! (a long write, a rename) may be there in part, from its first node on. A node that is torn does
//! not count. Blocks are erased only after what replaces their contents is on the medium.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod broken;
mod bug;
mod build;
mod calls;
mod check;
mod compress;
mod contents;
mod data;
mod error;
mod finding;
mod flash;
mod format;
mod gc;
mod holds;
mod inode;
mod listed;
mod load;
mod lost;
mod mkfs;
mod mount;
mod names;
mod room;
mod scan;
mod space;
mod summary;
mod survey;
mod tree;
mod unreached;
mod volume;
mod work;
mod write;
mod xattr;

#[doc(hidden)]
pub use bug::SeededBug;
pub use check::{Report, Totals};
pub use compress::{Choice, Compression, Packer, Undecodable};
pub use contents::Contents;
pub use error::{Jffs2Error, LostNode};
pub use finding::{Finding, Holds, Unreached};
pub use flash::Medium;
pub use format::{Endian, PAGE};
pub use mkfs::{Entry, Format, FormatError, Made, Maker, format, populate};
pub use mount::{Jffs2, Options};
pub use nandlab_vfs::report::{FINDINGS_MAX, Severity};
pub use survey::{Header, Seen, What, headers, survey};
pub use volume::Jffs2Volume;
pub use work::{Coded, Work};
