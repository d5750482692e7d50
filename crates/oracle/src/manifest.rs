//! A tree as the kernel shows it, in a form that can be compared: what a file system must preserve
//! and nothing else.
//!
//! Left out is what is a file system's own business: inode numbers, sizes and link counts of
//! directories, allocated blocks, access and change times. Not every file system keeps the rest:
//! FAT has no owners, its times have gaps of two seconds, and JFFS2 forgets its root's time unless
//! it was set.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A tree: its entries by path, relative to its root, which is `.`; the others are `./name`.
pub type Manifest = BTreeMap<PathBuf, Entry>;

/// What a file system must keep of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is, and what it holds.
    pub kind: Kind,
    /// Permission bits with set-uid, set-gid and sticky: the lower 12 bits of the mode.
    pub mode: u16,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id of the owner.
    pub gid: u32,
    /// Hard links; 1 for a directory.
    pub links: u32,
    /// Time of modification, in seconds since 1970.
    pub mtime: i64,
    /// And the nanoseconds after that second.
    pub mtime_nanos: u32,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file with its contents.
    File {
        /// The length of the contents in bytes.
        size: u64,
        /// SHA-256 of its bytes, in hexadecimal.
        sha256: String,
    },
    /// A directory; its entries have records of their own.
    Directory,
    /// A symbolic link with its target.
    Symlink {
        /// The path that the link leads to.
        target: PathBuf,
    },
    /// A character device with its numbers.
    Character {
        /// The major number of the device.
        major: u32,
        /// The minor number of the device.
        minor: u32,
    },
    /// A block device with its numbers.
    Block {
        /// The major number of the device.
        major: u32,
        /// The minor number of the device.
        minor: u32,
    },
    /// A named pipe without contents.
    Fifo,
    /// The name of a socket, without contents.
    Socket,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { size, sha256 } => write!(f, "file {size} {sha256}"),
            Self::Directory => f.write_str("dir"),
            Self::Symlink { target } => write!(f, "link {target:?}"),
            Self::Character { major, minor } => write!(f, "char {major}:{minor}"),
            Self::Block { major, minor } => write!(f, "block {major}:{minor}"),
            Self::Fifo => f.write_str("fifo"),
            Self::Socket => f.write_str("socket"),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            mode,
            uid,
            gid,
            links,
            mtime,
            mtime_nanos,
        } = self;
        write!(
            f,
            "{mode:04o} {uid}:{gid} x{links} {mtime}+{mtime_nanos}ns {kind}"
        )
    }
}

/// Every entry that is not the same in both, as lines `- path entry` (only or otherwise in
/// `expected`) and `+ path entry` (in `found`); empty when the trees are equal.
pub fn differences(expected: &Manifest, found: &Manifest) -> String {
    let mut text = String::new();
    for path in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let old = expected.get(path);
        let new = found.get(path);
        if old != new {
            for (sign, entry) in [('-', old), ('+', new)] {
                // Writing to a string cannot fail.
                entry
                    .into_iter()
                    .for_each(|entry| _ = writeln!(text, "{sign} {path:?} {entry}"));
            }
        }
    }
    text
}

/// A listing that does not fit together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The guest's lister does not write such a record.
    #[error(
        "found {found:?}, expected MODE LINKS UID GID SIZE SECONDS NANOS MAJOR MINOR PATH, \
         and a second string"
    )]
    Record {
        /// The text of the bad record.
        found: String,
    },
    /// The guest could not read a file, or follow a link.
    #[error("{path:?} has no {what}: it could not be read")]
    Unreadable {
        /// The file that the guest could not read.
        path: PathBuf,
        /// The part that the record lacks.
        what: &'static str,
    },
}

/// Reads what the guest's lister wrote: two strings for each entry, each with a NUL behind it.
pub(crate) fn parse(listing: &[u8]) -> Result<Manifest, ManifestError> {
    let mut strings = listing.split_inclusive(|byte| *byte == 0);
    let mut tree = Manifest::new();
    while let Some(head) = strings.next() {
        let content = strings.next().unwrap_or_default();
        let pair = (head.strip_suffix(&[0]), content.strip_suffix(&[0]));
        let (Some(head), Some(content)) = pair else {
            return Err(bad(head));
        };
        let (path, entry) = entry(head, OsStr::from_bytes(content))?;
        tree.insert(path, entry);
    }
    Ok(tree)
}

fn bad(record: &[u8]) -> ManifestError {
    ManifestError::Record {
        found: String::from_utf8_lossy(record).into_owned(),
    }
}

