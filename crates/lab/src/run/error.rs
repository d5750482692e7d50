//! Why a run has no result.

use nandlab_block::BlockError;
use nandlab_mtd::MtdError;
use nandlab_sim::Chain;
use nandlab_stack::{BuildError, DescriptionError};
use nandlab_vfs::{Cause, Errno, FileSystem};
use nandlab_workload::files::ExpectedError;
use nandlab_workload::pattern::SpecError;
use nandlab_workload::{Op, Request, WorkloadError};

use std::fmt;

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
    /// There is no file system for a workload on files.
    #[error("fs.type: found \"none\", expected a file system for a workload on files")]
    NoFileSystem,
    /// The workload is one for power cuts.
    #[error(
        "workload.type: found \"{0}\", which is for power cuts (nandlab crash), expected a workload to be measured"
    )]
    ForCuts(&'static str),
    /// A file system reads back what it wrote.
    #[error(
        "chip.contents: found \"dropped\", expected \"kept\" or \"file\", since a file system reads back what it wrote"
    )]
    NoContents,
    /// A file call failed during the run.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// The workload makes a call that no program could.
    #[error(transparent)]
    Expected(#[from] ExpectedError),
    /// The file system could not be unmounted.
    #[error("unmount: {0}")]
    Unmount(Errno),
    /// Dirty data in memory could not be written.
    #[error("write-back: {0}")]
    WriteBack(Errno),
    /// Requests alone do not repeat a run.
    #[error("the run has remapped sectors: its requests alone do not do the same to the flash")]
    Remapped,
    /// A file differs from the stream after the run.
    #[error("after the run: {0}")]
    Verify(#[from] VerifyError),
    /// The stack broke down: nothing after this could be trusted.
    #[error(transparent)]
    Stopped(Box<Stopped>),
    /// The file system knows why a call failed.
    #[error("{0}")]
    Explained(Box<Explained>),
}

/// A request that ended the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{phase}: request {number}, {}: {}{}",
    words(request),
    Chain(error),
    Recent(recent)
)]
pub struct Stopped {
    /// The phase that stopped: `precondition` or `run`.
    pub phase: &'static str,
    /// The request's number in this phase, from 1.
    pub number: u64,
    /// The request that the device refused.
    pub request: Request,
    /// The error that the device returned.
    pub error: BlockError,
    /// The last operations on the chip, oldest first.
    pub recent: Vec<String>,
}

/// An error of a call, and what lay behind it.
#[derive(Debug, thiserror::Error)]
#[error("{error}: {}{}", Chain(cause), Recent(recent))]
pub struct Explained {
    /// The call, or what else failed.
    pub error: RunError,
    /// What the file system knows about it, down to the medium.
    pub cause: Cause,
    /// The last operations on the chip, oldest first, if the chip refused one.
    pub recent: Vec<String>,
}

/// The last operations on a chip, each on a line of its own.
struct Recent<'a>(&'a [String]);

impl fmt::Display for Recent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter().filter(|line| !line.is_empty()).peekable();
        if lines.peek().is_some() {
            f.write_str("; the last operations on the chip were:")?;
        }
        lines.try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl RunError {
    /// Whether the input is to blame rather than the stack or its medium.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Build(error) => error.is_bad_input(),
            Self::Play(error) => error.is_bad_input(),
            Self::Stopped(_)
            | Self::Explained(_)
            | Self::Unmount(_)
            | Self::WriteBack(_)
            | Self::Verify(_) => false,
            _ => true,
        }
    }

    /// The error with what the file system knows about it. `recent` are the last operations on the
    /// chip; they are kept if the chip refused one.
    pub(super) fn explained(self, fs: &mut dyn FileSystem, recent: Vec<String>) -> Self {
        let Some(cause) = fs.cause() else {
            return self;
        };
        let recent = if is_illegal_use(&cause) {
            recent
        } else {
            Vec::new()
        };
        Self::Explained(Box::new(Explained {
            error: self,
            cause,
            recent,
        }))
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
            OpenError::Cuts(name) => Self::ForCuts(name),
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

/// Whether a layer broke a rule of the chip.
fn is_illegal_use(cause: &Cause) -> bool {
    Chain(cause).links().any(|link| {
        let mtd = link.downcast_ref::<MtdError>();
        let block = link.downcast_ref::<BlockError>();
        matches!(mtd, Some(MtdError::Illegal(..))) || matches!(block, Some(BlockError::Internal(_)))
    })
}
