//! What touches the operating system: a simulated disk, or a file system, handed to real programs
//! and kernels.
//!
//! *Promises.* Whatever a client sends, the server answers or drops that client and serves the
//! others; memory per client is bounded. A flush is answered only after the device's own flush has
//! returned. Wall clocks, threads and sockets stay in this crate: the device below sees one request
//! at a time.
//!
//! *Works in terms of* [`nandlab_block::BlockDevice`], addressed by byte through [`Bytes`], and
//! [`nandlab_vfs::FileSystem`].
//!
//! *Knows nothing of* what the device is made of, or of virtual time: pacing is the device's
//! matter.
//!
//! *Power loss.* Nothing is kept here. What was acknowledged but not flushed is exactly as safe as
//! the device says.
//!
//! ```text
//! qemu, nbdcopy, fio, nbd-client -> nbd   \
//! losetup, dd, the kernel's ext4 -> disk  --> SharedDisk -> Bytes -> (record ->) BlockDevice
//! git, cargo, sqlite -> mount -> FileSystem
//! ```

#![forbid(unsafe_code)]

mod bytes;
pub mod disk;
mod error;
pub mod mount;
pub mod nbd;
pub mod record;
mod release;
mod shared;

#[cfg(test)]
#[path = "../tests/all/common/ram.rs"]
mod ram;

pub use bytes::{Bytes, Hole};
pub use error::HostError;
pub use release::release;
pub use shared::SharedDisk;
