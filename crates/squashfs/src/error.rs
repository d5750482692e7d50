//! What goes wrong below a call, with place and value, and the number that the caller gets.

use nandlab_block::BlockError;
use nandlab_vfs::{Errno, Fault};

/// Why a volume could not be mounted, or a call not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SquashError {
    /// The call asked for what cannot be.
    #[error(transparent)]
    Call(#[from] Errno),
    /// The device below refused a request.
    #[error("device: {0}")]
    Device(#[from] BlockError),
    /// A feature that is not supported. It is no damage.
    #[error("superblock, byte {at}: {what} {found} is not supported, only {expected}")]
    Feature {
        /// Where the field is.
        at: u64,
        /// What it is called.
        what: &'static str,
        /// The value that the superblock holds.
        found: u64,
        /// The values that this crate supports.
        expected: &'static str,
    },
    /// A field makes no sense.
    #[error("byte {at}: {what} is {found}, expected {expected}")]
    Field {
        /// Where the field is, or the metadata block with it.
        at: u64,
        /// What it is called.
        what: &'static str,
        /// The value that the field holds.
        found: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// A block cannot be unpacked.
    #[error("byte {at}: block of {len} bytes: {why}")]
    Block {
        /// The offset of the block in bytes.
        at: u64,
        /// Bytes that it takes.
        len: u32,
        /// The reason why it cannot be read.
        why: &'static str,
    },
}

/// The result of everything here.
pub(crate) type Result<T, E = SquashError> = core::result::Result<T, E>;

/// A field that makes no sense.
pub(crate) fn field<T>(
    at: u64,
    what: &'static str,
    found: impl Into<u64>,
    expected: &'static str,
) -> Result<T> {
    Err(SquashError::Field {
        at,
        what,
        found: found.into(),
        expected,
    })
}

impl SquashError {
    /// The byte of the device where the error was met.
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Feature { at, .. } | Self::Field { at, .. } | Self::Block { at, .. } => Some(*at),
            Self::Call(_) | Self::Device(_) => None,
        }
    }
}

impl Fault for SquashError {
    fn errno(&self) -> Errno {
        match self {
            Self::Call(errno) => *errno,
            Self::Device(_) => Errno::Io,
            Self::Feature { .. } => Errno::NotSupported,
            Self::Field { .. } | Self::Block { .. } => Errno::Unclean,
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    fn is_fatal(&self) -> bool {
        false
    }

    fn failed() -> Self {
        Self::Call(Errno::ReadOnly)
    }
}
