//! A tree found, compared with the tree after one operation: names, links and lengths exactly,
//! contents as far as is promised.

use super::found::Found;
use super::history::History;
use super::model::{FileNumber, Model, Node};
use nandlab_vfs::{Ino, Promise};
use std::collections::BTreeMap;

type Tree = BTreeMap<String, Found>;

impl History {
    /// What is wrong if this is the tree after operation `at`; nothing if it may be.
    pub(super) fn wrong(&self, found: &Tree, at: usize, promise: Promise) -> Vec<String> {
        let tree = &self.trees[at];
        let mut wrong: Vec<String> = found
            .keys()
            .filter(|path| !tree.names.contains_key(path.as_str()))
            .map(|path| format!("{path} should not be there"))
            .collect();
        let mut inodes = BTreeMap::new();
        for (path, node) in &tree.names {
            let complaint = match (found.get(&**path), node) {
                (Some(Found::Directory), Node::Directory) => None,
                (Some(Found::File { ino, links, bytes }), Node::File(file)) => self
                    .wrong_file(*file, at, bytes, promise)
                    .err()
                    .or_else(|| self.wrong_links(tree, *file, *ino, *links, &mut inodes)),
                (Some(Found::Broken(error)), _) => Some(error.to_string()),
                (Some(Found::Directory), _) => Some("is a directory".into()),
                (Some(Found::File { .. }), _) => Some("is a file".into()),
                (None, _) => Some("is missing".into()),
            };
            wrong.extend(complaint.map(|what| format!("{path}: {what}")));
        }
        wrong
    }

    fn wrong_file(
        &self,
        file: FileNumber,
        at: usize,
        found: &[u8],
        promise: Promise,
    ) -> Result<(), String> {
        let then = self.versions(file, at, at);
        let since = match promise {
            Promise::Ordered | Promise::Metadata if self.lags => self.durable_since(file).min(at),
            _ => at,
        };
        self.versions(file, since, at).has_length(found)?;
        match promise {
            Promise::Atomic => then.old_or_new(found),
            Promise::Ordered | Promise::Fsynced => self
                .versions(file, self.durable_since(file), self.last())
                .old_or_new(found),
            Promise::Metadata => self
                .versions(file, self.durable_since(file), self.last())
                .agrees(found),
        }
    }

    /// Names of one file lead to one inode, those of several to several, and its links are counted.
    fn wrong_links(
        &self,
        tree: &Model,
        file: FileNumber,
        ino: Ino,
        links: u32,
        inodes: &mut BTreeMap<FileNumber, Ino>,
    ) -> Option<String> {
        if !self.counts_links {
            return None;
        }
        let names = tree.names_of(file).count();
        let first = *inodes.entry(file).or_insert(ino);
        if links as usize != names {
            return Some(format!("{links} links; allowed: {names}"));
        }
        let is_shared = inodes
            .iter()
            .any(|(other, theirs)| *other != file && *theirs == ino);
        (first != ino || is_shared).then(|| {
            format!(
                "leads to {ino}, as {} does",
                if is_shared {
                    "another file"
                } else {
                    "no other name of it"
                }
            )
        })
    }
}
