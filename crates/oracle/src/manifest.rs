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
    /// A part of the listing was never sent.
    #[error("the {0} were not sent")]
    Incomplete(&'static str),
    /// Not what `stat` was asked to print.
    #[error("found {found:?}, expected MODE LINKS UID GID SIZE SECONDS.NANOS MAJOR MINOR PATH")]
    Record {
        /// The text of the bad record.
        found: String,
    },
    /// A file could not be read, or a link not followed.
    #[error("{path:?} has no {what}: it could not be read")]
    Unreadable {
        /// The file that the guest could not read.
        path: PathBuf,
        /// The part that the record lacks.
        what: &'static str,
    },
}

/// What the guest lists of a tree, each list made of NUL-terminated strings.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// `stat` records, see [`ManifestError::Record`]; mode and device numbers hexadecimal.
    pub stat: Option<Vec<u8>>,
    /// The hash of a `HASH  PATH` line.
    pub hash: Option<Vec<u8>>,
    /// Path and target in turn.
    pub link: Option<Vec<u8>>,
}

impl Parts {
    /// Puts the lists together.
    pub fn join(&self) -> Result<Manifest, ManifestError> {
        let part =
            |list: &'_ Option<Vec<u8>>, name| list.clone().ok_or(ManifestError::Incomplete(name));
        let stat = part(&self.stat, "inodes")?;
        let hash = part(&self.hash, "hashes")?;
        let link = part(&self.link, "link targets")?;
        let hashes = strings(&hash)
            .filter_map(|s| Some((s.get(66..)?, s.get(..64)?)))
            .collect();
        let links: Vec<_> = strings(&link).collect();
        let links = links
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        strings(&stat)
            .map(|record| entry(record, &hashes, &links))
            .collect()
    }
}

type ByPath<'a> = BTreeMap<&'a [u8], &'a [u8]>;

fn strings(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split_inclusive(|byte| *byte == 0)
        .filter_map(|s| s.strip_suffix(&[0]))
}

fn entry(
    record: &[u8],
    hashes: &ByPath<'_>,
    links: &ByPath<'_>,
) -> Result<(PathBuf, Entry), ManifestError> {
    let bad = || ManifestError::Record {
        found: String::from_utf8_lossy(record).into_owned(),
    };
    let fields: Vec<&[u8]> = record.splitn(9, |byte| *byte == b' ').collect();
    let [head @ .., path] = fields.as_slice() else {
        return Err(bad());
    };
    let head: Vec<&str> = head
        .iter()
        .map(|field| str::from_utf8(field).unwrap_or_default())
        .collect();
    let &[mode, links_count, uid, gid, size, mtime, major, minor] = head.as_slice() else {
        return Err(bad());
    };
    let hex = |digits| u32::from_str_radix(digits, 16).map_err(|_| bad());
    let decimal = |digits: &str| digits.parse::<u32>().map_err(|_| bad());
    let name = Path::new(OsStr::from_bytes(path));
    let held = |map: &ByPath<'_>, what| {
        map.get(path)
            .map(|bytes| OsStr::from_bytes(bytes).to_owned())
            .ok_or_else(|| ManifestError::Unreadable {
                path: name.into(),
                what,
            })
    };
    let mode = hex(mode)?;
    let major = hex(major)?;
    let minor = hex(minor)?;
    let kind = match mode >> 12 {
        0o01 => Kind::Fifo,
        0o02 => Kind::Character { major, minor },
        0o04 => Kind::Directory,
        0o06 => Kind::Block { major, minor },
        0o10 => {
            let sha256 = held(hashes, "hash")?.to_string_lossy().into_owned();
            Kind::File {
                size: size.parse().map_err(|_| bad())?,
                sha256,
            }
        }
        0o12 => Kind::Symlink {
            target: held(links, "target")?.into(),
        },
        0o14 => Kind::Socket,
        _ => return Err(bad()),
    };
    let links = if kind == Kind::Directory {
        1
    } else {
        decimal(links_count)?
    };
    let (mtime, mtime_nanos) = timestamp(mtime).ok_or_else(bad)?;
    let entry = Entry {
        kind,
        mode: (mode & 0o7777) as u16,
        uid: decimal(uid)?,
        gid: decimal(gid)?,
        links,
        mtime,
        mtime_nanos,
    };
    Ok((name.into(), entry))
}

