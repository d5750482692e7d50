//! The `[workload]` section, and the stream that it becomes: requests to a device of known size, or
//! calls on files.
//!
//! | module | its one idea |
//! |---|---|
//! | `kinds` | the values of `workload.type`: an open list |
//! | `pattern`, `trace` | requests, made up and recorded |
//! | `files` | how a workload on files takes its keys |
//! | `standard` | the workloads on files that are here, each a table of its keys |

mod files;
mod kinds;
mod pattern;
mod standard;
mod trace;

pub use crate::feed::{BATCH, Feed};
pub use crate::trace_file::{FitRule, TraceDescription};
pub use files::{DescribedFiles, FileWorkload};
pub use kinds::{Kind, WorkloadKind, Workloads};
pub use pattern::PatternDescription;

use crate::trace_file::TraceFileError;
use nandlab_stack::{DescriptionError, Document, Setting};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// Settings that the device decided: key and value.
pub type Decided = Vec<(String, String)>;

/// A workload of block requests as described.
pub trait Requests: Debug + Send + Sync {
    /// Whether requests have times of arrival of their own.
    fn has_times(&self) -> bool;

    /// The file that the requests come from.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// The stream, for a device of so many bytes in sectors of so many.
    fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError>;
}

/// A workload as described: the three ways in which one can be run.
#[derive(Clone, Debug)]
pub enum WorkloadDescription {
    /// Requests to a disk.
    Requests(Arc<dyn Requests>),
    /// A stream of calls on files.
    Files(Arc<dyn FileWorkload>),
    /// Calls on files for power cuts.
    Cuts(CutWorkload),
}

/// A workload of calls on files that only power cuts make interesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutWorkload {
    /// One run: files made, written, renamed, linked, removed and synced, so many operations.
    Mixed(u32),
    /// A run for each short sequence of calls.
    Sequences {
        /// Calls of a sequence.
        length: u32,
        /// So many sequences if there are more; none for all.
        sample: Option<u64>,
    },
}

impl CutWorkload {
    /// The value of `workload.type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mixed(_) => "mixed",
            Self::Sequences { .. } => "sequences",
        }
    }
}

/// A workload that does not fit its device, or a trace that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A key of the description.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The trace file cannot be opened.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// The workload is one on files.
    #[error(
        "workload.type: found \"{0}\", which writes files, expected a workload of block requests"
    )]
    Files(&'static str),
    /// The workload is measured by nobody.
    #[error(
        "workload.type: found \"{0}\", which is for power cuts (nandlab crash), expected a workload to be measured"
    )]
    Cuts(&'static str),
}

impl WorkloadDescription {
    /// Takes `[workload]` out of a document, with the kinds that are here.
    pub fn take(document: &mut Document) -> Result<(Self, Vec<Setting>), DescriptionError> {
        Workloads::standard().take(document)
    }

    /// A workload of requests.
    pub fn requests(requests: impl Requests + 'static) -> Self {
        Self::Requests(Arc::new(requests))
    }

    /// A workload on files.
    pub fn on(files: impl FileWorkload + 'static) -> Self {
        Self::Files(Arc::new(files))
    }

    /// What it does to files, if it works on files.
    pub fn files(&self) -> Option<&dyn FileWorkload> {
        if let Self::Files(files) = self {
            Some(&**files)
        } else {
            None
        }
    }

    /// The value of `workload.type`, if it works on files.
    pub fn on_files(&self) -> Option<&'static str> {
        match self {
            Self::Requests(_) => None,
            Self::Files(files) => Some(files.name()),
            Self::Cuts(cuts) => Some(cuts.name()),
        }
    }

    /// Whether requests have times of arrival of their own.
    pub fn has_times(&self) -> bool {
        matches!(self, Self::Requests(requests) if requests.has_times())
    }

    /// The file that requests come from.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Requests(requests) => requests.file(),
            _ => None,
        }
    }

    /// The stream, for a device of so many bytes in sectors of so many.
    pub fn open(
        &self,
        bytes: u64,
        sector: u64,
        seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError> {
        match self {
            Self::Requests(requests) => requests.open(bytes, sector, seed),
            Self::Files(files) => Err(OpenError::Files(files.name())),
            Self::Cuts(cuts) => Err(OpenError::Cuts(cuts.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_workload::Request;

    pub fn take(text: &str) -> Result<WorkloadDescription, String> {
        let mut document = Document::parse(
            "e.toml",
            Path::new("dir"),
            &format!("[workload]\n{text}"),
            &[],
        )
        .map_err(|e| e.to_string())?;
        WorkloadDescription::take(&mut document)
            .map(|(workload, _)| workload)
            .map_err(|e| e.to_string())
    }

    pub fn open(text: &str, bytes: u64) -> Result<Vec<Request>, String> {
        let (mut feed, _) = take(text)?.open(bytes, 512, 1).map_err(|e| e.to_string())?;
        Ok(std::iter::from_fn(|| feed.next().unwrap()).collect())
    }
}
