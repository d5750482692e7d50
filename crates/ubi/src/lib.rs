//! UBI: volumes of logical erase blocks on raw flash, byte-compatible with Linux; with Linux's
//! fastmap, or with UBIL's log.
//!
//! *Promises.* [`Ubi`] hides bad blocks, wear and bit flips: a logical block can be read,
//! programmed page after page, replaced whole, or given up, and stays where its user left it
//! whatever physical block holds it. What Linux writes is attached and the other way round. Damaged
//! and hostile media give errors that name the block, the offset, what was found and what was
//! expected.
//!
//! *Works on* any [`nandlab_mtd::Mtd`], without spare area. Background work is done when asked for:
//! [`Ubi::due`], [`Ubi::work`].
//!
//! *Knows nothing of* file systems, files, threads, clocks.
//!
//! *Map.* `format` the bytes; `flash` headers and erases of one block; `attach` what is there;
//! `wear` which block next; `eba` logical blocks; `work` the background; `volume`, `update`
//! volumes; `fastmap`, `log` what saves the scan; `make` formats and images; `disk`, `as_mtd`
//! volumes seen as what others stand on.
//!
//! *Power loss.* Everything takes effect in the order of the calls, and is durable when
//! [`Ubi::sync`] returned or a later call began to write; volumes are made, removed and renamed
//! whole or not at all, durably on return. See `eba` for what may come back.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod as_mtd;
mod attach;
mod cost;
mod device;
mod disk;
mod eba;
mod error;
mod fastmap;
mod flash;
pub mod format;
pub mod log;
mod make;
mod options;
mod shape;
mod update;
mod volume;
mod wear;
mod work;

pub use as_mtd::VolumeMtd;
pub use cost::AttachCost;
pub use device::{Attached, Info, Ubi};
pub use disk::VolumeDisk;
pub use error::UbiError;
pub use make::{Fill, ImageSpec, ImageVolume, image, image_to};
#[doc(hidden)]
pub use options::SeededBug;
pub use options::{Commit, LogOptions, Memory, Options, Superblock};
pub use shape::{Headers, Shape};
pub use volume::{VolumeInfo, VolumeSpec};
pub use work::Task;