/// `[-]SECONDS.NANOS` as seconds and the nanoseconds after them: -0.25 is 750 ms after second -1.
fn timestamp(text: &str) -> Option<(i64, u32)> {
    let (whole, nanos) = text.split_once('.')?;
    let nanos = nanos
        .parse::<u32>()
        .ok()
        .filter(|n| *n < 1_000_000_000 && nanos.len() == 9)?;
    let seconds = whole.parse::<i64>().ok()?;
    if whole.starts_with('-') && nanos > 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos));
    }
    Some((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(stat: &[u8], hash: &[u8], link: &[u8]) -> Parts {
        Parts {
            stat: Some(stat.into()),
            hash: Some(hash.into()),
            link: Some(link.into()),
        }
    }

    fn hash_of(path: &str) -> Vec<u8> {
        format!("{}  {path}\0", "ab".repeat(32)).into_bytes()
    }

    #[test]
    fn lists_join_into_entries_whatever_the_names() {
        let stat = b"41ed 5 0 0 4096 7.000000000 0 0 .\0\
            81a4 2 1000 100 3 -1.500000000 0 0 ./a b\nc\0\
            a1ff 1 0 0 2 1.000000009 0 0 ./l\0\
            61b0 1 0 0 0 1.000000000 12c 11170 ./dev\0";
        let tree = parts(stat, &hash_of("./a b\nc"), b"./l\0x y\0")
            .join()
            .unwrap();
        let line = |path: &str| tree[Path::new(path)].to_string();
        assert_eq!(line("."), "0755 0:0 x1 7+0ns dir");
        assert_eq!(
            line("./a b\nc"),
            format!("0644 1000:100 x2 -2+500000000ns file 3 {}", "ab".repeat(32))
        );
        assert_eq!(line("./l"), "0777 0:0 x1 1+9ns link \"x y\"");
        assert_eq!(line("./dev"), "0660 0:0 x1 1+0ns block 300:70000");
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn what_could_not_be_read_is_an_error_with_its_path() {
        let file = b"81a4 1 0 0 3 1.000000000 0 0 ./x\0";
        assert_eq!(
            parts(file, b"", b"").join(),
            Err(ManifestError::Unreadable {
                path: "./x".into(),
                what: "hash"
            })
        );
        let unsent = Parts {
            hash: None,
            ..parts(file, b"", b"")
        };
        assert_eq!(unsent.join(), Err(ManifestError::Incomplete("hashes")));
        for bad in [
            &b"81a4 1 0\0"[..],
            b"zz 1 0 0 3 1.000000000 0 0 ./x\0",
            b"41ed 1 0 0 3 noon 0 0 ./x\0",
        ] {
            assert!(
                matches!(
                    parts(bad, &hash_of("./x"), b"").join(),
                    Err(ManifestError::Record { .. })
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn times_before_1970_count_forward_from_an_earlier_second() {
        let cases = [
            ("-0.250000000", (-1, 750_000_000)),
            ("-5.000000000", (-5, 0)),
            ("3.000000001", (3, 1)),
        ];
        for (text, expected) in cases {
            assert_eq!(timestamp(text), Some(expected), "{text}");
        }
        assert_eq!(timestamp("3.1"), None);
    }

    #[test]
    fn differences_show_both_sides_and_nothing_equal() {
        let tree = parts(b"41ed 1 0 0 0 7.000000000 0 0 .\0", b"", b"")
            .join()
            .unwrap();
        let other = parts(
            b"41c0 1 0 0 0 7.000000000 0 0 .\x0011a4 1 0 0 0 7.000000000 0 0 ./p\0",
            b"",
            b"",
        )
        .join()
        .unwrap();
        assert_eq!(differences(&tree, &tree), "");
        let text = "- \".\" 0755 0:0 x1 7+0ns dir\n+ \".\" 0700 0:0 x1 7+0ns dir\n+ \"./p\" 0644 0:0 x1 7+0ns fifo\n";
        assert_eq!(differences(&tree, &other), text);
    }
}
