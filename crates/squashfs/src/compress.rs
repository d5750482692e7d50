//! The compressors of squashfs, for unpacking.
//!
//! *Promises.* Any bytes are valid input. The output never exceeds its buffer, and a window of at
//! most [`WINDOW_MAX`] is allocated.

use crate::error::{Result, SquashError};
use core::fmt;
use lzma_rust2::{LzmaReader, XzReader};
use nandlab_deflate::{End, Inflater, Wrapping};
use ruzstd::decoding::FrameDecoder;

/// Bytes of a window: a block has 1 MiB at most, and no maker takes a larger window.
const WINDOW_MAX: u32 = 16 << 20;

/// How blocks are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Deflate in zlib's format.
    Gzip,
    /// The format of lzma's tools before xz.
    Lzma,
    /// LZO1X without a header.
    Lzo,
    /// xz, with or without a filter for a processor's code.
    Xz,
    /// LZ4 blocks without a frame.
    Lz4,
    /// Zstandard with its frame.
    Zstd,
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Compressor {
    /// As mksquashfs calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lzma => "lzma",
            Self::Lzo => "lzo",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) fn from_number(number: u16) -> Result<Self> {
        Ok(match number {
            1 => Self::Gzip,
            2 => Self::Lzma,
            3 => Self::Lzo,
            4 => Self::Xz,
            5 => Self::Lz4,
            6 => Self::Zstd,
            _ => {
                return Err(SquashError::Feature {
                    at: 20,
                    what: "compressor",
                    found: number.into(),
                    expected: "gzip, lzma, lzo, xz, lz4 and zstd (1 to 6)",
                });
            }
        })
    }

    /// Unpacks a block. Returns the length of what it holds, or what is wrong with it.
    pub(crate) fn unpack(self, packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
        match self {
            Self::Gzip => gzip(packed, to),
            Self::Lzma => lzma(packed, to),
            Self::Lzo => nandlab_lzo::unpack(packed, to),
            Self::Xz => xz(packed, to),
            Self::Lz4 => {
                lz4_flex::block::decompress_into(packed, to).map_err(|_| "damaged lz4 block")
            }
            Self::Zstd => zstd(packed, to),
        }
    }
}

fn gzip(packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
    match Inflater::new(Wrapping::Zlib).unpack(packed, to) {
        (len, End::Whole) => Ok(len),
        (_, End::Full) => Err("it holds more than a block may"),
        (_, End::Damaged) => Err("damaged zlib stream"),
    }
}

/// Reads a stream to its end.
fn drain(
    mut from: impl lzma_rust2::Read,
    to: &mut [u8],
    damaged: &'static str,
) -> Result<usize, &'static str> {
    let mut len = 0;
    loop {
        let mut beyond = [0];
        let is_full = len == to.len();
        let limit = if is_full {
            &mut beyond[..]
        } else {
            &mut to[len..]
        };
        match from.read(limit) {
            Ok(0) => return Ok(len),
            Ok(_) if is_full => return Err("it holds more than a block may"),
            Ok(count) => len += count,
            Err(lzma_rust2::Error::OutOfMemory(_)) => {
                return Err("it asks for a window over 16 MiB");
            }
            Err(_) => return Err(damaged),
        }
    }
}

fn xz(packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
    let reader = XzReader::new_mem_limit(packed, false, WINDOW_MAX >> 10);
    drain(reader, to, "damaged xz stream")
}

fn lzma(packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
    match LzmaReader::new_mem_limit(packed, WINDOW_MAX >> 10, None) {
        Ok(reader) => drain(reader, to, "damaged lzma stream"),
        Err(_) => Err("damaged lzma header"),
    }
}

fn zstd(packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(WINDOW_MAX.into());
    decoder
        .decode_all(packed, to)
        .map_err(|_| "damaged zstd frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_refused_by_every_compressor_and_never_panics() {
        let mut to = [0; 8192];
        for number in 1..=6 {
            let compressor = Compressor::from_number(number).unwrap();
            for seed in 0..300u64 {
                let noise: alloc::vec::Vec<u8> = (0..seed % 90)
                    .map(|at| (nandlab_sim::mix(seed, at) >> 7) as u8)
                    .collect();
                if let Ok(len) = compressor.unpack(&noise, &mut to) {
                    assert!(len <= to.len());
                }
            }
        }
        assert!(Compressor::from_number(0).is_err() && Compressor::from_number(7).is_err());
    }
}
