//! The oracle of files: what each [`Promise`] allows to be found after a power cut.
//!
//! It keeps the tree after each operation called. A journal's tree is one of these, whole; without
//! a journal only single files are promised.

use super::device::Device;
use super::found::{Found, look};
use super::history::History;
use super::model::FileNumber;
use super::op::FileOp;
use crate::subject::{Failure, Kind, Oracle};
use nandlab_vfs::{Nature, Promise};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Follows the operations on files and knows which trees may be found.
#[derive(Clone, Debug)]
pub struct FilesOracle {
    history: History,
    /// Which operations touched a file last.
    touched: BTreeMap<FileNumber, Touched>,
    /// There was a cut: the newest tree is only one of the possibilities.
    cut: bool,
}

/// The last operations on a file.
#[derive(Clone, Copy, Debug)]
struct Touched {
    any: usize,
    contents: usize,
    length: usize,
}

impl FilesOracle {
    /// For a file system just made.
    pub(super) fn new(nature: Nature) -> Self {
        Self {
            history: History::new(nature),
            touched: BTreeMap::new(),
            cut: false,
        }
    }

    /// A file is durable, or its contents are; in a journal so is whatever was done before.
    fn synced(&mut self, path: &str, only_contents: bool) {
        let Some(file) = self.history.newest().file(path) else {
            return;
        };
        let Touched {
            any,
            contents,
            length,
        } = self.touched(file);
        let (since, floor) = match self.history.promise {
            _ if !only_contents => (self.history.last(), any),
            Promise::Atomic => (contents, contents),
            // What is overwritten in place needs no commit.
            Promise::Ordered | Promise::Metadata | Promise::Fsynced => (contents, length),
        };
        let synced = self.history.synced.entry(file).or_insert(since);
        *synced = since.max(*synced);
        if self.history.promise < Promise::Fsynced {
            self.history.floor = self.history.floor.max(floor);
        }
    }

    fn touched(&self, file: FileNumber) -> Touched {
        let never = Touched {
            any: self.history.durable,
            contents: self.history.durable,
            length: self.history.durable,
        };
        self.touched.get(&file).copied().unwrap_or(never)
    }

    /// The newest operation touched a file.
    fn touch(&mut self, file: FileNumber) {
        let newest = self.history.last();
        let before = self.touched(file);
        let bytes = |at: usize| self.history.trees[at].files.get(&file);
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
    fn narrow_to(&mut self, found: BTreeMap<String, Found>) -> Result<(), String> {
        if self.history.promise == Promise::Fsynced {
            let tree = self
                .history
                .loosely(&found)
                .map_err(|wrong| listed(&wrong))?;
            self.history.trees.push(Arc::new(tree));
            return Ok(());
        }
        let mut nearest: Option<(usize, Vec<String>)> = None;
        for at in (self.history.floor..=self.history.last()).rev() {
            let wrong = self.history.wrong(&found, at, self.history.promise);
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
            self.history.floor,
            self.history.last(),
            listed(&wrong)
        ))
    }

    /// What was recovered is durable.
    fn take(&mut self, at: usize, found: BTreeMap<String, Found>) {
        let mut tree = (*self.history.trees[at]).clone();
        tree.numbers_after(self.history.newest());
        for (path, node) in found {
            if let (Found::File { bytes, .. }, Some(file)) = (node, tree.file(&path)) {
                tree.files.insert(file, Arc::new(bytes));
            }
        }
        self.history.trees = vec![Arc::new(tree)];
        self.touched.clear();
        self.history.mark_durable();
    }

    fn compare(&self, mut found: BTreeMap<String, Found>) -> Result<(), String> {
        if self.history.promise == Promise::Fsynced {
            // Names that led nowhere after a cut still do.
            found.retain(|_, node| !matches!(node, Found::Broken(_)));
        }
        let wrong = self
            .history
            .wrong(&found, self.history.last(), Promise::Atomic);
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(listed(&wrong))
        }
    }
}

/// The first few complaints.
fn listed(wrong: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = wrong.len().saturating_sub(SHOWN);
    wrong[..wrong.len() - more].join("; ")
        + &if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        }
}

impl<D> Oracle<Device<D>, FileOp> for FilesOracle {
    fn began(&mut self, op: &FileOp) {
        let mut next = self.history.newest().clone();
        let touched = next.apply(op, self.history.has_links);
        if touched.is_some() || next != *self.history.newest() {
            self.history.trees.push(Arc::new(next));
        }
        if let Some(file) = touched {
            self.touch(file);
        }
    }

    fn returned(&mut self, op: &FileOp) {
        match op {
            FileOp::Sync | FileOp::Remount => self.history.mark_durable(),
            FileOp::Fsync { path } => self.synced(path, false),
            FileOp::Fdatasync { path } => self.synced(path, true),
            _ => {}
        }
    }

    fn cut(&mut self) {
        self.cut = true;
        self.history.counts_links &= self.history.promise != Promise::Fsynced;
    }

    fn check(&mut self, device: &mut Device<D>) -> Result<(), Failure> {
        let failed = |what| Failure::new(Kind::Contents, what);
        let damage = device
            .fs()
            .damage(self.history.promise)
            .map_err(|error| Failure::from_error(Kind::Contents, &*error))?;
        if !damage.is_empty() {
            return Err(failed(format!("the check finds: {}", listed(&damage))));
        }
        let found = look(&mut *device.fs()).map_err(failed)?;
        if std::mem::take(&mut self.cut) {
            self.narrow_to(found)
        } else {
            self.compare(found)
        }
        .map_err(failed)
    }
}
