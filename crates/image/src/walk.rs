//! A mounted file system as entries.
//!
//! *Promises.* Each name once, in the order of the paths, with everything its inode holds. Names
//! that no directory can hold, a directory met twice, and unreadable parts are errors. With
//! [`Walk::salvage`] each is a loss that is reported, and the rest goes on: of a file's contents
//! what can be read comes, what cannot becomes a hole.

use crate::error::{ImageError, Result, Shown, has_cause};
use crate::sink::{Bytes, Fill, HOLE, Held, Nothing, ReadAt, Reading, STEP, Sink};
use crate::tree::{Entry, Node, Xattrs, order};
use crate::words::placed;
use crate::workers::{self, Helpers, Queue};
use nandlab_vfs::{Attr, Errno, FileSystem, FileType, Ino, check_name, path, tree};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The deepest directory that is looked into.
const DEPTH_MAX: usize = 1000;
/// What is lost of a name that is no component of a path.
const NO_NAME: &str = "a name that no directory can hold";
/// What is lost where a directory has two entries of one name: a lookup finds the first only.
const TWICE: &str = "a second entry of this name";
/// The most losses that are listed.
const LOSSES_MAX: usize = 10_000;

/// Something that was not to be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The path of the entry that lost something.
    pub path: Shown,
    /// Where what could not be had lies, in bytes of the disk or flash that holds the file system,
    /// if that is one place: the first of it.
    pub offset: Option<u64>,
    /// The loss and its reason, in words.
    pub what: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, placed(self.offset, &self.what))
    }
}

/// Everything that was not to be had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// The losses in the order in which they occurred.
    pub list: Vec<Loss>,
    /// Beyond the most that are listed.
    pub more: u64,
}

impl Losses {
    /// Records a loss of an entry.
    pub fn add(&mut self, path: &[u8], what: impl Into<String>) {
        self.add_at(path, None, what);
    }

    /// Adds one whose place is known.
    pub fn add_at(&mut self, path: &[u8], offset: Option<u64>, what: impl Into<String>) {
        match self.list.len() {
            ..LOSSES_MAX => self.list.push(Loss {
                path: Shown::path(path),
                offset,
                what: what.into(),
            }),
            _ => self.more += 1,
        }
    }

