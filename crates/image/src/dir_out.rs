//! A tree as a directory of the operating system.
//!
//! *Promises.* Nothing outside the directory is made or changed, whatever names and links the tree
//! has: each directory is opened by its name in the one above it, links are not followed, nothing
//! that is there is replaced. Without privileges what only root may make or set (devices, owners,
//! attributes of the system) is counted and reported, not an error: an archive or a manifest keeps
//! it.

use crate::error::{ImageError, Result, Shown};
use crate::sink::{Bytes, Fill, Sink};
use crate::tree::{Entry, Node};
use crate::walk::Losses;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, chownat, fchmod,
    fchown, fsetxattr, fstat, ftruncate, futimens, linkat, makedev, mkdirat, mknodat, openat,
    symlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

/// The permission bits that a new file may have before its owner is set.
const PERMISSIONS: u16 = 0o777;

/// A directory that is open. Its last owner gives it its attributes.
#[derive(Debug)]
struct Dir {
    entry: Entry,
    fd: OwnedFd,
}

impl Dir {
    fn new(entry: &Entry, fd: OwnedFd) -> Arc<Self> {
        let entry = entry.clone();
        Arc::new(Self { entry, fd })
    }
}

/// Where everything goes, and by whose rights.
#[derive(Clone, Debug)]
struct Target {
    root: Arc<Path>,
    privileged: bool,
}

/// A directory that is being filled.
#[derive(Debug)]
pub struct DirOut {
    target: Target,
    /// From the root down to where the last entry went.
    open: Vec<Arc<Dir>>,
    top: Option<OwnedFd>,
    /// What the operating system would not have.
    pub losses: Losses,
    /// Entries whose owner was not set, since that is root's.
    pub owners_left: u64,
}

impl DirOut {
    /// A directory that is empty, or not there yet.
    pub fn new(root: &Path) -> Result<Self> {
        match fs::read_dir(root) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(ImageError::Choice {
                        what: "target",
                        found: format!("the directory {} with entries in it", root.display()),
                        expected: "an empty directory, or a new name".into(),
                    });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir(root).map_err(ImageError::file(root))?
            }
            Err(error) => {
                return Err(ImageError::File {
                    path: root.into(),
                    error,
                });
            }
        }
        Ok(Self {
            target: Target {
                root: root.into(),
                privileged: geteuid().is_root(),
            },
            open: Vec::new(),
            top: None,
            losses: Losses::default(),
            owners_left: 0,
        })
    }

    /// The directory that an entry goes into. Those that nothing more comes into get their
    /// attributes.
    fn dir_of(&mut self, entry: &Entry) -> Result<()> {
        let dir = entry.path.len().saturating_sub(entry.name().len() + 1);
        while self
            .open
            .last()
            .is_some_and(|open| open.entry.path != entry.path[..dir])
        {
            self.close()?;
        }
        if self.open.is_empty() {
            return Err(ImageError::Entry {
                path: Shown::path(&entry.path),
                what: "directory above it",
                found: "none".into(),
                expected: "a directory before what is in it".into(),
            });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(dir) = self.open.pop() else {
            return Ok(());
        };
        self.owners_left += u64::from(!self.target.privileged);
        self.target.leave(dir, &mut self.losses)
    }

    /// A file in the last directory, which does not exist yet.
    fn new_file(&mut self, entry: &Entry) -> Result<NewFile> {
        let Some(dir) = self.open.last() else {
            return Err(self.failed(entry, Errno::NOENT));
        };
        self.owners_left += u64::from(!self.target.privileged);
        Ok(NewFile {
            file: None,
            dir: dir.clone(),
            target: self.target.clone(),
        })
    }

    fn failed(&self, entry: &Entry, error: Errno) -> ImageError {
        self.target.failed(entry, error)
    }

    fn put_node(&mut self, entry: &Entry) -> Result<()> {
        let Some(dir) = self.open.last().map(|open| &open.fd) else {
            return Ok(());
        };
        let name = entry.name();
        let mode = Mode::from_raw_mode(entry.mode.into());
        let made = match &entry.node {
            Node::Symlink { target } => symlinkat(&target[..], dir, name),
            Node::Link { to } => match &self.top {
                Some(top) => {
                    return linkat(top, &to[..], dir, name, AtFlags::empty()).or_else(|error| {
                        // What it is linked to may be a device that could not be made.
                        self.losses
                            .add(&entry.path, format!("link to {}: {error}", Shown::path(to)));
                        Ok(())
                    });
                }
                None => Ok(()),
            },
            Node::Fifo => mknodat(dir, name, FileType::Fifo, mode, 0),
            Node::Socket => mknodat(dir, name, FileType::Socket, mode, 0),
            Node::Character { device } => mknodat(
                dir,
                name,
                FileType::CharacterDevice,
                mode,
                makedev(device.0, device.1),
            ),
            Node::Block { device } => mknodat(
                dir,
                name,
                FileType::BlockDevice,
                mode,
                makedev(device.0, device.1),
            ),
            Node::Directory | Node::File { .. } => Ok(()),
        };
        match made {
            Err(Errno::PERM) if !self.target.privileged => {
                self.losses.add(
                    &entry.path,
                    "device: only root may make one; an archive or a manifest keeps it",
                );
                return Ok(());
            }
            made => made.map_err(|error| self.failed(entry, error))?,
        }
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        if self.target.privileged {
            chownat(
                dir,
                name,
                Some(uid(entry.uid)),
                Some(gid(entry.gid)),
                nofollow,
            )
            .map_err(|error| self.failed(entry, error))?;
        } else {
            self.owners_left += 1;
        }
        if !matches!(entry.node, Node::Symlink { .. }) {
            // Not a link, so that nothing is followed.
            rustix::fs::chmodat(dir, name, mode, AtFlags::empty())
                .map_err(|error| self.failed(entry, error))?;
        }
        for (attribute, _) in &entry.xattrs {
            self.losses.add(
                &entry.path,
                format!(
                    "attribute {}: not set on what is neither file nor directory",
                    Shown(attribute.clone())
                ),
            );
        }
        utimensat(dir, name, &times(entry), nofollow).map_err(|error| self.failed(entry, error))
    }
}

