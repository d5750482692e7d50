//! Recorded streams: text lines in, requests out. Fields and units of each format:
//! `docs/formats/traces.md`.
//!
//! ```text
//! Lines (bytes, file) -> Parser (one line, one format) -> Reader (units, times from 0, repetition, counts) -> Source
//! ```

mod blkparse;
mod error;
mod fio;
mod format;
mod lines;
mod msr;
mod parser;
mod reader;
mod scan;
mod spc;
mod units;

pub use blkparse::Action;
pub use error::{Fault, TraceError};
pub use format::Format;
pub use lines::{LineError, Lines, MAX_LINE, Text};
pub use parser::{Event, Parser};
pub use reader::{Counts, Options, Reader};
pub use units::{Unit, Units};
