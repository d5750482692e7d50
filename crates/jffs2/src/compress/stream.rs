//! The part of flate2 that `zlib` calls, for targets without `std`, which flate2 needs.
//!
//! *Promises* valid zlib streams. Their bytes differ from those of flate2 with zlib-rs.

use alloc::boxed::Box;
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus, StreamResult};

/// With a zlib header.
const HEADER: i32 = 1;

pub struct Compression(u32);

impl Compression {
    pub fn new(level: u32) -> Self {
        Self(level)
    }
}

pub enum FlushCompress {
    Partial,
    Finish,
}

pub enum FlushDecompress {
    Finish,
}

#[derive(PartialEq)]
pub enum Status {
    Ok,
    StreamEnd,
}

/// The stream is broken or its output is full.
#[derive(Debug)]
pub struct StreamError;

#[derive(Default)]
struct Totals {
    read: u64,
    written: u64,
}

impl Totals {
    fn add(&mut self, result: &StreamResult) -> Result<Status, StreamError> {
        self.read += result.bytes_consumed as u64;
        self.written += result.bytes_written as u64;
        match result.status {
            Ok(MZStatus::StreamEnd) => Ok(Status::StreamEnd),
            Ok(_) => Ok(Status::Ok),
            Err(_) => Err(StreamError),
        }
    }
}

pub struct Compress {
    inner: Box<CompressorOxide>,
    totals: Totals,
}

impl Compress {
    pub fn new(level: Compression, _zlib_header: bool) -> Self {
        let flags = create_comp_flags_from_zip_params(level.0 as i32, HEADER, 0);
        Self {
            inner: Box::new(CompressorOxide::new(flags)),
            totals: Totals::default(),
        }
    }

    pub fn reset(&mut self) {
        self.inner.reset();
        self.totals = Totals::default();
    }

    pub fn compress(
        &mut self,
        from: &[u8],
        to: &mut [u8],
        flush: FlushCompress,
    ) -> Result<Status, StreamError> {
        let flush = match flush {
            FlushCompress::Partial => MZFlush::Partial,
            FlushCompress::Finish => MZFlush::Finish,
        };
        self.totals.add(&deflate(&mut self.inner, from, to, flush))
    }

    pub fn total_in(&self) -> u64 {
        self.totals.read
    }

    pub fn total_out(&self) -> u64 {
        self.totals.written
    }
}

pub struct Decompress {
    inner: Box<InflateState>,
    totals: Totals,
}

impl Decompress {
    pub fn new(_zlib_header: bool) -> Self {
        Self {
            inner: InflateState::new_boxed(DataFormat::Zlib),
            totals: Totals::default(),
        }
    }

    pub fn reset(&mut self, _zlib_header: bool) {
        self.inner.reset(DataFormat::Zlib);
        self.totals = Totals::default();
    }

    pub fn decompress(
        &mut self,
        from: &[u8],
        to: &mut [u8],
        _: FlushDecompress,
    ) -> Result<Status, StreamError> {
        // Not `Finish`, which drops the output of a stream that holds more than is wanted.
        let result = inflate(&mut self.inner, from, to, MZFlush::None);
        self.totals.add(&result)
    }

    pub fn total_out(&self) -> u64 {
        self.totals.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_those_of_zlib() {
        let text = b"one two one two one two ".repeat(100);
        let mut packed = [0; 2400];
        let mut deflate = Compress::new(Compression::new(3), true);
        for _ in 0..2 {
            deflate.reset();
            let half = deflate.compress(&text[..1200], &mut packed, FlushCompress::Partial);
            assert!(half.is_ok_and(|status| status == Status::Ok));
            let written = deflate.total_out() as usize;
            let end =
                deflate.compress(&text[1200..], &mut packed[written..], FlushCompress::Finish);
            assert!(end.is_ok_and(|status| status == Status::StreamEnd));
            assert_eq!(deflate.total_in(), 2400);
        }
        let packed = &packed[..deflate.total_out() as usize];
        let mut theirs = [0; 2400];
        let done = flate2::Decompress::new(true).decompress(
            packed,
            &mut theirs,
            flate2::FlushDecompress::Finish,
        );
        assert_eq!(done.unwrap(), flate2::Status::StreamEnd);
        assert_eq!(theirs[..], text[..]);
        let mut inflate = Decompress::new(true);
        for length in [2400, 10] {
            let mut ours = [0; 2400];
            inflate.reset(true);
            _ = inflate.decompress(packed, &mut ours[..length], FlushDecompress::Finish);
            assert_eq!(inflate.total_out() as usize, length);
            assert_eq!(ours[..length], text[..length]);
        }
    }
}
