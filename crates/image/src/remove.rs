//! Entries removed from a file system, with everything below them.
//!
//! *Promises.* Each directory is listed once and each entry looked up once, in its own directory:
//! the number of calls grows with the number of entries, whatever their depth. A directory that
//! leads back to one above it is an error that names its path. *Bounded:* the names of the
//! directories on the way down.

use crate::error::{ImageError, Result, Shown};
use crate::walk::names;
use nandlab_vfs::{Errno, FileSystem, FileType, Ino, Time, path};
use std::collections::BTreeSet;

/// A directory on the way down.
struct Level {
    parent: Ino,
    name: Vec<u8>,
    ino: Ino,
    /// The names that are still to be removed, the last one first.
    below: Vec<Vec<u8>>,
}

/// Removes the entry at a path. A directory must be empty unless `recursive`.
pub fn remove(fs: &mut dyn FileSystem, at: &[u8], recursive: bool, now: Time) -> Result<()> {
    let (dir, name) = path::parent(fs, at).map_err(|error| failed(at, &[], None, error, ""))?;
    let mut removal = Removal {
        fs,
        at,
        recursive,
        now,
        levels: Vec::new(),
        above: BTreeSet::new(),
    };
    let outcome = removal.run(dir, name);
    // After an error, directories on the way down are still referred to.
    let left: Vec<Ino> = removal.levels.iter().map(|level| level.ino).collect();
    left.into_iter().for_each(|ino| fs.forget(ino, 1));
    fs.forget(dir, 1);
    outcome
}

struct Removal<'a> {
    fs: &'a mut dyn FileSystem,
    /// The path of the first entry.
    at: &'a [u8],
    recursive: bool,
    now: Time,
    levels: Vec<Level>,
    /// The inodes of `levels`.
    above: BTreeSet<Ino>,
}

impl Removal<'_> {
    fn run(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        self.entry(dir, name.to_vec())?;
        while let Some(level) = self.levels.last_mut() {
            let ino = level.ino;
            match level.below.pop() {
                Some(name) => self.entry(ino, name)?,
                None => self.leave()?,
            }
        }
        Ok(())
    }

    /// Removes an entry, or goes into it if it is a directory.
    fn entry(&mut self, dir: Ino, name: Vec<u8>) -> Result<()> {
        let found = self.fs.lookup(dir, &name);
        let attr = found.map_err(|error| self.failed(Some(&name), error, ""))?;
        if attr.kind != FileType::Directory {
            let removed = self.fs.unlink(dir, &name, self.now);
            self.fs.forget(attr.ino, 1);
            return removed.map_err(|error| self.failed(Some(&name), error, ""));
        }
        if attr.ino == Ino::ROOT || !self.above.insert(attr.ino) {
            self.fs.forget(attr.ino, 1);
            let why = "the directory leads back to one above it";
            return Err(self.failed(Some(&name), Errno::Loop, why));
        }
        self.levels.push(Level {
            parent: dir,
            name,
            ino: attr.ino,
            below: Vec::new(),
        });
        if self.recursive {
            let below = names(self.fs, attr.ino);
            let mut below = below.map_err(|error| self.failed(None, error, ""))?;
            below.reverse();
            if let Some(level) = self.levels.last_mut() {
                level.below = below;
            }
        }
        Ok(())
    }

    /// Removes the deepest directory, which is empty now.
    fn leave(&mut self) -> Result<()> {
        let Some(level) = self.levels.last() else {
            return Ok(());
        };
        let removed = self.fs.rmdir(level.parent, &level.name, self.now);
        removed.map_err(|error| self.failed(None, error, ""))?;
        if let Some(level) = self.levels.pop() {
            self.above.remove(&level.ino);
            self.fs.forget(level.ino, 1);
        }
        Ok(())
    }

    fn failed(&self, name: Option<&[u8]>, error: Errno, why: &str) -> ImageError {
        failed(self.at, &self.levels, name, error, why)
    }
}

/// An error at the entry `name` of the deepest directory, or at that directory itself.
fn failed(at: &[u8], levels: &[Level], name: Option<&[u8]>, error: Errno, why: &str) -> ImageError {
    let mut path = at.strip_prefix(b"/").unwrap_or(at).to_vec();
    let below = levels.iter().map(|level| &level.name[..]).chain(name);
    // The first one is the last component of `at`.
    for name in below.skip(1) {
        path.push(b'/');
        path.extend(name);
    }
    ImageError::Call {
        path: Shown::path(&path),
        error,
        why: why.into(),
    }
}
