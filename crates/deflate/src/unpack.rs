//! Unpacking in one piece.

use crate::Wrapping;
use core::fmt;

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its last byte.
    Whole,
    /// The output is full, and there is more in the stream.
    Full,
    /// The stream is broken, or stops too early.
    Damaged,
}

#[cfg(any(unix, windows))]
mod quick {
    use super::{End, small};
    use crate::Wrapping;
    use libdeflater::Decompressor;

    pub struct State {
        whole: Decompressor,
        /// For streams that are not whole: libdeflate does not say how far they go.
        part: Option<small::State>,
    }

    pub fn new(_: Wrapping) -> State {
        State {
            whole: Decompressor::new(),
            part: None,
        }
    }

    pub fn unpack(
        state: &mut State,
        wrapping: Wrapping,
        packed: &[u8],
        to: &mut [u8],
    ) -> (usize, End) {
        let whole = match wrapping {
            Wrapping::Raw => state.whole.deflate_decompress(packed, to),
            Wrapping::Zlib => state.whole.zlib_decompress(packed, to),
        };
        whole.map_or_else(
            |_| {
                let part = state.part.get_or_insert_with(|| small::new(wrapping));
                small::unpack(part, wrapping, packed, to)
            },
            |len| (len, End::Whole),
        )
    }
}

mod small {
    use super::End;
    use crate::Wrapping;
    use alloc::boxed::Box;
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

    pub type State = Box<DecompressorOxide>;

    pub fn new(_: Wrapping) -> State {
        Box::default()
    }

    pub fn unpack(
        state: &mut State,
        wrapping: Wrapping,
        packed: &[u8],
        to: &mut [u8],
    ) -> (usize, End) {
        state.init();
        let zlib =
            inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_COMPUTE_ADLER32;
        let header = if wrapping.has_header() { zlib } else { 0 };
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | header;
        match decompress(state, packed, to, 0, flags) {
            (TINFLStatus::Done, _, len) => (len, End::Whole),
            (TINFLStatus::HasMoreOutput, _, len) => (len, End::Full),
            (_, _, len) => (len, End::Damaged),
        }
    }
}

#[cfg(any(unix, windows))]
use quick as engine;
#[cfg(not(any(unix, windows)))]
use small as engine;

/// Unpacks in one piece. It keeps its memory.
pub struct Inflater {
    wrapping: Wrapping,
    state: engine::State,
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inflater").field(&self.wrapping).finish()
    }
}

impl Inflater {
    /// An unpacker of streams with this wrapping.
    pub fn new(wrapping: Wrapping) -> Self {
        Self {
            wrapping,
            state: engine::new(wrapping),
        }
    }

    /// Returns how many bytes of `to` the stream filled, and how it ended. What it filled is right
    /// as far as the stream is, whatever its end.
    pub fn unpack(&mut self, packed: &[u8], to: &mut [u8]) -> (usize, End) {
        engine::unpack(&mut self.state, self.wrapping, packed, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    fn assert_unpacks(
        wrapping: Wrapping,
        mut unpack: impl FnMut(&[u8], &mut [u8]) -> (usize, End),
    ) {
        let text = b"one two one two one two ".repeat(9);
        let mut packed = match wrapping {
            Wrapping::Raw => compress_to_vec(&text, 6),
            Wrapping::Zlib => compress_to_vec_zlib(&text, 6),
        };
        let mut to = [0; 300];
        assert_eq!(unpack(&packed, &mut to), (216, End::Whole));
        assert_eq!(to[..216], text[..]);
        assert_eq!(unpack(&packed, &mut to[..216]), (216, End::Whole));
        let mut to = [0; 215];
        assert_eq!(unpack(&packed, &mut to), (215, End::Full));
        assert_eq!(to[..], text[..215]);
        let mut to = [0; 300];
        let (_, end) = unpack(&packed[..packed.len() - 1], &mut to);
        assert_eq!(end, End::Damaged);
        let behind: Vec<u8> = [&packed[..], b"behind"].concat();
        assert_eq!(unpack(&behind, &mut to), (216, End::Whole));
        let last = packed.len() - 1;
        packed[last] ^= 1;
        if wrapping == Wrapping::Zlib {
            let (len, end) = unpack(&packed, &mut to);
            assert_eq!((len, end), (216, End::Damaged), "the checksum is wrong");
        }
    }

    #[test]
    fn both_engines_fill_what_a_stream_holds_and_no_more() {
        for wrapping in [Wrapping::Raw, Wrapping::Zlib] {
            let mut state = quick::new(wrapping);
            assert_unpacks(wrapping, |packed, to| {
                quick::unpack(&mut state, wrapping, packed, to)
            });
            let mut state = small::new(wrapping);
            assert_unpacks(wrapping, |packed, to| {
                small::unpack(&mut state, wrapping, packed, to)
            });
        }
    }
}
