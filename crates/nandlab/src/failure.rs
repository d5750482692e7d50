//! How the command ends.

use nandlab_crash::CrashError;
use nandlab_lab::RunError;
use nandlab_lab::cut::PrepareError;
use nandlab_lab::cut::matrix::MatrixError;
use nandlab_papers::PaperError;
use nandlab_scratch::ScratchError;
use nandlab_stack::DescriptionError;
use std::io;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, and all is well.
    Done = 0,
    /// Done, and a problem was found.
    Problem = 1,
    /// The input is no input.
    BadInput = 2,
    /// Done, but not everything could be kept or had.
    Lost = 3,
}

impl From<Status> for u8 {
    fn from(status: Status) -> Self {
        status as Self
    }
}

/// Why the command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A description is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A run has no result.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A paper cannot be reproduced.
    #[error("{0}")]
    Paper(#[from] PaperError),
    /// The experiment cannot be explored.
    #[error("{0}")]
    Prepare(#[from] PrepareError),
    /// The exploration has no result.
    #[error("{0}")]
    Crash(#[from] CrashError),
    /// An export did not start, or not end cleanly.
    #[error(transparent)]
    Export(#[from] crate::export::error::ExportError),
    /// An image is not what it was taken for, or does not allow what was asked.
    #[error(transparent)]
    Image(#[from] nandlab_image::ImageError),
    /// A matrix is wrong.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// A cell of a matrix has no result.
    #[error("cell `{cell}`: {failure}")]
    Cell { cell: String, failure: Box<Self> },
    /// No cell has this in its name.
    #[error("--only: found \"{0}\", expected a part of the name of a cell in the matrix")]
    NoCell(String),
    /// A state is one of one cell.
    #[error("--id: found {0} cells, expected one, which --only names")]
    OneCell(usize),
    /// A line of a store is no finished cell.
    #[error("{}:{line}: found {error}, expected a finished cell of a matrix", path.display())]
    Store {
        path: PathBuf,
        line: usize,
        error: serde_json::Error,
    },
    /// An input cannot be read.
    #[error("{}: {error}", path.display())]
    Input { path: PathBuf, error: io::Error },
    /// An output cannot be written.
    #[error("{}: {error}", path.display())]
    Output { path: PathBuf, error: io::Error },
    /// An image that was mounted is not what it was, or could not be written.
    #[error("{}: {what}", path.display())]
    Mounted { path: PathBuf, what: String },
    /// Several runs would read one pipe.
    #[error(
        "{}: found a pipe, which can be read once, expected a file for several runs; write \
         the trace into a file first",
        .0.display()
    )]
    Pipe(PathBuf),
    /// A result would replace what it is made from.
    #[error(
        "{}: the same file as {}, which is used by this command; write to another file",
        target.display(), input.display()
    )]
    SameFile {
        target: PathBuf,
        /// The input, or the other output.
        input: PathBuf,
    },
}

impl From<ScratchError> for Failure {
    fn from(ScratchError { path, error }: ScratchError) -> Self {
        Self::Output { path, error }
    }
}

impl Failure {
    /// Whether the reader of standard output has gone away: files break no pipe.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Image(nandlab_image::ImageError::File { error, .. })
            if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit status it means.
    pub fn status(&self) -> Status {
        match self {
            Self::Cell { failure, .. } => failure.status(),
            Self::Run(error) if !error.is_bad_input() => Status::Problem,
            Self::Prepare(PrepareError::Build(error)) if !error.is_bad_input() => Status::Problem,
            Self::Image(error) if !error.is_bad_input() => Status::Problem,
            Self::Paper(_) | Self::Mounted { .. } => Status::Problem,
            Self::Export(error) if !error.is_bad_input() => Status::Problem,
            _ => Status::BadInput,
        }
    }
}
