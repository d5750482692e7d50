//! The compressors of data nodes.
//!
//! *Promises.* Any bytes are valid input; no more is unpacked than a block has.

use crate::format::BLOCK;
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_deflate::{End, Inflater, Wrapping};
use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Bytes of the window of a frame at most, which the decoder allocates: that of zstd's usual level
/// for contents of unknown length. Linux and mkfs.ubifs know the length, and take 4 KiB.
const WINDOW_MAX: u64 = 2 << 20;

/// A block shorter than this is stored as it is, and so is one that would save less.
const WORTH: usize = 128;
const SAVED: usize = 64;

/// The level that Linux takes.
const LEVEL: u8 = 6;

/// The compressors with their memory, which comes with the first use.
#[derive(Default)]
pub struct Packer {
    lzo: nandlab_lzo::Lzo,
    deflate: Option<nandlab_deflate::Packer>,
}

impl core::fmt::Debug for Packer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    /// Packs a block. Returns the number of its compressor, which is 0 for none.
    pub(crate) fn pack(&mut self, compressor: u16, block: &[u8]) -> (u16, Vec<u8>) {
        let room = block.len().saturating_sub(SAVED);
        let packed = match compressor {
            _ if block.len() < WORTH => None,
            1 => self.lzo(block, room),
            2 => self.deflate(block, room),
            3 => Some(compress_to_vec(block, CompressionLevel::Fastest)),
            _ => None,
        };
        match packed.filter(|packed| packed.len() <= room) {
            Some(packed) => (compressor, packed),
            None => (0, block.into()),
        }
    }

    fn lzo(&mut self, block: &[u8], room: usize) -> Option<Vec<u8>> {
        let mut packed = Vec::new();
        let fits = self.lzo.compress(block, room, &mut packed);
        fits.then_some(packed)
    }

    /// Without a header.
    fn deflate(&mut self, block: &[u8], room: usize) -> Option<Vec<u8>> {
        let new = || nandlab_deflate::Packer::new(LEVEL, Wrapping::Raw);
        let packer = self.deflate.get_or_insert_with(new);
        let mut packed = vec![0; room];
        let len = packer.pack(block, &mut packed)?;
        packed.truncate(len);
        Some(packed)
    }
}

/// Packed contents of a file, from any thread, for a later write: whole blocks, and the part of one
/// at the end.
#[derive(Debug, Default)]
pub struct Packed {
    wanted: u16,
    /// The number of the first block in its file.
    first: u64,
    /// The length of each block, its compressor, and what that made.
    blocks: Vec<(usize, u16, Vec<u8>)>,
}

impl Packed {
    /// Packs `data`, which lies at a byte of a file, with the compressor of this number.
    pub fn new(packer: &mut Packer, compressor: u16, at: u64, data: &[u8]) -> Self {
        let first = at.div_ceil(BLOCK.into());
        let skipped = (first * u64::from(BLOCK) - at).min(data.len() as u64) as usize;
        let pack = |block: &[u8]| {
            let (used, packed) = packer.pack(compressor, block);
            (block.len(), used, packed)
        };
        Self {
            wanted: compressor,
            first,
            blocks: data[skipped..].chunks(BLOCK as usize).map(pack).collect(),
        }
    }

    /// The compressor and the packed bytes of a block of this length, if it is here.
    pub(crate) fn block(&self, wanted: u16, number: u64, len: usize) -> Option<(u16, &[u8])> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (held, used, packed) = self.blocks.get(at)?;
        (self.wanted == wanted && *held == len).then_some((*used, packed))
    }
}

/// The decompressors with their memory.
#[derive(Default)]
pub(crate) struct Unpacker {
    inflate: Option<Inflater>,
    zstd: Option<Box<FrameDecoder>>,
}

impl Unpacker {
    /// Fills `to` exactly, or says what is wrong.
    pub fn unpack(
        &mut self,
        compressor: u16,
        packed: &[u8],
        to: &mut [u8],
    ) -> Result<(), &'static str> {
        debug_assert!(to.len() <= BLOCK as usize);
        let len = match compressor {
            0 if packed.len() == to.len() => {
                to.copy_from_slice(packed);
                packed.len()
            }
            0 => return Err("stored data are not as long as their node says"),
            1 => nandlab_lzo::unpack(packed, to)?,
            2 => self.inflate(packed, to)?,
            3 => self.zstd(packed, to)?,
            _ => return Err("data of an unknown compressor"),
        };
        match len == to.len() {
            true => Ok(()),
            false => Err("packed data hold less than their node says"),
        }
    }

    fn inflate(&mut self, packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
        let new = || Inflater::new(Wrapping::Raw);
        match self.inflate.get_or_insert_with(new).unpack(packed, to) {
            (len, End::Whole) => Ok(len),
            (_, End::Full) => Err("packed data hold more than their node says"),
            (_, End::Damaged) => Err("a damaged deflate stream"),
        }
    }

    fn zstd(&mut self, packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
        let decoder = self.zstd.get_or_insert_with(|| {
            let mut decoder = Box::new(FrameDecoder::new());
            decoder.set_max_window_size(WINDOW_MAX);
            decoder
        });
        decoder
            .decode_all(packed, to)
            .map_err(|_| "a damaged zstd frame")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_never_panics_and_a_shorter_result_is_an_error() {
        let mut unpacker = Unpacker::default();
        let mut to = [0; 4096];
        for compressor in 0..5 {
            for seed in 0..300u64 {
                let noise: alloc::vec::Vec<u8> = (0..seed % 90)
                    .map(|at| (nandlab_sim::mix(seed, at) >> 7) as u8)
                    .collect();
                let _ = unpacker.unpack(compressor, &noise, &mut to);
            }
        }
        assert_eq!(unpacker.unpack(0, b"abc", &mut to[..3]), Ok(()));
        assert!(unpacker.unpack(0, b"abc", &mut to[..4]).is_err());
        assert!(unpacker.unpack(4, b"abc", &mut to[..3]).is_err());
    }

    #[test]
    fn a_frame_whose_window_is_longer_than_its_bound_is_refused() {
        // A magic number, a window of 2^(10 + n) bytes, and one last raw block of a byte.
        let frame = |n: u8| [0x28, 0xB5, 0x2F, 0xFD, 0, n << 3, 9, 0, 0, 7];
        let mut unpacker = Unpacker::default();
        let mut to = [0];
        assert_eq!(unpacker.unpack(3, &frame(11), &mut to), Ok(()));
        assert_eq!(to, [7]);
        assert!(unpacker.unpack(3, &frame(12), &mut to).is_err());
    }
}
