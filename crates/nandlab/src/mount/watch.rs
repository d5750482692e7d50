//! An image's file while it is mounted: other programs may cut, replace or delete it.
//!
//! *Promises.* [`Watch::end`] fails if the file is not what it was, with the image and what
//! happened to it: what was written to such an image is not where its user looks for it. *Knows
//! nothing of* what is in the image.

use super::Failure;
use nandlab_image::volume::Access;
use nandlab_sim::Chain;
use nandlab_vfs::Cause;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The file of a mounted image.
pub struct Watch<'a> {
    path: PathBuf,
    file: &'a File,
    access: Access,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl<'a> Watch<'a> {
    /// Watches the file that is open, and that `path` names.
    pub fn new(path: &Path, file: &'a File, access: Access) -> Result<Self, Failure> {
        let failed = |error| Failure::Output {
            path: path.into(),
            error,
        };
        let metadata = file.metadata().map_err(failed)?;
        Ok(Self {
            path: path.into(),
            file,
            access,
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    /// What came of the mount. `cause` is the file system's last failure.
    pub fn end(&self, served: Result<(), Failure>, cause: Option<&Cause>) -> Result<(), Failure> {
        let Some(what) = self.happened() else {
            return served.map_err(|failure| self.with_cause(failure, cause));
        };
        let consequence = match self.access {
            Access::Read => "",
            Access::Write => "; what was written to it is lost",
        };
        Err(Failure::Mounted {
            path: self.path.clone(),
            what: format!("{what} while it was mounted{consequence}"),
        })
    }

    fn with_cause(&self, failure: Failure, cause: Option<&Cause>) -> Failure {
        match cause {
            None => failure,
            Some(cause) => Failure::Mounted {
                path: self.path.clone(),
                what: format!("{}: {}", Chain(&failure), Chain(cause)),
            },
        }
    }

    fn happened(&self) -> Option<String> {
        let number = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata().ok()?;
        match self.path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("deleted".into()),
            Ok(there) if number(&there) != number(&own) => Some("replaced by another file".into()),
            _ if own.len() < self.bytes => {
                Some(format!("cut from {} to {} bytes", self.bytes, own.len()))
            }
            _ if self.access == Access::Read && own.modified().ok() != self.modified => {
                Some("changed by another program".into())
            }
            _ => None,
        }
    }
}
