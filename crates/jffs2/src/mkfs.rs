//! Making media: empty ones, and ones with a tree.
//!
//! *Promises.* The same entries in the same order give the same bytes. What the format cannot hold
//! is an error that names the entry, not something near it. *Knows nothing of* where entries come
//! from.

use crate::{
    Compression, Contents, Endian, Jffs2, Jffs2Error, Medium, Options, Packer,
    format::{NAME_MAX, PAGE},
    mount,
    space::List,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use nandlab_mtd::{Mtd, MtdError};
use nandlab_vfs::{
    Caller, Errno, FileSystem, FileType, Ino, NewNode, SetAttr, SetXattr, Time, path, with_defaults,
};

with_defaults! {
    /// How a medium shall be.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Format {
        /// How bytes get onto it; by default as [`Options::medium`].
        pub medium: Option<Medium> = None,
        /// The byte order of every node.
        pub endian: Endian = Endian::Little,
        /// What is done to data.
        pub compression: Compression = Compression::default(),
        /// A list of its nodes at the end of each full block.
        pub summary: bool = true,
        /// Bytes of a file that a node holds at most, and from a multiple of which on: the page of
        /// the machine that is to read it.
        pub page: u32 = PAGE,
    }
}

impl Format {
    /// The options to mount with what was made so.
    pub fn options(&self) -> Options {
        Options {
            medium: self.medium,
            endian: Some(self.endian),
            compression: self.compression,
            summary: self.summary,
            ..Options::default()
        }
    }
}