    /// Takes in others; the list is in the order of the paths then, and holds the first of them.
    pub fn merge(&mut self, mut other: Self) {
        if other.is_empty() {
            return;
        }
        self.list.append(&mut other.list);
        self.list.sort_by(|a, b| order(&a.path.0, &b.path.0));
        self.more += other.more + self.list.len().saturating_sub(LOSSES_MAX) as u64;
        self.list.truncate(LOSSES_MAX);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// A walk through a file system.
pub struct Walk<'a> {
    /// What is walked through.
    pub fs: &'a mut dyn FileSystem,
    /// What cannot be read is a loss instead of an error.
    pub salvage: bool,
    /// The losses that the walk met.
    pub losses: Losses,
    /// Bytes that are read of a file at most: more than an image can hold is a circle in it.
    pub(crate) limit: u64,
    /// Called with the bytes of each file that was given.
    pub progress: &'a mut dyn FnMut(u64),
    /// Threads that take contents out, where a sink lets them.
    pub helpers: Option<Helpers<'a>>,
    queue: Option<Queue>,
    buffer: Vec<u8>,
    /// First names of files that have several.
    first_names: BTreeMap<Ino, Vec<u8>>,
    directories: BTreeSet<Ino>,
}

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk")
            .field("salvage", &self.salvage)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl<'a> Walk<'a> {
    /// A walk that fails where something cannot be read, unless `salvage`.
    pub(crate) fn new(
        fs: &'a mut dyn FileSystem,
        salvage: bool,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self {
            fs,
            salvage,
            losses: Losses::default(),
            limit: u64::MAX,
            progress,
            helpers: None,
            queue: None,
            buffer: Vec::new(),
            first_names: BTreeMap::new(),
            directories: BTreeSet::new(),
        }
    }

    /// Gives everything at and below `root`, whose own path becomes the empty one.
    pub fn run(&mut self, root: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let Some(helpers) = self.helpers else {
            return self.through(root, sink);
        };
        let how = How {
            salvage: self.salvage,
            limit: self.limit,
        };
        let losses = workers::run(helpers, root, how, |queue| {
            self.queue = Some(queue);
            let outcome = self.through(root, sink);
            // Also where the walk failed: what was begun is whole.
            let rest = self.queue.take().map_or(Ok(()), Queue::end);
            outcome.and(rest)
        });
        match losses {
            Ok(losses) => self.losses.merge(losses),
            Err(failed) => {
                // What else was met here meanwhile is not the cause of that.
                if failed.explained {
                    self.fs.cause();
                }
                return Err(failed.error);
            }
        }
        Ok(())
    }

    fn through(&mut self, root: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let attr = match path::resolve(self.fs, root) {
            Ok(attr) => attr,
            Err(error) if self.salvage && has_cause(error) => {
                self.lose::<()>(root, "inode", error)?;
                return sink.finish();
            }
            Err(error) => return Err(self.failed(root, error)),
        };
        let outcome = self.visit(&attr, Vec::new(), 0, sink);
        self.fs.forget(attr.ino, 1);
        outcome?;
        sink.finish()
    }

    fn failed(&self, path: &[u8], error: Errno) -> ImageError {
        ImageError::Call {
            path: Shown::path(path),
            error,
            why: String::new(),
        }
    }

    /// A failure as a loss, where that is wanted.
    fn lose<T>(&mut self, path: &[u8], what: &str, error: Errno) -> Result<Option<T>> {
        if !self.salvage {
            return Err(ImageError::Call {
                path: Shown::path(path),
                error,
                why: what.into(),
            });
        }
        let (offset, what) = explained(self.fs, what.into(), error);
        self.losses.add_at(path, offset, what);
        Ok(None)
    }

    fn visit(
        &mut self,
        attr: &Attr,
        path: Vec<u8>,
        depth: usize,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let Some(entry) = self.entry(attr, path)? else {
            return Ok(());
        };
        if let Node::File { size } = entry.node {
            let begun = if self.queue.is_some() {
                sink.begin(&entry, attr.links > 1)?
            } else {
                None
            };
            let how = How {
                salvage: self.salvage,
                limit: self.limit,
            };
            match (&mut self.queue, begun) {
                (Some(queue), Some(fill)) => {
                    let here =
                        size <= STEP as u64 && self.helpers.is_some_and(|helpers| !helpers.unpack);
                    let held = match here {
                        true => {
                            let kept = (&mut self.losses, queue.buffer(size));
                            Some(hold(self.fs, attr, &entry, how, kept)?)
                        }
                        false => None,
                    };
                    queue.give(entry, fill, held)?;
                }
                _ => give(
                    self.fs,
                    attr,
                    &entry,
                    how,
                    (&mut self.losses, &mut self.buffer),
                    |bytes| sink.put(&entry, bytes),
                )?,
            }
            (self.progress)(size);
            return Ok(());
        }
        sink.put(&entry, &mut Nothing)?;
        if entry.node == Node::Directory {
            if depth >= DEPTH_MAX || !self.directories.insert(attr.ino) {
                return self
                    .lose(
                        &entry.path,
                        "directory within itself, or too deep",
                        Errno::Loop,
                    )
                    .map(|_: Option<()>| ());
            }
            self.below(attr, &entry.path, depth, sink)?;
        }
        Ok(())
    }

    fn below(&mut self, dir: &Attr, path: &[u8], depth: usize, sink: &mut dyn Sink) -> Result<()> {
        let mut names = BTreeSet::new();
        let mut twice = Vec::new();
        let listed = self.fs.readdir(dir.ino, 0, &mut |entry| {
            if !names.insert(entry.name.to_vec()) {
                twice.push(entry.name.to_vec());
            }
            true
        });
        if let Err(error) = listed {
            self.lose::<()>(path, "names of the directory", error)?;
        }
        let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
        let below_of = |name: &[u8]| [path, separator, name].concat();
        for name in twice {
            self.lose::<()>(&below_of(&name), TWICE, Errno::Exists)?;
        }
        for name in names {
            let below = below_of(&name);
            if check_name(&name).is_err() {
                self.lose::<()>(&below, NO_NAME, Errno::Invalid)?;
                continue;
            }
            let attr = match self.fs.lookup(dir.ino, &name) {
                Ok(attr) => attr,
                Err(error) => {
                    self.lose::<()>(&below, "inode", error)?;
                    continue;
                }
            };
            let outcome = self.visit(&attr, below, depth + 1, sink);
            self.fs.forget(attr.ino, 1);
            outcome?;
        }
        Ok(())
    }

    fn entry(&mut self, attr: &Attr, path: Vec<u8>) -> Result<Option<Entry>> {
        let first = if attr.links > 1 && attr.kind != FileType::Directory {
            self.first_names.get(&attr.ino)
        } else {
            None
        };
        let node = match attr.kind {
            _ if first.is_some() => Node::Link {
                to: first.cloned().unwrap_or_default(),
            },
            FileType::Directory => Node::Directory,
            FileType::File => Node::File { size: attr.size },
            FileType::Symlink => match self.fs.readlink(attr.ino) {
                Ok(target) => Node::Symlink { target },
                Err(error) => return self.lose(&path, "target of the symbolic link", error),
            },
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            FileType::Character => Node::Character {
                device: attr.device,
            },
            FileType::Block => Node::Block {
                device: attr.device,
            },
        };
        if attr.links > 1 && first.is_none() && attr.kind != FileType::Directory {
            self.first_names.insert(attr.ino, path.clone());
        }
        let xattrs = self.xattrs(attr.ino, &path)?;
        Ok(Some(Entry {
            path,
            node,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            mtime: attr.mtime,
            xattrs,
        }))
    }

    fn xattrs(&mut self, ino: Ino, path: &[u8]) -> Result<Xattrs> {
        let names = match self.fs.listxattr(ino) {
            Ok(names) => names,
            Err(Errno::NotSupported) => return Ok(Xattrs::new()),
            Err(error) => self
                .lose(path, "names of attributes", error)?
                .unwrap_or_default(),
        };
        let mut xattrs = Xattrs::new();
        for name in names {
            match self.fs.getxattr(ino, &name) {
                Ok(value) => xattrs.push((name, value)),
                Err(error) => {
                    let what = format!("attribute {}", Shown(name));
                    self.lose::<()>(path, &what, error)?;
                }
            }
        }
        xattrs.sort();
        Ok(xattrs)
    }
}

/// How contents are read.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub salvage: bool,
    /// Bytes of a file at most.
    pub limit: u64,
}

