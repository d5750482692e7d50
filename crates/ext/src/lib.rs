//! ext2, ext3 and ext4 over a disk.
//!
//! *Promises.* [`Ext`] is a [`FileSystem`](nandlab_vfs::FileSystem) on volumes as Linux has them.
//! Blocks have 1, 2 or 4 KiB. There are indexed directories, extents, checksums of metadata, and a
//! journal in each of ext3's [modes](Mode). [`format`](mkfs::format) makes a volume, byte by byte
//! as mke2fs does. [`check`](Ext::check) finds what is wrong with one. A mount refuses features
//! that it does not know, by name. It is read-only on features that it only reads. A journal that
//! must be recovered is, before anything is written. No volume, whatever its bytes, makes any of
//! them panic or loop for ever. Memory is bounded by the cache it was given, dirty data, 48 bytes a
//! group, the inodes in use, a transaction and the journal's own. A check takes one bit a block and
//! eight bytes an inode more.
//!
//! *Works on* a [`BlockDevice`](nandlab_block::BlockDevice). *Knows nothing of* flash, processes or
//! clocks.
//!
//! # Writing
//!
//! Blocks are allocated when a call writes, next to the block before. With
//! [`Options::delayed_allocation`] new contents only reserve space, and get their blocks at
//! the write-back of their file. Contents and metadata wait in
//! memory until fsync, sync or write-back. All changes of metadata go through `store`: a block to
//! be changed, a block newly taken, a block given back. A commit takes all of them at once.
//!
//! # Power loss, with a journal
//!
//! Dirty data becomes one transaction: at an fsync, when [`due`](nandlab_vfs::FileSystem::due), and
//! before a call for which it has no space. After a cut the mount leaves the volume as it was
//! behind some transaction, and a check has nothing to repair. What was fsynced is there. Beyond
//! that, by
//! [`Mode`]:
//! - *journal*: contents too are those behind that transaction; a write of up to half a transaction
//!   is not torn;
//! - *ordered*: what a file's new blocks hold was written to that file; blocks overwritten in place
//!   are as old, as new or as mixed as the device leaves them;
//! - *writeback*: what was not fsynced may be anything.
//!
//! With [`Options::fast_commit`] an fsync writes a list of changes where it can, and no
//! transaction. A mount replays the list as one transaction. The promises are the same, but the
//! times of directories may be those of the last transaction.
//!
//! With [`Options::delayed_allocation`] a commit leaves contents that wait for their blocks. The
//! length on the medium covers none of them. So a file without an fsync may have an earlier length
//! than its names have, with contents of that time or later ones.
//!
//! Without barriers the device may take writes in any order, and nothing of this is sure, as with
//! Linux's `barrier=0`.
//!
//! With [`Checkpoint::Remap`] committed blocks come home without being written again (JFTL), where
//! the device can; with [`Checkpoint::RemapLate`] many transactions at once.
//!
//! # Power loss, without
//!
//! A commit goes in steps, each durable before the next begins: new contents, new blocks of
//! metadata, bitmaps in which everything old and new is taken; pointers to new blocks where others
//! were; inodes; cleared pointers, and names, of a renamed file the new one first; bitmaps as they
//! are now, zeros behind lengths that were cut. A step with nothing to write waits for nothing.
//! What is given back is not given out before the commit has ended, and an inode's links outlive
//! its names. So after a cut
//! - what was fsynced is there, byte for byte, under its name;
//! - no block belongs to two files, and none in use is marked as free;
//! - a file's length never covers what was not written for it;
//! - what may remain is for a check (e2fsck) to repair before the volume is written again: names of
//!   inodes that never were; two names of one file whose rename was under way; names that are in
//!   two blocks of a directory whose index was growing; blocks and inodes that nothing uses; blocks
//!   behind a file's length; counts.
//!
//! An ext4 has less: a cut within the split of a tree can lose extents of its file.
//!
//! That holds where the device writes blocks whole; a block of names torn between sectors is beyond
//! what ext2 can repair. With [`Options::barriers`] off the order is the same, but only the end of
//! a commit waits for the device, as in Linux.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bitmap_check;
mod bug;
mod cache;
mod calls;
mod check;
mod commit;
mod delayed;
mod dir;
mod disk;
mod error;
mod extent_nodes;
mod extents;
mod fast;
mod fast_commit;
mod fast_format;
mod features;
mod file;
mod finding;
mod format;
mod groups;
mod guard;
mod hash;
mod htree;
mod inline;
mod inode;
mod journaled;
mod known;
mod life;
mod list;
mod map;
mod mkfs;
mod mkfs_journal;
mod mount;
mod names;
mod node;
mod order;
mod orphan;
mod orphan_file;
mod past;
mod pending;
mod place;
mod plan;
mod recover;
mod regions;
mod repair;
mod replay;
#[cfg(test)]
mod rules;
mod run;
mod seal;
mod store;
mod strict;
mod sum;
mod taken;
mod time;
mod tree_check;
mod volume;
mod work;
mod writeback;
mod xattr;
mod zones;

#[doc(hidden)]
pub use bug::SeededBug;
pub use error::ExtError;
pub use finding::{Finding, Place, Report, Totals};
pub use format::{Layout, declared_bytes};
pub use mkfs::{Format, FormatError, format};
pub use mount::{Ext, Mode, Options};
pub use nandlab_jbd::Checkpoint;
#[doc(hidden)]
pub use nandlab_jbd::SeededBug as SeededJournalBug;
pub use nandlab_vfs::report::{FINDINGS_MAX, Severity};
pub use past::Deleted;
pub use regions::Region;
pub use sum::Sums;
pub use volume::ExtVolume;
pub use work::Work;
