//! Locks on images, so that two programs never write one.
//!
//! *Promises.* A lock is on the file that the path names when it is given: an edit puts another
//! file there, and a process that waited for the old one waits for the new one. A lock ends with
//! its value or its process. Programs that take no locks are not kept out. *Knows nothing of* what
//! is done to the image.

use crate::error::{ImageError, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// An edit waits so long for another to end.
pub const EDIT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A lock on an image file, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Locks an image for writing, or refuses it if another lock stays for `wait`.
    pub fn exclusive(path: &Path, wait: Duration) -> Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockExclusive, wait)
    }

    /// Locks an image against writers, or refuses it at once.
    pub fn shared(path: &Path) -> Result<Self> {
        Self::take(path, FlockOperation::NonBlockingLockShared, Duration::ZERO)
    }

    /// Locks a file that is to be replaced, if it is there.
    pub fn target(path: &Path) -> Result<Option<Self>> {
        let Ok(real) = path.canonicalize() else {
            return Ok(None);
        };
        match Self::exclusive(&real, EDIT) {
            // A file that cannot be read is no image that somebody else edits.
            Err(ImageError::File { .. }) => Ok(None),
            locked => locked.map(Some),
        }
    }

    fn take(path: &Path, how: FlockOperation, wait: Duration) -> Result<Self> {
        let failed = |error| ImageError::File {
            path: path.into(),
            error,
        };
        let end = Instant::now() + wait;
        loop {
            let file = File::open(path).map_err(failed)?;
            match flock(&file, how) {
                Ok(()) if is_at(&file, path).map_err(failed)? => return Ok(Self { file }),
                // Another file is there now.
                Ok(()) => continue,
                Err(Errno::WOULDBLOCK) if Instant::now() >= end => {
                    return Err(ImageError::Busy { path: path.into() });
                }
                Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
                Err(Errno::INTR) => {}
                // The file system has no locks.
                Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => return Ok(Self { file }),
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// The file, open for reading.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    let there = path.metadata();
    match there {
        Ok(there) => Ok((open.dev(), open.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
