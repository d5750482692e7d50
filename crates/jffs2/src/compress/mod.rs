//! How the data of a node are compressed: which way is chosen, and all ways back.
//!
//! *Promises.* What is decompressed is exactly as long as asked for, or an error; no input makes it
//! panic or write elsewhere. Buffers are kept from call to call. *Knows nothing of* nodes. Source
//! of the choices: fs/jffs2/compr.c.

mod rtime;
mod rubin;
mod zlib;

use crate::Coded;
use alloc::vec::Vec;
use nandlab_lzo::Lzo;

pub(crate) const NONE: u8 = 0;
pub(crate) const ZERO: u8 = 1;
pub(crate) const RTIME: u8 = 2;
/// What the header calls so; Linux gives the number to the code with a table of its own.
pub(crate) const RUBINMIPS: u8 = 3;
/// What the header calls so; Linux gives the number to the code with the fixed table.
pub(crate) const DYNRUBIN: u8 = 5;
pub(crate) const ZLIB: u8 = 6;
pub(crate) const LZO: u8 = 7;

/// How one of several compressors is chosen (`compr=` of Linux's mount options).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Data is stored as it is.
    None,
    /// The first that gains anything: LZO, zlib, rtime, as far as they are there.
    #[default]
    Priority,
    /// The one with the shortest result.
    Size,
    /// The shortest, but LZO where it is at most a fifth longer.
    FavourLzo,
}

/// What is done to data that are written. What is read may be compressed in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// How one of the compressors is chosen.
    pub choice: Choice,
    /// LZO1X, in Linux since 2.6.24.
    pub lzo: bool,
    /// Deflate at level 3, as Linux has it.
    pub zlib: bool,
    /// The format's own: repetitions of what followed the same byte before.
    pub rtime: bool,
}

impl Compression {
    /// Stores all data without compression.
    pub const NONE: Self = Self {
        choice: Choice::None,
        lzo: false,
        zlib: false,
        rtime: false,
    };
    /// As Linux before LZO, such as 2.6.21.
    pub const CLASSIC: Self = Self {
        choice: Choice::Priority,
        lzo: false,
        zlib: true,
        rtime: true,
    };
    /// As today's kernels with all of their compressors, such as Debian's.
    pub const LINUX: Self = Self {
        choice: Choice::Priority,
        lzo: true,
        zlib: true,
        rtime: true,
    };
}

impl Default for Compression {
    fn default() -> Self {
        Self::LINUX
    }
}

/// Data that cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// They end early, refer to what is not there, or give more or less than they should.
    #[error("damaged {0} data")]
    Damaged(&'static str),
    /// Nobody knows this compressor.
    #[error("compressor {0:#04x}, expected 0x00 to 0x03 or 0x05 to 0x07")]
    Unknown(u8),
}

/// What came of compressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed<'a> {
    pub compr: u8,
    /// Bytes of the source that are in it.
    pub taken: usize,
    pub data: &'a [u8],
}

/// The compressors with their memory: some hundred KiB once they are used.
#[derive(Debug, Default)]
pub struct Packer {
    zlib: zlib::Zlib,
    lzo: Lzo,
    thorough: bool,
    out: [Vec<u8>; 2],
    /// What has been done, in the order of priorities.
    pub(crate) coded: [Coded; 3],
    /// Pieces for any compressor, and nodes out of one.
    pub(crate) packed: u64,
    pub(crate) unpacked: u64,
}

/// In the order of Linux's priorities.
const ORDER: [u8; 3] = [LZO, ZLIB, RTIME];

impl Packer {
    /// As media are made: results are shorter, LZO takes several times as long. Otherwise it does
    /// as Linux does while it runs.
    pub fn thorough() -> Self {
        Self {
            thorough: true,
            ..Self::default()
        }
    }

