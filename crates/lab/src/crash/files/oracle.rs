//! The oracle of files: what each level of promise allows to be found after a power cut.
//!
//! It keeps the tree after each operation called. A journal's tree is one of these, whole; without
//! a journal only single files are promised.

use super::Device;
use super::contents::{Shape, Versions};
use super::found::{Found, look};
use super::model::{FileNumber, Model};
use super::op::FileOp;
use super::volume::Nature;
use crate::crash::subject::{Failure, Kind, Oracle};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a file system promises of a power cut, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// The tree is the one after some operation, contents included: each call happened or did not.
    /// ext3's `data=journal`.
    Atomic,
    /// Names, links and lengths are those after some operation. Each sector of a file is as the
    /// file had it at some moment since its last fsync, never what was not written to this file.
    /// ext3's `data=ordered`.
    Ordered,
    /// The same of names, links and lengths; blocks written since the file's last fsync may hold
    /// anything. ext3's `data=writeback`.
    Structure,
    /// A file that was fsynced is there under its name. What was done to it later may be there in
    /// part, sector by sector, and its length is one that it had: what lies below it was written to
    /// the file. ext2 and FAT in their guarded order.
    Fsynced,
}

/// Knows what may be found.
#[derive(Clone, Debug)]
pub struct FilesOracle {
    promise: Promise,
    pub(super) has_links: bool,
    shape: Shape,
    /// The tree after each operation that changed something, the oldest first.
    pub(super) history: Vec<Arc<Model>>,
    /// The oldest that may be found.
    pub(super) floor: usize,
    /// Since when all contents are durable.
    settled: usize,
    /// Since when a file's own contents are.
    pub(super) synced: BTreeMap<FileNumber, usize>,
    /// Which operations touched a file last.
    touched: BTreeMap<FileNumber, Touched>,
    /// There was a cut: the newest tree is only one of the possibilities.
    cut: bool,
    /// Links are counted as names are: without a journal, only until the first cut.
    pub(super) counts_links: bool,
}

/// The last operations on a file.
#[derive(Clone, Copy, Debug)]
struct Touched {
    any: usize,
    contents: usize,
    length: usize,
}

impl FilesOracle {
    /// For a file system just made, on a disk of sectors of so many bytes.
    pub(super) fn new(nature: Nature, sector: usize) -> Self {
        let Nature {
            promise,
            block,
            is_unix,
            directories,
            by_parts,
            late,
        } = nature;
        Self {
            promise,
            has_links: is_unix,
            shape: Shape {
                sector,
                block,
                by_parts,
                late,
            },
            history: vec![Arc::new(Model::with(directories))],
            floor: 0,
            settled: 0,
            synced: BTreeMap::new(),
            touched: BTreeMap::new(),
            cut: false,
            counts_links: is_unix,
        }
    }

    pub(super) fn last(&self) -> usize {
        self.history.len() - 1
    }

    pub(super) fn newest(&self) -> &Model {
        &self.history[self.last()]
    }

    /// Since when the contents of a file are durable.
    pub(super) fn durable_since(&self, file: FileNumber) -> usize {
        self.synced
            .get(&file)
            .map_or(self.settled, |&since| since.max(self.settled))
    }

