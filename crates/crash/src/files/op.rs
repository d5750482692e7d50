//! One change of a tree of files, by path; self-contained, so that any subsequence of a run is a
//! run.
//!
//! What cannot be done (a name that is not there, or is there already) is left undone, on a file
//! system and in the [model](super::model) by the same rules. Each operation is at most one call
//! that changes something.

use nandlab_sim::mix;
use nandlab_vfs::{
    Caller, Errno, FileSystem, FileType, NewNode, Rename, SetAttr, Sync, Time, path,
};
use std::fmt;
use std::sync::Arc;

/// A path from the root, `a/b`.
pub type Path = Arc<str>;

/// A host operation on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Makes an empty file.
    Create {
        /// The file to create.
        path: Path,
    },
    /// Writes behind the end.
    Append {
        /// The file to append to.
        path: Path,
        /// Bytes that are appended.
        length: u32,
        /// Of the bytes, its own in the whole exploration.
        seed: u64,
    },
    /// Writes from a byte on, which need not be there.
    Overwrite {
        /// The file to overwrite.
        path: Path,
        /// Offset of the first byte that is overwritten.
        offset: u32,
        /// Bytes that are overwritten.
        length: u32,
        /// Of the bytes, its own in the whole exploration.
        seed: u64,
    },
    /// Gives a file another length; what is added reads as zeros.
    Truncate {
        /// The file to truncate or extend.
        path: Path,
        /// The new length in bytes.
        length: u32,
    },
    /// Moves a file, to the place of another perhaps.
    Rename {
        /// The name before the call.
        from: Path,
        /// The name after the call.
        to: Path,
    },
    /// Gives a file one more name.
    Link {
        /// The existing name of the file.
        from: Path,
        /// The new name of the file.
        to: Path,
    },
    /// Removes a file's name.
    Unlink {
        /// The name to remove.
        path: Path,
    },
    /// Makes an empty directory.
    Mkdir {
        /// The directory to make.
        path: Path,
    },
    /// Removes an empty directory.
    Rmdir {
        /// The directory to remove.
        path: Path,
    },
    /// Makes a file durable.
    Fsync {
        /// The file to make durable.
        path: Path,
    },
    /// Makes a file's contents durable, and one name that it has had since they were written.
    Fdatasync {
        /// The file whose contents become durable.
        path: Path,
    },
    /// Makes every earlier call durable.
    Sync,
    /// Time passes: a commit timer fires, and some dirty data is written.
    Pause {
        /// At least so many bytes.
        bytes: u32,
    },
    /// Unmounts and mounts again.
    Remount,
}

impl fmt::Display for FileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path } => write!(f, "create {path}"),
            Self::Append { path, length, .. } => write!(f, "append {length} bytes to {path}"),
            Self::Overwrite {
                path,
                offset,
                length,
                ..
            } => write!(f, "write {length} bytes at {offset} of {path}"),
            Self::Truncate { path, length } => write!(f, "truncate {path} to {length} bytes"),
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Link { from, to } => write!(f, "link {from} as {to}"),
            Self::Unlink { path } => write!(f, "unlink {path}"),
            Self::Mkdir { path } => write!(f, "mkdir {path}"),
            Self::Rmdir { path } => write!(f, "rmdir {path}"),
            Self::Fsync { path } => write!(f, "fsync {path}"),
            Self::Fdatasync { path } => write!(f, "fdatasync {path}"),
            Self::Sync => f.write_str("sync"),
            Self::Pause { bytes } => write!(f, "pause, and write back {bytes} bytes"),
            Self::Remount => f.write_str("remount"),
        }
    }
}

/// The bytes of a seed: no eight of them are anywhere else.
pub(super) fn bytes(seed: u64, length: u32) -> Vec<u8> {
    let words = (0..u64::from(length.div_ceil(8))).flat_map(|at| mix(seed, at).to_le_bytes());
    words.take(length as usize).collect()
}

/// The directory part of a path, empty for the root, and the name.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// How long data stays dirty before Linux writes it back, and how long a pause is.
const EXPIRED_SECS: i64 = 30;

