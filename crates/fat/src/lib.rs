//! FAT12, FAT16 and FAT32 with long names, over a disk.
//!
//! *Promises.* [`Fat`] is a [`FileSystem`](nandlab_vfs::FileSystem) on volumes as Linux, DOS and
//! Windows have them; [`format`](mkfs::format) makes one with the choices of mkfs.vfat;
//! [`check`](Fat::check) finds what is wrong with one. No volume, whatever its bytes, makes any of
//! them panic or loop for ever. Memory is bounded by the cache it was given, dirty data, and the
//! chains and inodes in use (12 bytes a run of clusters). A check takes one bit a cluster and all
//! paths more.
//!
//! *Works on* a [`BlockDevice`](nandlab_block::BlockDevice), and if there is one on a second that
//! survives power cuts, which holds the metadata ([`Fat::mount_with_nvram`]). *Knows nothing of*
//! flash, processes or clocks.
//!
//! # Writing
//!
//! Clusters are allocated when a call writes, next-fit from the one allocated last. Contents, table
//! and directories wait in memory until fsync, sync or write-back. An fsync writes the file's dirty
//! sectors, its directory sector, and the dirty sectors of both tables: for an append of one
//! sector, one sector of contents and one of a directory, and one of each table when a cluster was
//! taken.
//!
//! # Power loss
//!
//! A commit goes in steps, each durable before the next begins: contents and the chains of new
//! clusters; links to these; directories; cuts of chains; freed clusters, which are not given out
//! before. So after a cut
//! - what was fsynced is there, byte for byte, under its name;
//! - no cluster belongs to two files, except that a rename between two sectors may leave both names
//!   of the one file (never neither);
//! - no name in a directory, long or short, is that of two files: one that was removed is given
//!   again, in other slots, when its removal is durable;
//! - a file's length never covers what was not written for it;
//! - what may remain is waste: clusters that no file uses; a chain longer than its file; parts of
//!   long names; a `..` that names the old parent; copies of the table that differ (the first
//!   counts); stale hints.
//!
//! Two gaps belong to the format: of FAT12 entries that lie in two sectors one half may arrive, and
//! an unfinished new entry over two sectors may show its short name only. With
//! [`Options::barriers`] off the order is the same, but only the end of a commit waits for the
//! device, as in Linux.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bug;
mod cache;
mod calls;
mod check;
mod commit;
mod dir;
mod error;
mod file;
mod finding;
mod format;
mod mkfs;
mod mount;
mod name;
mod node;
mod nvram;
mod place;
mod removed;
mod rename;
mod repair;
mod store;
mod strict;
mod table;
mod time;
mod volume;

#[doc(hidden)]
pub use bug::SeededBug;
pub use error::FatError;
pub use finding::{Finding, Report, Totals};
pub use format::{Bits, Layout, declared_bytes};
pub use mkfs::{Format, FormatError, format};
pub use mount::{Fat, Options};
pub use nandlab_vfs::report::{FINDINGS_MAX, Severity};
pub use volume::FatVolume;