fn entry(record: &[u8], content: &OsStr) -> Result<(PathBuf, Entry), ManifestError> {
    let fields: Vec<&[u8]> = record.splitn(10, |byte| *byte == b' ').collect();
    let [head @ .., path] = fields.as_slice() else {
        return Err(bad(record));
    };
    let head: Vec<&str> = head
        .iter()
        .map(|field| str::from_utf8(field).unwrap_or_default())
        .collect();
    let &[mode, links, uid, gid, size, seconds, nanos, major, minor] = head.as_slice() else {
        return Err(bad(record));
    };
    let hex = |digits| u32::from_str_radix(digits, 16).map_err(|_| bad(record));
    let decimal = |digits: &str| digits.parse::<u32>().map_err(|_| bad(record));
    let path = Path::new(OsStr::from_bytes(path));
    let held = |what| match content.is_empty() {
        false => Ok(content),
        true => Err(ManifestError::Unreadable {
            path: path.into(),
            what,
        }),
    };
    let mode = hex(mode)?;
    let device = (hex(major)?, hex(minor)?);
    let size = || size.parse().map_err(|_| bad(record));
    let kind = match kind(mode >> 12, device, size, held)? {
        Some(kind) => kind,
        None => return Err(bad(record)),
    };
    let is_directory = kind == Kind::Directory;
    let entry = Entry {
        kind,
        mode: (mode & 0o7777) as u16,
        uid: decimal(uid)?,
        gid: decimal(gid)?,
        links: if is_directory { 1 } else { decimal(links)? },
        mtime: seconds.parse().map_err(|_| bad(record))?,
        mtime_nanos: decimal(nanos)?,
    };
    Ok((path.into(), entry))
}

/// The kind of an entry by the type in its mode; none for a type that no entry has.
fn kind<'a>(
    kind: u32,
    (major, minor): (u32, u32),
    size: impl Fn() -> Result<u64, ManifestError>,
    held: impl Fn(&'static str) -> Result<&'a OsStr, ManifestError>,
) -> Result<Option<Kind>, ManifestError> {
    Ok(Some(match kind {
        0o01 => Kind::Fifo,
        0o02 => Kind::Character { major, minor },
        0o04 => Kind::Directory,
        0o06 => Kind::Block { major, minor },
        0o10 => Kind::File {
            size: size()?,
            sha256: held("hash")?.to_string_lossy().into_owned(),
        },
        0o12 => Kind::Symlink {
            target: held("target")?.into(),
        },
        0o14 => Kind::Socket,
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(records: &[(&str, &str)]) -> Vec<u8> {
        let strings = records
            .iter()
            .map(|(head, content)| format!("{head}\0{content}\0"));
        strings.collect::<String>().into_bytes()
    }

    #[test]
    fn records_become_entries_whatever_the_names() {
        let hash = "ab".repeat(32);
        let tree = parse(&listing(&[
            ("41ed 5 0 0 4096 7 0 0 0 .", ""),
            ("81a4 2 1000 100 3 -2 500000000 0 0 ./a b\nc", &hash),
            ("a1ff 1 0 0 2 1 9 0 0 ./l", "x y"),
            ("61b0 1 0 0 0 1 0 12c 11170 ./dev", ""),
        ]))
        .unwrap();
        let line = |path: &str| tree[Path::new(path)].to_string();
        assert_eq!(line("."), "0755 0:0 x1 7+0ns dir");
        assert_eq!(
            line("./a b\nc"),
            format!("0644 1000:100 x2 -2+500000000ns file 3 {hash}")
        );
        assert_eq!(line("./l"), "0777 0:0 x1 1+9ns link \"x y\"");
        assert_eq!(line("./dev"), "0660 0:0 x1 1+0ns block 300:70000");
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn what_could_not_be_read_is_an_error_with_its_path() {
        let unreadable = |record, what| {
            let found = parse(&listing(&[(record, "")]));
            let path = "./x".into();
            assert_eq!(found, Err(ManifestError::Unreadable { path, what }));
        };
        unreadable("81a4 1 0 0 3 1 0 0 0 ./x", "hash");
        unreadable("a1ff 1 0 0 3 1 0 0 0 ./x", "target");
        for bad in [
            &b"81a4 1 0\0\0"[..],
            b"zz 1 0 0 3 1 0 0 0 ./x\0\0",
            b"41ed 1 0 0 3 noon 0 0 0 ./x\0\0",
            b"41ed 1 0 0 3 1 0 0 0 ./x\0",
            b"41ed 1 0 0 3 1 0 0 0 ./x",
        ] {
            let found = parse(bad);
            assert!(
                matches!(found, Err(ManifestError::Record { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn differences_show_both_sides_and_nothing_equal() {
        let tree = parse(&listing(&[("41ed 1 0 0 0 7 0 0 0 .", "")])).unwrap();
        let other = parse(&listing(&[
            ("41c0 1 0 0 0 7 0 0 0 .", ""),
            ("11a4 1 0 0 0 7 0 0 0 ./p", ""),
        ]))
        .unwrap();
        assert_eq!(differences(&tree, &tree), "");
        let text = "- \".\" 0755 0:0 x1 7+0ns dir\n+ \".\" 0700 0:0 x1 7+0ns dir\n+ \"./p\" 0644 0:0 x1 7+0ns fifo\n";
        assert_eq!(differences(&tree, &other), text);
    }
}