/// Reads a file of up to [`STEP`] bytes into a buffer, whatever that held before.
fn hold(
    fs: &mut dyn FileSystem,
    attr: &Attr,
    entry: &Entry,
    how: How,
    (losses, mut buffer): (&mut Losses, Vec<u8>),
) -> Result<Held> {
    let mut map = Vec::new();
    let from = give(fs, attr, entry, how, (losses, &mut buffer), |bytes| {
        bytes.each(&mut |at, data| {
            map.push((at, data.len() as u64));
            Ok(())
        })?;
        Ok(bytes.from())
    })?;
    Ok(Held::new(map, buffer, from))
}

/// Passes an inode's contents to the sink; what is lost is noted, and the buffer may have been used
/// before.
fn give<T>(
    fs: &mut dyn FileSystem,
    attr: &Attr,
    entry: &Entry,
    how: How,
    (losses, buffer): (&mut Losses, &mut Vec<u8>),
    take: impl FnOnce(&mut Reading<Contents<'_>>) -> Result<T>,
) -> Result<T> {
    let contents = Contents {
        fs,
        attr,
        entry,
        salvage: how.salvage,
        left: how.limit,
        lost: Vec::new(),
    };
    let mut bytes = Reading::with(contents, std::mem::take(buffer));
    let outcome = take(&mut bytes);
    let contents;
    (contents, *buffer) = bytes.into_parts();
    for Lost {
        from,
        to,
        offset,
        why,
    } in contents.lost
    {
        losses.add_at(
            &entry.path,
            offset,
            format!("bytes {from} to {to} cannot be read{why}"),
        );
    }
    outcome
}

/// A failure in words, with what the file system knows of it and its place.
fn explained(fs: &mut dyn FileSystem, what: String, error: Errno) -> (Option<u64>, String) {
    match fs.cause().filter(|_| has_cause(error)) {
        Some(cause) => (cause.at, format!("{what}: {}", cause.what())),
        None => (None, format!("{what}: {error}")),
    }
}

/// Reads the file `name` in a directory, which was met as `entry`, into where it goes.
pub(crate) fn read_into(
    fs: &mut dyn FileSystem,
    (dir, name): (Ino, &[u8]),
    entry: &Entry,
    how: How,
    (losses, buffer): (&mut Losses, &mut Vec<u8>),
    fill: Box<dyn Fill>,
) -> Result<()> {
    let attr = fs.lookup(dir, name).map_err(|error| ImageError::Call {
        path: Shown::path(&entry.path),
        error,
        why: String::new(),
    })?;
    let outcome = give(fs, &attr, entry, how, (losses, buffer), |bytes| {
        fill.fill(entry, bytes)
    });
    fs.forget(attr.ino, 1);
    losses.merge(outcome?);
    Ok(())
}

/// A file's contents as the file system gives them.
struct Contents<'a> {
    fs: &'a mut dyn FileSystem,
    attr: &'a Attr,
    entry: &'a Entry,
    salvage: bool,
    /// Bytes that may still be read.
    left: u64,
    /// What could not be read, in order.
    lost: Vec<Lost>,
}

