//! The expected tree of files: names, and the file that each leads to.
//!
//! *Promises* what [`FileOp`] says of each operation. Contents are shared between the copies of a
//! tree, so that one after each operation can be kept.

use super::op::{FileOp, Path, bytes, split};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file, whatever it is called. Never used again.
pub(super) type FileNumber = u32;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File(FileNumber),
}

/// A tree of names and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub names: BTreeMap<Path, Node>,
    pub files: BTreeMap<FileNumber, Arc<Vec<u8>>>,
    /// Of the next file.
    next: FileNumber,
}

impl Model {
    /// A tree with these directories.
    pub fn with(directories: &[&str]) -> Self {
        Self {
            names: directories
                .iter()
                .map(|path| (Path::from(*path), Node::Directory))
                .collect(),
            ..Self::default()
        }
    }

    /// The file that a path leads to.
    pub fn file(&self, path: &str) -> Option<FileNumber> {
        match self.names.get(path) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        }
    }

    /// Every name of a file.
    pub fn names_of(&self, file: FileNumber) -> impl Iterator<Item = &Path> {
        self.names
            .iter()
            .filter(move |(_, node)| **node == Node::File(file))
            .map(|(path, _)| path)
    }

    /// The same file numbers go on, so that no two trees of one exploration mean different files by
    /// one number.
    pub fn numbers_after(&mut self, other: &Self) {
        self.next = self.next.max(other.next);
    }

    /// A number for a file that is none of those so far.
    pub fn number(&mut self) -> FileNumber {
        self.next += 1;
        self.next - 1
    }

    /// A name as it is found, whatever was there.
    pub fn put(&mut self, path: &str, node: Node) {
        self.names.insert(path.into(), node);
    }

    /// Does what an operation does; gives the file that it was about, if it changed one.
    pub fn apply(&mut self, op: &FileOp, has_links: bool) -> Option<FileNumber> {
        match op {
            FileOp::Create { path } => {
                self.add(path, Node::File(self.next))?;
                let file = self.number();
                self.files.insert(file, Arc::default());
                Some(file)
            }
            FileOp::Append { path, length, seed } => {
                let offset = self.files[&self.file(path)?].len();
                self.write(path, offset, &bytes(*seed, *length))
            }
            FileOp::Overwrite {
                path,
                offset,
                length,
                seed,
            } => self.write(path, *offset as usize, &bytes(*seed, *length)),
            FileOp::Truncate { path, length } => {
                let file = self.file(path)?;
                Arc::make_mut(self.files.get_mut(&file)?).resize(*length as usize, 0);
                Some(file)
            }
            FileOp::Rename { from, to } => self.rename(from, to),
            FileOp::Link { from, to } if has_links => {
                let file = self.file(from)?;
                self.add(to, Node::File(file))?;
                Some(file)
            }
            FileOp::Unlink { path } => {
                let file = self.file(path)?;
                self.remove(path);
                Some(file)
            }
            FileOp::Mkdir { path } => {
                self.add(path, Node::Directory);
                None
            }
            FileOp::Rmdir { path } => {
                let is_empty = !self.names.keys().any(|name| split(name).0 == &**path);
                if is_empty && self.names.get(path) == Some(&Node::Directory) {
                    self.names.remove(path);
                }
                None
            }
            FileOp::Link { .. } | FileOp::Fsync { .. } | FileOp::Fdatasync { .. } => None,
            FileOp::Sync | FileOp::Pause { .. } | FileOp::Remount => None,
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> Option<()> {
        let (dir, _) = split(path);
        let is_place = dir.is_empty() || self.names.get(dir) == Some(&Node::Directory);
        if !is_place || self.names.contains_key(path) {
            return None;
        }
        self.names.insert(path.clone(), node);
        Some(())
    }

    fn remove(&mut self, path: &str) {
        if let Some(Node::File(file)) = self.names.remove(path)
            && self.names_of(file).next().is_none()
        {
            self.files.remove(&file);
        }
    }

    fn write(&mut self, path: &str, offset: usize, data: &[u8]) -> Option<FileNumber> {
        let file = self.file(path)?;
        let contents = Arc::make_mut(self.files.get_mut(&file)?);
        contents.resize(contents.len().max(offset + data.len()), 0);
        contents[offset..offset + data.len()].copy_from_slice(data);
        Some(file)
    }

    /// Two names of one file stay as they are.
    fn rename(&mut self, from: &Path, to: &Path) -> Option<FileNumber> {
        let file = self.file(from)?;
        let (dir, _) = split(to);
        let is_place = dir.is_empty() || self.names.get(dir) == Some(&Node::Directory);
        let replaced = self.names.get(to).copied();
        if !is_place
            || matches!(replaced, Some(Node::Directory))
            || replaced == Some(Node::File(file))
        {
            return None;
        }
        self.names.remove(from);
        self.remove(to);
        self.names.insert(to.clone(), Node::File(file));
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{mixed::mixed, op::perform};
    use nandlab_vfs::{MemFs, Time, tree};

    #[test]
    fn the_model_and_a_file_system_agree_on_runs_with_operations_left_out() {
        for seed in 0..30 {
            let mut model = Model::default();
            let mut fs = MemFs::new(1 << 24, Time::new(0));
            let ops = mixed(seed, 150);
            for op in ops
                .iter()
                .enumerate()
                .filter(|(i, op)| i % 7 != seed as usize % 7 && **op != FileOp::Remount)
                .map(|(_, op)| op)
            {
                model.apply(op, true);
                perform(&mut fs, op, Time::new(100)).unwrap();
            }
            let found = tree::snapshot(&mut fs).unwrap();
            assert_eq!(found.len(), model.names.len() + 1, "{seed}");
            for (path, node) in &model.names {
                let entry = &found[path.as_bytes()];
                if let Node::File(file) = node {
                    assert!(entry.contents == *model.files[file], "{seed}: {path}");
                    assert_eq!(
                        entry.attr.links as usize,
                        model.names_of(*file).count(),
                        "{seed}: {path}"
                    );
                }
            }
        }
    }
}