/// One entry of a tree. Directories come before what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path from the root, `a/b`; empty for the root itself.
    pub path: &'a [u8],
    /// The type of the entry, with the fields of that type.
    pub made: Made<'a>,
    /// The permission bits of the entry.
    pub mode: u16,
    /// Owner and group, 16 bits each.
    pub owner: (u32, u32),
    /// Time of the last change of its contents, from 1970 to 2106 in whole seconds; parts of a
    /// second are dropped.
    pub mtime: Time,
    /// Pairs of attribute name and value.
    pub xattrs: &'a [(&'a [u8], &'a [u8])],
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made<'a> {
    /// A file with these contents; pages of zeros become holes.
    File(&'a [u8]),
    /// A file with these contents, which may have been compressed on other threads while those
    /// before it were written.
    Packed(&'a Contents),
    /// A file of so many bytes, which follow by [`Maker::part`].
    Parts(u64),
    /// An inode without contents.
    Node(NewNode<'a>),
    /// One more name of the entry of this path.
    Link(&'a [u8]),
}

/// Why no medium was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The medium cannot hold the format, or failed.
    #[error(transparent)]
    Medium(#[from] Jffs2Error),
    /// The format cannot hold an entry.
    #[error("{path:?}: {what} is {found}, expected {expected}")]
    Entry {
        /// The path of the entry.
        path: String,
        /// What is wrong with it.
        what: &'static str,
        /// The value that the format cannot hold.
        found: i64,
        /// What it may be.
        expected: &'static str,
    },
    /// An entry could not be made.
    #[error("{path:?}: {error}")]
    Call {
        /// The path of the entry.
        path: String,
        /// The errno that the call returned.
        error: Errno,
    },
}

/// Erases a medium: an empty file system. A block that cannot be erased is marked bad.
pub fn format<M: Mtd>(mtd: M, choices: &Format) -> Result<M, Jffs2Error> {
    let mut flash = mount::open(mtd, &choices.options())?;
    flash.endian = choices.endian;
    for block in 0..flash.blocks() {
        if flash.is_bad(block)? {
            continue;
        }
        match flash.erase(block) {
            Ok(()) => {}
            Err(MtdError::EraseFailed(_) | MtdError::ProgramFailed(_)) => flash.mark_bad(block)?,
            Err(error) => return Err(error.into()),
        }
    }
    flash.sync()?;
    Ok(flash.into_mtd())
}

/// Erases a medium and puts a tree on it, from its first block on.
pub fn populate<'a, M: Mtd>(
    mtd: M,
    choices: &Format,
    entries: impl IntoIterator<Item = Entry<'a>>,
) -> Result<M, FormatError> {
    let mut maker = Maker::new(mtd, choices)?;
    entries
        .into_iter()
        .try_for_each(|entry| maker.add(&entry))?;
    maker.finish().map(|(mtd, _)| mtd)
}

/// A medium that is being made, entry by entry: for trees that are larger than memory.
#[derive(Debug)]
pub struct Maker<M> {
    fs: Jffs2<M>,
    packer: Packer,
    choices: Format,
    /// Of directories: set when they are left, since every name that is made changes its
    /// directory's time.
    times: BTreeMap<Vec<u8>, Time>,
    /// The directory of the last entry, and of those above it the ones that were gone through.
    dirs: Vec<(Vec<u8>, Ino)>,
    open: Option<Open>,
}

/// A file whose contents come in parts.
#[derive(Debug)]
struct Open {
    path: Vec<u8>,
    ino: Ino,
    mtime: Time,
    /// Bytes so far, and in the end.
    known: u32,
    len: u64,
}

impl<M: Mtd> Maker<M> {
    /// Takes a medium, whatever is on it.
    pub fn new(mtd: M, choices: &Format) -> Result<Self, FormatError> {
        let fs = Jffs2::anew(mtd, choices.endian, choices.options())?;
        Ok(Self {
            fs,
            packer: Packer::thorough(),
            choices: *choices,
            times: BTreeMap::new(),
            dirs: Vec::new(),
            open: None,
        })
    }

    /// Puts an entry on it.
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<(), FormatError> {
        self.close()?;
        check(entry)?;
        let dir = self.enter(entry.path)?;
        let ino = self
            .make(dir, entry)
            .map_err(|error| failed(entry.path, error))?;
        match entry.made {
            Made::Node(NewNode::Directory) => {
                _ = self.times.insert(entry.path.to_vec(), entry.mtime)
            }
            Made::Parts(len) => {
                self.open = Some(Open {
                    path: entry.path.to_vec(),
                    ino,
                    mtime: entry.mtime,
                    known: 0,
                    len,
                })
            }
            _ => self.unload(ino),
        }
        Ok(())
    }

    /// The next part of the contents of the file that was added last, as [`Made::Parts`]. Between
    /// parts there are zeros.
    pub fn part(&mut self, contents: &Contents) -> Result<(), FormatError> {
        let Some(open) = &mut self.open else {
            return Err(failed(b"", Errno::BadFile));
        };
        let written = self
            .fs
            .write_part(open.ino, contents, open.known, open.mtime);
        open.known = written.map_err(|error| failed(&open.path, error))?;
        Ok(())
    }

    fn close(&mut self) -> Result<(), FormatError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if u64::from(open.known) < open.len {
            let change = SetAttr {
                size: Some(open.len),
                mtime: Some(open.mtime),
                ..SetAttr::default()
            };
            self.fs
                .setattr(open.ino, &change, open.mtime)
                .map_err(|error| failed(&open.path, error))?;
        }
        self.unload(open.ino);
        Ok(())
    }

    /// An entry is done; directories are not, and stay in memory.
    fn unload(&mut self, ino: Ino) {
        if let Ok(ino) = u32::try_from(ino.0) {
            self.fs.unload(ino);
        }
    }

    /// Ends it: the medium, and how many of its blocks, from the first on, hold anything.
    pub fn finish(mut self) -> Result<(M, u32), FormatError> {
        self.close()?;
        while !self.dirs.is_empty() {
            self.leave()?;
        }
        self.fs.erase_rest()?;
        self.fs.unmount().map_err(|error| failed(b"", error))?;
        let blocks = self.fs.flash.blocks();
        let free: BTreeSet<u32> = self.fs.space.listed(List::Free).collect();
        let used = (0..blocks)
            .rev()
            .find(|block| !free.contains(block))
            .map_or(0, |last| last + 1);
        Ok((self.fs.into_mtd(), used))
    }
}

fn failed(path: &[u8], error: Errno) -> FormatError {
    FormatError::Call {
        path: text(path),
        error,
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Refuses what the format cannot hold.
fn check(entry: &Entry<'_>) -> Result<(), FormatError> {
    let name = name(entry.path).len() as i64;
    let (target, device) = match entry.made {
        Made::Node(NewNode::Symlink { target }) => (target.len() as i64, (0, 0)),
        Made::Node(node) => (1, node.device()),
        _ => (1, (0, 0)),
    };
    let size = match entry.made {
        Made::File(data) => data.len() as i64,
        Made::Packed(contents) => contents.len() as i64,
        Made::Parts(len) => i64::try_from(len).unwrap_or(i64::MAX),
        _ => 0,
    };
    let rules = [
        (
            "length of the name",
            name,
            0..=NAME_MAX as i64,
            "at most 254 bytes",
        ),
        (
            "length of the symbolic link",
            target,
            1..=NAME_MAX as i64,
            "1 to 254 bytes",
        ),
        ("owner", entry.owner.0.into(), 0..=65_535, "16 bits"),
        ("group", entry.owner.1.into(), 0..=65_535, "16 bits"),
        (
            "time",
            entry.mtime.secs,
            0..=u32::MAX.into(),
            "seconds from 1970 to 2106",
        ),
        ("major number", device.0.into(), 0..=4095, "at most 4095"),
        (
            "minor number",
            device.1.into(),
            0..=0xF_FFFF,
            "at most 1048575",
        ),
        (
            "length of the file",
            size,
            0..=u32::MAX.into(),
            "less than 4 GiB",
        ),
    ];
    match rules
        .into_iter()
        .find(|(_, found, fine, _)| !fine.contains(found))
    {
        Some((what, found, _, expected)) => Err(FormatError::Entry {
            path: text(entry.path),
            what,
            found,
            expected,
        }),
        None => Ok(()),
    }
}

impl<M: Mtd> Maker<M> {
    fn make(&mut self, dir: Ino, entry: &Entry<'_>) -> Result<Ino, Errno> {
        let by = Caller {
            uid: entry.owner.0,
            gid: entry.owner.1,
            now: entry.mtime,
        };
        if entry.path.is_empty() {
            let change = SetAttr {
                mode: Some(entry.mode),
                uid: Some(by.uid),
                gid: Some(by.gid),
                ..SetAttr::default()
            };
            self.fs.setattr(Ino::ROOT, &change, by.now)?;
            return set_xattrs(&mut self.fs, Ino::ROOT, entry).map(|()| Ino::ROOT);
        }
        let fs = &mut self.fs;
        let name = name(entry.path);
        let made = match entry.made {
            Made::Link(to) => path::resolve(fs, to).and_then(|found| {
                let linked = fs.link(found.ino, dir, name, by.now);
                fs.forget(found.ino, 1);
                linked
            }),
            Made::Node(node) => fs.create(dir, name, node, entry.mode, by),
            Made::File(_) | Made::Packed(_) | Made::Parts(_) => {
                fs.create(dir, name, NewNode::File, entry.mode, by)
            }
        }?;
        let filled = match entry.made {
            Made::File(data) => fs.write_contents(
                made.ino,
                &Contents::new(&mut self.packer, &self.choices, data),
                by.now,
            ),
            Made::Packed(contents) => fs.write_contents(made.ino, contents, by.now),
            _ => Ok(()),
        };
        let outcome = filled.and_then(|()| {
            if matches!(entry.made, Made::Link(_)) {
                Ok(())
            } else {
                set_xattrs(fs, made.ino, entry)
            }
        });
        // The directory's set-gid bit, if it has one, is no business of ours.
        let outcome = outcome.and_then(|()| {
            let wrong = made.gid != by.gid && !matches!(entry.made, Made::Link(_))
                || made.kind == FileType::Directory && made.mode != entry.mode & 0o7777;
            let change = SetAttr {
                gid: Some(by.gid),
                mode: Some(entry.mode),
                mtime: Some(by.now),
                ..SetAttr::default()
            };
            if wrong {
                fs.setattr(made.ino, &change, by.now).map(drop)
            } else {
                Ok(())
            }
        });
        fs.forget(made.ino, 1);
        outcome.map(|()| made.ino)
    }

    /// The directory of an entry; those that it does not lie in are left.
    fn enter(&mut self, path: &[u8]) -> Result<Ino, FormatError> {
        let above = path.strip_suffix(name(path)).unwrap_or_default();
        let above = above.strip_suffix(b"/").unwrap_or(above);
        while self
            .dirs
            .last()
            .is_some_and(|(dir, _)| !lies_in(above, dir))
        {
            self.leave()?;
        }
        match self.dirs.last() {
            Some((dir, ino)) if dir == above => Ok(*ino),
            _ => {
                let ino = path::resolve(&mut self.fs, above)
                    .map_err(|error| failed(path, error))?
                    .ino;
                self.dirs.push((above.to_vec(), ino));
                Ok(ino)
            }
        }
    }

    fn leave(&mut self) -> Result<(), FormatError> {
        let Some((path, ino)) = self.dirs.pop() else {
            return Ok(());
        };
        let set = self.times.get(&path).map_or(Ok(()), |time| {
            self.fs
                .setattr(
                    ino,
                    &SetAttr {
                        mtime: Some(*time),
                        ..SetAttr::default()
                    },
                    *time,
                )
                .map(drop)
        });
        self.fs.forget(ino, 1);
        set.map_err(|error| failed(&path, error))
    }
}

/// Whether the path `above` is `dir` or lies in it.
fn lies_in(above: &[u8], dir: &[u8]) -> bool {
    dir.is_empty()
        || above
            .strip_prefix(dir)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn set_xattrs<M: Mtd>(fs: &mut Jffs2<M>, ino: Ino, entry: &Entry<'_>) -> Result<(), Errno> {
    entry
        .xattrs
        .iter()
        .try_for_each(|(name, value)| fs.setxattr(ino, name, value, SetXattr::Any, entry.mtime))
}
