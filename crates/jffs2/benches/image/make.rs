//! An image of a directory: contents are read and compressed on several threads, and put on the
//! medium by one in the order of their names.

use crate::BLOCK;
use nandlab_jffs2::{Compression, Contents, Entry, Format, Made, Packer, populate};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_vfs::{NewNode, Time};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes that are read and programmed at once.
const PAGE: u32 = 256;
/// Nodes of an entry but its data: two inodes, a name.
const ENTRY_BYTES: u64 = 240;

pub const NOR: ImageFormat = ImageFormat {
    page: PAGE,
    oob: 0,
    pages_per_block: BLOCK / PAGE,
    layout: Layout::Raw,
    ecc: None,
};

/// An entry of a directory tree.
struct Found {
    path: PathBuf,
    name: Vec<u8>,
    meta: Metadata,
    what: What,
}

enum What {
    Directory,
    File(OnceLock<Contents>),
    Symlink(Vec<u8>),
    Link(Vec<u8>),
}

/// Writes the image of a tree to a file, as many blocks as it takes.
pub fn image(root: &Path, compression: Compression, threads: usize, to: &Path) {
    let choices = Format {
        compression,
        summary: false,
        ..Format::default()
    };
    fs::write(to, bytes(root, &choices, threads, usize::MAX)).expect("space for the image");
}

/// The image of the first entries of a tree.
pub fn bytes(root: &Path, choices: &Format, threads: usize, most: usize) -> Vec<u8> {
    let mut found = Vec::new();
    walk(root, b"", &mut found, &mut BTreeMap::new());
    found.truncate(most);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut packer = Packer::thorough();
                while let Some(one) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let What::File(contents) = &one.what {
                        let data = fs::read(&one.path).expect("a file of the tree");
                        contents
                            .set(Contents::new(&mut packer, choices, &data))
                            .expect("each is read once");
                    }
                }
            });
        }
    });
    let stored: u64 = found
        .iter()
        .map(|one| ENTRY_BYTES + one.contents().map_or(0, Contents::stored_bytes))
        .sum();
    // What JFFS2 keeps free for collecting: a fiftieth, and some blocks.
    let blocks = (stored * 104 / 100).div_ceil(BLOCK.into()) + 10;
    let medium =
        Image::new(vec![0xFF; (blocks * u64::from(BLOCK)) as usize], NOR).expect("whole blocks");
    let mut bytes = populate(medium, choices, found.iter().map(Found::entry))
        .expect("space for the tree")
        .into_backing();
    // An erased block holds its marker only.
    let is_empty = |block: &[u8]| block[12..].iter().all(|byte| *byte == 0xFF);
    let used = bytes
        .chunks(BLOCK as usize)
        .rposition(|block| !is_empty(block))
        .map_or(0, |last| last + 1);
    bytes.truncate(used * BLOCK as usize);
    bytes
}

impl Found {
    fn contents(&self) -> Option<&Contents> {
        if let What::File(contents) = &self.what {
            contents.get()
        } else {
            None
        }
    }

    fn entry(&self) -> Entry<'_> {
        let made = match &self.what {
            What::Directory => Made::Node(NewNode::Directory),
            What::File(contents) => Made::Packed(contents.get().expect("all have been read")),
            What::Symlink(target) => Made::Node(NewNode::Symlink { target }),
            What::Link(to) => Made::Link(to),
        };
        let mode = (self.meta.mode() & 0o7777) as u16;
        let owner = (self.meta.uid(), self.meta.gid());
        Entry {
            path: &self.name,
            made,
            mode,
            owner,
            mtime: Time::new(self.meta.mtime()),
            xattrs: &[],
        }
    }
}

/// A directory, then what is in it, by name. A second name of a file is a link to the first.
fn walk(dir: &Path, name: &[u8], found: &mut Vec<Found>, first_names: &mut BTreeMap<u64, Vec<u8>>) {
    let meta = fs::symlink_metadata(dir).expect("a directory of the tree");
    found.push(Found {
        path: dir.into(),
        name: name.into(),
        meta,
        what: What::Directory,
    });
    let mut entries: Vec<_> = fs::read_dir(dir)
        .expect("a directory of the tree")
        .map(|entry| entry.expect("an entry of it"))
        .collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = entry.path();
        let meta = fs::symlink_metadata(&path).expect("an entry of the tree");
        let separator: &[u8] = if name.is_empty() { b"" } else { b"/" };
        let name = [name, separator, entry.file_name().as_bytes()].concat();
        if meta.is_dir() {
            walk(&path, &name, found, first_names);
            continue;
        }
        let what = if meta.is_symlink() {
            What::Symlink(
                fs::read_link(&path)
                    .expect("a link of the tree")
                    .into_os_string()
                    .into_vec(),
            )
        } else {
            match first_names.get(&meta.ino()) {
                Some(first) => What::Link(first.clone()),
                None => What::File(OnceLock::new()),
            }
        };
        if meta.nlink() > 1 && matches!(what, What::File(_)) {
            first_names.insert(meta.ino(), name.clone());
        }
        found.push(Found {
            path,
            name,
            meta,
            what,
        });
    }
}
