//! File pages in memory, in front of any [`FileSystem`](nandlab_vfs::FileSystem).
//!
//! *Promises.* [`PageCache`] keeps clean pages. [`write_back`] defers writes in front of a file
//! system that writes at once. [`flusher`] decides when dirty pages are written, as Linux 2.6 does.
//! None of them changes what a caller reads.
//!
//! *Knows nothing of* devices, formats or processes.
//!
//! *Power loss.* Clean pages lose nothing. [`write_back`] says what its deferred writes lose.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod flusher;
mod pages;
pub mod write_back;

pub use pages::{Brought, PageCache};
