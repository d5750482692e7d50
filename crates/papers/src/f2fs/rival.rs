//! ext4's requests: what the real one sent to a disk for the same calls, recorded by `cargo xtask
//! record rival` (see `traces/README.md`).
//!
//! The disk of the recording goes on behind the partition. A read there is a mark of the program:
//! so many phases have begun.

use super::work::Work;
use crate::PaperError;
use flate2::read::GzDecoder;
use nandlab_workload::trace::{Format, Options, Reader};
use nandlab_workload::{Op, Request, Source};
use std::fmt::Display;
use std::io::Read;

/// Bytes from one mark to the next.
pub const MARK_BYTES: u64 = 1 << 20;
/// The most marks that an array holds.
pub const MARKS: u64 = 64;

/// Where the program reads to say that a phase of this number, from 0, begins.
pub fn place_of_mark(work: &Work, number: u64) -> u64 {
    work.partition() + number * MARK_BYTES
}

/// The number of the phase that a request says begins.
pub fn mark(work: &Work, request: &Request) -> Option<usize> {
    let beyond = request.offset.checked_sub(work.partition())?;
    (request.op == Op::Read).then_some((beyond / MARK_BYTES) as usize)
}

macro_rules! recorded {
    ($($key:literal),* $(,)?) => {
        [$(($key, include_bytes!(concat!("../../../../traces/f2fs-paper/ext4-", $key, ".iolog.gz")))),*]
    };
}

/// What was recorded, by the name of its work.
const RECORDED: [(&str, &[u8]); 14] = recorded![
    "fs-mark",
    "iozone",
    "iozone-sync",
    "bonnie",
    "contacts",
    "contacts-aged",
    "install",
    "install-aged",
    "rlbench",
    "rlbench-aged",
    "iozone-install",
    "iozone-install-aged",
    "sustained",
    "sustained-published",
];

/// The requests of a work in order.
pub fn requests(work: &Work) -> Result<Vec<Request>, PaperError> {
    let wrong = |what: &dyn Display| PaperError::wrong(format!("ext4, {}", work.key), what);
    let packed = RECORDED
        .iter()
        .find(|(key, _)| *key == work.key)
        .ok_or_else(|| wrong(&"nothing recorded"))?;
    let mut text = Vec::new();
    GzDecoder::new(packed.1)
        .read_to_end(&mut text)
        .map_err(|error| wrong(&error))?;
    let mut reader = Reader::new(&text, Format::Fio, Options::default());
    std::iter::from_fn(|| reader.next().transpose())
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error))
}
