//! What every stream consists of, and the one trait that all of them implement.

use crate::trace::{LineError, TraceError};
use alloc::{boxed::Box, string::String};
use nandlab_sim::Nanos;

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The device reads an extent.
    Read,
    /// The device writes an extent.
    Write,
    /// Make everything so far durable.
    Flush,
    /// The device forgets an extent.
    Discard,
}

/// One request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The operation of the request.
    pub op: Op,
    /// Arrival, since the start of the stream; 0 throughout where the source has no times.
    pub at: Nanos,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush, above 0 for everything else.
    pub length: u64,
}

impl Request {
    /// A flush that arrives at `at`.
    pub const fn flush(at: Nanos) -> Self {
        Self {
            op: Op::Flush,
            at,
            offset: 0,
            length: 0,
        }
    }
}

/// A stream of requests, in the order in which they arrive: `at` never decreases.
pub trait Source {
    /// The next request, or none when the stream has ended; it stays ended.
    fn next(&mut self) -> Result<Option<Request>, WorkloadError>;
}

macro_rules! forward {
    ($($type:ty),*) => {$(
        impl<S: Source + ?Sized> Source for $type {
            fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
                (**self).next()
            }
        }
    )*};
}
forward!(&mut S, Box<S>);

/// A stream that could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A line of the trace is not what its format says.
    #[error(transparent)]
    Trace(#[from] Box<TraceError>),
    /// The lines of the trace could not be had.
    #[error("line {line}: {error}")]
    Lines {
        /// The line that was to be read, from 1.
        line: u64,
        /// Why it was not.
        error: LineError,
    },
    /// The trace ended without a single request; most often the wrong action, unit or format was
    /// chosen.
    #[error(
        "no request in {lines} lines ({ignored} held none, {other_units} belonged to other units, {empty} had length 0)"
    )]
    NoRequests {
        /// Lines that the trace holds.
        lines: u64,
        /// Lines that were not requests: headings, summaries, other actions, blank lines.
        ignored: u64,
        /// Requests to units that were not selected.
        other_units: u64,
        /// Requests of length 0.
        empty: u64,
    },
    /// A request leaves the device, and the fit does not allow for that.
    #[error("request {request}: bytes {offset} to {end} leave the {what} of {bytes} bytes")]
    OutOfRange {
        /// Its number in the stream, from 1.
        request: u64,
        /// The offset of the request in bytes.
        offset: u64,
        /// The byte after its last; saturating.
        end: u64,
        /// What it leaves: `device`, or the `span` given for scaling.
        what: &'static str,
        /// That one's length in bytes.
        bytes: u64,
    },
    /// A fit that no device can have.
    #[error("{key} = {found}: expected {expected}")]
    BadFit {
        /// The setting that is refused.
        key: &'static str,
        /// The value of the setting.
        found: String,
        /// The values that it takes.
        expected: &'static str,
    },
}
