//! F2FS over a disk: a log-structured file system for flash.
//!
//! *Promises.* [`F2fs`] is a [`FileSystem`](nandlab_vfs::FileSystem) on volumes as Linux 6.1 and
//! f2fs-tools 1.15 have them by default; [`format`](mkfs::format) makes one, byte by byte as
//! mkfs.f2fs; [`check`](F2fs::check) finds what is wrong with one. Features that are not understood
//! are refused by name, where they matter: those that a volume only allows its inodes matter where
//! an inode has them (see [`Seal`]). No volume, whatever its bytes, makes any of them panic or loop
//! for ever.
//!
//! *Works on* a [`BlockDevice`](nandlab_block::BlockDevice). *Knows nothing of* flash, processes or
//! clocks.
//!
//! # Writing
//!
//! Nothing but tables and checkpoints is overwritten. Contents and nodes wait in memory; what is
//! written goes to the next place of one of six logs, by how long it is expected to live. A node's
//! place is known by its number alone, so that a block that moves changes its node and nothing
//! above it. Where few sections are clean, logs fill holes; where fewer are, the section with least
//! to move is cleaned before the call goes on.
//!
//! # Power loss
//!
//! A checkpoint is the volume as it was at one moment; two places for it take turns. A cut leaves
//! the last whole one, and behind it what fsyncs wrote: a chain of nodes with marks, which the next
//! mount takes up again. So after a cut
//! - what was fsynced is there, byte for byte, under its name;
//! - what was not is as it was at the last checkpoint, or as a later fsync of the same file has it;
//! - a check has nothing to repair.
//!
//! Blocks that either may need are given out again only behind the next checkpoint. With
//! [`Options::ordered`] off an fsync waits for the device only once, as Linux's; then a device that
//! writes out of order can lose in a cut during an fsync what earlier ones had made durable in the
//! same block.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod allocate;
mod bug;
mod cache;
mod calls;
mod check;
mod checkpoint;
mod clean;
mod dentry;
mod dir;
mod disk;
mod error;
mod file;
mod finding;
mod format;
mod known;
mod map;
mod mkfs;
mod mount;
mod names;
mod nat;
mod node;
mod pack;
mod past;
mod place;
mod recover;
mod repair;
mod sealed;
mod segments;
mod strict;
mod summary;
mod superblock;
mod victim;
mod volume;
mod xattr;

#[doc(hidden)]
pub use bug::SeededBug;
pub use error::F2fsError;
pub use finding::{Finding, Report, Totals};
pub use mkfs::{Format, FormatError, format};
pub use mount::{Counts, F2fs, InPlace, Options};
pub use nandlab_vfs::report::{FINDINGS_MAX, Severity};
pub use past::Version;
pub use sealed::Seal;
pub use superblock::{Layout, declared_bytes};
pub use victim::{AgeThreshold, Policy};
pub use volume::F2fsVolume;
