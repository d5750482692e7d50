//! A tree of files as a list of entries with everything that they are, and where their contents can
//! be read.
//!
//! *Promises.* Names are bytes. [`Tree::normalize`] puts any list into the one order that makers
//! take: directories before what is in them, by name, hard links behind what they name; so the same
//! entries make the same image, whatever order they came in. *Knows nothing of* formats, archives,
//! or directories of the operating system.

use crate::error::{ImageError, Result, Shown};
use nandlab_vfs::{FileType, NewNode, Time};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest path, in bytes: as long as Linux takes one.
pub const PATH_MAX: usize = 4096;

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory, whose entries follow in the tree.
    Directory,
    /// A regular file with contents.
    File {
        /// The length of the contents in bytes.
        size: u64,
    },
    /// A symbolic link with its target.
    Symlink {
        /// The path that the link leads to.
        target: Vec<u8>,
    },
    /// One more name of another entry, which is no directory.
    Link {
        /// The path of the first name of the same inode.
        to: Vec<u8>,
    },
    /// A named pipe without contents.
    Fifo,
    /// The name of a socket, without contents.
    Socket,
    /// A character device with its numbers.
    Character {
        /// Major and minor number.
        device: (u32, u32),
    },
    /// A block device with its numbers.
    Block {
        /// Major and minor number.
        device: (u32, u32),
    },
}

impl Node {
    /// What a file system calls it; nothing for a hard link.
    pub fn made(&self) -> Option<NewNode<'_>> {
        Some(match self {
            Self::Directory => NewNode::Directory,
            Self::File { .. } => NewNode::File,
            Self::Symlink { target } => NewNode::Symlink { target },
            Self::Link { .. } => return None,
            Self::Fifo => NewNode::Fifo,
            Self::Socket => NewNode::Socket,
            Self::Character { device } => NewNode::Character { device: *device },
            Self::Block { device } => NewNode::Block { device: *device },
        })
    }

    /// The type, as a file system has it; nothing for a hard link.
    pub fn kind(&self) -> Option<FileType> {
        self.made().map(|made| made.kind())
    }
}

/// Name and value of extended attributes, by name.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// One entry of a tree, without contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the root, `a/b`; empty for the root itself.
    pub path: Vec<u8>,
    /// The type of the entry, with the fields of that type.
    pub node: Node,
    /// Permission bits: 12 bits.
    pub mode: u16,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id of the owner.
    pub gid: u32,
    /// When the contents last changed.
    pub mtime: Time,
    /// The extended attributes of the entry.
    pub xattrs: Xattrs,
}

impl Entry {
    /// A directory that nobody described.
    pub fn directory(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            node: Node::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime: Time::default(),
            xattrs: Xattrs::new(),
        }
    }

    /// Returns the last component of the path.
    pub fn name(&self) -> &[u8] {
        self.path
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// Bytes of a file.
    pub fn size(&self) -> u64 {
        if let Node::File { size } = self.node {
            size
        } else {
            0
        }
    }
}

/// A part of a file's contents; between parts there are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it is in the contents.
    pub at: u64,
    /// Where it is in what they are read from.
    pub from: u64,
    /// The length of the extent in bytes.
    pub len: u64,
}

/// What contents are read from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A file that is opened when it is read.
    Path(PathBuf),
    /// An open file, at any offset: an archive.
    Open(Arc<File>, PathBuf),
}

/// Where a file's contents are.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// What they are read from; nothing where there are no bytes but zeros.
    pub origin: Option<Origin>,
    /// In the order of the contents, without overlaps.
    pub extents: Vec<Extent>,
}

impl Data {
    /// All of a file.
    pub fn whole(path: PathBuf, size: u64) -> Self {
        let extent = Extent {
            at: 0,
            from: 0,
            len: size,
        };
        Self {
            origin: Some(Origin::Path(path)),
            extents: if size > 0 { vec![extent] } else { Vec::new() },
        }
    }

