//! Test support that several crates share. Only tests depend on it.
//!
//! *Promises.* A helper that cannot do its work panics, so a test that uses it fails. A missing
//! program of the host is named with its Debian package.
//!
//! *Knows nothing of* any format: a test passes the file system, its mount function and its tools.
//!
//! - [`bugs`]: the seeded bugs that the book lists
//! - [`chip`]: small chips whose shape varies with a seed
//! - [`cuts`]: power cuts between the writes of a disk, and what each must leave
//! - [`disk`]: RAM disks, files of them, damage to them
//! - [`files`]: files, directories and their contents
//! - [`host`]: our trees beside directories of the host
//! - [`hostile`]: calls on a damaged file system
//! - [`kernel`]: the real kernel and ours on the same volumes
//! - [`manifest`]: our trees in the form in which the kernel lists its trees
//! - [`media`]: digests of what runs leave on their media
//! - [`model`]: random calls beside the reference file system, with remounts
//! - [`mtd_utils`]: the source package of mtd-utils
//! - [`names`]: random calls on names, to compare a file system with itself
//! - [`open`]: a program that keeps every file open
//! - [`scrambled`]: a disk that reorders its writes
//! - [`share`]: how much of its work a slow test does
//! - [`tools`]: programs of the host
//! - [`xattrs`]: extended attributes of a tree

#![forbid(unsafe_code)]

pub mod bugs;
pub mod chip;
pub mod cuts;
pub mod disk;
pub mod files;
pub mod host;
pub mod hostile;
mod kept;
pub mod kernel;
pub mod manifest;
pub mod media;
pub mod model;
pub mod mtd_utils;
pub mod names;
pub mod open;
pub mod scrambled;
pub mod share;
pub mod tools;
pub mod vendored;
pub mod xattrs;

use nandlab_block::Ram;
use nandlab_vfs::FileSystem;

/// Mounts a disk with the file system under test.
pub type Mount<'m> = &'m dyn for<'a> Fn(&'a mut Ram) -> Box<dyn FileSystem + 'a>;

/// Checks a disk with the checkers of both sides; panics with the label if one finds an error.
pub type AssertClean = fn(&mut Ram, &str);
