//! A whole tree as data, to be compared.
//!
//! *Promises.* Every name with everything its inode holds, in the order of the paths. *Needs*
//! memory for every byte of every file, and that directories form a tree: the depth is bounded,
//! what lies deeper is an error.

use crate::{Attr, Errno, FileSystem, FileType, Ino};
use alloc::{collections::BTreeMap, vec, vec::Vec};

/// The deepest directory that is looked into: far beyond what a path can name.
const DEPTH_MAX: usize = 2100;

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The attributes of its inode.
    pub attr: Attr,
    /// A file's bytes, a symbolic link's target; otherwise nothing.
    pub contents: Vec<u8>,
    /// Extended attributes, where the file system has them.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A tree: entries by path from the root, which is the empty path; the others are `a/b`.
pub type Tree = BTreeMap<Vec<u8>, Entry>;

/// Everything below the root.
pub fn snapshot<F: FileSystem + ?Sized>(fs: &mut F) -> Result<Tree, Errno> {
    let mut tree = Tree::new();
    let root = fs.getattr(Ino::ROOT)?;
    collect(fs, Vec::new(), root, 0, &mut tree)?;
    Ok(tree)
}

/// The names in a directory, in the file system's order.
pub fn names<F: FileSystem + ?Sized>(
    fs: &mut F,
    dir: Ino,
) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push((entry.name.into(), entry.kind));
        true
    })?;
    Ok(names)
}

/// Everything that a file holds.
pub fn contents<F: FileSystem + ?Sized>(fs: &mut F, ino: Ino) -> Result<Vec<u8>, Errno> {
    const STEP: usize = 64 * 1024;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        bytes.resize(before + STEP, 0);
        let count = fs.read(ino, before as u64, &mut bytes[before..])?;
        bytes.truncate(before + count);
        if count < STEP {
            return Ok(bytes);
        }
    }
}

fn collect<F: FileSystem + ?Sized>(
    fs: &mut F,
    path: Vec<u8>,
    attr: Attr,
    depth: usize,
    tree: &mut Tree,
) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::Loop);
    }
    let held = match attr.kind {
        FileType::File => contents(fs, attr.ino)?,
        FileType::Symlink => fs.readlink(attr.ino)?,
        _ => vec![],
    };
    tree.insert(
        path.clone(),
        Entry {
            attr,
            contents: held,
            xattrs: xattrs(fs, attr.ino)?,
        },
    );
    if attr.kind == FileType::Directory {
        for (name, _) in names(fs, attr.ino)? {
            let child = fs.lookup(attr.ino, &name)?;
            let below = join(&path, name);
            let outcome = collect(fs, below, child, depth + 1, tree);
            fs.forget(child.ino, 1);
            outcome?;
        }
    }
    Ok(())
}

fn join(dir: &[u8], name: Vec<u8>) -> Vec<u8> {
    match dir {
        [] => name,
        _ => [dir, b"/", &name].concat(),
    }
}

fn xattrs<F: FileSystem + ?Sized>(
    fs: &mut F,
    ino: Ino,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    match fs.listxattr(ino) {
        Err(Errno::NotSupported) => Ok(BTreeMap::new()),
        names => names?
            .into_iter()
            .map(|name| fs.getxattr(ino, &name).map(|value| (name, value)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, MemFs, NewNode, SetXattr, Time};

    #[test]
    fn a_snapshot_holds_every_name_with_what_it_names() {
        let mut fs = MemFs::new(1 << 20, Time::default());
        let by = Caller::default();
        let d = fs.mkdir(Ino::ROOT, b"d", 0o755, by).unwrap().ino;
        let f = fs.create(d, b"f", NewNode::File, 0o644, by).unwrap().ino;
        let long: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        fs.write(f, 0, &long, by.now).unwrap();
        fs.link(f, Ino::ROOT, b"g", by.now).unwrap();
        fs.symlink(d, b"l", b"../g", by).unwrap();
        fs.setxattr(f, b"user.k", b"v", SetXattr::Any, by.now)
            .unwrap();
        let tree = snapshot(&mut fs).unwrap();
        let paths: Vec<&[u8]> = tree.keys().map(Vec::as_slice).collect();
        assert_eq!(paths, [&b""[..], b"d", b"d/f", b"d/l", b"g"]);
        assert_eq!(tree[&b"d/f"[..]], tree[&b"g"[..]]);
        assert!(tree[&b"g"[..]].contents == long && tree[&b"g"[..]].xattrs[&b"user.k"[..]] == b"v");
        assert_eq!(tree[&b"d/l"[..]].contents, b"../g");
    }
}
