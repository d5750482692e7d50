//! Deflate, as Linux asks for it: level 3, flushed once before the end, twelve bytes kept for that end.
//!
//! Source: fs/jffs2/compr_zlib.c. *Promises* a whole zlib stream, or nothing.

use alloc::vec::Vec;
use core::fmt;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

/// What the end of a stream needs.
const END: usize = 12;
/// The level that Linux uses.
const LEVEL: u32 = 3;

/// Both directions with their memory, which comes with the first use.
#[derive(Default)]
pub(super) struct Zlib {
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
}

impl fmt::Debug for Zlib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zlib")
    }
}

impl Zlib {
    /// Appends to `out` at most `room` bytes; gives how many source bytes are in them, or nothing where they are not shorter.
    pub fn compress(&mut self, source: &[u8], room: usize, out: &mut Vec<u8>) -> Option<usize> {
        if room <= END {
            return None;
        }
        let stream = self.deflate.get_or_insert_with(|| Compress::new(flate2::Compression::new(LEVEL), true));
        stream.reset();
        out.resize(room, 0);
        let mut written = 0;
        let mut taken = 0;
        while written < room - END && taken < source.len() {
            let space = room - END - written;
            let feed = (source.len() - taken).min(space);
            stream.compress(&source[taken..taken + feed], &mut out[written..written + space], FlushCompress::Partial).ok()?;
            let (read, wrote) = (stream.total_in() as usize, stream.total_out() as usize);
            if (read, wrote) == (taken, written) {
                return None;
            }
            (taken, written) = (read, wrote);
        }
        let end = stream.compress(&[], &mut out[written..], FlushCompress::Finish).ok()?;
        let len = stream.total_out() as usize;
        out.truncate(len);
        (end == Status::StreamEnd && len < taken).then_some(taken)
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
