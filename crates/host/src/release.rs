//! Letting go of a mount point.

use crate::HostError;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::Path;
use std::process::Command;

/// Unmounts what is mounted on `dir`, which ends its server. Fails with
/// [`HostError::Unmount`] while a file below is open.
pub fn release(dir: &Path) -> Result<(), HostError> {
    let outcome = match unmount(dir, UnmountFlags::empty()) {
        // Only root may: an ordinary user's way is the setuid helper.
        Err(Errno::PERM) => match Command::new("fusermount3").arg("-u").arg(dir).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(io::Error::other(format!("fusermount3: {status}"))),
            Err(error) => Err(io::Error::other(format!(
                "fusermount3: {error}; it is in the Debian package fuse3"
            ))),
        },
        other => other.map_err(io::Error::from),
    };
    outcome.map_err(|source| HostError::Unmount {
        dir: dir.into(),
        source,
    })
}

/// How a session ended. The kernel also calls a connection aborted that is unmounted just while a
/// thread takes its next request.
pub(crate) fn joined(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_connection_is_an_end_and_other_failures_are_reported() {
        assert!(joined(Err(Errno::CONNABORTED.into())).is_ok());
        assert_eq!(
            joined(Err(Errno::IO.into())).unwrap_err().raw_os_error(),
            Some(Errno::IO.raw_os_error())
        );
    }
}
