//! Deflate, as Linux asks for it: level 3, flushed once before the end, twelve bytes kept for that
//! end.
//!
//! Source: fs/jffs2/compr_zlib.c. *Promises* a whole zlib stream, or nothing.

#[cfg(not(any(unix, windows)))]
use super::stream as flate2;
use alloc::{boxed::Box, vec::Vec};
use core::fmt;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};

/// What the end of a stream needs.
const END: usize = 12;
/// The level that Linux uses.
const LEVEL: u32 = 3;
/// With a zlib header.
const HEADER: i32 = 1;

/// Both directions with their memory, which comes with the first use.
#[derive(Default)]
pub(super) struct Zlib {
    deflate: Option<Compress>,
    /// Finds repetitions of three bytes too, which zlib-rs does not at this level and classic zlib
    /// does: a tenth of what compresses at all, for nearly the same time.
    thorough: Option<Box<CompressorOxide>>,
    inflate: Option<Decompress>,
}

impl fmt::Debug for Zlib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zlib")
    }
}

impl Zlib {
    /// Appends to `out` at most `room` bytes; gives how many source bytes are in them, or nothing
    /// where they are not shorter.
    pub fn compress(&mut self, source: &[u8], room: usize, out: &mut Vec<u8>) -> Option<usize> {
        if room <= END {
            return None;
        }
        let stream = self
            .deflate
            .get_or_insert_with(|| Compress::new(flate2::Compression::new(LEVEL), true));
        stream.reset();
        out.resize(room, 0);
        let mut written = 0;
        let mut taken = 0;
        while written < room - END && taken < source.len() {
            let space = room - END - written;
            let feed = (source.len() - taken).min(space);
            stream
                .compress(
                    &source[taken..taken + feed],
                    &mut out[written..written + space],
                    FlushCompress::Partial,
                )
                .ok()?;
            let read = stream.total_in() as usize;
            let wrote = stream.total_out() as usize;
            if (read, wrote) == (taken, written) {
                return None;
            }
            (taken, written) = (read, wrote);
        }
        let end = stream
            .compress(&[], &mut out[written..], FlushCompress::Finish)
            .ok()?;
        let len = stream.total_out() as usize;
        out.truncate(len);
        (end == Status::StreamEnd && len < taken).then_some(taken)
    }

    /// Appends all of `source`, shorter than it was; false where it is not. For media that are made
    /// once: in one piece, and not by Linux's way.
    pub fn compress_well(&mut self, source: &[u8], out: &mut Vec<u8>) -> bool {
        let new = || {
            Box::new(CompressorOxide::new(create_comp_flags_from_zip_params(
                LEVEL as i32,
                HEADER,
                0,
            )))
        };
        let stream = self.thorough.get_or_insert_with(new);
        stream.reset();
        out.resize(source.len().saturating_sub(1), 0);
        let (end, _, len) = compress(stream, source, out, TDEFLFlush::Finish);
        out.truncate(len);
        end == TDEFLStatus::Done
    }

    /// Fills `out`; what follows in the stream is not looked at.
    pub fn decompress(&mut self, data: &[u8], out: &mut [u8]) -> Option<()> {
        let stream = self.inflate.get_or_insert_with(|| Decompress::new(true));
        stream.reset(true);
        // A broken stream may still have given all that is wanted.
        _ = stream.decompress(data, out, FlushDecompress::Finish);
        (stream.total_out() as usize == out.len()).then_some(())
    }
}
