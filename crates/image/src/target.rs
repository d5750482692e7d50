//! Where the entries of a tree are put when an image is made: any file system on a disk, a volume
//! of UBIFS, or a medium of JFFS2.
//!
//! *Promises.* Entries and parts of contents go in the order in which they are given, with
//! everything they have; what is prepared on other threads changes nothing. *Knows nothing of*
//! files of the operating system.

use crate::error::{ImageError, Result, Shown};
use crate::sink::parts;
use crate::tree::{Entry, Node};
use crate::walk::Losses;
use nandlab_jffs2::{Contents, Maker, Packer};
use nandlab_mtd::Mtd;
use nandlab_ubifs::{Lebs, Packed, Ubifs};
use nandlab_vfs::{
    Caller, Errno, FileSystem, FileType, Ino, NewNode, SetAttr, SetXattr, Time, path,
};

/// A format that takes a tree entry by entry.
pub trait Target {
    /// What a thread keeps to prepare contents.
    type Scratch;
    /// Contents that a worker prepared.
    type Part: Send;

    /// How contents are prepared, on any thread: a part of a file that begins at a place.
    fn prepare(
        &self,
    ) -> impl Fn(&mut Self::Scratch, u64, Vec<u8>) -> Self::Part + Send + Sync + 'static;

    /// Returns the buffers of one worker thread.
    fn scratch() -> Self::Scratch;

    fn entry(&mut self, entry: &Entry) -> Result<()>;

    /// Takes the next part of the contents of the entry before.
    fn part(&mut self, part: Self::Part) -> Result<()>;
}

/// A mounted file system that is being filled.
#[derive(Debug)]
pub struct Volume<F> {
    fs: F,
    /// From the root down to where the last entry went.
    open: Vec<(Entry, Ino)>,
    file: Option<(Entry, Ino, u64)>,
    lossy: bool,
    losses: Losses,
}

/// Bytes of a file that are no holes, with their places in `data`, which lies at `at`.
#[derive(Debug)]
pub struct Runs {
    at: u64,
    data: Vec<u8>,
    runs: Vec<(usize, usize)>,
}

impl Runs {
    fn new(at: u64, data: Vec<u8>) -> Self {
        Self {
            at,
            runs: parts(at, &data),
            data,
        }
    }
}

/// Writes bytes of a run, which has a number in its part, at a place of a file.
type Write<'a, F> =
    &'a mut dyn FnMut(&mut F, Ino, usize, (u64, &[u8]), Time) -> std::result::Result<usize, Errno>;

impl<F: FileSystem> Volume<F> {
    /// An empty file system. With `lossy` what it refuses is listed and left out.
    pub fn new(fs: F, lossy: bool) -> Self {
        Self {
            fs,
            open: Vec::new(),
            file: None,
            lossy,
            losses: Losses::default(),
        }
    }

    /// Ends it: everything is on the medium.
    pub fn finish(mut self) -> Result<(F, Losses)> {
        self.end_file()?;
        while !self.open.is_empty() {
            self.close()?;
        }
        self.fs.unmount().map_err(|error| failed(b"", error))?;
        Ok((self.fs, self.losses))
    }

    fn close(&mut self) -> Result<()> {
        let Some((entry, ino)) = self.open.pop() else {
            return Ok(());
        };
        // Last, since every name that is made changes its directory's time.
        let change = SetAttr {
            mtime: Some(entry.mtime),
            atime: Some(entry.mtime),
            ..SetAttr::default()
        };
        let set = self.fs.setattr(ino, &change, entry.mtime);
        self.fs.forget(ino, 1);
        set.map(drop).map_err(|error| failed(&entry.path, error))
    }

    fn end_file(&mut self) -> Result<()> {
        let Some((entry, ino, end)) = self.file.take() else {
            return Ok(());
        };
        let mut outcome = Ok(());
        if end < entry.size() {
            let change = SetAttr {
                size: Some(entry.size()),
                mtime: Some(entry.mtime),
                ..SetAttr::default()
            };
            outcome = self.fs.setattr(ino, &change, entry.mtime).map(drop);
        }
        self.fs.forget(ino, 1);
        outcome.map_err(|error| failed(&entry.path, error))
    }

    fn refused(&mut self, entry: &Entry, what: &str, error: Errno) -> Result<()> {
        if !self.lossy || matches!(error, Errno::NoSpace | Errno::Io) {
            return Err(ImageError::Call {
                path: Shown::path(&entry.path),
                error,
                why: what.into(),
            });
        }
        self.losses
            .add(&entry.path, format!("{what}: {error}: left out"));
        Ok(())
    }

