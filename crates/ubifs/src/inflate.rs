//! Deflate streams without a header, unpacked in one piece.
//!
//! zlib-rs takes three quarters of the time that miniz_oxide takes, and needs `std`. *Promises.*
//! Any bytes are valid input.

const LONGER: &str = "packed data hold more than their node says";
const DAMAGED: &str = "a damaged deflate stream";

#[cfg(any(unix, windows))]
mod quick {
    use super::{DAMAGED, LONGER};
    use flate2::{Decompress, FlushDecompress, Status};

    /// The decompressor with its memory, which comes with the first use.
    #[derive(Default)]
    pub struct Inflater(Option<Decompress>);

    impl Inflater {
        /// Returns how many bytes of `to` the stream fills.
        pub fn unpack(&mut self, packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
            let stream = self.0.get_or_insert_with(|| Decompress::new(false));
            stream.reset(false);
            let end = stream.decompress(packed, to, FlushDecompress::Finish);
            let len = stream.total_out() as usize;
            match end {
                Ok(Status::StreamEnd) => Ok(len),
                Ok(_) if len == to.len() => Err(LONGER),
                _ => Err(DAMAGED),
            }
        }
    }
}

#[cfg(any(test, not(any(unix, windows))))]
mod portable {
    use super::{DAMAGED, LONGER};
    use alloc::boxed::Box;
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

    /// The decompressor with its memory, which comes with the first use.
    #[derive(Default)]
    pub struct Inflater(Option<Box<DecompressorOxide>>);

    impl Inflater {
        /// Returns how many bytes of `to` the stream fills.
        pub fn unpack(&mut self, packed: &[u8], to: &mut [u8]) -> Result<usize, &'static str> {
            let state = self.0.get_or_insert_with(Box::default);
            state.init();
            let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
            match decompress(state, packed, to, 0, flags) {
                (TINFLStatus::Done, _, len) => Ok(len),
                (TINFLStatus::HasMoreOutput, ..) => Err(LONGER),
                _ => Err(DAMAGED),
            }
        }
    }
}

#[cfg(not(any(unix, windows)))]
pub use portable::Inflater;
#[cfg(any(unix, windows))]
pub use quick::Inflater;

#[cfg(test)]
mod tests {
    use super::{portable, quick};
    use miniz_oxide::deflate::compress_to_vec;

    fn assert_fills(mut unpack: impl FnMut(&[u8], &mut [u8]) -> Result<usize, &'static str>) {
        let text = b"one two one two one two ".repeat(9);
        let packed = compress_to_vec(&text, 6);
        let mut to = [0; 300];
        assert_eq!(unpack(&packed, &mut to), Ok(text.len()));
        assert_eq!(to[..text.len()], text[..]);
        assert_eq!(unpack(&packed, &mut to[..216]), Ok(216));
        let longer = unpack(&packed, &mut to[..215]).unwrap_err();
        assert!(longer.contains("more"), "{longer}");
        let cut = &packed[..packed.len() - 1];
        let damaged = unpack(cut, &mut to).unwrap_err();
        assert!(damaged.contains("damaged"), "{damaged}");
    }

    #[test]
    fn a_stream_fills_what_it_holds_and_no_more() {
        let mut inflater = quick::Inflater::default();
        assert_fills(|packed, to| inflater.unpack(packed, to));
        let mut inflater = portable::Inflater::default();
        assert_fills(|packed, to| inflater.unpack(packed, to));
    }
}
