//! What is on the flash: found by a scan, or by what remembers it; and the volume table out of
//! that.
//!
//! *Promises* Linux's decisions (`drivers/mtd/ubi/attach.c`, `vtbl.c`): of two blocks for one
//! logical block the one with the larger sequence number counts, unless it is an unfinished copy; a
//! block whose headers a power cut may have damaged is erased, one with data behind a damaged
//! volume header is preserved. Nothing is written here.

mod found;
mod scan;
mod tables;

pub(crate) use found::{Found, FoundLeb, FoundVolume, Loose};
pub(crate) use scan::{judge_offsets, scan};
pub(crate) use tables::{Tables, read_tables};