    /// Whether anything but zeros may be in a range.
    pub fn touches(&self, from: u64, to: u64) -> bool {
        let next = self
            .extents
            .partition_point(|extent| extent.at + extent.len <= from);
        self.extents.get(next).is_some_and(|extent| extent.at < to)
    }

    /// Where, from `at` on, anything but zeros may be next.
    pub fn next(&self, at: u64) -> Option<u64> {
        let next = self
            .extents
            .partition_point(|extent| extent.at + extent.len <= at);
        self.extents.get(next).map(|extent| extent.at.max(at))
    }

    /// So many bytes of the contents from `at` on.
    pub fn part(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        match (&self.origin, &self.extents[..]) {
            // All of it from a file: no need of zeros first.
            (Some(Origin::Path(path)), [extent])
                if extent.at == 0 && at + len as u64 <= extent.len =>
            {
                let mut out = Vec::with_capacity(len);
                let file = File::open(path).map_err(ImageError::file(path))?;
                while out.len() < len {
                    let from = extent.from + at + out.len() as u64;
                    let failed = |error| Err(ImageError::file(path)(error));
                    match rustix::io::pread(&file, rustix::buffer::spare_capacity(&mut out), from) {
                        Ok(0) => return failed(std::io::ErrorKind::UnexpectedEof.into()),
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return failed(error.into()),
                    }
                }
                out.truncate(len);
                Ok(out)
            }
            _ => {
                let mut out = vec![0; len];
                self.read(at, &mut out)?;
                Ok(out)
            }
        }
    }

    /// Fills `out` with the contents from `at` on.
    pub fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at + out.len() as u64;
        let Some(origin) = self.origin.as_ref().filter(|_| self.touches(at, end)) else {
            out.fill(0);
            return Ok(());
        };
        let opened;
        let (file, path) = match origin {
            Origin::Path(path) => {
                opened = File::open(path).map_err(ImageError::file(path))?;
                (&opened, path)
            }
            Origin::Open(file, path) => (&**file, path),
        };
        let first = self
            .extents
            .partition_point(|extent| extent.at + extent.len <= at);
        let mut filled = 0;
        for extent in self.extents[first..]
            .iter()
            .take_while(|extent| extent.at < end)
        {
            let from = extent.at.max(at);
            let to = (extent.at + extent.len).min(end);
            let (hole, part) =
                out[filled..(to - at) as usize].split_at_mut((from - at) as usize - filled);
            hole.fill(0);
            file.read_exact_at(part, extent.from + (from - extent.at))
                .map_err(ImageError::file(path))?;
            filled = (to - at) as usize;
        }
        out[filled..].fill(0);
        Ok(())
    }
}

/// A list of entries, each with its contents.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// In the order of [`normalize`](Self::normalize) once that was called.
    pub entries: Vec<(Entry, Data)>,
}

/// The order of paths: a directory before what is in it, and that before the directory's next
/// sibling.
pub fn order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    let a_words = a.as_chunks::<8>().0;
    let b_words = b.as_chunks::<8>().0;
    let alike = 8 * a_words
        .iter()
        .zip(b_words)
        .take_while(|(a, b)| a == b)
        .count();
    a[alike..].iter().map(rank).cmp(b[alike..].iter().map(rank))
}

/// A path from anywhere as one from the root: without slashes too many, and `.`. Refuses what leads
/// upwards or is no name.
pub fn normal(path: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
    let names: Vec<&[u8]> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(*name, b"" | b"."))
        .collect();
    let path = names.join(&b'/');
    match () {
        () if names.contains(&&b".."[..]) => Err("a path that leads upwards"),
        () if path.contains(&0) => Err("a path with a zero byte"),
        () if path.len() > PATH_MAX => Err("a path of more than 4096 bytes"),
        () => Ok(path),
    }
}