    fn describe(&mut self, entry: &Entry, ino: Ino) -> Result<()> {
        for (name, value) in &entry.xattrs {
            if let Err(error) = self
                .fs
                .setxattr(ino, name, value, SetXattr::Any, entry.mtime)
            {
                self.refused(
                    entry,
                    &format!("attribute {} of {} bytes", Shown(name.clone()), value.len()),
                    error,
                )?;
            }
        }
        Ok(())
    }

    fn root(&mut self, entry: &Entry) -> Result<()> {
        let change = SetAttr {
            mode: Some(entry.mode),
            uid: Some(entry.uid),
            gid: Some(entry.gid),
            ..SetAttr::default()
        };
        match self.fs.setattr(Ino::ROOT, &change, entry.mtime) {
            // FAT's root has no attributes at all.
            Ok(_) | Err(Errno::NotPermitted) => {}
            Err(error) => return Err(failed(b"", error)),
        }
        self.describe(entry, Ino::ROOT)?;
        self.open.push((entry.clone(), Ino::ROOT));
        Ok(())
    }

    fn make(
        &mut self,
        entry: &Entry,
        dir: Ino,
        node: NewNode<'_>,
    ) -> std::result::Result<Ino, Errno> {
        let by = Caller {
            uid: entry.uid,
            gid: entry.gid,
            now: entry.mtime,
        };
        let made = match self.fs.create(dir, entry.name(), node, entry.mode, by) {
            // mkfs has made it already.
            Err(Errno::Exists) if entry.path == b"lost+found" && node == NewNode::Directory => {
                self.fs.lookup(dir, entry.name())?
            }
            made => made?,
        };
        // A directory's set-gid bit is no business of ours.
        let owners = made.uid == entry.uid && made.gid == entry.gid;
        if (!owners || made.mode != entry.mode) && made.kind != FileType::Symlink {
            let change = SetAttr {
                mode: Some(entry.mode),
                uid: Some(entry.uid),
                gid: Some(entry.gid),
                ..SetAttr::default()
            };
            match self.fs.setattr(made.ino, &change, entry.mtime) {
                // No owners, or no such permissions: nothing is held against an entry for that.
                Ok(_) | Err(Errno::NotPermitted) => {}
                Err(error) => {
                    self.fs.forget(made.ino, 1);
                    return Err(error);
                }
            }
        }
        Ok(made.ino)
    }

    /// Writes the next part of the contents of the entry before.
    fn put(&mut self, part: &Runs, write: Write<'_, F>) -> Result<()> {
        let Some((entry, ino, end)) = &mut self.file else {
            return Ok(());
        };
        for (run, (from, to)) in part.runs.iter().enumerate() {
            let mut from = *from;
            while from < *to {
                let place = (part.at + from as u64, &part.data[from..*to]);
                let count = write(&mut self.fs, *ino, run, place, entry.mtime)
                    .map_err(|error| failed(&entry.path, error))?;
                if count == 0 {
                    return Err(failed(&entry.path, Errno::NoSpace));
                }
                from += count;
            }
            *end = part.at + *to as u64;
        }
        Ok(())
    }

    fn link(&mut self, entry: &Entry, dir: Ino, to: &[u8]) -> std::result::Result<(), Errno> {
        let found = path::resolve(&mut self.fs, to)?;
        let linked = self.fs.link(found.ino, dir, entry.name(), entry.mtime);
        self.fs.forget(found.ino, 1 + u64::from(linked.is_ok()));
        linked.map(drop)
    }
}

fn failed(path: &[u8], error: Errno) -> ImageError {
    ImageError::Call {
        path: Shown::path(path),
        error,
        why: String::new(),
    }
}

impl<F: FileSystem> Target for Volume<F> {
    type Scratch = ();
    type Part = Runs;

    fn prepare(&self) -> impl Fn(&mut (), u64, Vec<u8>) -> Runs + Send + Sync + 'static {
        |(), at, data| Runs::new(at, data)
    }

    fn scratch() {}

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        self.end_file()?;
        if entry.path.is_empty() {
            return self.root(entry);
        }
        let above = &entry.path[..entry.path.len().saturating_sub(entry.name().len() + 1)];
        while self.open.last().is_some_and(|(open, _)| {
            open.path.len() > above.len() || !above.starts_with(&open.path)
        }) {
            self.close()?;
        }
        let dir = match self.open.last() {
            Some((open, ino)) if open.path == above => *ino,
            _ => return self.refused(entry, "its directory is not there", Errno::NoEntry),
        };
        let made = match entry.node.made() {
            Some(node) => self.make(entry, dir, node),
            None => {
                let Node::Link { to } = &entry.node else {
                    return Ok(());
                };
                return self
                    .link(entry, dir, to)
                    .or_else(|error| self.refused(entry, "one more name", error));
            }
        };
        let ino = match made {
            Ok(ino) => ino,
            Err(error) => return self.refused(entry, "the entry", error),
        };
        self.describe(entry, ino)?;
        match entry.node {
            Node::Directory => self.open.push((entry.clone(), ino)),
            Node::File { .. } => self.file = Some((entry.clone(), ino, 0)),
            _ => self.fs.forget(ino, 1),
        }
        Ok(())
    }

    fn part(&mut self, part: Runs) -> Result<()> {
        self.put(&part, &mut |fs, ino, _, (at, data), now| {
            fs.write(ino, at, data, now)
        })
    }
}

