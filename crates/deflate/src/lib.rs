//! Deflate streams, with zlib's header or without it.
//!
//! On Unix and Windows, libdeflate does the work of [`Packer`] and of [`Inflater`], in about half
//! and three quarters of the time of others. zlib-rs does that of [`Deflater`], and miniz_oxide all
//! else. *Promises.* Any bytes are valid input. The bytes of a packed stream depend on who packed
//! it.
//!
//! *Knows nothing of* the formats that its streams lie in.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod pack;
mod stream;
mod unpack;

pub use pack::Packer;
pub use stream::{Deflater, Flush, Step};
pub use unpack::{End, Inflater};

/// What a stream begins and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Nothing.
    Raw,
    /// A header of two bytes, and a checksum of the contents at the end.
    Zlib,
}

impl Wrapping {
    fn has_header(self) -> bool {
        self == Self::Zlib
    }
}
