//! Streams of block requests, made from a description or read from a trace; and streams of file
//! calls.
//!
//! *Promises.* A stream is a pure function of its description and seed, or of the bytes of its
//! trace; nothing is left out, moved or rounded without being counted. Making a request and reading
//! a line allocate nothing. No input panics, and none takes memory beyond its longest line.
//!
//! *Works in terms of* bytes and nanoseconds: a [`Source`] gives one [`Request`] after another;
//! [`files::FileCalls`] gives one [`files::FileCall`] after another.
//!
//! *Knows nothing of* devices, flash, files of the operating system. Where lines come from is
//! [`trace::Lines`]' business.
//!
//! ```text
//! pattern::Spec -> Pattern ----.
//!                               >-- Source -> Fitted (onto a device) -> the server
//! trace::Lines -> Reader ------'
//! bonnie::Bonnie, camera::CameraMs500, fsmark::FsMark, rollback::Rollback ...
//!     -> files::FileCalls -> the player on files
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ageing;
pub mod bonnie;
pub mod bonnie_files;
pub mod camera;
pub mod files;
pub mod fit;
pub mod fsmark;
pub mod install;
pub mod iozone;
pub mod pattern;
mod request;
pub mod rewrites;
pub mod rollback;
mod survey;
pub mod tiobench;
pub mod trace;
pub mod wal;

pub use fit::{Fit, Fitted};
pub use pattern::{Pattern, Spec, SpecError};
pub use request::{Op, Request, Source, WorkloadError};
pub use survey::Survey;
