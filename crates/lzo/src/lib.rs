//! LZO1X: copies from up to 48 KiB before, literals between them.
//!
//! *Promises.* Any bytes are valid input for [`unpack()`]. It reads and writes nothing out of
//! bounds.
//! Streams of [`Lzo`] unpack here and in Linux. Source: Linux's `Documentation/staging/lzo.rst`,
//! which describes what its decompressor understands; the compressors are our own.
//!
//! *Knows nothing of* the formats that its streams lie in.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod best;
mod pack;
mod unpack;

pub use pack::Lzo;
pub use unpack::unpack;
