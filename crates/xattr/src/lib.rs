//! Extended attributes: their name spaces and POSIX access lists.
//!
//! *Promises.* [`acl`] converts access lists between the attribute and the form on the medium.
//! [`Space`] names the spaces that ext, F2FS and JFFS2 store. [`check_set`] decides whether an
//! attribute may be set.
//!
//! *Knows nothing of* where attributes are stored, nor of who may read or change them.
//!
//! *Power loss.* Nothing here touches a medium.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acl;
mod space;

pub use space::{Space, check_set};
