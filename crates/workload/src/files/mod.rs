//! Streams of file calls: what a program does to its files, as data.
//!
//! *Promises.* A stream is a pure function of its description and seed; so are the names of its
//! files, the bytes that it writes ([`Contents`]), and with them what must be found afterwards
//! ([`Expected`]). A stream is sound: a file is created before it is used, opened before it is read
//! or written, closed before it is removed. Making a call allocates nothing in the steady state.
//!
//! *Works in terms of* numbered files in one directory, bytes and versions. *Knows nothing of* file
//! systems, time, or whether a call succeeds.

mod contents;
mod expected;
mod script;
#[cfg(test)]
pub(crate) mod sound;

pub use contents::{Contents, Look};
pub use expected::{Expected, ExpectedError};
pub(crate) use script::{Benchmark, SET_UP, Script, Scripted, scripted};

use alloc::{collections::VecDeque, string::String};
use core::fmt;

/// A file of a workload, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// Calls in the order in which they are made.
pub(crate) type Calls = VecDeque<FileCall>;

impl FileId {
    /// A read of the file, by offset and length.
    pub(crate) fn read(self, offset: u64, length: u64) -> FileCall {
        let file = self;
        FileCall::Read {
            file,
            offset,
            length,
        }
    }

    /// A write to the file, by offset and length.
    pub(crate) fn write(self, offset: u64, length: u64, version: u32) -> FileCall {
        let file = self;
        FileCall::Write {
            file,
            offset,
            length,
            version,
        }
    }

    /// Makes the file with `bytes` written in pieces, durable if `fsync`, and closes it.
    pub(crate) fn make(self, bytes: u64, piece: u64, fsync: bool, calls: &mut Calls) {
        let file = self;
        calls.push_back(FileCall::Create { file });
        calls.extend(pieces(bytes, piece).map(|(offset, length)| file.write(offset, length, 0)));
        calls.extend(fsync.then_some(FileCall::Fsync { file }));
        calls.push_back(FileCall::Close { file });
    }
}

/// Offsets and lengths of the pieces of `bytes`.
pub(crate) fn pieces(bytes: u64, piece: u64) -> impl Iterator<Item = (u64, u64)> {
    let offsets = (0..bytes).step_by(piece as usize);
    offsets.map(move |offset| (offset, piece.min(bytes - offset)))
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileCall {
    /// Makes a file that is not there, and opens it.
    Create {
        /// The file to create.
        file: FileId,
    },
    /// Opens a file that is there.
    Open {
        /// The file to open.
        file: FileId,
    },
    /// Gives an open file back.
    Close {
        /// The file to close.
        file: FileId,
    },
    /// Reads what is there.
    Read {
        /// The open file of the call.
        file: FileId,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, above 0.
        length: u64,
    },
    /// Writes what [`Contents`] has for the place.
    Write {
        /// The open file of the call.
        file: FileId,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, above 0.
        length: u64,
        /// Which of the bytes that the place may hold: each rewriting has another, so that a lost
        /// one is found.
        version: u32,
    },
    /// Gives a file another length; what is added reads as zeros.
    Truncate {
        /// The open file of the call.
        file: FileId,
        /// The new length in bytes.
        length: u64,
    },
    /// Makes an open file durable.
    Fsync {
        /// The file to make durable.
        file: FileId,
    },
    /// Makes the contents of an open file durable, and what is needed to find them: what `O_SYNC`
    /// did after each write before Linux 2.6.33, and `O_DSYNC` since.
    Fdatasync {
        /// The file to make durable.
        file: FileId,
    },
    /// Removes a closed file.
    Remove {
        /// The file to remove.
        file: FileId,
    },
    /// Makes every earlier call durable.
    Sync,
    /// Touches no file: the program itself works.
    Compute {
        /// Instructions that the processor executes.
        instructions: u64,
    },
}

impl FileCall {
    /// The file that it is about, if it is about one.
    pub fn file(&self) -> Option<FileId> {
        match *self {
            Self::Create { file }
            | Self::Open { file }
            | Self::Close { file }
            | Self::Read { file, .. }
            | Self::Write { file, .. }
            | Self::Truncate { file, .. }
            | Self::Fsync { file }
            | Self::Fdatasync { file }
            | Self::Remove { file } => Some(file),
            Self::Sync | Self::Compute { .. } => None,
        }
    }
}

impl fmt::Display for FileCall {
    /// Without the file, whose name only its workload knows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { .. } => f.write_str("create"),
            Self::Open { .. } => f.write_str("open"),
            Self::Close { .. } => f.write_str("close"),
            Self::Read { offset, length, .. } => write!(f, "read {length} bytes at {offset}"),
            Self::Write { offset, length, .. } => write!(f, "write {length} bytes at {offset}"),
            Self::Truncate { length, .. } => write!(f, "truncate to {length} bytes"),
            Self::Fsync { .. } => f.write_str("fsync"),
            Self::Fdatasync { .. } => f.write_str("fdatasync"),
            Self::Remove { .. } => f.write_str("remove"),
            Self::Sync => f.write_str("sync"),
            Self::Compute { instructions } => write!(f, "compute for {instructions} instructions"),
        }
    }
}

/// A stream of calls, and what its files are called and hold.
pub trait FileCalls: Iterator<Item = FileCall> {
    /// The name of a file; no two files have the same.
    fn name(&self, file: FileId) -> String;

    /// The bytes that are written.
    fn contents(&self) -> Contents;

    /// How far the stream has come, 0 to 1.
    fn share_done(&self) -> f64;

    /// What the program would call the part of it to which the last call belongs: each is measured
    /// by itself.
    fn phase(&self) -> &'static str {
        "run"
    }

    /// What kind of file it is, where a workload has several kinds: writes to the disk are counted
    /// by it.
    fn group(&self, file: FileId) -> &'static str {
        let _ = file;
        "files"
    }
}
