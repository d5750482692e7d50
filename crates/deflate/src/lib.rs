//! Deflate streams, with zlib's header or without it.
//!
//! On Unix and Windows, libdeflate does the work of [`Packer`] in half the time of miniz_oxide, and
//! that of [`Inflater`] in three quarters of the time of zlib-rs. zlib-rs does the work of
//! [`Deflater`], which libdeflate cannot. miniz_oxide does the rest. *Promises.* Any bytes are
//! valid input. The bytes of a packed stream depend on who packed it.
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
