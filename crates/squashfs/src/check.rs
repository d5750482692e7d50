//! Reads everything: names, inodes, contents, attributes; and compares what is said twice.

use crate::dir::Listing;
use crate::error::{Result, SquashError, field};
use crate::format::{NONE, PLAIN};
use crate::inode::{File, Inode, Node};
use crate::mount::Squashfs;
use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;
use nandlab_block::BlockDevice;
use nandlab_vfs::report::{self, Report, Severity, shown};
use nandlab_vfs::{FileType, Ino, check_name};

/// Directories inside one another.
const DEPTH_MAX: usize = 4096;
/// Blocks in the lists of all files, beside one for each byte of the image: holes are in lists too.
const WORDS_MAX: u64 = 1 << 26;

/// A deviation from the format that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A part cannot be read.
    Unread {
        /// The path of the entry.
        path: Vec<u8>,
        /// The part that cannot be read.
        what: &'static str,
        /// The error that reading it gave.
        error: SquashError,
    },
    /// A name that no path can hold.
    Name {
        /// The path of the entry.
        path: Vec<u8>,
    },
    /// A directory that was met before, or lies too deep.
    Circle {
        /// The path of the entry.
        path: Vec<u8>,
    },
    /// A number that is counted otherwise.
    Count {
        /// The path; empty for the whole.
        path: Vec<u8>,
        /// The name of the count.
        what: &'static str,
        /// What the medium says.
        found: u64,
        /// The count that the check found.
        counted: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread { path, what, error } => write!(f, "{}: {what}: {error}", shown(path)),
            Self::Name { path } => write!(f, "{}: a name that no path can hold", shown(path)),
            Self::Circle { path } => {
                write!(f, "{}: a directory within itself, or too deep", shown(path))
            }
            Self::Count {
                path,
                what,
                found,
                counted,
            } => write!(
                f,
                "{}: {what}: found {found}, counted {counted}",
                shown(path)
            ),
        }
    }
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        match self {
            // Nothing depends on them: nothing is ever written.
            Self::Count { .. } => Severity::Note,
            _ => Severity::Damage,
        }
    }
}

impl Finding {
    /// The byte where it was met.
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Unread { error, .. } => error.place(),
            _ => None,
        }
    }
}

/// Counts of the parts that the check read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Inodes that the check read.
    pub inodes: u64,
    /// Bytes of contents, without holes; blocks that files share count for each of them.
    pub bytes: u64,
}

/// An inode that was met.
#[derive(Clone, Copy)]
struct Met {
    number: u32,
    /// Names that were met.
    names: u32,
    /// Names that it says to have; directories count otherwise.
    links: Option<u32>,
}

/// A directory that is being gone through.
struct Level {
    ino: Ino,
    listing: Listing,
    /// Bytes of its path.
    path: usize,
    directories: u32,
    links: u32,
}

/// A data block that was unpacked.
struct Seen {
    /// Its length, as a list has it.
    word: u32,
    /// Bytes that it holds, if it could be unpacked.
    found: Option<u32>,
}

struct Check<'a, D> {
    fs: &'a mut Squashfs<D>,
    report: Report<Finding, Totals>,
    met: BTreeMap<Ino, Met>,
    levels: Vec<Level>,
    path: Vec<u8>,
    seen: BTreeMap<u64, Seen>,
    /// Blocks in the lists of all files.
    words: u64,
}

impl<D: BlockDevice> Squashfs<D> {
    /// Reads everything, and reports what cannot be read or does not agree.
    pub fn check(&mut self) -> Result<Report<Finding, Totals>> {
        let mut check = Check {
            fs: self,
            report: Report::default(),
            met: BTreeMap::new(),
            levels: Vec::new(),
            path: Vec::new(),
            seen: BTreeMap::new(),
            words: 0,
        };
        check.run()?;
        Ok(check.report)
    }
}