impl Target {
    fn failed(&self, entry: &Entry, error: Errno) -> ImageError {
        use std::os::unix::ffi::OsStrExt as _;
        ImageError::File {
            path: self.root.join(std::ffi::OsStr::from_bytes(&entry.path)),
            error: error.into(),
        }
    }

    /// Gives a directory back. Its attributes come when nothing more goes into it: a file would
    /// change its time, and its permissions may forbid files.
    fn leave(&self, dir: Arc<Dir>, losses: &mut Losses) -> Result<()> {
        match Arc::into_inner(dir) {
            Some(dir) => self.describe(&dir.entry, dir.fd.as_fd(), losses),
            None => Ok(()),
        }
    }

    /// Owner, permissions, attributes and time; the owner where that may be set. What is so already
    /// is not set again.
    fn describe(&self, entry: &Entry, fd: BorrowedFd<'_>, losses: &mut Losses) -> Result<()> {
        let failed = |error| self.failed(entry, error);
        let now = fstat(fd).map_err(failed)?;
        if self.privileged && (now.st_uid, now.st_gid) != (entry.uid, entry.gid) {
            fchown(fd, Some(uid(entry.uid)), Some(gid(entry.gid))).map_err(failed)?;
        }
        for (name, value) in &entry.xattrs {
            if let Err(error) = fsetxattr(fd, &name[..], value, XattrFlags::empty()) {
                losses.add(
                    &entry.path,
                    format!("attribute {}: {error}", Shown(name.clone())),
                );
            }
        }
        // An attribute may have changed the permissions: an access control list does.
        let mode = Mode::from_raw_mode(entry.mode.into());
        if !entry.xattrs.is_empty() || Mode::from_raw_mode(now.st_mode) != mode {
            fchmod(fd, mode).map_err(failed)?;
        }
        futimens(fd, &times(entry)).map_err(failed)
    }
}