    /// Compresses as much of `source` as fits into `room` bytes.
    pub(crate) fn pack<'a>(
        &'a mut self,
        how: Compression,
        source: &'a [u8],
        room: usize,
    ) -> Packed<'a> {
        let wanted = |compr: u8| match compr {
            LZO => how.lzo,
            ZLIB => how.zlib,
            _ => how.rtime,
        };
        self.packed += u64::from(how.choice != Choice::None);
        let mut best: Option<(u8, usize)> = None;
        let mut best_len = usize::MAX;
        for compr in ORDER
            .into_iter()
            .filter(|compr| how.choice != Choice::None && wanted(*compr))
        {
            let Some(taken) = self.run(compr, source, room) else {
                continue;
            };
            let len = self.out[1].len();
            if best.is_none_or(|(other, _)| is_better(how.choice, compr, len, other, best_len)) {
                (best, best_len) = (Some((compr, taken)), len);
                self.out.swap(0, 1);
            }
            if how.choice == Choice::Priority {
                break;
            }
        }
        match best {
            Some((compr, taken)) => Packed {
                compr,
                taken,
                data: &self.out[0],
            },
            None => {
                let taken = source.len().min(room);
                Packed {
                    compr: NONE,
                    taken,
                    data: &source[..taken],
                }
            }
        }
    }

    /// The record of a compressor.
    fn coded(&mut self, compr: u8) -> Option<&mut Coded> {
        ORDER
            .iter()
            .position(|known| *known == compr)
            .map(|at| &mut self.coded[at])
    }

    /// One compressor into the second buffer; gives how much of the source is in it, or nothing
    /// where nothing is gained.
    fn run(&mut self, compr: u8, source: &[u8], room: usize) -> Option<usize> {
        let out = &mut self.out[1];
        out.clear();
        let taken = match compr {
            LZO if self.thorough => self
                .lzo
                .compress_well(source, room, out)
                .then_some(source.len()),
            LZO => self.lzo.compress(source, room, out).then_some(source.len()),
            // Where a page is to be divided the other way finds out where.
            ZLIB if self.thorough && room >= source.len() => {
                self.zlib.compress_well(source, out).then_some(source.len())
            }
            ZLIB => self.zlib.compress(source, room, out),
            _ => rtime::compress(source, room, out),
        };
        let packed = out.len() as u64;
        if let Some(coded) = self.coded(compr) {
            coded.runs += 1;
            (coded.plain, coded.packed) =
                (coded.plain + source.len() as u64, coded.packed + packed);
        }
        taken
    }

    /// Fills `out` from a node's data.
    pub fn unpack(&mut self, compr: u8, data: &[u8], out: &mut [u8]) -> Result<(), Undecodable> {
        self.unpacked += u64::from(!matches!(compr, NONE | ZERO));
        if let Some(coded) = self.coded(compr) {
            (coded.unpacked, coded.unpacked_from) = (
                coded.unpacked + out.len() as u64,
                coded.unpacked_from + data.len() as u64,
            );
        }
        let whole = match compr {
            NONE => (data.len() >= out.len())
                .then(|| out.copy_from_slice(&data[..out.len()]))
                .ok_or("plain"),
            ZERO => {
                out.fill(0);
                Ok(())
            }
            RTIME => rtime::decompress(data, out).ok_or("rtime"),
            RUBINMIPS => rubin::decompress_dynamic(data, out).ok_or("dynrubin"),
            DYNRUBIN => rubin::decompress_fixed(data, out).ok_or("rubinmips"),
            ZLIB => self.zlib.decompress(data, out).ok_or("zlib"),
            LZO => match nandlab_lzo::unpack(data, out) {
                Ok(len) if len == out.len() => Ok(()),
                _ => Err("lzo"),
            },
            other => return Err(Undecodable::Unknown(other)),
        };
        whole.map_err(Undecodable::Damaged)
    }
}

/// Whether a second result is to be taken instead of a first one of `other_len` bytes.
fn is_better(choice: Choice, compr: u8, len: usize, other: u8, other_len: usize) -> bool {
    match choice {
        Choice::FavourLzo if other == LZO => other_len * 80 / 100 > len,
        Choice::FavourLzo if compr == LZO => other_len > len * 80 / 100,
        _ => other_len > len,
    }
}

#[cfg(test)]
mod tests;
