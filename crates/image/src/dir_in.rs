//! A directory of the operating system as a tree.
//!
//! *Promises.* Every entry with owner, permissions, times, links, devices, holes and all extended
//! attributes that the reader may see; nothing is followed, nothing is changed. Contents are read
//! when they are needed.

use crate::error::{ImageError, Result, Shown};
use crate::tree::{Data, Entry, Extent, Node, Origin, PATH_MAX, Tree, Xattrs};
use nandlab_vfs::{FileType, Time};
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, major, minor, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Directories are read by so many threads: to look at an entry takes the operating system's time.
const THREADS: usize = 2;

/// The tree below a directory, in order.
pub fn read(root: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    let metadata = fs::metadata(root).map_err(ImageError::file(root))?;
    if !metadata.is_dir() {
        return Err(ImageError::Choice {
            what: "source",
            found: root.display().to_string(),
            expected: "a directory".into(),
        });
    }
    tree.push(
        described(root, Vec::new(), Node::Directory, &metadata)?,
        Data::default(),
    );
    let scan = Scan {
        state: Mutex::new(State {
            left: vec![(root.to_path_buf(), Vec::new())],
            ..State::default()
        }),
        first_names: Mutex::default(),
        more: Condvar::new(),
    };
    thread::scope(|scope| {
        (1..THREADS).for_each(|_| _ = scope.spawn(|| scan.run()));
        scan.run();
    });
    let state = scan
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = state.failed {
        return Err(error);
    }
    tree.entries.extend(state.found);
    tree.normalize()?;
    Ok(tree)
}

/// The first name that was seen of each file with several.
type FirstNames = BTreeMap<(u64, u64), Vec<u8>>;

#[derive(Default)]
struct State {
    /// Directories that nobody has read yet: where, and their paths.
    left: Vec<(PathBuf, Vec<u8>)>,
    found: Vec<(Entry, Data)>,
    /// Threads at a directory.
    busy: usize,
    /// Of the directories that could not be read the first by its path: it does not depend on the
    /// threads.
    failed: Option<(Vec<u8>, ImageError)>,
}

impl State {
    fn take(&mut self, dir: &Path, path: Vec<u8>, read: Result<Vec<(Entry, Data)>>) {
        match read {
            Ok(found) => {
                let directories = found
                    .iter()
                    .filter(|(entry, _)| entry.node == Node::Directory);
                self.left.extend(directories.map(|(entry, _)| {
                    (
                        dir.join(OsStr::from_bytes(entry.name())),
                        entry.path.clone(),
                    )
                }));
                self.found.extend(found);
            }
            Err(error) if self.failed.as_ref().is_none_or(|(first, _)| path < *first) => {
                self.failed = Some((path, error))
            }
            Err(_) => {}
        }
    }
}

/// A directory that is being read, with everything below.
struct Scan {
    state: Mutex<State>,
    first_names: Mutex<FirstNames>,
    more: Condvar,
}

impl Scan {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads directories until there are none left.
    fn run(&self) {
        let mut state = self.lock();
        while !state.left.is_empty() || state.busy > 0 {
            let Some((dir, path)) = state.left.pop() else {
                state = self
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            let busy = Busy(self);
            let read = self.directory(&dir, &path);
            self.lock().take(&dir, path, read);
            drop(busy);
            state = self.lock();
        }
    }

    fn directory(&self, dir: &Path, path: &[u8]) -> Result<Vec<(Entry, Data)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).map_err(ImageError::file(dir))? {
            let entry = entry.map_err(ImageError::file(dir))?;
            let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let below = [path, separator, entry.file_name().as_bytes()].concat();
            let at = entry.path();
            if below.len() > PATH_MAX {
                let found = format!("{} bytes", below.len());
                return Err(ImageError::Entry {
                    path: Shown::path(&below),
                    what: "length of the path",
                    found,
                    expected: "at most 4096 bytes".into(),
                });
            }
            let metadata = entry.metadata().map_err(ImageError::file(&at))?;
            let (node, data) = node(&at, &below, &metadata, &self.first_names)?;
            found.push((described(&at, below, node, &metadata)?, data));
        }
        Ok(found)
    }
}

