//! Answers `readdir` and `readdirplus`: `.` and `..` first, then the entries of the file system.

use super::attributes::{FOR_EVER, file_attr, kind};
use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use nandlab_vfs::{FileSystem, Ino};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What a listing says where it does not know a number, as libfuse does (`FUSE_UNKNOWN_INO`).
const UNKNOWN: INodeNo = INodeNo(0xFFFF_FFFF);
/// Places in a listing before those of the file system: `.` and `..`.
const DOTS: [&str; 2] = [".", ".."];
/// Entries that are looked up at most for one answer of a listing with attributes.
const LISTED_MAX: usize = 128;

/// One name of a listing, kept.
struct Listed {
    name: Vec<u8>,
    next: u64,
}

/// The place after an entry; places of the file system begin behind the dots.
fn place(next: u64) -> nandlab_vfs::Result<u64> {
    next.checked_add(DOTS.len() as u64)
        .ok_or(nandlab_vfs::Errno::Range)
}

/// As many entries from a place on as one answer can hold, and not more than there are.
fn some_of(fs: &mut dyn FileSystem, dir: Ino, from: u64) -> nandlab_vfs::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    fs.readdir(dir, from, &mut |entry| {
        listed.push(Listed {
            name: entry.name.to_vec(),
            next: entry.next,
        });
        listed.len() < LISTED_MAX
    })?;
    Ok(listed)
}

/// The number of `.` or `..` in a listing: the directory above is not known.
fn dot(dir: Ino, at: usize) -> INodeNo {
    if at == 0 { INodeNo(dir.0) } else { UNKNOWN }
}

/// Fills a listing; each entry that is given counts as a lookup.
pub(super) fn list_plus(
    fs: &mut dyn FileSystem,
    dir: Ino,
    offset: u64,
    reply: &mut ReplyDirectoryPlus,
) -> nandlab_vfs::Result<()> {
    let own = file_attr(&fs.getattr(dir)?);
    for (at, name) in DOTS.iter().enumerate().skip(offset as usize) {
        // The kernel takes no inode from these two; the numbers are those of a listing without
        // attributes.
        let shown = FileAttr {
            ino: dot(dir, at),
            ..own
        };
        if reply.add(
            shown.ino,
            at as u64 + 1,
            name,
            &FOR_EVER,
            &shown,
            Generation(0),
        ) {
            return Ok(());
        }
    }
    for entry in some_of(fs, dir, offset.saturating_sub(DOTS.len() as u64))? {
        let attr = match fs.lookup(dir, &entry.name) {
            Ok(attr) => attr,
            Err(nandlab_vfs::Errno::NoEntry) => continue,
            Err(why) => return Err(why),
        };
        let node = INodeNo(attr.ino.0);
        if reply.add(
            node,
            place(entry.next)?,
            OsStr::from_bytes(&entry.name),
            &FOR_EVER,
            &file_attr(&attr),
            Generation(0),
        ) {
            fs.forget(attr.ino, 1);
            return Ok(());
        }
    }
    Ok(())
}

/// Fills a listing without attributes.
pub(super) fn list(
    fs: &mut dyn FileSystem,
    dir: Ino,
    offset: u64,
    reply: &mut ReplyDirectory,
) -> nandlab_vfs::Result<()> {
    for (at, name) in DOTS.iter().enumerate().skip(offset as usize) {
        if reply.add(dot(dir, at), at as u64 + 1, FileType::Directory, name) {
            return Ok(());
        }
    }
    let mut refused = Ok(());
    fs.readdir(
        dir,
        offset.saturating_sub(DOTS.len() as u64),
        &mut |entry| match place(entry.next) {
            Ok(next) => !reply.add(
                INodeNo(entry.ino.0),
                next,
                kind(entry.kind),
                OsStr::from_bytes(entry.name),
            ),
            Err(why) => {
                refused = Err(why);
                false
            }
        },
    )?;
    refused
}