impl<D: BlockDevice> Check<'_, D> {
    fn run(&mut self) -> Result<()> {
        let root = self.fs.media.inode(Ino::ROOT)?;
        self.inode(&root);
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path);
            match level.listing.next(&mut self.fs.media) {
                Ok(Some(entry)) => {
                    self.take_entry(&entry);
                }
                Ok(None) => self.leave(),
                Err(error) => {
                    self.unread("names of the directory", error);
                    self.levels.pop();
                }
            }
        }
        self.counts();
        Ok(())
    }

    fn take_entry(&mut self, entry: &crate::dir::Entry) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend(&entry.name);
        if check_name(&entry.name).is_err() {
            let path = self.path.clone();
            self.report.add(Finding::Name { path });
        }
        match self.fs.entry_inode(entry) {
            Ok(inode) => self.inode(&inode),
            Err(error) => self.unread("inode", error),
        }
    }

    fn unread(&mut self, what: &'static str, error: SquashError) {
        let path = self.path.clone();
        self.report.add(Finding::Unread { path, what, error });
    }

    fn count(&mut self, path: Vec<u8>, what: &'static str, found: u64, counted: u64) {
        if found != counted {
            self.report.add(Finding::Count {
                path,
                what,
                found,
                counted,
            });
        }
    }

    /// Goes through an inode that was not met before.
    fn inode(&mut self, inode: &Inode) {
        let is_directory = inode.kind == FileType::Directory;
        if is_directory && let Some(above) = self.levels.last_mut() {
            above.directories += 1;
        }
        if let Some(met) = self.met.get_mut(&inode.ino) {
            met.names += 1;
            if is_directory {
                let path = self.path.clone();
                self.report.add(Finding::Circle { path });
            }
            return;
        }
        self.met.insert(
            inode.ino,
            Met {
                number: inode.number,
                names: 1,
                links: Some(inode.links).filter(|_| !is_directory),
            },
        );
        if let Err(error) = self.fs.media.attr(inode) {
            self.unread("owner", error);
        }
        self.xattrs(inode);
        match inode.node {
            Node::Directory(directory) if self.levels.len() < DEPTH_MAX => {
                self.levels.push(Level {
                    ino: inode.ino,
                    listing: Listing::new(directory),
                    path: self.path.len(),
                    directories: 0,
                    links: inode.links,
                })
            }
            Node::Directory(_) => {
                let path = self.path.clone();
                self.report.add(Finding::Circle { path });
            }
            Node::File(_) => self.contents(inode),
            Node::Symlink { len, at } => {
                if let Err(error) = self.fs.media.target(len, at) {
                    self.unread("target of the symbolic link", error);
                }
            }
            Node::Device(_) | Node::Other => {}
        }
    }

    fn xattrs(&mut self, inode: &Inode) {
        let media = &mut self.fs.media;
        let values = media.xattrs(inode).and_then(|xattrs| {
            xattrs
                .iter()
                .try_for_each(|xattr| media.xattr_value(xattr).map(drop))
        });
        if let Err(error) = values {
            self.unread("attributes", error);
        }
    }

    fn contents(&mut self, inode: &Inode) {
        let Node::File(file) = inode.node else {
            return;
        };
        let read = self
            .blocks(inode, &file)
            .and_then(|()| self.fragment(inode, &file));
        if let Err(error) = read {
            self.unread("contents", error);
        }
    }

    /// Unpacks the blocks of a file that no file before had.
    fn blocks(&mut self, inode: &Inode, file: &File) -> Result<()> {
        let block = u64::from(self.fs.media.head.block);
        let mut list = file.list;
        let mut at = file.start;
        for index in 0..file.blocks(block) {
            self.count_word(inode)?;
            let word = u32::from_le_bytes(self.fs.media.take(&mut list)?);
            if word == 0 {
                continue;
            }
            let found = self.block(at, word)?;
            let len = block.min(file.size - index * block);
            if u64::from(found) != len {
                let expected = "the length of the part of the file";
                return field(at, "the contents of a data block", found, expected);
            }
            self.report.bytes += len;
            at = at.saturating_add((word & (PLAIN - 1)).into());
        }
        Ok(())
    }

    /// Refuses volumes that name more blocks than they can hold.
    fn count_word(&mut self, inode: &Inode) -> Result<()> {
        self.words += 1;
        if self.words > WORDS_MAX + self.fs.media.head.used {
            let expected = "fewer than 67 million and one for each byte of the whole";
            return field(
                inode.at,
                "the number of blocks of all files",
                self.words,
                expected,
            );
        }
        Ok(())
    }

    fn fragment(&mut self, inode: &Inode, file: &File) -> Result<()> {
        let block = u64::from(self.fs.media.head.block);
        let len = file.size % block;
        let Some((index, offset)) = file.fragment.filter(|_| len > 0) else {
            return Ok(());
        };
        let (at, word) = self.fs.media.fragment_at(inode, index)?;
        let found = u64::from(self.block(at, word)?);
        let end = u64::from(offset) + len;
        if end > found {
            let expected = "an end inside its fragment";
            return field(inode.at, "the end of a file in a fragment", end, expected);
        }
        self.report.bytes += len;
        Ok(())
    }

    /// Unpacks a block once, and returns the length of what it holds. Blocks lie apart: the time is
    /// bounded by the length of the whole.
    fn block(&mut self, at: u64, word: u32) -> Result<u32> {
        let len = u64::from(word & (PLAIN - 1));
        let before = self.seen.range(..=at).next_back();
        if let Some((start, seen)) = before {
            if *start == at && seen.word == word {
                return seen.found.ok_or(SquashError::Block {
                    at,
                    len: len as u32,
                    why: "it could not be unpacked for another file",
                });
            }
            if *start == at || start + u64::from(seen.word & (PLAIN - 1)) > at {
                return field(
                    at,
                    "the place of a data block",
                    at,
                    "a place outside other blocks",
                );
            }
        }
        let behind = self.seen.range(at..).next();
        if behind.is_some_and(|(start, _)| *start < at.saturating_add(len)) {
            let expected = "an end before the next block";
            return field(at, "the length of a data block", len, expected);
        }
        let bytes = self.fs.media.block(at, word);
        let found = bytes.as_ref().ok().map(|bytes| bytes.len() as u32);
        self.seen.insert(at, Seen { word, found });
        bytes.map(|bytes| bytes.len() as u32)
    }

    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        debug_assert!(self.met.contains_key(&level.ino));
        let counted = u64::from(level.directories) + 2;
        let path = self.path.clone();
        self.count(path, "links of the directory", level.links.into(), counted);
    }

    /// Numbers that follow from the whole.
    fn counts(&mut self) {
        self.report.inodes = self.met.len() as u64;
        let inodes = self.fs.media.head.inodes.into();
        if self.report.findings.is_empty() {
            self.count(Vec::new(), "inodes", inodes, self.met.len() as u64);
        }
        let met = core::mem::take(&mut self.met);
        for (ino, met) in &met {
            if let Some(links) = met.links {
                let path = alloc::format!("inode {}", met.number).into_bytes();
                self.count(path, "names", links.into(), met.names.into());
            }
            self.exported(*ino, met.number);
        }
    }

    /// The table of inode numbers, for NFS, must lead to the inode.
    fn exported(&mut self, ino: Ino, number: u32) {
        let table = self.fs.media.head.export_table;
        let Some(index) = number.checked_sub(1).filter(|_| table != NONE) else {
            return;
        };
        let path = alloc::format!("inode {number}").into_bytes();
        match self.fs.media.entry::<8>(table, index.into()) {
            Ok(entry) => {
                let found = self.fs.media.head.ino(u64::from_le_bytes(entry));
                self.count(path, "place in the table of numbers", found.0, ino.0);
            }
            Err(error) => self.report.add(Finding::Unread {
                path,
                what: "place in the table of numbers",
                error,
            }),
        }
    }
}
