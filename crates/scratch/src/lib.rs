//! Files that are written beside their targets and take the targets' places when they are whole.
//!
//! *Promises.* A target is as it was until [`Scratch::persist`]. A scratch file that is dropped is
//! removed. [`remove_all`] removes those of a process that a signal ends. *Knows nothing of* what
//! is in the files.

use crate::error::{ImageError, Result};
use rustix::fs::{XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// The scratch files of this process.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every scratch file of this process, which is about to end: no other is made or put in
/// place afterwards.
pub fn remove_all() {
    let mut all = all();
    for path in all.drain(..) {
        // The process ends; nobody can be told.
        _ = std::fs::remove_file(path);
    }
    std::mem::forget(all);
}

/// A file that is to take the place of another.
#[derive(Debug)]
pub struct Scratch {
    file: NamedTempFile,
    _listed: Listed,
}

#[derive(Debug)]
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        all().retain(|path| *path != self.0);
    }
}

/// A new file that is to take the place of `path`.
pub fn beside(path: &Path) -> Result<Scratch> {
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut all = all();
    let file = tempfile::Builder::new()
        .prefix(".nandlab-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(ImageError::file(dir))?;
    all.push(file.path().into());
    let listed = Listed(file.path().into());
    Ok(Scratch {
        file,
        _listed: listed,
    })
}

impl Scratch {
    /// The open file.
    pub fn as_file(&self) -> &File {
        self.file.as_file()
    }

    /// Where it is until it is put in place.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it the owner, the extended attributes and the mode of `model`. A process that may not
    /// change the owner keeps its own.
    pub fn resemble(&self, model: &File) -> io::Result<()> {
        let (file, metadata) = (self.as_file(), model.metadata()?);
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            let uid = rustix::fs::Uid::from_raw(metadata.uid());
            let gid = rustix::fs::Gid::from_raw(metadata.gid());
            match fchown(file, Some(uid), Some(gid)) {
                // Often the group may be kept where the owner may not.
                Err(Errno::PERM) => _ = fchown(file, None, Some(gid)),
                outcome => outcome?,
            }
        }
        copy_attributes(model, file)?;
        // After the owner, whose change clears the set-user-ID bit.
        Ok(fchmod(
            file,
            rustix::fs::Mode::from_raw_mode(metadata.mode() & 0o7777),
        )?)
    }

    /// Takes the place of `target`.
    pub fn persist(self, target: &Path) -> Result<()> {
        let Self { file, _listed } = self;
        // A signal waits for the rename or removes the file before it.
        let held = all();
        let outcome = file.persist(target);
        drop(held);
        outcome.map(drop).map_err(|error| ImageError::File {
            path: target.into(),
            error: error.error,
        })
    }
}

/// Copies extended attributes. Those that belong to the system alone, or that the file system of
/// the copy refuses to an ordinary user, stay behind.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0; 64 << 10];
    let length = match flistxattr(from, &mut names) {
        Err(Errno::NOTSUP) => return Ok(()),
        length => length?,
    };
    let mut value = vec![0; 64 << 10];
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        let outcome = fgetxattr(from, name, &mut value[..])
            .and_then(|length| fsetxattr(to, name, &value[..length], XattrFlags::empty()));
        match outcome {
            Err(Errno::NODATA) => {}
            Err(Errno::PERM | Errno::NOTSUP | Errno::ACCESS) if !name.starts_with(b"user.") => {}
            outcome => outcome?,
        }
    }
    Ok(())
}
