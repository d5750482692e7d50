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
//! *Map.*
//! - A `tree` goes into an image. `source` reads it (`dir_in`, `tar_in`, `manifest`), `table` changes
//!   it, and `limits` fits it to a format. `make` makes the image through `target`, on the threads
//!   of `parallel`.
//! - `detect` finds the format of an image. `volume` opens it, with `flash` and `copies` of
//!   superblocks, at its `place`, over `file` and `overlay`; `truncated` opens one that ends early.
//! - `walk` reads a volume on the threads of `workers` and fills a `sink`: `dir_out`, `tar_out` or
//!   `manifest`.
//! - `known` names what else begins at a byte. `partitions` reads tables, `fdt` device trees, `ubi`
//!   UBI's headers, and `raw` a volume as it is.
//! - The verbs are `edit`, `check`, `remove`, `repair`, `diff`, `history`, `past`, `dump`,
//!   `convert`, `anew` and `ubinize`; `rebuild` serves `repair`, and `words` writes their messages.
//!
//! *Power loss.* A file that is made or changed is whole, or not there, or as it was.

#![forbid(unsafe_code)]

pub mod anew;
pub mod check;
pub mod convert;
mod copies;
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
mod rebuild;
pub mod remove;
pub mod repair;
pub mod sink;
pub mod source;
pub mod table;
pub mod tar_in;
pub mod tar_out;
mod target;
pub mod tree;
mod truncated;
pub mod ubi;
mod ubifs;
pub mod ubinize;
pub mod view;
pub mod volume;
pub mod walk;
pub mod window;
pub mod words;
pub mod workers;

pub use error::{ImageError, Result, Shown};
pub use truncated::Truncation;
