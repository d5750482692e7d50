//! Changes on a file system, and what each of them promises.

use super::expected::{Expectations, Expected};
use crate::files::{NOW, bytes, put};
use nandlab_block::{Ram, WriteLog};
use nandlab_sim::mix;
use nandlab_vfs::{Caller, FileSystem, Ino, Mounted, Rename, SetAttr, Sync};
use std::collections::BTreeMap;

/// A run of changes while it is made. Methods panic if the file system refuses a call, or if a file
/// does not hold durable contents first.
pub struct Story<F> {
    /// The file system under test.
    pub fs: F,
    /// What must be there from now on.
    pub now: Expectations,
    /// Truncated data may be zeros in part.
    pub in_place: bool,
    /// Counts the writes of the disk so far.
    changes: fn(&mut F) -> usize,
    promised: Vec<(usize, Expectations)>,
    dirs: BTreeMap<String, Ino>,
}

impl<F: FileSystem> Story<F> {
    /// Begins on a mounted file system, with what it must already hold. `changes` counts the
    /// records of the log below.
    pub fn new(fs: F, changes: fn(&mut F) -> usize, now: Expectations) -> Self {
        Self {
            fs,
            now: now.clone(),
            in_place: false,
            changes,
            promised: vec![(0, now)],
            dirs: BTreeMap::from([(String::new(), Ino::ROOT)]),
        }
    }

    /// Makes a file and an fsync.
    pub fn create(&mut self, path: &str, data: &[u8]) {
        self.set(path, Expected::Open);
        let (dir, name) = self.place(path);
        let file = put(&mut self.fs, dir, name, data);
        self.fs.fsync(file, Sync::All).unwrap();
        self.fs.forget(file, 1);
        self.set(path, Expected::Holds(data.to_vec()));
    }

    /// Appends pieces, each with an fsync, as a camera does.
    pub fn append(&mut self, path: &str, piece: usize, count: usize) {
        let mut data = self.durable(path);
        let file = self.open(path);
        for index in 0..count {
            let more = bytes(mix(data.len() as u64, index as u64), piece);
            self.set(path, Expected::Begins(data.clone()));
            self.fs.write(file, data.len() as u64, &more, NOW).unwrap();
            let what = if index % 2 == 0 {
                Sync::Data
            } else {
                Sync::All
            };
            self.fs.fsync(file, what).unwrap();
            data.extend(more);
            self.set(path, Expected::Holds(data.clone()));
        }
        self.fs.forget(file, 1);
    }

    /// Makes a file without an fsync; fsyncs of other files come in between.
    pub fn scribble(&mut self, path: &str, length: usize) {
        self.set(path, Expected::Open);
        let (dir, name) = self.place(path);
        let file = put(&mut self.fs, dir, name, &bytes(length as u64, length));
        self.fs.forget(file, 1);
    }

    /// Removes a file, which nobody makes durable.
    pub fn unlink(&mut self, path: &str) {
        let gone = match self.now[path].clone() {
            Expected::Holds(data) => Expected::Gone(data),
            _ => Expected::Open,
        };
        self.set(path, gone);
        let (dir, name) = self.place(path);
        self.fs.unlink(dir, name.as_bytes(), NOW).unwrap();
    }

    /// Cuts a file short, with an fsync or without.
    pub fn truncate(&mut self, path: &str, size: usize, durable: bool) {
        let data = self.durable(path);
        let file = self.open(path);
        let cut = if self.in_place {
            Expected::Zeroed
        } else {
            Expected::Cut
        };
        self.set(path, cut(data.clone(), size));
        self.resize(file, size);
        if durable {
            self.fs.fsync(file, Sync::All).unwrap();
            self.set(path, Expected::Holds(data[..size].to_vec()));
        }
        self.fs.forget(file, 1);
    }

    /// Cuts a file short and appends to it, then makes an fsync.
    pub fn regrow(&mut self, path: &str, size: usize, piece: usize) {
        let mut data = self.durable(path);
        let file = self.open(path);
        data.truncate(size);
        self.set(path, Expected::Begins(data.clone()));
        self.resize(file, size);
        let more = bytes(size as u64, piece);
        self.fs.write(file, size as u64, &more, NOW).unwrap();
        self.fs.fsync(file, Sync::All).unwrap();
        self.fs.forget(file, 1);
        data.extend(more);
        self.set(path, Expected::Holds(data));
    }

    /// Appends to a file without an fsync.
    pub fn grow(&mut self, path: &str, piece: usize) {
        let mut data = self.durable(path);
        let file = self.open(path);
        let size = data.len();
        let more = bytes(size as u64, piece);
        data.extend(&more);
        self.set(path, Expected::Grown(size, data));
        self.fs.write(file, size as u64, &more, NOW).unwrap();
        self.fs.forget(file, 1);
    }

    /// Makes a file durable that has [grown](Self::grow).
    pub fn fsync(&mut self, path: &str) {
        let Expected::Grown(_, data) = self.now[path].clone() else {
            panic!("{path} has not grown")
        };
        let file = self.open(path);
        self.fs.fsync(file, Sync::All).unwrap();
        self.fs.forget(file, 1);
        self.set(path, Expected::Holds(data));
    }

    /// Moves a durable file to a free name or over a durable file, then makes a sync.
    pub fn rename(&mut self, from: &str, to: &str) {
        let data = self.durable(from);
        self.now.insert(to.into(), Expected::Open);
        self.set(from, Expected::Either(to.into(), data.clone()));
        let (old, old_name) = self.place(from);
        let (new, new_name) = self.place(to);
        let names = ((old, old_name.as_bytes()), (new, new_name.as_bytes()));
        self.fs
            .rename(names.0, names.1, Rename::Replace, NOW)
            .unwrap();
        self.fs.sync().unwrap();
        self.now.remove(from);
        self.set(to, Expected::Holds(data));
    }

    /// Makes a directory and remembers it.
    pub fn mkdir(&mut self, path: &str) {
        let (dir, name) = self.place(path);
        let by = Caller::root(NOW);
        let made = self.fs.mkdir(dir, name.as_bytes(), 0o755, by).unwrap();
        self.dirs.insert(path.into(), made.ino);
    }

    /// From now on this is promised.
    fn set(&mut self, path: &str, expected: Expected) {
        self.now.insert(path.into(), expected);
        let changes = (self.changes)(&mut self.fs);
        self.promised.push((changes, self.now.clone()));
    }

    fn place<'a>(&self, path: &'a str) -> (Ino, &'a str) {
        let (dir, name) = path.rsplit_once('/').expect("a path from the root");
        (self.dirs[dir], name)
    }

    fn open(&mut self, path: &str) -> Ino {
        let (dir, name) = self.place(path);
        self.fs.lookup(dir, name.as_bytes()).unwrap().ino
    }

    fn durable(&self, path: &str) -> Vec<u8> {
        match self.now[path].clone() {
            Expected::Holds(data) => data,
            other => panic!("{path} is not durable: {other:.60?}"),
        }
    }

    fn resize(&mut self, file: Ino, size: usize) {
        let change = SetAttr {
            size: Some(size as u64),
            ..SetAttr::default()
        };
        self.fs.setattr(file, &change, NOW).unwrap();
    }
}

impl<F: Mounted<WriteLog<Ram>>> Story<F> {
    /// Unmounts, and gives the log and what was promised after how many of its records.
    pub(super) fn end(mut self) -> (WriteLog<Ram>, Vec<(usize, Expectations)>) {
        self.fs.unmount().unwrap();
        (Box::new(self.fs).into_medium(), self.promised)
    }
}
