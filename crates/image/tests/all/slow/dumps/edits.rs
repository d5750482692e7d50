//! Random edits of a dump through its own file system, and what must be in it afterwards.

use super::guests::Dump;
use nandlab_image::edit::edit;
use nandlab_image::volume::{Opening, Volume};
use nandlab_image::{ImageError, Result, Shown};
use nandlab_sim::mix;
use nandlab_testkit::files::{NOW, bytes};
use nandlab_vfs::{Caller, Errno, FileSystem, NewNode, Rename, path, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const EDITS: u64 = 40;
/// Bytes of a new file at most.
const FILE_BYTES_MAX: u64 = 9000;

/// The names that edits choose from, and the contents that they gave.
struct Known {
    files: BTreeSet<Vec<u8>>,
    directories: BTreeSet<Vec<u8>>,
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
    random: u64,
}

impl Known {
    fn of(fs: &mut dyn FileSystem, seed: u64) -> std::result::Result<Self, Errno> {
        let mut known = Self {
            files: BTreeSet::new(),
            directories: BTreeSet::new(),
            contents: BTreeMap::new(),
            random: seed,
        };
        let all = tree::snapshot(fs)?;
        for (name, entry) in all {
            match entry.attr.kind {
                nandlab_vfs::FileType::Directory => known.directories.insert(name),
                _ => known.files.insert(name),
            };
        }
        Ok(known)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mix(self.random, 1);
        self.random % below
    }

    fn pick(&mut self, directories: bool) -> Vec<u8> {
        let count = if directories {
            self.directories.len()
        } else {
            self.files.len()
        };
        let at = self.draw(count as u64) as usize;
        let all = if directories {
            &self.directories
        } else {
            &self.files
        };
        all.iter().nth(at).unwrap().clone()
    }

    /// A name that is new.
    fn fresh(&mut self, what: &str, turn: u64) -> Vec<u8> {
        let dir = self.pick(true);
        let name = format!("{what} {turn}");
        if dir.is_empty() {
            name.into()
        } else {
            [&dir, &b"/"[..], name.as_bytes()].concat()
        }
    }

    /// One edit, in words.
    fn step(
        &mut self,
        fs: &mut dyn FileSystem,
        turn: u64,
    ) -> std::result::Result<(), (Vec<u8>, Errno)> {
        match self.draw(8) {
            0..4 => {
                let name = self.fresh("put", turn);
                let len = self.draw(FILE_BYTES_MAX) as usize;
                let data = bytes(self.random, len);
                put(fs, &name, &data).map_err(|error| (name.clone(), error))?;
                self.files.insert(name.clone());
                self.contents.insert(name, data);
            }
            4 => {
                let name = self.pick(false);
                remove(fs, &name).map_err(|error| (name.clone(), error))?;
                self.files.remove(&name);
                self.contents.remove(&name);
            }
            5 => {
                let name = self.fresh("mkdir", turn);
                mkdir(fs, &name).map_err(|error| (name.clone(), error))?;
                self.directories.insert(name);
            }
            _ => {
                let name = self.pick(false);
                let to = self.fresh("mv", turn);
                rename(fs, &name, &to).map_err(|error| (name.clone(), error))?;
                self.files.remove(&name);
                self.files.insert(to.clone());
                if let Some(data) = self.contents.remove(&name) {
                    self.contents.insert(to, data);
                }
            }
        }
        Ok(())
    }
}

type Done = std::result::Result<(), Errno>;

fn put(fs: &mut dyn FileSystem, name: &[u8], data: &[u8]) -> Done {
    let (dir, last) = path::parent(fs, name)?;
    let made = fs.create(dir, last, NewNode::File, 0o640, Caller::root(NOW))?;
    let mut done = 0;
    while done < data.len() {
        done += fs.write(made.ino, done as u64, &data[done..], NOW)?;
    }
    fs.forget(made.ino, 1);
    fs.forget(dir, 1);
    Ok(())
}

fn remove(fs: &mut dyn FileSystem, name: &[u8]) -> Done {
    let (dir, last) = path::parent(fs, name)?;
    fs.unlink(dir, last, NOW)?;
    fs.forget(dir, 1);
    Ok(())
}

fn mkdir(fs: &mut dyn FileSystem, name: &[u8]) -> Done {
    let (dir, last) = path::parent(fs, name)?;
    let made = fs.mkdir(dir, last, 0o711, Caller::root(NOW))?;
    fs.forget(made.ino, 1);
    fs.forget(dir, 1);
    Ok(())
}

fn rename(fs: &mut dyn FileSystem, from: &[u8], to: &[u8]) -> Done {
    let (old, old_name) = path::parent(fs, from)?;
    let (new, new_name) = path::parent(fs, to)?;
    fs.rename((old, old_name), (new, new_name), Rename::Replace, NOW)?;
    fs.forget(old, 1);
    fs.forget(new, 1);
    Ok(())
}

/// Edits the dump in a file. Gives the contents that files must have then.
pub fn edited(dump: &Dump, image: &Path, seed: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    std::fs::write(image, &dump.bytes).map_err(ImageError::file(image))?;
    let all = |volume: &mut Volume| {
        let fs = volume.fs()?;
        let failed = |(name, error): (Vec<u8>, Errno)| ImageError::Call {
            path: Shown::path(&name),
            error,
            why: String::new(),
        };
        let mut known = Known::of(fs, seed).map_err(|error| failed((Vec::new(), error)))?;
        for turn in 0..EDITS {
            known.step(fs, turn).map_err(failed)?;
        }
        Ok(known.contents)
    };
    let more = EDITS * FILE_BYTES_MAX;
    edit(image, &Opening::default(), more, all)
}