/// Bytes of a file that cannot be read.
struct Lost {
    from: u64,
    to: u64,
    /// Where the first of them should be.
    offset: Option<u64>,
    why: String,
}

/// What is read at once where something cannot be read.
const LEAST: usize = 512;

/// A side of a part of a file.
#[derive(Clone, Copy)]
enum Side {
    Front,
    Back,
}

impl Contents<'_> {
    fn read(&mut self, at: u64, buf: &mut [u8]) -> std::result::Result<(), Errno> {
        let mut done = 0;
        while done < buf.len() {
            match self
                .fs
                .read(self.attr.ino, at + done as u64, &mut buf[done..])?
            {
                // Shorter than it said: zeros.
                0 => break,
                count => done += count,
            }
        }
        buf[done..].fill(0);
        Ok(())
    }

    /// Contents may be read twice, and what is lost of them is reported once; of what adjoins, why
    /// the first was.
    fn lose(
        &mut self,
        from: u64,
        to: u64,
        why: impl FnOnce(&mut dyn FileSystem) -> (Option<u64>, String),
    ) {
        let next = self.lost.partition_point(|lost| lost.from <= from);
        match next.checked_sub(1).map(|before| &mut self.lost[before]) {
            Some(before) if from <= before.to => before.to = before.to.max(to),
            _ => {
                let (offset, why) = why(self.fs);
                self.lost.insert(
                    next,
                    Lost {
                        from,
                        to,
                        offset,
                        why,
                    },
                );
            }
        }
    }

    /// Reads what can be had of a part, and leaves zeros in place of the rest.
    fn read_rest(&mut self, at: u64, buf: &mut [u8]) {
        for (from, part) in (at..).step_by(LEAST).zip(buf.chunks_mut(LEAST)) {
            let Err(error) = self.read(from, part) else {
                continue;
            };
            // Nodes of JFFS2 begin and end anywhere.
            let lost_from = self.readable(from, part, Side::Front);
            let lost_to = part.len() - self.readable(from, part, Side::Back);
            part[lost_from..lost_to].fill(0);
            // The reads of single bytes have replaced the cause.
            let error = self
                .read(from + lost_from as u64, &mut [0])
                .err()
                .unwrap_or(error);
            self.lose(from + lost_from as u64, from + lost_to as u64, |fs| {
                explained(fs, String::new(), error)
            });
        }
    }

    /// Bytes at a side of a part that can be read although the whole part cannot.
    fn readable(&mut self, from: u64, part: &mut [u8], side: Side) -> usize {
        let mut can = 0;
        let mut cannot = part.len();
        while cannot - can > 1 {
            let tried = match can {
                0 if cannot == part.len() => 1,
                _ => can + (cannot - can) / 2,
            };
            let start = match side {
                Side::Front => 0,
                Side::Back => part.len() - tried,
            };
            match self.read(from + start as u64, &mut part[start..start + tried]) {
                Ok(()) => can = tried,
                Err(_) if tried == 1 => break,
                Err(_) => cannot = tried,
            }
        }
        can
    }
}

