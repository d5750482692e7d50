//! Damaged media for tests: edits of a good medium, in a language of bytes that a fuzzer can write.
//!
//! *Promises.* One input gives one medium, on every machine. Every sequence of bytes is an input.
//! Good media are made once in a process. *Knows nothing of* what is done with the media.
//!
//! *Why edits.* Nearly every structure on flash has a checksum, so nearly every change of a
//! medium's bytes ends where the checksum is compared. An edit says what it changes and then makes
//! the checksums right again, or on purpose does not. The first mutation reaches what lies behind
//! the comparison.
//!
//! *Map.* [`edit`] the language; [`plant`] the files of good media; [`disk`] edits of disks, for
//! [`ext`], [`fat`] and [`f2fs`]; [`jffs2`], [`ubi`] and [`ubifs`], edits of flash; [`strike`],
//! damage that knows no structure.

#![forbid(unsafe_code)]

#[cfg(any(feature = "ext", feature = "f2fs", feature = "fat"))]
pub mod disk;
pub mod edit;
#[cfg(feature = "ext")]
pub mod ext;
#[cfg(feature = "f2fs")]
pub mod f2fs;
#[cfg(feature = "fat")]
pub mod fat;
#[cfg(feature = "jffs2")]
pub mod jffs2;
pub mod plant;
pub mod strike;
#[cfg(feature = "ubi")]
pub mod ubi;
#[cfg(feature = "ubifs")]
pub mod ubifs;
