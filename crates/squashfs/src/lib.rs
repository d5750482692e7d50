//! squashfs 4.0, read only, over a disk.
//!
//! *Promises.* [`Squashfs`] is a [`FileSystem`](nandlab_vfs::FileSystem) on volumes as mksquashfs
//! makes them, with each of its compressors: every kind of inode, hard links, holes, extended
//! attributes. Nothing is ever written. [`check`](Squashfs::check) reads all of it. No volume,
//! whatever its bytes, makes any of them panic or loop for ever. Memory is bounded by the caches
//! (some 5 MiB) and, for a check, some 60 bytes for each inode and each block.
//!
//! *Works on* a [`BlockDevice`](nandlab_block::BlockDevice). *Knows nothing of* flash, files or
//! clocks.
//!
//! *Map.* `format` reads the superblock; `compress` and `meta` turn its blocks into
//! bytes; `inode`, `dir`, `file` and `xattr` read those; `calls` answers a file system's calls from
//! them; `check` goes through everything.
//!
//! *Power loss.* None: it changes nothing.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod calls;
mod check;
mod compress;
mod dir;
mod error;
mod file;
mod format;
mod inode;
mod meta;
mod mount;
mod xattr;

pub use check::{Finding, Totals};
pub use compress::Compressor;
pub use error::SquashError;
pub use format::{Super, declared_bytes, is_squashfs};
pub use mount::Squashfs;
