//! Why a run has no result.

use nandlab_block::BlockError;
use nandlab_sim::Chain;
use nandlab_stack::{BuildError, DescriptionError};
use nandlab_vfs::Errno;
use nandlab_workload::files::ExpectedError;
use nandlab_workload::pattern::SpecError;
use nandlab_workload::{Op, Request, WorkloadError};

use crate::play::{PlayError, VerifyError};
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
    #[error("precondition: {}: {}", words(request), Chain(error))]
    Unprepared {
        /// The request.
        request: Request,
        /// What the device said.
        error: BlockError,
    },
    /// There is no file system for a workload on files.
    #[error("fs.type: found \"none\", expected a file system for a workload on files")]
    NoFileSystem,
    /// The workload is one for power cuts.
    #[error(
        "workload.type: found \"mixed\", which is for power cuts (nandlab crash), expected a workload to be measured"
    )]
    ForCuts,
    /// A file system reads back what it wrote.
    #[error(
        "chip.contents: found \"dropped\", expected \"kept\" or \"file\", since a file system reads back what it wrote"
    )]
    NoContents,
    /// A call failed.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// The workload makes a call that no program could.
    #[error(transparent)]
    Expected(#[from] ExpectedError),
    /// The file system could not be unmounted.
    #[error("unmount: {0}")]
    Unmount(Errno),
    /// What waits in memory could not be written.
    #[error("write-back: {0}")]
    WriteBack(Errno),
    /// Requests alone do not repeat a run.
    #[error("the run has remapped sectors: its requests alone do not do the same to the flash")]
    Remapped,
    /// Something was lost.
    #[error("after the run: {0}")]
    Verify(#[from] VerifyError),
    /// The stack broke down: nothing after this could be trusted.
    #[error(
        "{phase}: request {number}, {}: {}; the last operations on the chip were:\n{}",
        words(request),
        Chain(error),
        lines(recent)
    )]
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
        !matches!(
            self,
            Self::Stopped { .. }
                | Self::Unprepared { .. }
                | Self::Unmount(_)
                | Self::WriteBack(_)
                | Self::Verify(_)
        )
    }

    /// An error of a stream, with the file that it came from.
    pub(super) fn workload(feed: &dyn Feed, error: WorkloadError) -> Self {
        match feed.file() {
            Some(path) => Self::Trace(TraceFileError::Content {
                path: path.into(),
                error,
            }),
            None => Self::Workload(error),
        }
    }
}

impl From<OpenError> for RunError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Description(error) => Self::Description(error),
            OpenError::Trace(error) => Self::Trace(error),
            OpenError::Files(_) => Self::NoFileSystem,
            OpenError::Mixed => Self::ForCuts,
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
    format!(
        "{name} of {} bytes at offset {}",
        request.length, request.offset
    )
}

fn lines(recent: &[String]) -> String {
    recent
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