    /// The contents of a file, from one operation to another.
    pub(super) fn versions(&self, file: FileNumber, from: usize, to: usize) -> Versions<'_> {
        let of = self.history[from..=to]
            .iter()
            .map(|tree| tree.files.get(&file).map(|bytes| &bytes[..]));
        Versions {
            of: of.collect(),
            shape: self.shape,
        }
    }

    /// Everything up to now is durable.
    fn settle(&mut self) {
        (self.floor, self.settled) = (self.last(), self.last());
        self.synced.clear();
    }

    /// A file is durable, or its contents are; in a journal so is whatever was done before.
    fn synced(&mut self, path: &str, only_contents: bool) {
        let Some(file) = self.newest().file(path) else {
            return;
        };
        let Touched {
            any,
            contents,
            length,
        } = self.touched(file);
        let (since, floor) = match self.promise {
            _ if !only_contents => (self.last(), any),
            Promise::Atomic => (contents, contents),
            // What is overwritten in place needs no commit.
            Promise::Ordered | Promise::Structure | Promise::Fsynced => (contents, length),
        };
        let synced = self.synced.entry(file).or_insert(since);
        *synced = since.max(*synced);
        if self.promise < Promise::Fsynced {
            self.floor = self.floor.max(floor);
        }
    }

    fn touched(&self, file: FileNumber) -> Touched {
        let never = Touched {
            any: self.settled,
            contents: self.settled,
            length: self.settled,
        };
        self.touched.get(&file).copied().unwrap_or(never)
    }

    /// The newest operation touched a file.
    fn touch(&mut self, file: FileNumber) {
        let (newest, before) = (self.last(), self.touched(file));
        let bytes = |at: usize| self.history[at].files.get(&file);
        let is_same = |same: fn(&[u8], &[u8]) -> bool| matches!((bytes(newest - 1), bytes(newest)), (Some(old), Some(new)) if same(old, new));
        let contents = if is_same(|old, new| old == new) {
            before.contents
        } else {
            newest
        };
        let length = if is_same(|old, new| old.len() == new.len()) {
            before.length
        } else {
            newest
        };
        self.touched.insert(
            file,
            Touched {
                any: newest,
                contents,
                length,
            },
        );
    }

    /// Finds the tree among those that are allowed, which is from now on the one expected.
    fn settle_on(&mut self, found: BTreeMap<String, Found>) -> Result<(), String> {
        if self.promise == Promise::Fsynced {
            let tree = self.loosely(&found).map_err(|wrong| listed(&wrong))?;
            self.history.push(Arc::new(tree));
            return Ok(());
        }
        let mut nearest: Option<(usize, Vec<String>)> = None;
        for at in (self.floor..=self.last()).rev() {
            let wrong = self.wrong(&found, at, self.promise);
            if wrong.is_empty() {
                self.take(at, found);
                return Ok(());
            }
            if nearest
                .as_ref()
                .is_none_or(|(_, least)| wrong.len() < least.len())
            {
                nearest = Some((at, wrong));
            }
        }
        let (at, wrong) = nearest.unwrap_or_default();
        Err(format!(
            "the tree after none of the changes {} to {} is found; nearest is {at}, but {}",
            self.floor,
            self.last(),
            listed(&wrong)
        ))
    }

    /// What was recovered is durable.
    fn take(&mut self, at: usize, found: BTreeMap<String, Found>) {
        let mut tree = (*self.history[at]).clone();
        tree.numbers_after(self.newest());
        for (path, node) in found {
            if let (Found::File { bytes, .. }, Some(file)) = (node, tree.file(&path)) {
                tree.files.insert(file, Arc::new(bytes));
            }
        }
        self.history = vec![Arc::new(tree)];
        self.touched.clear();
        self.settle();
    }

    fn compare(&self, mut found: BTreeMap<String, Found>) -> Result<(), String> {
        if self.promise == Promise::Fsynced {
            // Names that led nowhere after a cut still do.
            found.retain(|_, node| !matches!(node, Found::Broken(_)));
        }
        let wrong = self.wrong(&found, self.last(), Promise::Atomic);
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(listed(&wrong))
        }
    }
}

/// The first few complaints.
fn listed(wrong: &[String]) -> String {
    const TOLD: usize = 4;
    let more = wrong.len().saturating_sub(TOLD);
    wrong[..wrong.len() - more].join("; ")
        + &if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        }
}

impl<D> Oracle<Device<D>, FileOp> for FilesOracle {
    fn began(&mut self, op: &FileOp) {
        let mut next = self.newest().clone();
        let touched = next.apply(op, self.has_links);
        if touched.is_some() || next != *self.newest() {
            self.history.push(Arc::new(next));
        }
        if let Some(file) = touched {
            self.touch(file);
        }
    }

    fn returned(&mut self, op: &FileOp) {
        match op {
            FileOp::Sync | FileOp::Remount => self.settle(),
            FileOp::Fsync { path } => self.synced(path, false),
            FileOp::Fdatasync { path } => self.synced(path, true),
            _ => {}
        }
    }

    fn cut(&mut self) {
        self.cut = true;
        self.counts_links &= self.promise != Promise::Fsynced;
    }

    fn check(&mut self, device: &mut Device<D>) -> Result<(), Failure> {
        let failed = |what| Failure::new(Kind::Contents, what);
        let damage = device.fs().damage(self.promise).map_err(failed)?;
        if !damage.is_empty() {
            return Err(failed(format!("the check finds: {}", listed(&damage))));
        }
        let found = look(&mut *device.fs()).map_err(failed)?;
        if std::mem::take(&mut self.cut) {
            self.settle_on(found)
        } else {
            self.compare(found)
        }
        .map_err(failed)
    }
}
