//! Our trees in the form in which the kernel lists its trees.

use nandlab_oracle::manifest::{Entry, Kind, Manifest};
use nandlab_vfs::{Errno, FileSystem, FileType, tree};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Lists the tree of a file system in which everything can be read.
pub fn manifest<F: FileSystem + ?Sized>(fs: &mut F) -> Manifest {
    listed(fs).unwrap()
}

/// Lists the tree of a file system, if everything in it can be read.
pub fn listed<F: FileSystem + ?Sized>(fs: &mut F) -> Result<Manifest, Errno> {
    let tree = tree::snapshot(fs)?.into_iter();
    Ok(tree
        .map(|(name, found)| (path(&name), entry(found)))
        .collect())
}

fn path(name: &[u8]) -> PathBuf {
    match name {
        b"" => PathBuf::from("."),
        _ => Path::new(".").join(OsStr::from_bytes(name)),
    }
}

fn entry(entry: tree::Entry) -> Entry {
    let attr = entry.attr;
    Entry {
        kind: kind(&entry),
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        links: if attr.kind == FileType::Directory {
            1
        } else {
            attr.links
        },
        mtime: attr.mtime.secs,
        mtime_nanos: attr.mtime.nanos,
    }
}

fn kind(entry: &tree::Entry) -> Kind {
    let (major, minor) = entry.attr.device;
    match entry.attr.kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink {
            target: PathBuf::from(OsStr::from_bytes(&entry.contents)),
        },
        FileType::Character => Kind::Character { major, minor },
        FileType::Block => Kind::Block { major, minor },
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::File => Kind::File {
            size: entry.attr.size,
            sha256: Sha256::digest(&entry.contents)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        },
    }
}
