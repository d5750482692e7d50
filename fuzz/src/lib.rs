//! What is fuzzed: inputs are lists of edits of a good medium (`nandlab-damage`), not media.
//!
//! *Promises.* One input gives one medium and one run on it, on every machine. A run panics on what
//! must not be: a panic below, or more heap than the bound that its module states. Time is the
//! fuzzer's to limit.
//!
//! *Why edits.* Nearly every structure on flash has a checksum, so nearly every change of a
//! medium's bytes ends where the checksum is compared. An edit says what it changes and then makes
//! the checksums right again, or on purpose does not; what lies behind the comparison is reached by
//! the first mutation.

#![forbid(unsafe_code)]

#[cfg(feature = "abuse")]
pub mod abuse;
#[cfg(any(feature = "ext", feature = "f2fs", feature = "fat"))]
mod disk;
#[cfg(feature = "ext")]
pub mod ext;
#[cfg(feature = "f2fs")]
pub mod f2fs;
#[cfg(feature = "fat")]
pub mod fat;
#[cfg(any(
    feature = "ext",
    feature = "f2fs",
    feature = "fat",
    feature = "jffs2",
    feature = "ubifs"
))]
mod files;
mod heap;
#[cfg(feature = "image")]
pub mod image;
#[cfg(feature = "jffs2")]
pub mod jffs2;
#[cfg(feature = "ubi")]
pub mod ubi;
#[cfg(feature = "ubifs")]
pub mod ubifs;
