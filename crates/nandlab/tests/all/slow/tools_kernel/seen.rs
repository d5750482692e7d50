//! Trees as the kernel and the operating system show them, and what of one is in another.

use nandlab_oracle::Report;
use nandlab_oracle::manifest::Kind;
use rustix::fs::{lgetxattr, llistxattr, major, minor};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Everything of an entry that may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: Kind,
    pub mode: u16,
    pub owner: (u32, u32),
    pub time: (i64, u32),
    pub links: u32,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes that it takes.
    pub taken: u64,
}

pub type Tree = BTreeMap<PathBuf, Seen>;

/// A directory of the operating system.
pub fn of_dir(root: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(root, Path::new(""), &mut tree);
    tree
}

fn walk(root: &Path, dir: &Path, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(root.join(dir)) else {
        return;
    };
    for entry in entries.flatten() {
        let path = dir.join(entry.file_name());
        if let Some(seen) = seen(&root.join(&path)) {
            if seen.kind == Kind::Directory {
                walk(root, &path, tree);
            }
            tree.insert(path, seen);
        }
    }
}

fn seen(at: &Path) -> Option<Seen> {
    let meta = fs::symlink_metadata(at).ok()?;
    let kind = meta.file_type();
    let major = major(meta.rdev());
    let minor = minor(meta.rdev());
    let kind = match () {
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_symlink() => Kind::Symlink {
            target: fs::read_link(at).ok()?,
        },
        () if kind.is_char_device() => Kind::Character { major, minor },
        () if kind.is_block_device() => Kind::Block { major, minor },
        () if kind.is_fifo() => Kind::Fifo,
        () if kind.is_socket() => Kind::Socket,
        () => {
            let bytes = fs::read(at).ok()?;
            Kind::File {
                size: bytes.len() as u64,
                sha256: Sha256::digest(&bytes)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            }
        }
    };
    let links = if kind == Kind::Directory {
        1
    } else {
        meta.nlink() as u32
    };
    let time = (meta.mtime(), meta.mtime_nsec() as u32);
    Some(Seen {
        kind,
        mode: (meta.mode() & 0o7777) as u16,
        owner: (meta.uid(), meta.gid()),
        time,
        links,
        xattrs: xattrs(at),
        taken: meta.blocks() * 512,
    })
}

fn xattrs(at: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = llistxattr(at, &mut names[..]).unwrap_or(0);
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let len = lgetxattr(at, name, &mut value[..]).ok()?;
        Some((name.to_vec(), value[..len].to_vec()))
    };
    names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(value)
        .collect()
}

/// What a guest listed under a name.
pub fn of_guest(report: &Report, name: &str) -> Tree {
    let mut tree = Tree::new();
    for (path, entry) in &report.manifests[name] {
        let Ok(path) = path.strip_prefix(".") else {
            continue;
        };
        if path.as_os_str().is_empty() || path == Path::new("lost+found") {
            continue;
        }
        let owner = (entry.uid, entry.gid);
        let time = (entry.mtime, entry.mtime_nanos);
        let seen = Seen {
            kind: entry.kind.clone(),
            mode: entry.mode,
            owner,
            time,
            links: entry.links,
            xattrs: BTreeMap::new(),
            taken: 0,
        };
        tree.insert(path.to_path_buf(), seen);
    }
    let place = |bytes: &[u8]| {
        PathBuf::from(std::ffi::OsStr::from_bytes(
            bytes.strip_prefix(b"./").unwrap_or(bytes),
        ))
    };
    let parts: Vec<&[u8]> = report
        .files
        .get(&format!("{name}.x"))
        .map_or(&[][..], |bytes| bytes)
        .split(|byte| *byte == 0)
        .collect();
    for entry in parts.chunks_exact(3) {
        let byte =
            |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap_or("0"), 16).unwrap_or(0);
        if let Some(seen) = tree.get_mut(&place(entry[0])) {
            seen.xattrs
                .insert(entry[1].to_vec(), entry[2].chunks(2).map(byte).collect());
        }
    }
    let blocks = report
        .files
        .get(&format!("{name}.b"))
        .map_or(&[][..], |bytes| bytes);
    for line in blocks.split(|byte| *byte == b'\n') {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        if let Some(seen) = tree.get_mut(&place(&line[space + 1..])) {
            seen.taken = str::from_utf8(&line[..space])
                .ok()
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
                * 512;
        }
    }
    tree
}

/// What may be lost.
pub const ASPECTS: [&str; 10] = [
    "contents",
    "symlinks",
    "devices",
    "modes",
    "owners",
    "times, s",
    "times, ns",
    "hard links",
    "xattrs",
    "holes",
];

/// Of each aspect, how many entries have it in `all`, and of how many it is lost in `found`. What
/// is not there has lost what it is, and nothing else is asked of it.
pub fn lost(all: &Tree, found: &Tree) -> [(usize, usize); 10] {
    let mut counts = [(0, 0); 10];
    for (path, old) in all {
        let new = found.get(path);
        let own = match old.kind {
            Kind::File { .. } | Kind::Directory => 0,
            Kind::Symlink { .. } => 1,
            _ => 2,
        };
        counts[own].0 += 1;
        counts[own].1 += usize::from(new.is_none_or(|new| new.kind != old.kind));
        let link = matches!(old.kind, Kind::Symlink { .. });
        let sparse = matches!(old.kind, Kind::File { size, .. } if old.taken * 2 < size);
        let Some(new) = new else { continue };
        let asked = [
            (3, !link, old.mode == new.mode),
            (4, true, old.owner == new.owner),
            (5, !link, old.time.0 == new.time.0),
            (6, !link, old.time.1 == new.time.1),
            (7, old.links > 1, old.links == new.links),
            (8, !old.xattrs.is_empty(), old.xattrs == new.xattrs),
            (9, sparse, new.taken * 2 < size(new)),
        ];
        for (aspect, _, same) in asked.into_iter().filter(|(_, asked, _)| *asked) {
            counts[aspect].0 += 1;
            counts[aspect].1 += usize::from(!same);
        }
    }
    counts
}

fn size(seen: &Seen) -> u64 {
    if let Kind::File { size, .. } = seen.kind {
        size
    } else {
        0
    }
}

/// Entries of `all` that are missing in `found`, are something else or hold something else there,
/// and entries that are there and not in `all`.
pub fn differences(all: &Tree, found: &Tree) -> [usize; 3] {
    let missing = all.keys().filter(|path| !found.contains_key(*path)).count();
    let wrong = all
        .iter()
        .filter(|(path, old)| found.get(*path).is_some_and(|new| new.kind != old.kind))
        .count();
    [
        missing,
        wrong,
        found.keys().filter(|path| !all.contains_key(*path)).count(),
    ]
}
