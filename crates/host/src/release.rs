//! Letting go of a mount point.

use crate::HostError;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::Path;
use std::process::Command;

/// Unmounts what is mounted on `dir`, which ends whoever serves it. Fails with [`HostError::Unmount`] while a file below is open.
pub fn release(dir: &Path) -> Result<(), HostError> {
    let outcome = match unmount(dir, UnmountFlags::empty()) {
        // Only root may: an ordinary user's way is the setuid helper.
        Err(Errno::PERM) => match Command::new("fusermount3").arg("-u").arg(dir).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(io::Error::other(format!("fusermount3: {status}"))),
            Err(error) => Err(io::Error::other(format!("fusermount3: {error}; it is in the Debian package fuse3"))),
        },
        other => other.map_err(io::Error::from),
    };
    outcome.map_err(|source| HostError::Unmount { dir: dir.into(), source })
}