/// A thread at a directory: a panic wakes its waiters with an error.
struct Busy<'a>(&'a Scan);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.more.notify_all();
    }
}

fn described(at: &Path, path: Vec<u8>, node: Node, metadata: &Metadata) -> Result<Entry> {
    let mtime = Time {
        secs: metadata.mtime(),
        nanos: metadata.mtime_nsec() as u32,
    };
    let mode = (metadata.mode() & 0o7777) as u16;
    let xattrs = if matches!(node, Node::Link { .. }) {
        Xattrs::new()
    } else {
        xattrs(at).map_err(ImageError::file(at))?
    };
    Ok(Entry {
        path,
        node,
        mode,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime,
        xattrs,
    })
}

fn node(
    at: &Path,
    path: &[u8],
    metadata: &Metadata,
    first_names: &Mutex<FirstNames>,
) -> Result<(Node, Data)> {
    if metadata.nlink() > 1 && !metadata.is_dir() {
        let mut first_names = first_names.lock().unwrap_or_else(PoisonError::into_inner);
        match first_names.get(&(metadata.dev(), metadata.ino())) {
            Some(first) => return Ok((Node::Link { to: first.clone() }, Data::default())),
            None => _ = first_names.insert((metadata.dev(), metadata.ino()), path.to_vec()),
        }
    }
    let device = (major(metadata.rdev()), minor(metadata.rdev()));
    let node = match FileType::from_mode(metadata.mode() as u16) {
        Some(FileType::Directory) => Node::Directory,
        Some(FileType::Symlink) => Node::Symlink {
            target: fs::read_link(at)
                .map_err(ImageError::file(at))?
                .into_os_string()
                .into_vec(),
        },
        Some(FileType::Fifo) => Node::Fifo,
        Some(FileType::Socket) => Node::Socket,
        Some(FileType::Character) => Node::Character { device },
        Some(FileType::Block) => Node::Block { device },
        Some(FileType::File) | None => {
            let size = metadata.len();
            return Ok((Node::File { size }, contents(at, metadata)?));
        }
    };
    Ok((node, Data::default()))
}

/// Where a file's contents are.
pub fn contents(at: &Path, metadata: &Metadata) -> Result<Data> {
    let size = metadata.len();
    // Fewer blocks than bytes: holes, or a file system that compresses.
    let sparse = metadata.blocks() * 512 < size;
    if sparse {
        holes(at, size).map_err(ImageError::file(at))
    } else {
        Ok(Data::whole(at.into(), size))
    }
}

fn holes(at: &Path, size: u64) -> io::Result<Data> {
    let file = File::open(at)?;
    let mut extents = Vec::new();
    let mut next = 0;
    while next < size {
        let from = match seek(&file, SeekFrom::Data(next)) {
            Ok(from) => from,
            Err(Errno::NXIO) => break,
            Err(_) => return Ok(Data::whole(at.into(), size)),
        };
        next = seek(&file, SeekFrom::Hole(from))?.min(size);
        extents.push(Extent {
            at: from,
            from,
            len: next - from,
        });
    }
    Ok(Data {
        origin: Some(Origin::Path(PathBuf::from(at))),
        extents,
    })
}

/// The attributes that can be read, by name.
fn xattrs(at: &Path) -> io::Result<Xattrs> {
    let mut names = vec![0; 1024];
    let len = loop {
        match llistxattr(at, &mut names[..]) {
            Ok(len) => break len,
            Err(Errno::RANGE) if names.len() < 1 << 20 => names.resize(names.len() * 8, 0),
            Err(Errno::NOTSUP) => break 0,
            Err(error) => return Err(error.into()),
        }
    };
    let mut xattrs = Xattrs::new();
    for name in names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        // The longest value that Linux has.
        let mut value = vec![0; 64 << 10];
        match lgetxattr(at, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                xattrs.push((name.to_vec(), value));
            }
            // Gone meanwhile, or made up by the file system for those who may ask.
            Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}
