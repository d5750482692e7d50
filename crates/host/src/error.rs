//! What can go wrong between a device and the operating system.

use nandlab_block::BlockError;
use std::{io, path::PathBuf};

/// An export or a mount that could not start, or could not end cleanly.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The text names no address.
    #[error("address {text:?}: found {found}, expected unix:/PATH, /PATH or HOST:PORT")]
    BadAddress {
        /// The text that is no address.
        text: String,
        /// What it was taken for.
        found: String,
    },
    /// The server could not listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of the listener.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system refused the mount.
    #[error("cannot mount on {}: {source}", dir.display())]
    Mount {
        /// The path of the mount point.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The mount point could not be released; it is still served.
    #[error("cannot unmount {}: {source}", dir.display())]
    Unmount {
        /// The path of the mount point.
        dir: PathBuf,
        /// Why, `EBUSY` while a file below it is open.
        source: io::Error,
    },
    /// The session with the kernel's FUSE driver ended in an error.
    #[error("serving {}: {source}", dir.display())]
    Session {
        /// The path of the mount point.
        dir: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A mounted file system could not write what nobody waited for, or could not be unmounted.
    #[error("the file system on {}: {why}", dir.display())]
    FileSystem {
        /// The path of the mount point.
        dir: PathBuf,
        /// The errno that the file system returned.
        why: nandlab_vfs::Errno,
    },
    /// The final flush failed: what clients wrote last may not be durable.
    #[error("final flush: {0}")]
    Flush(BlockError),
    /// A thread that served the device panicked.
    #[error("a serving thread panicked; the device's state is unknown")]
    Panicked,
}
