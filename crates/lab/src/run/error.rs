//! Why a run has no result.

use nandlab_block::BlockError;
use nandlab_stack::{BuildError, DescriptionError};
use nandlab_workload::pattern::SpecError;
use nandlab_workload::{Op, Request, WorkloadError};

use crate::trace_file::TraceFileError;
use crate::workload::{Feed, OpenError};

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The description is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The stack cannot be built or put away.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The trace is wrong.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// The workload is wrong.
    #[error("workload: {0}")]
    Workload(WorkloadError),
    /// The device cannot be written before the workload.
    #[error("precondition: {0}")]
    Precondition(SpecError),
    /// The device refused what was to be written before the workload.
    #[error("precondition: {}: {error}", words(request))]
    Unprepared {
        /// The request.
        request: Request,
        /// What the device said.
        error: BlockError,
    },
    /// The stack broke down: nothing after this could be trusted.
    #[error("{phase}: request {number}, {}: {error}; the last operations on the chip were:\n{}", words(request), lines(recent))]
    Stopped {
        /// `precondition` or `run`.
        phase: &'static str,
        /// The request's number in this phase, from 1.
        number: u64,
        /// The request.
        request: Request,
        /// What the device said.
        error: BlockError,
        /// The last operations on the chip, oldest first.
        recent: Vec<String>,
    },
}

impl RunError {
    /// Whether the input is to blame rather than the stack.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Stopped { .. } | Self::Unprepared { .. })
    }

    /// An error of a stream, with the file that it came from.
    pub(super) fn workload(feed: &dyn Feed, error: WorkloadError) -> Self {
        match feed.file() {
            Some(path) => Self::Trace(TraceFileError::Content { path: path.into(), error }),
            None => Self::Workload(error),
        }
    }
}

impl From<OpenError> for RunError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Description(error) => Self::Description(error),
            OpenError::Trace(error) => Self::Trace(error),
        }
    }
}

/// A request in words.
pub(super) fn words(request: &Request) -> String {
    let name = match request.op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => return "flush".into(),
        Op::Discard => "discard",
    };
    format!("{name} of {} bytes at offset {}", request.length, request.offset)
}

fn lines(recent: &[String]) -> String {
    recent.iter().filter(|line| !line.is_empty()).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
