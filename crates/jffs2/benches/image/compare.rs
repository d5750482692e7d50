//! Two directory trees, entry by entry.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What differs, how often, with one example of each.
pub fn differences(expected: &Path, found: &Path) -> String {
    let [all, seen] = [expected, found].map(|root| {
        let mut all = BTreeMap::new();
        walk(root, root, &mut all);
        all
    });
    let mut kinds: BTreeMap<&str, (usize, PathBuf)> = BTreeMap::new();
    let mut note = |what, path: &Path| kinds.entry(what).or_insert((0, path.into())).0 += 1;
    for (path, meta) in &all {
        match seen.get(path) {
            None => note("missing", path),
            Some(other) => unlike(
                (&expected.join(path), meta),
                (&found.join(path), other),
                &mut |what| note(what, path),
            ),
        }
    }
    seen.keys()
        .filter(|path| !all.contains_key(*path))
        .for_each(|path| note("too many", path));
    if kinds.is_empty() {
        return format!("nothing, of {} entries", all.len());
    }
    let reported = kinds
        .iter()
        .map(|(what, (count, path))| format!("{what}: {count} (first {})", path.display()));
    format!(
        "{} of {} entries",
        reported.collect::<Vec<_>>().join(", "),
        all.len()
    )
}

fn walk(root: &Path, dir: &Path, all: &mut BTreeMap<PathBuf, Metadata>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry of a directory").path();
        let meta = fs::symlink_metadata(&path).expect("an entry of a directory");
        if meta.is_dir() {
            walk(root, &path, all);
        }
        all.insert(
            path.strip_prefix(root).expect("below the root").into(),
            meta,
        );
    }
}

fn unlike(
    (path, meta): (&Path, &Metadata),
    (other_path, other): (&Path, &Metadata),
    note: &mut dyn FnMut(&'static str),
) {
    if meta.file_type() != other.file_type() {
        return note("kind");
    }
    if meta.is_symlink() {
        if fs::read_link(path).ok() != fs::read_link(other_path).ok() {
            note("target");
        }
        return;
    }
    if meta.is_file()
        && (meta.len() != other.len() || fs::read(path).ok() != fs::read(other_path).ok())
    {
        note("contents");
    }
    let fields = [
        ("permissions", meta.mode() == other.mode()),
        ("time", meta.mtime() == other.mtime()),
        ("links", meta.is_dir() || meta.nlink() == other.nlink()),
        (
            "owner",
            (meta.uid(), meta.gid()) == (other.uid(), other.gid()),
        ),
    ];
    fields
        .into_iter()
        .filter(|(_, same)| !same)
        .for_each(|(what, _)| note(what));
}