/// A file without contents, which may not be there yet.
struct NewFile {
    file: Option<File>,
    dir: Arc<Dir>,
    target: Target,
}

impl NewFile {
    fn make(&self, entry: &Entry) -> Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Only who may write to a file may give it attributes.
        let mode = match entry.xattrs.is_empty() {
            true => Mode::from_raw_mode((entry.mode & PERMISSIONS).into()),
            false => Mode::RUSR | Mode::WUSR,
        };
        let made = openat(&self.dir.fd, entry.name(), flags, mode);
        Ok(made
            .map_err(|error| self.target.failed(entry, error))?
            .into())
    }
}

impl Fill for NewFile {
    fn fill(self: Box<Self>, entry: &Entry, bytes: &mut dyn Bytes) -> Result<Losses> {
        let mut end = 0;
        let mut losses = Losses::default();
        let file = match self.file {
            Some(file) => file,
            None => self.make(entry)?,
        };
        bytes.each(&mut |at, data| {
            end = at + data.len() as u64;
            file.write_all_at(data, at)
                .map_err(ImageError::file(&*self.target.root))
        })?;
        if end < entry.size() {
            ftruncate(&file, entry.size()).map_err(|error| self.target.failed(entry, error))?;
        }
        self.target.describe(entry, file.as_fd(), &mut losses)?;
        self.target.leave(self.dir, &mut losses)?;
        Ok(losses)
    }
}

fn uid(id: u32) -> rustix::fs::Uid {
    rustix::fs::Uid::from_raw(id)
}

fn gid(id: u32) -> rustix::fs::Gid {
    rustix::fs::Gid::from_raw(id)
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec {
        tv_sec: entry.mtime.secs,
        tv_nsec: entry.mtime.nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

impl DirOut {
    /// Goes to the directory of an entry that is not the root.
    fn enter(&mut self, entry: &Entry) -> Result<()> {
        nandlab_vfs::check_name(entry.name()).map_err(|error| ImageError::Call {
            path: Shown::path(&entry.path),
            error,
            why: "as a name".into(),
        })?;
        self.dir_of(entry)
    }
}

impl Sink for DirOut {
    fn begin(&mut self, entry: &Entry, named: bool) -> Result<Option<Box<dyn Fill>>> {
        self.enter(entry)?;
        let mut new = self.new_file(entry)?;
        if named {
            new.file = Some(new.make(entry)?);
        }
        Ok(Some(Box::new(new)))
    }

    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<()> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if entry.path.is_empty() {
            let failed = |error: Errno| ImageError::File {
                path: self.target.root.to_path_buf(),
                error: error.into(),
            };
            if entry.node != Node::Directory {
                return Err(failed(Errno::NOTDIR));
            }
            self.top =
                Some(openat(CWD, &*self.target.root, directory, Mode::empty()).map_err(failed)?);
            let root = openat(CWD, &*self.target.root, directory, Mode::empty()).map_err(failed)?;
            self.open.push(Dir::new(entry, root));
            return Ok(());
        }
        self.enter(entry)?;
        match entry.node {
            Node::File { .. } => {
                let losses = Box::new(self.new_file(entry)?).fill(entry, bytes)?;
                self.losses.merge(losses);
                Ok(())
            }
            Node::Directory => {
                let Some(dir) = self.open.last().map(|open| &open.fd) else {
                    return Ok(());
                };
                mkdirat(dir, entry.name(), Mode::RWXU)
                    .map_err(|error| self.failed(entry, error))?;
                let made = openat(
                    dir,
                    entry.name(),
                    directory | OFlags::NOFOLLOW,
                    Mode::empty(),
                );
                let made = made.map_err(|error| self.failed(entry, error))?;
                self.open.push(Dir::new(entry, made));
                Ok(())
            }
            _ => self.put_node(entry),
        }
    }

    fn finish(&mut self) -> Result<()> {
        while !self.open.is_empty() {
            self.close()?;
        }
        Ok(())
    }
}
