//! Inode numbers for a program that knows paths only.

use nandlab_sim::mix;
use nandlab_vfs::{FileType, Ino};
use std::collections::BTreeMap;

/// The path of the root directory. Every other path is `/`, names and `/` between them.
pub const ROOT: &[u8] = b"/";

/// The inodes that callers refer to, and their paths.
#[derive(Debug)]
pub struct Names {
    nodes: BTreeMap<Ino, Node>,
    numbers: BTreeMap<Vec<u8>, Ino>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    /// `None`: the last name is gone, and with it the contents.
    path: Option<Vec<u8>>,
    kind: FileType,
    references: u64,
}

impl Names {
    /// The root alone.
    pub fn new() -> Self {
        let root = Node {
            path: Some(ROOT.into()),
            kind: FileType::Directory,
            references: 1,
        };
        Self {
            nodes: BTreeMap::from([(Ino::ROOT, root)]),
            numbers: BTreeMap::from([(ROOT.into(), Ino::ROOT)]),
            next: Ino::ROOT.0 + 1,
        }
    }

    /// The path of an inode, unless its name is gone.
    pub fn path(&self, ino: Ino) -> Option<&[u8]> {
        self.nodes.get(&ino)?.path.as_deref()
    }

    /// The type of an inode, if callers refer to it.
    pub fn kind(&self, ino: Ino) -> Option<FileType> {
        Some(self.nodes.get(&ino)?.kind)
    }

    /// Adds a reference to what lies at a path.
    pub fn refer(&mut self, path: &[u8], kind: FileType) -> Ino {
        if let Some(ino) = self.numbers.get(path) {
            if let Some(node) = self.nodes.get_mut(ino) {
                node.references += 1;
            }
            return *ino;
        }
        let ino = Ino(self.next);
        self.next += 1;
        let node = Node {
            path: Some(path.into()),
            kind,
            references: 1,
        };
        self.nodes.insert(ino, node);
        self.numbers.insert(path.into(), ino);
        ino
    }

    /// Gives references back.
    pub fn forget(&mut self, ino: Ino, references: u64) {
        let Some(node) = self.nodes.get_mut(&ino) else {
            return;
        };
        node.references = node.references.saturating_sub(references);
        if node.references > 0 || ino == Ino::ROOT {
            return;
        }
        if let Some(path) = self.nodes.remove(&ino).and_then(|node| node.path) {
            self.numbers.remove(&path);
        }
    }

    /// A number for a list of names: that of the inode, if it has one.
    pub fn hint(&self, path: &[u8]) -> Ino {
        let known = self.numbers.get(path).copied();
        let mixed = || path.iter().fold(0, |sum, byte| mix(sum, u64::from(*byte)));
        known.unwrap_or_else(|| Ino(mixed() | 1 << 63))
    }

    /// A name went, and what it led to.
    pub fn removed(&mut self, path: &[u8]) {
        if let Some(ino) = self.numbers.remove(path)
            && let Some(node) = self.nodes.get_mut(&ino)
        {
            node.path = None;
        }
    }

    /// What lay at `from`, and all below it, lies at `to` now.
    pub fn renamed(&mut self, from: &[u8], to: &[u8]) {
        self.removed(to);
        let moves = |path: &[u8]| {
            let rest = path.strip_prefix(from)?;
            (rest.is_empty() || rest[0] == b'/').then(|| [to, rest].concat())
        };
        for node in self.nodes.values_mut() {
            if let Some(new) = node.path.as_deref().and_then(moves) {
                node.path = Some(new);
            }
        }
        let with_path = |(ino, node): (&Ino, &Node)| Some((node.path.clone()?, *ino));
        self.numbers = self.nodes.iter().filter_map(with_path).collect();
    }
}

/// The path of a name in a directory.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        ROOT => [ROOT, name].concat(),
        _ => [dir, ROOT, name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_directory_takes_the_paths_below_it_along() {
        let mut names = Names::new();
        let dir = names.refer(b"/a", FileType::Directory);
        let file = names.refer(b"/a/x", FileType::File);
        let other = names.refer(b"/ab", FileType::File);
        let replaced = names.refer(b"/b", FileType::File);
        names.renamed(b"/a", b"/b");
        assert_eq!(names.path(dir), Some(&b"/b"[..]));
        assert_eq!(names.path(file), Some(&b"/b/x"[..]));
        assert_eq!(names.path(other), Some(&b"/ab"[..]));
        assert_eq!(names.path(replaced), None);
        assert_eq!(names.refer(b"/b/x", FileType::File), file);
    }

    #[test]
    fn an_inode_keeps_its_number_until_its_references_are_gone() {
        let mut names = Names::new();
        let first = names.refer(b"/a", FileType::File);
        assert_eq!(names.refer(b"/a", FileType::File), first);
        assert_eq!(names.hint(b"/a"), first);
        names.forget(first, 1);
        assert!(names.path(first).is_some());
        names.forget(first, 1);
        assert!(names.path(first).is_none());
        assert_ne!(names.refer(b"/a", FileType::File), first);
        names.forget(Ino::ROOT, 9);
        assert!(names.path(Ino::ROOT).is_some());
    }

    #[test]
    fn a_number_of_a_removed_file_never_leads_to_a_new_one() {
        let mut names = Names::new();
        let old = names.refer(b"/a", FileType::File);
        names.removed(b"/a");
        let new = names.refer(b"/a", FileType::File);
        names.forget(old, 1);
        assert_eq!(names.refer(b"/a", FileType::File), new);
    }
}