/// Carries out an operation at `now` on a mounted file system.
pub(super) fn perform(fs: &mut dyn FileSystem, op: &FileOp, now: Time) -> Result<(), Errno> {
    match op {
        FileOp::Create { path } => make(fs, path, NewNode::File, now),
        FileOp::Mkdir { path } => make(fs, path, NewNode::Directory, now),
        FileOp::Append { path, length, seed } => on_file(fs, path, |fs, file| {
            write(fs, file.ino, file.size, &bytes(*seed, *length), now)
        }),
        FileOp::Overwrite {
            path,
            offset,
            length,
            seed,
        } => on_file(fs, path, |fs, file| {
            write(fs, file.ino, (*offset).into(), &bytes(*seed, *length), now)
        }),
        FileOp::Truncate { path, length } => {
            let change = SetAttr {
                size: Some((*length).into()),
                ..SetAttr::default()
            };
            on_file(fs, path, |fs, file| {
                fs.setattr(file.ino, &change, now).map(drop)
            })
        }
        FileOp::Rename { from, to } => on_file(fs, from, |fs, _| {
            let (old, old_name) = path::parent(fs, from.as_bytes())?;
            let moved = in_parent(fs, to, |fs, new, name| {
                fs.rename((old, old_name), (new, name), Rename::Replace, now)
            });
            fs.forget(old, 1);
            moved
        }),
        FileOp::Link { from, to } => on_file(fs, from, |fs, file| {
            in_parent(fs, to, |fs, dir, name| {
                fs.link(file.ino, dir, name, now)?;
                fs.forget(file.ino, 1);
                Ok(())
            })
        }),
        FileOp::Unlink { path } => in_parent(fs, path, |fs, dir, name| fs.unlink(dir, name, now)),
        FileOp::Rmdir { path } => in_parent(fs, path, |fs, dir, name| fs.rmdir(dir, name, now)),
        FileOp::Fsync { path } => on_file(fs, path, |fs, file| fs.fsync(file.ino, Sync::All)),
        FileOp::Fdatasync { path } => on_file(fs, path, |fs, file| fs.fsync(file.ino, Sync::Data)),
        FileOp::Sync => fs.sync(),
        FileOp::Pause { bytes } => {
            fs.work(now)?;
            fs.write_back(
                (*bytes).into(),
                Time {
                    secs: now.secs - EXPIRED_SECS,
                    ..now
                },
            )
            .map(drop)
        }
        FileOp::Remount => fs.unmount(),
    }
    .or_else(|error| {
        if is_left_undone(error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Errors of operations that do not fit the tree, or that the file system does not have.
fn is_left_undone(error: Errno) -> bool {
    use Errno::{Exists, IsDirectory, NoEntry, NotDirectory, NotEmpty, NotPermitted};
    matches!(
        error,
        NoEntry | Exists | NotDirectory | IsDirectory | NotEmpty | NotPermitted
    )
}

type Fs<'a> = &'a mut dyn FileSystem;

fn on_file(
    fs: Fs<'_>,
    path: &str,
    call: impl FnOnce(Fs<'_>, nandlab_vfs::Attr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let file = path::resolve(fs, path.as_bytes())?;
    let done = if file.kind == FileType::File {
        call(fs, file)
    } else {
        Err(Errno::IsDirectory)
    };
    fs.forget(file.ino, 1);
    done
}

fn in_parent(
    fs: Fs<'_>,
    path: &str,
    call: impl FnOnce(Fs<'_>, nandlab_vfs::Ino, &[u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (dir, name) = path::parent(fs, path.as_bytes())?;
    let done = call(fs, dir, name);
    fs.forget(dir, 1);
    done
}

fn make(fs: Fs<'_>, path: &str, node: NewNode<'_>, now: Time) -> Result<(), Errno> {
    let mode = if node == NewNode::Directory {
        0o755
    } else {
        0o644
    };
    in_parent(fs, path, |fs, dir, name| {
        let made = fs.create(dir, name, node, mode, Caller::root(now))?;
        fs.forget(made.ino, 1);
        Ok(())
    })
}

/// One call; a volume that takes less than everything is full, which is no test of power cuts.
fn write(
    fs: Fs<'_>,
    file: nandlab_vfs::Ino,
    offset: u64,
    data: &[u8],
    now: Time,
) -> Result<(), Errno> {
    if fs.write(file, offset, data, now)? == data.len() {
        Ok(())
    } else {
        Err(Errno::NoSpace)
    }
}
