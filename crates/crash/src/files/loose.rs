//! The oracle of file systems without a journal: fsynced files are there, and nothing is found that
//! was never written.

use super::found::Found;
use super::history::History;
use super::model::{FileNumber, Model, Node};
use super::op::{Path, split};
use nandlab_vfs::Ino;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Tree = BTreeMap<String, Found>;

impl History {
    /// The tree found as a tree with the files that it may be; or what is wrong with it.
    pub(super) fn loosely(&self, found: &Tree) -> Result<Model, Vec<String>> {
        let mut wrong = Vec::new();
        let mut accepted: BTreeMap<&str, Vec<FileNumber>> = BTreeMap::new();
        for (path, node) in found {
            match self.may_be(path, node) {
                Ok(files) => _ = accepted.insert(path, files),
                Err(what) => wrong.push(format!("{path}: {what}")),
            }
        }
        let holds = |path: &str, file| {
            accepted
                .get(path)
                .is_some_and(|files| files.contains(&file))
        };
        let trees = &self.trees[self.floor..];
        for (path, node) in self.trees[self.floor]
            .names
            .iter()
            .filter(|(path, node)| trees.iter().all(|tree| tree.names.get(*path) == Some(node)))
        {
            let is_there = match node {
                Node::Directory => found.get(&**path) == Some(&Found::Directory),
                Node::File(file) => holds(path, *file),
            };
            if !is_there {
                wrong.push(format!(
                    "{path}: {}, although it was durable and nothing was done to its name",
                    reported(found.get(&**path))
                ));
            }
        }
        for (&file, &since) in &self.synced {
            let names: Vec<BTreeSet<&Path>> = self.trees[since..]
                .iter()
                .map(|tree| tree.names_of(file).collect())
                .collect();
            let all: BTreeSet<&Path> = names.iter().flatten().copied().collect();
            if names.iter().all(|names| !names.is_empty())
                && !all.iter().any(|path| holds(path, file))
            {
                wrong.push(format!(
                    "none of {all:?} holds the file that was fsynced there"
                ));
            }
        }
        if wrong.is_empty() {
            Ok(self.taken(found, &accepted))
        } else {
            Err(wrong)
        }
    }

    /// Which files a name may lead to, newest first.
    fn may_be(&self, path: &str, node: &Found) -> Result<Vec<FileNumber>, String> {
        let mut known: Vec<Node> = self.trees[self.floor..]
            .iter()
            .rev()
            .filter_map(|tree| tree.names.get(path).copied())
            .collect();
        known.dedup();
        match node {
            Found::File { .. } if known.is_empty() && !self.has_links && is_short_name(path) => {
                Ok(Vec::new())
            }
            _ if known.is_empty() => Err("no operation made it".into()),
            Found::Directory if known.contains(&Node::Directory) => Ok(Vec::new()),
            Found::Directory => Err("is a directory".into()),
            // A name of an inode that never came to be.
            Found::Broken(_) => Ok(Vec::new()),
            Found::File { bytes, .. } => {
                let mut why = String::from("is a file");
                let mut files = Vec::new();
                for file in known.into_iter().filter_map(|node| {
                    if let Node::File(file) = node {
                        Some(file)
                    } else {
                        None
                    }
                }) {
                    let versions = self.versions(file, self.durable_since(file), self.last());
                    match versions
                        .has_length(bytes)
                        .and_then(|()| versions.old_or_new(bytes))
                    {
                        Ok(()) => files.push(file),
                        Err(what) => why = what,
                    }
                }
                if files.is_empty() {
                    Err(why)
                } else {
                    Ok(files)
                }
            }
        }
    }

    /// The tree found, each name with the newest file that it may lead to, and all names of an
    /// inode with the same. What another inode holds is another file: a rename under way may have
    /// left two of one.
    fn taken(&self, found: &Tree, accepted: &BTreeMap<&str, Vec<FileNumber>>) -> Model {
        let mut model = Model::default();
        let mut inodes: BTreeMap<Ino, FileNumber> = BTreeMap::new();
        let mut used: BTreeSet<FileNumber> = BTreeSet::new();
        model.numbers_after(self.newest());
        for (path, node) in found {
            match node {
                Found::Directory => model.put(path, Node::Directory),
                Found::File { bytes, ino, .. } => {
                    let known = inodes.get(ino).filter(|_| self.has_links).copied();
                    let fits = |file: &&FileNumber| {
                        !used.contains(file)
                            && (!self.has_links || is_of_all(found, accepted, *ino, **file))
                    };
                    let file = known
                        .or_else(|| accepted[path.as_str()].iter().find(fits).copied())
                        .unwrap_or_else(|| model.number());
                    model.put(path, Node::File(file));
                    model.files.insert(file, Arc::new(bytes.clone()));
                    inodes.insert(*ino, file);
                    used.insert(file);
                }
                Found::Broken(_) => {}
            }
        }
        model
    }
}

/// Whether all names of an inode may lead to a file.
fn is_of_all(
    found: &Tree,
    accepted: &BTreeMap<&str, Vec<FileNumber>>,
    inode: Ino,
    file: FileNumber,
) -> bool {
    let names = found
        .iter()
        .filter(|(_, node)| matches!(node, Found::File { ino, .. } if *ino == inode));
    names
        .into_iter()
        .all(|(path, _)| accepted[path.as_str()].contains(&file))
}

/// Of a long name that FAT stores in two sectors one half may arrive: then there is the short name
/// that was made for it.
fn is_short_name(path: &str) -> bool {
    let (_, name) = split(path);
    name.len() <= 12 && name.contains('~') && !name.contains(|c: char| c.is_ascii_lowercase())
}

fn reported(found: Option<&Found>) -> String {
    match found {
        None => "is missing".into(),
        Some(Found::Directory) => "is a directory".into(),
        Some(Found::File { bytes, .. }) => {
            format!("is a file of {} bytes with other contents", bytes.len())
        }
        Some(Found::Broken(error)) => error.to_string(),
    }
}
