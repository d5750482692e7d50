//! Files that are written beside their targets and take the targets' places when they are whole.
//!
//! *Promises.* A target is as it was until [`Scratch::persist`]. Where the file system can, a
//! scratch file has no name, so that nothing is left of it however the process ends. It gets a name
//! when it is whole: that of the target, or where a file is there already, a hidden one for the
//! moment until it replaces that file. A process that is killed in this moment leaves the hidden
//! file, with the whole result in it. Other scratch files have a name from the start; they are
//! removed when they are dropped, and by [`remove_all`] when a signal ends the process. *Knows
//! nothing of* what is in the files.

#![forbid(unsafe_code)]

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr,
    linkat, openat,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// How the names of scratch files begin.
pub const PREFIX: &str = ".nandlab-";

/// A file that the operating system refuses.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct ScratchError {
    /// The target, or the directory that it is in.
    pub path: PathBuf,
    /// The error of the operating system.
    pub error: io::Error,
}

impl ScratchError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self { path, error }
    }
}

/// A result, or what the operating system refused.
pub type Result<T> = std::result::Result<T, ScratchError>;

/// The scratch files of this process that have names.
static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every scratch file of this process, which is about to end: no other is made or put in
/// place afterwards.
pub fn remove_all() {
    let mut all = all();
    for path in all.drain(..) {
        // The process ends, so nobody reads a report.
        _ = fs::remove_file(path);
    }
    std::mem::forget(all);
}

/// A file that is to take the place of another.
#[derive(Debug)]
pub struct Scratch {
    kind: Kind,
    path: PathBuf,
}

#[derive(Debug)]
enum Kind {
    Unnamed(File),
    Named(NamedTempFile, Listed),
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
    let dir = directory(path);
    unnamed(dir).map_or_else(|| named(dir), Ok)
}

fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A file without a name, if the file system has such files and `/proc` gives them a path.
fn unnamed(dir: &Path) -> Option<Scratch> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, dir, flags, Mode::from_raw_mode(0o666)).ok()?);
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let number = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    if number(fs::metadata(&path).ok()?) != number(file.metadata().ok()?) {
        return None;
    }
    let kind = Kind::Unnamed(file);
    Some(Scratch { kind, path })
}

fn named(dir: &Path) -> Result<Scratch> {
    // The error of a missing directory names no scratch file.
    fs::metadata(dir).map_err(ScratchError::at(dir))?;
    let mut all = all();
    let file = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(ScratchError::at(dir))?;
    let path = file.path().to_path_buf();
    all.push(path.clone());
    let kind = Kind::Named(file, Listed(path.clone()));
    Ok(Scratch { kind, path })
}

impl Scratch {
    /// Returns the open scratch file.
    pub fn as_file(&self) -> &File {
        match &self.kind {
            Kind::Unnamed(file) => file,
            Kind::Named(file, _) => file.as_file(),
        }
    }

    /// A path under which this process can open it until it is put in place.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it the owner, the extended attributes and the mode of `model`. A process that may not
    /// change the owner keeps its own.
    pub fn resemble(&self, model: &File) -> io::Result<()> {
        let file = self.as_file();
        let metadata = model.metadata()?;
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
        Ok(fchmod(file, Mode::from_raw_mode(metadata.mode() & 0o7777))?)
    }

    /// Takes the place of `target`, which is in the directory that it was made for.
    pub fn persist(self, target: &Path) -> Result<()> {
        // A signal waits until the file has its name, or ends the process before.
        let held = all();
        let outcome = match self.kind {
            Kind::Unnamed(_) => put_in_place(&self.path, target),
            Kind::Named(file, listed) => {
                let outcome = file.persist(target).map(drop).map_err(|error| error.error);
                drop(held);
                drop(listed);
                outcome
            }
        };
        outcome.map_err(ScratchError::at(target))
    }
}

/// Gives the file at `open`, which has no name, that of the target.
fn put_in_place(open: &Path, target: &Path) -> io::Result<()> {
    let link = |to: &Path| linkat(CWD, open, CWD, to, AtFlags::SYMLINK_FOLLOW);
    match link(target) {
        Err(Errno::EXIST) => {}
        outcome => return Ok(outcome?),
    }
    // A link never replaces a file, a rename does.
    let hidden = tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(directory(target), |path| Ok(link(path)?))?;
    hidden
        .into_temp_path()
        .persist(target)
        .map_err(|error| error.error)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Both kinds, where the file system has both, one after the other.
    fn both(dir: &Path) -> impl Iterator<Item = Scratch> {
        let makers: [fn(&Path) -> Option<Scratch>; 2] = [unnamed, |dir| named(dir).ok()];
        makers.into_iter().filter_map(move |make| make(dir))
    }

    #[test]
    fn a_scratch_file_makes_or_replaces_its_target_and_nothing_else() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        for old in [false, true] {
            for (number, scratch) in both(dir.path()).enumerate() {
                if !old {
                    _ = fs::remove_file(&target);
                }
                scratch.as_file().write_all(&[number as u8; 3]).unwrap();
                assert_eq!(fs::read(scratch.path()).unwrap(), [number as u8; 3]);
                scratch.persist(&target).unwrap();
                assert_eq!(fs::read(&target).unwrap(), [number as u8; 3]);
                assert_eq!(names(dir.path()), ["target"]);
            }
        }
    }

    #[test]
    fn a_dropped_scratch_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(both(dir.path()).count() > 0);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_scratch_file_has_no_name_where_the_file_system_allows_that() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = beside(&dir.path().join("target")).unwrap();
        let is_unnamed = matches!(scratch.kind, Kind::Unnamed(_));
        assert_eq!(names(dir.path()).is_empty(), is_unnamed);
    }

    #[test]
    fn a_target_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("directory");
        fs::create_dir(&target).unwrap();
        for scratch in both(dir.path()) {
            assert!(scratch.persist(&target).is_err());
            assert_eq!(names(dir.path()), ["directory"]);
        }
    }
}