impl Tree {
    /// Adds an entry with its contents.
    pub fn push(&mut self, entry: Entry, data: Data) {
        self.entries.push((entry, data));
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|(entry, _)| entry.size()).sum()
    }

    /// The entry of a path, once the tree is in order.
    pub fn find(&mut self, path: &[u8]) -> Option<&mut Entry> {
        let found = self
            .entries
            .binary_search_by(|(entry, _)| order(&entry.path, path))
            .ok()?;
        Some(&mut self.entries[found].0)
    }

    /// Puts the entries in order. Of two with one path the later counts; directories that nobody
    /// described are made; the first name of each file is the file, the others are links to it.
    pub fn normalize(&mut self) -> Result<()> {
        // The sort keeps the order of equals: the last of them is the one that counts.
        self.entries
            .sort_by(|(a, _), (b, _)| order(&a.path, &b.path));
        self.entries.reverse();
        self.entries.dedup_by(|(a, _), (b, _)| a.path == b.path);
        self.entries.reverse();
        self.add_parents()?;
        self.name_links()
    }

    fn add_parents(&mut self) -> Result<()> {
        let mut missing: Vec<Vec<u8>> = Vec::new();
        let mut open: Vec<(&[u8], bool)> = Vec::new();
        if self
            .entries
            .first()
            .is_none_or(|(first, _)| !first.path.is_empty())
        {
            missing.push(Vec::new());
        }
        for (entry, _) in &self.entries {
            let is_in = |dir: &[u8]| {
                entry
                    .path
                    .strip_prefix(dir)
                    .is_some_and(|rest| rest.first() == Some(&b'/'))
            };
            while open.last().is_some_and(|(dir, _)| !is_in(dir)) {
                open.pop();
            }
            if let Some((path, false)) = open.last() {
                return Err(ImageError::Entry {
                    path: Shown::path(path),
                    what: "what something else is in",
                    found: "no directory".into(),
                    expected: "a directory".into(),
                });
            }
            let known = open.last().map_or(0, |(dir, _)| dir.len() + 1);
            for (at, _) in entry
                .path
                .iter()
                .enumerate()
                .skip(known)
                .filter(|(_, byte)| **byte == b'/')
            {
                missing.push(entry.path[..at].to_vec());
                open.push((&entry.path[..at], true));
            }
            if !entry.path.is_empty() {
                open.push((&entry.path, entry.node == Node::Directory));
            }
        }
        if !missing.is_empty() {
            missing
                .iter()
                .for_each(|path| self.entries.push((Entry::directory(path), Data::default())));
            self.entries
                .sort_by(|(a, _), (b, _)| order(&a.path, &b.path));
        }
        Ok(())
    }

    /// Follows each hard link to what it names, and gives that to the first name of all.
    fn name_links(&mut self) -> Result<()> {
        if !self
            .entries
            .iter()
            .any(|(entry, _)| matches!(entry.node, Node::Link { .. }))
        {
            return Ok(());
        }
        let places: BTreeMap<Vec<u8>, usize> = self
            .entries
            .iter()
            .enumerate()
            .map(|(at, (entry, _))| (entry.path.clone(), at))
            .collect();
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in 0..self.entries.len() {
            let mut end = at;
            // A chain longer than the tree is a circle.
            for _ in 0..=self.entries.len() {
                let Node::Link { to } = &self.entries[end].0.node else {
                    break;
                };
                end = *places.get(to).ok_or_else(|| self.bad_link(at, to))?;
            }
            match &self.entries[end].0.node {
                Node::Link { to } | Node::Symlink { target: to }
                    if end == at && matches!(self.entries[end].0.node, Node::Link { .. }) =>
                {
                    return Err(self.bad_link(at, to));
                }
                Node::Directory | Node::Link { .. } if end != at => {
                    return Err(self.bad_link(at, &self.entries[end].0.path));
                }
                _ if end != at => groups.entry(end).or_default().push(at),
                _ => {}
            }
        }
        for (end, names) in groups {
            let first = names[0].min(end);
            if first != end {
                let path = self.entries[first].0.path.clone();
                let other = self.entries[end].0.path.clone();
                self.entries.swap(first, end);
                (self.entries[first].0.path, self.entries[end].0.path) = (path, other);
            }
            let to = self.entries[first].0.path.clone();
            for name in names.into_iter().chain([end]).filter(|name| *name != first) {
                let path = self.entries[name].0.path.clone();
                let was = &self.entries[first].0;
                self.entries[name] = (
                    Entry {
                        path,
                        node: Node::Link { to: to.clone() },
                        ..was.clone()
                    },
                    Data::default(),
                );
            }
        }
        Ok(())
    }

    fn bad_link(&self, at: usize, to: &[u8]) -> ImageError {
        ImageError::Entry {
            path: Shown::path(&self.entries[at].0.path),
            what: "the entry it is linked to",
            found: Shown::path(to).to_string(),
            expected: "an entry that is there and no directory".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, node: Node) -> Entry {
        Entry {
            node,
            ..Entry::directory(path.as_bytes())
        }
    }

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.entries
            .iter()
            .map(|(entry, _)| str::from_utf8(&entry.path).unwrap())
            .collect()
    }

    #[test]
    fn any_order_becomes_the_one_order_with_all_directories() {
        let file = Node::File { size: 1 };
        let mut tree = Tree::default();
        for path in ["a.b", "a/z", "b/c/d", "a/b", "a"] {
            tree.push(
                entry(
                    path,
                    if path == "a" {
                        Node::Directory
                    } else {
                        file.clone()
                    },
                ),
                Data::default(),
            );
        }
        tree.push(
            Entry {
                mode: 0o600,
                ..entry("a/z", file)
            },
            Data::default(),
        );
        tree.normalize().unwrap();
        assert_eq!(
            paths(&tree),
            ["", "a", "a/b", "a/z", "a.b", "b", "b/c", "b/c/d"]
        );
        assert_eq!(
            tree.find(b"a/z").map(|entry| entry.mode),
            Some(0o600),
            "the later one counts"
        );
    }

    #[test]
    fn the_first_name_of_a_file_is_the_file() {
        let link = |to: &str| Node::Link { to: to.into() };
        let mut tree = Tree::default();
        tree.push(
            entry("m", Node::File { size: 7 }),
            Data::whole("/x".into(), 7),
        );
        tree.push(entry("z", link("m")), Data::default());
        tree.push(entry("b", link("z")), Data::default());
        tree.normalize().unwrap();
        let nodes: Vec<&Node> = tree.entries.iter().map(|(entry, _)| &entry.node).collect();
        assert_eq!(
            nodes,
            [
                &Node::Directory,
                &Node::File { size: 7 },
                &link("b"),
                &link("b")
            ]
        );
        assert_eq!(tree.entries[1].1.extents.len(), 1);
        for (name, to) in [("l", "nowhere"), ("l", "l"), ("l", "")] {
            let mut tree = Tree::default();
            tree.push(entry(name, link(to)), Data::default());
            assert!(
                matches!(tree.normalize(), Err(ImageError::Entry { .. })),
                "{to:?}"
            );
        }
    }

    #[test]
    fn nothing_lies_in_what_is_no_directory() {
        let mut tree = Tree::default();
        tree.push(
            entry(
                "l",
                Node::Symlink {
                    target: b"/etc".into(),
                },
            ),
            Data::default(),
        );
        tree.push(entry("l/passwd", Node::File { size: 0 }), Data::default());
        assert!(
            tree.normalize()
                .unwrap_err()
                .to_string()
                .starts_with("/l: ")
        );
    }

    #[test]
    fn paths_stay_below_the_root() {
        assert_eq!(normal(b"./a//b/.").as_deref(), Ok(&b"a/b"[..]));
        assert_eq!(normal(b"/").as_deref(), Ok(&b""[..]));
        assert!(
            normal(b"a/../b").is_err() && normal(b"a\0").is_err() && normal(&[b'x'; 5000]).is_err()
        );
    }
}