impl ReadAt for Contents<'_> {
    fn size(&self) -> u64 {
        self.attr.size
    }

    fn next_data(&mut self, at: u64) -> u64 {
        if self.left == 0 {
            self.lose(at, self.attr.size, |_| {
                (None, ": more data than the image could hold".into())
            });
            return self.attr.size;
        }
        // Reading decides where the finding does not.
        self.fs.next_data(self.attr.ino, at).unwrap_or(at)
    }

    fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        self.left = self.left.saturating_sub(buf.len() as u64);
        let circle = self.left == 0 && !self.salvage;
        match self.read(at, buf) {
            Ok(()) if circle => {
                let why = "more data than the image could hold".into();
                return Err(ImageError::Call {
                    path: Shown::path(&self.entry.path),
                    error: Errno::FileTooBig,
                    why,
                });
            }
            Ok(()) => return Ok(()),
            Err(error) if !self.salvage => {
                return Err(ImageError::Call {
                    path: Shown::path(&self.entry.path),
                    error,
                    why: format!("reading from byte {at}"),
                });
            }
            Err(_) => {}
        }
        for (from, part) in (at..)
            .step_by(HOLE as usize)
            .zip(buf.chunks_mut(HOLE as usize))
        {
            if self.read(from, part).is_err() {
                self.read_rest(from, part);
                // Nothing is read around what is lost: it counts as much as if there were.
                self.left = self.left.saturating_sub(STEP as u64 - HOLE);
            }
        }
        Ok(())
    }
}

/// The attributes and everything else of one path.
pub fn one(fs: &mut dyn FileSystem, path: &[u8]) -> Result<(Attr, Entry)> {
    let failed = |error| ImageError::Call {
        path: Shown::path(path),
        error,
        why: String::new(),
    };
    let attr = path::resolve(fs, path).map_err(failed)?;
    let mut nothing = |_| {};
    let mut walk = Walk::new(fs, false, &mut nothing);
    let entry = walk.entry(&attr, path.to_vec());
    fs.forget(attr.ino, 1);
    let entry = entry?.ok_or(ImageError::Call {
        path: Shown::path(path),
        error: Errno::Io,
        why: String::new(),
    })?;
    Ok((attr, entry))
}

/// Gives the entries of a directory, in the order of their names. An entry that cannot be shown is
/// a loss, and the others follow.
pub fn each_in(
    fs: &mut dyn FileSystem,
    dir: Ino,
    path: &[u8],
    take: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<Losses> {
    let mut nothing = |_| {};
    let mut walk = Walk::new(fs, true, &mut nothing);
    let listed = names(walk.fs, dir).map_err(|error| walk.failed(path, error))?;
    let mut before: Option<Vec<u8>> = None;
    for name in listed {
        let shown = [path, b"/", &name].concat();
        let slashes = shown.iter().take_while(|byte| **byte == b'/').count();
        let shown = &shown[slashes..];
        if before.as_ref() == Some(&name) {
            walk.lose::<()>(shown, TWICE, Errno::Exists)?;
        } else if check_name(&name).is_err() {
            walk.lose::<()>(shown, NO_NAME, Errno::Invalid)?;
        } else {
            match walk.fs.lookup(dir, &name) {
                Ok(attr) => {
                    let entry = walk.entry(&attr, name.clone());
                    walk.fs.forget(attr.ino, 1);
                    entry?.map_or(Ok(()), &mut *take)?;
                }
                Err(error) => walk.lose(shown, "inode", error)?.unwrap_or(()),
            }
        }
        before = Some(name);
    }
    Ok(walk.losses)
}

/// The names in a directory, sorted.
pub fn names(fs: &mut dyn FileSystem, dir: Ino) -> std::result::Result<Vec<Vec<u8>>, Errno> {
    let mut names: Vec<Vec<u8>> = tree::names(fs, dir)?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    Ok(names)
}
