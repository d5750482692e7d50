//! Packing piece by piece.

use crate::Wrapping;
use core::fmt;

/// What a piece ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All of the piece goes to the output, as far as that has space. More may follow.
    Partial,
    /// The end of the stream.
    Finish,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the source that the stream has taken.
    pub taken: usize,
    /// Bytes of the output.
    pub written: usize,
    /// Whether the stream is whole.
    pub is_end: bool,
}

#[cfg(any(unix, windows))]
mod quick {
    use super::{Flush, Step};
    use crate::Wrapping;
    use flate2::{Compress, Compression, FlushCompress, Status};

    pub type State = Compress;

    pub fn new(level: u8, wrapping: Wrapping) -> State {
        Compress::new(Compression::new(level.into()), wrapping.has_header())
    }

    pub fn pack(state: &mut State, from: &[u8], to: &mut [u8], flush: Flush) -> Option<Step> {
        let flush = match flush {
            Flush::Partial => FlushCompress::Partial,
            Flush::Finish => FlushCompress::Finish,
        };
        let before = (state.total_in(), state.total_out());
        let status = state.compress(from, to, flush).ok()?;
        Some(Step {
            taken: (state.total_in() - before.0) as usize,
            written: (state.total_out() - before.1) as usize,
            is_end: status == Status::StreamEnd,
        })
    }
}

#[cfg(any(test, not(any(unix, windows))))]
mod small {
    use super::{Flush, Step};
    pub use crate::pack::small::{State, new};
    use miniz_oxide::deflate::stream::deflate;
    use miniz_oxide::{MZFlush, MZStatus};

    pub fn pack(state: &mut State, from: &[u8], to: &mut [u8], flush: Flush) -> Option<Step> {
        let flush = match flush {
            Flush::Partial => MZFlush::Partial,
            Flush::Finish => MZFlush::Finish,
        };
        let done = deflate(state, from, to, flush);
        Some(Step {
            taken: done.bytes_consumed,
            written: done.bytes_written,
            is_end: done.status.ok()? == MZStatus::StreamEnd,
        })
    }
}

#[cfg(any(unix, windows))]
use quick as engine;
#[cfg(not(any(unix, windows)))]
use small as engine;

/// Packs piece by piece. It keeps its memory.
pub struct Deflater(engine::State);

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflater")
    }
}

impl Deflater {
    /// Packs at a level of zlib, from 1 to 9.
    pub fn new(level: u8, wrapping: Wrapping) -> Self {
        Self(engine::new(level, wrapping))
    }

    /// Begins another stream.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Packs what it can of the next piece. Nothing where the stream cannot go on, as with no
    /// space in `to`.
    pub fn pack(&mut self, from: &[u8], to: &mut [u8], flush: Flush) -> Option<Step> {
        engine::pack(&mut self.0, from, to, flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Inflater};

    fn assert_packs(
        wrapping: Wrapping,
        mut pack: impl FnMut(&[u8], &mut [u8], Flush) -> Option<Step>,
    ) {
        let text = b"one two one two one two ".repeat(100);
        let mut packed = [0; 2400];
        let first = pack(&text[..1200], &mut packed, Flush::Partial).unwrap();
        assert_eq!((first.taken, first.is_end), (1200, false));
        let rest = &mut packed[first.written..];
        let second = pack(&text[1200..], rest, Flush::Finish).unwrap();
        assert_eq!((second.taken, second.is_end), (1200, true));
        let len = first.written + second.written;
        assert!(len < 100, "{len} bytes");
        let mut to = [0; 2400];
        let done = Inflater::new(wrapping).unpack(&packed[..len], &mut to);
        assert_eq!(done, (2400, End::Whole));
        assert_eq!(to[..], text[..]);
    }

    #[test]
    fn both_engines_make_one_stream_of_two_pieces() {
        for wrapping in [Wrapping::Raw, Wrapping::Zlib] {
            let mut state = quick::new(3, wrapping);
            let mut other = small::new(3, wrapping);
            for _ in 0..2 {
                assert_packs(wrapping, |from, to, flush| {
                    quick::pack(&mut state, from, to, flush)
                });
                assert_packs(wrapping, |from, to, flush| {
                    small::pack(&mut other, from, to, flush)
                });
                state.reset();
                other.reset();
            }
        }
    }
}
