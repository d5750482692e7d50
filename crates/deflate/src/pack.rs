//! Packing in one piece.

use crate::Wrapping;
use core::fmt;

#[cfg(any(unix, windows))]
mod quick {
    use crate::Wrapping;
    use libdeflater::{CompressionLvl, Compressor};

    pub type State = Compressor;

    pub fn new(level: u8, _: Wrapping) -> State {
        Compressor::new(CompressionLvl::new(level.into()).unwrap_or_default())
    }

    pub fn pack(
        state: &mut State,
        wrapping: Wrapping,
        source: &[u8],
        to: &mut [u8],
    ) -> Option<usize> {
        let packed = match wrapping {
            Wrapping::Raw => state.deflate_compress(source, to),
            Wrapping::Zlib => state.zlib_compress(source, to),
        };
        packed.ok()
    }
}

#[cfg(any(test, not(any(unix, windows))))]
pub mod small {
    use crate::Wrapping;
    use alloc::boxed::Box;
    use miniz_oxide::deflate::core::{
        CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
    };

    pub type State = Box<CompressorOxide>;

    pub fn new(level: u8, wrapping: Wrapping) -> State {
        let header = i32::from(wrapping.has_header());
        let flags = create_comp_flags_from_zip_params(level.into(), header, 0);
        Box::new(CompressorOxide::new(flags))
    }

    pub fn pack(state: &mut State, _: Wrapping, source: &[u8], to: &mut [u8]) -> Option<usize> {
        state.reset();
        let (end, _, len) = compress(state, source, to, TDEFLFlush::Finish);
        (end == TDEFLStatus::Done).then_some(len)
    }
}

#[cfg(any(unix, windows))]
use quick as engine;
#[cfg(not(any(unix, windows)))]
use small as engine;

/// Packs in one piece. It keeps its memory.
pub struct Packer {
    wrapping: Wrapping,
    state: engine::State,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packer").field(&self.wrapping).finish()
    }
}

impl Packer {
    /// Packs at a level of zlib, from 1 to 9.
    pub fn new(level: u8, wrapping: Wrapping) -> Self {
        Self {
            wrapping,
            state: engine::new(level, wrapping),
        }
    }

    /// Returns the length of the stream, or nothing where `to` is too short for it.
    pub fn pack(&mut self, source: &[u8], to: &mut [u8]) -> Option<usize> {
        engine::pack(&mut self.state, self.wrapping, source, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Inflater};

    fn assert_packs(wrapping: Wrapping, mut pack: impl FnMut(&[u8], &mut [u8]) -> Option<usize>) {
        let other = match wrapping {
            Wrapping::Raw => Wrapping::Zlib,
            Wrapping::Zlib => Wrapping::Raw,
        };
        let text = b"one two one two one two ".repeat(100);
        let mut packed = [0; 2400];
        let len = pack(&text, &mut packed).unwrap();
        assert!(len < 100, "{len} bytes");
        let mut to = [0; 2400];
        let done = Inflater::new(wrapping).unpack(&packed[..len], &mut to);
        assert_eq!(done, (2400, End::Whole));
        assert_eq!(to[..], text[..]);
        let (_, end) = Inflater::new(other).unpack(&packed[..len], &mut to);
        assert_eq!(end, End::Damaged);
        assert_eq!(pack(&text, &mut to[..len - 1]), None);
    }

    #[test]
    fn both_engines_make_streams_that_unpack_with_their_own_wrapping_only() {
        for wrapping in [Wrapping::Raw, Wrapping::Zlib] {
            let mut state = quick::new(4, wrapping);
            let mut other = small::new(4, wrapping);
            for _ in 0..2 {
                assert_packs(wrapping, |from, to| {
                    quick::pack(&mut state, wrapping, from, to)
                });
                assert_packs(wrapping, |from, to| {
                    small::pack(&mut other, wrapping, from, to)
                });
            }
        }
    }
}
