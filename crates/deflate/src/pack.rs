//! Packing in one piece.

use crate::Wrapping;
use alloc::boxed::Box;
use core::fmt;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};

/// Packs in one piece, and finds repetitions of three bytes: zlib-rs does not at low levels, and
/// classic zlib does. It keeps its memory.
pub struct Packer(Box<CompressorOxide>);

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    /// Packs at a level of zlib, from 1 to 9.
    pub fn new(level: u8, wrapping: Wrapping) -> Self {
        Self(compressor(level, wrapping))
    }

    /// Returns the length of the stream, or nothing where `to` is too short for it.
    pub fn pack(&mut self, source: &[u8], to: &mut [u8]) -> Option<usize> {
        self.0.reset();
        let (end, _, len) = compress(&mut self.0, source, to, TDEFLFlush::Finish);
        (end == TDEFLStatus::Done).then_some(len)
    }
}

/// miniz_oxide's compressor of a level.
pub fn compressor(level: u8, wrapping: Wrapping) -> Box<CompressorOxide> {
    let header = i32::from(wrapping.has_header());
    let flags = create_comp_flags_from_zip_params(level.into(), header, 0);
    Box::new(CompressorOxide::new(flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Inflater};

    #[test]
    fn a_stream_unpacks_with_its_own_wrapping_only() {
        let text = b"one two one two one two ".repeat(100);
        for (wrapping, other) in [
            (Wrapping::Raw, Wrapping::Zlib),
            (Wrapping::Zlib, Wrapping::Raw),
        ] {
            let mut packer = Packer::new(4, wrapping);
            let mut packed = [0; 2400];
            for _ in 0..2 {
                let len = packer.pack(&text, &mut packed).unwrap();
                let mut to = [0; 2400];
                let done = Inflater::new(wrapping).unpack(&packed[..len], &mut to);
                assert_eq!(done, (2400, End::Whole));
                assert_eq!(to[..], text[..]);
                let (_, end) = Inflater::new(other).unpack(&packed[..len], &mut to);
                assert_eq!(end, End::Damaged);
                assert_eq!(packer.pack(&text, &mut to[..len - 1]), None);
            }
        }
    }
}
