//! The trees that may be found: one after each operation called, and since when each file is
//! durable.

use super::contents::{Shape, Versions};
use super::model::{FileNumber, Model};
use nandlab_vfs::{Nature, Promise};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The trees of a run.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub promise: Promise,
    pub has_links: bool,
    shape: Shape,
    /// A file's length may be an earlier one.
    pub lags: bool,
    /// The tree after each operation that changed something, the oldest first.
    pub trees: Vec<Arc<Model>>,
    /// The oldest that may be found.
    pub floor: usize,
    /// Since when all contents are durable.
    pub durable: usize,
    /// Since when a file's own contents are durable.
    pub synced: BTreeMap<FileNumber, usize>,
    /// Links are counted as names are: without a journal, only until the first cut.
    pub counts_links: bool,
}

impl History {
    /// For a new file system.
    pub fn new(nature: Nature) -> Self {
        let Nature {
            promise,
            sector,
            block,
            is_unix,
            directories,
            by_parts,
            late,
            lags,
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
            lags,
            trees: vec![Arc::new(Model::with(directories))],
            floor: 0,
            durable: 0,
            synced: BTreeMap::new(),
            counts_links: is_unix,
        }
    }

    pub fn last(&self) -> usize {
        self.trees.len() - 1
    }

    pub fn newest(&self) -> &Model {
        &self.trees[self.last()]
    }

    /// Since when the contents of a file are durable.
    pub fn durable_since(&self, file: FileNumber) -> usize {
        self.synced
            .get(&file)
            .map_or(self.durable, |&since| since.max(self.durable))
    }

    /// The contents of a file, from one operation to another.
    pub fn versions(&self, file: FileNumber, from: usize, to: usize) -> Versions<'_> {
        let of = self.trees[from..=to]
            .iter()
            .map(|tree| tree.files.get(&file).map(|bytes| &bytes[..]));
        Versions {
            of: of.collect(),
            shape: self.shape,
        }
    }

    /// Everything up to now is durable.
    pub fn mark_durable(&mut self) {
        self.floor = self.last();
        self.durable = self.last();
        self.synced.clear();
    }
}
