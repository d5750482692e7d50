//! A stream of requests under way.

use nandlab_workload::{Request, Source, WorkloadError};
use std::path::Path;

/// Requests that are drawn at a time.
pub const BATCH: usize = 64;

/// A stream of requests as the run loop sees it.
pub trait Feed: Source {
    /// Appends up to [`BATCH`] requests: fewer at the end, or before an error. What was appended
    /// before an error is good.
    fn draw(&mut self, into: &mut Vec<Request>) -> Result<(), WorkloadError>;

    /// How far it has come, 0 to 1.
    fn share_done(&self) -> f64;

    /// The file that it comes from, if it comes from one.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// What became of it that a reader of the results should know.
    fn notes(&self) -> Vec<String>;
}
