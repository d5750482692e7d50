//! Why an export does not start, or does not end cleanly.

use nandlab_block::BlockError;
use nandlab_host::HostError;
use nandlab_host::record::RecordError;
use nandlab_stack::BuildError;
use std::path::PathBuf;

/// Why a stack was not exported, or not to a clean end.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The stack cannot be built or put away.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The chip keeps no data.
    #[error(
        "{file}: chip.contents: found \"dropped\", expected \"kept\" or \"file\": clients want to read what they wrote"
    )]
    NoContents { file: String },
    /// The server or the mount failed.
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}: {error}", path.display())]
    Record { path: PathBuf, error: RecordError },
    /// Interrupts cannot be heard, so that the export could not end cleanly.
    #[error("cannot listen for interrupts: {0}")]
    Interrupts(#[from] ctrlc::Error),
    /// A request that failed has left the device in an unknown state.
    #[error("a request panicked; the stack is not put away")]
    Broken,
    /// What clients wrote last may not be durable.
    #[error("final flush: {0}")]
    Flush(#[from] BlockError),
}

impl ExportError {
    /// Whether the input is to blame rather than the stack.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Build(error) => error.is_bad_input(),
            Self::Broken
            | Self::Flush(_)
            | Self::Host(
                HostError::FileSystem { .. } | HostError::Flush(_) | HostError::Panicked,
            ) => false,
            _ => true,
        }
    }
}
