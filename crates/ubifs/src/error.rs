//! What goes wrong below a call, with its place, and the number that the caller gets.

use crate::format::Fault;
use crate::lebs::LebError;
use nandlab_vfs::{self as vfs, Errno};

/// Why a volume could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UbifsError {
    /// The call asked for something impossible.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The medium failed at this place.
    #[error("LEB {lnum}, byte {offs}: {error}")]
    Medium {
        /// The logical block that this is about.
        lnum: u32,
        /// The byte in it.
        offs: u32,
        /// The error that was met there.
        error: LebError,
    },
    /// The medium failed while it was written.
    #[error("LEB {lnum}, byte {offs}: write: {error}")]
    Write {
        /// The logical block that this is about.
        lnum: u32,
        /// The byte in it.
        offs: u32,
        /// The error that was met there.
        error: LebError,
    },
    /// A commit found no empty block for the index or the properties.
    #[error("no empty block for a commit, expected one to be kept")]
    Full,
    /// Nothing is written any more since an earlier write failed.
    #[error("read-only since an earlier write failed")]
    Failed,
    /// A feature that is not supported. It is no damage.
    #[error("superblock: {what} is not supported")]
    Feature {
        /// The name of the field or structure.
        what: &'static str,
    },
    /// A structure is not what it should be.
    #[error("LEB {lnum}, byte {offs}: {fault}")]
    Field {
        /// The logical block that this is about.
        lnum: u32,
        /// Where the structure begins in it.
        offs: u32,
        /// What is wrong with the bytes there.
        fault: Fault,
    },
    /// The data of a node cannot be unpacked.
    #[error("LEB {lnum}, byte {offs}: {why}")]
    Packed {
        /// The logical block that this is about.
        lnum: u32,
        /// Where the node begins in it.
        offs: u32,
        /// What is wrong with the bytes there.
        why: &'static str,
    },
}

/// The result of everything here.
pub(crate) type Result<T, E = UbifsError> = core::result::Result<T, E>;

impl UbifsError {
    /// The logical block and the byte in it where the error was met.
    pub fn leb(&self) -> Option<(u32, u32)> {
        match self {
            Self::Medium { lnum, offs, .. }
            | Self::Write { lnum, offs, .. }
            | Self::Field { lnum, offs, .. }
            | Self::Packed { lnum, offs, .. } => Some((*lnum, *offs)),
            Self::Call(_) | Self::Feature { .. } | Self::Failed | Self::Full => None,
        }
    }
}

impl Fault {
    /// The fault with its place.
    pub(crate) fn at(self, lnum: u32, offs: u32) -> UbifsError {
        UbifsError::Field {
            lnum,
            offs,
            fault: self,
        }
    }
}

impl vfs::Fault for UbifsError {
    fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Medium { .. } | Self::Write { .. } => Errno::Io,
            Self::Failed => Errno::ReadOnly,
            Self::Full => Errno::NoSpace,
            Self::Feature { .. } => Errno::NotSupported,
            Self::Field { .. } | Self::Packed { .. } => Errno::Unclean,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Full)
    }

    fn failed() -> Self {
        Self::Failed
    }
}
