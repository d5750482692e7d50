//! Images of flash and of disks as trees of files: made, read, edited, checked, compared.
//!
//! *Promises.* An image is a file that may be larger than memory: a few MiB are held, and the list
//! of entries. What reads never writes. Names are bytes; everything that an entry has (owner,
//! permissions, times, links, devices, attributes, holes) goes in and out, without privileges, by
//! way of archives and manifests. What a format cannot hold is an error that names the entry, or a
//! listed loss.
//!
//! *Works in terms of* [`nandlab_vfs::FileSystem`] above and [`nandlab_sim::Backing`] below. *Knows
//! nothing of* command lines.
//!
//! *Map.* `tree` what goes in: from `source` (`dir_in`, `tar_in`, `manifest`), changed by `table`,
//! made to fit by `limits`; `make` images of it, by way of `target`, on the threads of `parallel`.
//! `detect` finds the format of an image. `volume` (with `flash`, and `copies` of superblocks)
//! opens it, wherever its `place` is, over `file` and `overlay`, a truncated one by `short`;
//! `walk`, with the threads of `crew`, goes through it into a `sink`: `dir_out`, `tar_out`,
//! `manifest`. `known` what else begins at a byte, by name and size; `fdt` reads device trees for
//! it and for `partitions`, the tables. `ubi` what UBI's headers say, `raw` a volume as it is.
//! `words` of messages; `edit`, `check`, `remove`, `repair`, `diff`, `history`, `past`, `dump`,
//! `convert`, `anew`, `ubinize` what else is done.
//!
//! *Power loss.* A file that is made or changed is whole, or not there, or as it was.

#![forbid(unsafe_code)]

pub mod anew;
pub mod check;
pub mod convert;
mod copies;
pub mod crew;
pub mod detect;
pub mod diff;
pub mod dir_in;
pub mod dir_out;
pub mod dump;
pub mod edit;
mod error;
mod fdt;
pub mod file;
mod flash;
pub mod flips;
pub mod history;
pub mod known;
pub mod left_out;
pub mod limits;
pub mod locate;
pub mod lock;
pub mod make;
pub mod manifest;
pub mod overlay;
mod parallel;
pub mod partitions;
pub mod past;
pub mod place;
pub mod ranges;
pub mod raw;
pub mod remove;
pub mod repair;
mod short;
pub mod sink;
pub mod source;
pub mod table;
pub mod tar_in;
pub mod tar_out;
mod target;
pub mod tree;
pub mod ubi;
mod ubifs;
pub mod ubinize;
pub mod view;
pub mod volume;
pub mod walk;
pub mod window;
pub mod words;

pub use error::{ImageError, Result, Shown};
pub use short::Lack;