/// A volume of UBIFS that is being filled. Threads pack the contents.
#[derive(Debug)]
pub struct UbifsTarget<L: Lebs> {
    volume: Volume<Ubifs<L>>,
    compressor: u16,
}

impl<L: Lebs> UbifsTarget<L> {
    /// An empty volume. With `lossy` what it refuses is listed and left out.
    pub fn new(fs: Ubifs<L>, lossy: bool) -> Self {
        Self {
            compressor: fs.head().compressor,
            volume: Volume::new(fs, lossy),
        }
    }

    /// Ends it: everything is on the medium.
    pub fn finish(self) -> Result<(Ubifs<L>, Losses)> {
        self.volume.finish()
    }
}

impl<L: Lebs> Target for UbifsTarget<L> {
    type Scratch = nandlab_ubifs::Packer;
    /// The packed contents of each run.
    type Part = (Runs, Vec<Packed>);

    fn prepare(
        &self,
    ) -> impl Fn(&mut Self::Scratch, u64, Vec<u8>) -> Self::Part + Send + Sync + 'static {
        let compressor = self.compressor;
        move |packer, at, data| {
            let runs = Runs::new(at, data);
            let pack = |(from, to): &(usize, usize)| {
                Packed::new(
                    packer,
                    compressor,
                    at + *from as u64,
                    &runs.data[*from..*to],
                )
            };
            let packed = runs.runs.iter().map(pack).collect();
            (runs, packed)
        }
    }

    fn scratch() -> Self::Scratch {
        nandlab_ubifs::Packer::default()
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        self.volume.entry(entry)
    }

    fn part(&mut self, (runs, packed): Self::Part) -> Result<()> {
        self.volume
            .put(&runs, &mut |fs, ino, run, (at, data), now| {
                fs.write_packed(ino, at, (data, &packed[run]), now)
            })
    }
}

/// A medium of JFFS2 that is being made.
#[derive(Debug)]
pub struct Jffs2Target<M> {
    maker: Maker<M>,
    choices: nandlab_jffs2::Format,
}

impl<M: Mtd> Jffs2Target<M> {
    pub fn new(mtd: M, choices: &nandlab_jffs2::Format) -> Result<Self> {
        Ok(Self {
            maker: Maker::new(mtd, choices).map_err(refused)?,
            choices: *choices,
        })
    }

    /// Ends it: the medium, and how many of its blocks hold anything.
    pub fn finish(self) -> Result<(M, u32)> {
        self.maker.finish().map_err(refused)
    }
}

fn refused(error: nandlab_jffs2::FormatError) -> ImageError {
    match error {
        nandlab_jffs2::FormatError::Call { path, error } => ImageError::Call {
            path: Shown::path(path.as_bytes()),
            error,
            why: String::new(),
        },
        error => ImageError::Make {
            format: "JFFS2",
            why: error.to_string(),
        },
    }
}

impl<M: Mtd> Target for Jffs2Target<M> {
    type Scratch = Packer;
    type Part = Contents;

    fn prepare(&self) -> impl Fn(&mut Packer, u64, Vec<u8>) -> Contents + Send + Sync + 'static {
        let choices = self.choices;
        move |packer, at, data| Contents::part(packer, &choices, at, data)
    }

    fn scratch() -> Packer {
        Packer::thorough()
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        use nandlab_jffs2::Made;
        let made = match (&entry.node, entry.node.made()) {
            (Node::File { size }, _) => Made::Parts(*size),
            (Node::Link { to }, _) => Made::Link(to),
            (_, Some(node)) => Made::Node(node),
            (_, None) => return Ok(()),
        };
        let xattrs: Vec<(&[u8], &[u8])> = entry
            .xattrs
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let owner = (entry.uid, entry.gid);
        let entry = nandlab_jffs2::Entry {
            path: &entry.path,
            made,
            mode: entry.mode,
            owner,
            mtime: entry.mtime,
            xattrs: &xattrs,
        };
        self.maker.add(&entry).map_err(refused)
    }

    fn part(&mut self, part: Contents) -> Result<()> {
        self.maker.part(&part).map_err(refused)
    }
}
