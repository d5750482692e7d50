//! What is found on a mounted file system, with unreadable parts listed apart.

use nandlab_vfs::{Attr, Errno, FileSystem, FileType, Ino, tree};
use std::collections::BTreeMap;

/// The deepest directory looked into: more than any run makes.
const DEPTH_MAX: usize = 16;

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Directory,
    File {
        ino: Ino,
        links: u32,
        bytes: Vec<u8>,
    },
    /// The link leads to nothing.
    Broken(Errno),
}

/// Every name; fails if a directory that can be looked up cannot be read.
pub(super) fn look(fs: &mut dyn FileSystem) -> Result<BTreeMap<String, Found>, String> {
    let mut found = BTreeMap::new();
    let root = fs
        .getattr(Ino::ROOT)
        .map_err(|error| format!("the root: {error}"))?;
    into_directory(fs, "", root, 0, &mut found)?;
    Ok(found)
}

fn into_directory(
    fs: &mut dyn FileSystem,
    path: &str,
    dir: Attr,
    depth: usize,
    found: &mut BTreeMap<String, Found>,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("{path}: deeper than any directory made"));
    }
    for (name, _) in
        tree::names(fs, dir.ino).map_err(|error| format!("directory /{path}: {error}"))?
    {
        let name = String::from_utf8_lossy(&name);
        let below = if path.is_empty() {
            name.to_string()
        } else {
            format!("{path}/{name}")
        };
        match fs.lookup(dir.ino, name.as_bytes()) {
            Err(error) => _ = found.insert(below, Found::Broken(error)),
            Ok(attr) => {
                let outcome = into_node(fs, below, attr, depth, found);
                fs.forget(attr.ino, 1);
                outcome?;
            }
        }
    }
    Ok(())
}

fn into_node(
    fs: &mut dyn FileSystem,
    path: String,
    attr: Attr,
    depth: usize,
    found: &mut BTreeMap<String, Found>,
) -> Result<(), String> {
    let node = match attr.kind {
        FileType::Directory => {
            into_directory(fs, &path, attr, depth + 1, found)?;
            Found::Directory
        }
        FileType::File => match tree::contents(fs, attr.ino) {
            Ok(bytes) => Found::File {
                ino: attr.ino,
                links: attr.links,
                bytes,
            },
            Err(error) => Found::Broken(error),
        },
        _ => Found::Broken(Errno::Invalid),
    };
    if found.insert(path.clone(), node).is_some() {
        Err(format!("{path}: twice in its directory"))
    } else {
        Ok(())
    }
}
