//! What an image is, by what is in it: names and extensions count for nothing.
//!
//! *Promises.* Nothing is written. What a dump of flash does not say of itself (pages, spare bytes,
//! error correction, erase blocks) is inferred from where its structures lie and whose checksums
//! are right. Two answers with nearly the same evidence are an error that names both. *Knows
//! nothing of* whether what begins like a format is whole: opening it shows that.
//!
//! *Map.* `scan` passes over an image once; `find` finds its `shape` from that, by `parity` and by
//! the `score` of structures; `flash` and `disk` say what begins at a place.
//! [`ranges`](crate::ranges) takes a whole image apart with them.

pub mod disk;
mod find;
pub mod flash;
mod parity;
pub mod scan;
mod score;
pub mod shape;

pub use disk::disk;
pub use find::shape as find_shape;
pub use shape::Shape;

use nandlab_ecc::Code;
use nandlab_jffs2::Endian;
use nandlab_mtd::{ImageFormat, Layout};
use serde::Serialize;

/// A file system on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskKind {
    /// An ext2, ext3 or ext4 file system.
    Ext,
    /// An F2FS file system.
    F2fs,
    /// FAT12, FAT16 or FAT32.
    Fat,
    /// A squashfs file system of version 4.
    Squashfs,
    /// UBIFS, as the bytes of a volume.
    Ubifs,
}

impl DiskKind {
    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext => "ext",
            Self::F2fs => "F2FS",
            Self::Fat => "FAT",
            Self::Squashfs => "squashfs",
            Self::Ubifs => "UBIFS",
        }
    }
}

/// What lies on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashKind {
    /// JFFS2, in a byte order, with or without marks at the beginning of erased blocks.
    Jffs2 {
        /// The byte order of its nodes.
        endian: Endian,
        /// Nodes that say that a block was erased.
        markers: bool,
    },
    /// UBI, with or without a log (UBIL).
    Ubi {
        /// Where the volume header lies in the block; 0 where there are no headers, only the log.
        vid: u32,
        /// Whether there is a log.
        log: bool,
    },
    /// An NFTL or a derivative of it.
    Nftl,
    /// The page-mapped layer of this project.
    PageMap,
    /// A log-block layer of this project: BAST, SAST or FAST.
    LogBlock,
}

impl FlashKind {
    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jffs2 { .. } => "JFFS2",
            Self::Ubi { log: false, .. } => "UBI",
            Self::Ubi { log: true, .. } => "UBIL",
            Self::Nftl => "NFTL",
            Self::PageMap => "page mapping",
            Self::LogBlock => "log blocks",
        }
    }
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// A format that lies on a disk.
    Disk(DiskKind),
    /// Flash of a shape.
    Flash(ImageFormat, FlashKind),
}

/// What is known beforehand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Data bytes of an erase block.
    pub block: Option<u32>,
    /// Data bytes of a page.
    pub page: Option<u32>,
    /// Spare bytes of a page in the image.
    pub oob: Option<u32>,
    /// Who owns which of them.
    pub layout: Option<Layout>,
    /// The error correction whose parity they hold.
    pub ecc: Option<EccHint>,
}

/// What is known of the error correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EccHint {
    /// The spare bytes hold none that is known here.
    None,
    /// They hold this one.
    Code(Code),
}

/// Why it is not known how an image is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// Nothing fits what is known beforehand.
    Nothing,
    /// Two candidates have nearly the same evidence.
    Close(String, String),
}

/// The distance of places of which the first may be anywhere and some may be missing.
fn distance(places: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let steps = places.clone().zip(places.skip(1)).map(|(a, b)| b - a);
    steps.reduce(gcd)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
