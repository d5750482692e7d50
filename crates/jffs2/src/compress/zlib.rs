//! Deflate, as Linux asks for it: level 3, flushed once before the end, twelve bytes kept for that
//! end.
//!
//! Source: fs/jffs2/compr_zlib.c. *Promises* a whole zlib stream, or nothing.

use alloc::vec::Vec;
use nandlab_deflate::{Deflater, Flush, Inflater, Packer, Wrapping};

/// What the end of a stream needs.
const END: usize = 12;
/// The level that Linux uses.
const LEVEL: u8 = 3;

/// Both directions with their memory, which comes with the first use.
#[derive(Debug, Default)]
pub(super) struct Zlib {
    deflate: Option<Deflater>,
    /// A tenth of what compresses at all has only repetitions that this one finds, for nearly the
    /// same time.
    thorough: Option<Packer>,
    inflate: Option<Inflater>,
}

impl Zlib {
    /// Appends to `out` at most `room` bytes; gives how many source bytes are in them, or nothing
    /// where they are not shorter.
    pub fn compress(&mut self, source: &[u8], room: usize, out: &mut Vec<u8>) -> Option<usize> {
        if room <= END {
            return None;
        }
        let new = || Deflater::new(LEVEL, Wrapping::Zlib);
        let stream = self.deflate.get_or_insert_with(new);
        stream.reset();
        out.resize(room, 0);
        let mut written = 0;
        let mut taken = 0;
        while written < room - END && taken < source.len() {
            let space = room - END - written;
            let feed = (source.len() - taken).min(space);
            let step = stream.pack(
                &source[taken..taken + feed],
                &mut out[written..written + space],
                Flush::Partial,
            )?;
            if (step.taken, step.written) == (0, 0) {
                return None;
            }
            taken += step.taken;
            written += step.written;
        }
        let end = stream.pack(&[], &mut out[written..], Flush::Finish)?;
        let len = written + end.written;
        out.truncate(len);
        (end.is_end && len < taken).then_some(taken)
    }

    /// Appends all of `source`, shorter than it was; false where it is not. For media that are made
    /// once: in one piece, and not by Linux's way.
    pub fn compress_well(&mut self, source: &[u8], out: &mut Vec<u8>) -> bool {
        let new = || Packer::new(LEVEL, Wrapping::Zlib);
        let packer = self.thorough.get_or_insert_with(new);
        out.resize(source.len().saturating_sub(1), 0);
        let len = packer.pack(source, out);
        out.truncate(len.unwrap_or_default());
        len.is_some()
    }

    /// Fills `out`; what follows in the stream is not looked at.
    pub fn decompress(&mut self, data: &[u8], out: &mut [u8]) -> Option<()> {
        let new = || Inflater::new(Wrapping::Zlib);
        // A broken stream may still have given all that is wanted.
        let (len, _) = self.inflate.get_or_insert_with(new).unpack(data, out);
        (len == out.len()).then_some(())
    }
}
