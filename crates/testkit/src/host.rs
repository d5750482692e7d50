//! Our trees beside directories of the host.

use crate::files::bytes;
use crate::tools::text;
use nandlab_vfs::{FileSystem, FileType, Ino};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The names in a directory, in the file system's order.
pub fn names(fs: &mut dyn FileSystem, dir: Ino) -> Vec<String> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    })
    .unwrap();
    names
}

/// The names in a directory, listed 13 at a time. `between` runs after each part.
pub fn names_in_parts(
    fs: &mut dyn FileSystem,
    dir: Ino,
    mut between: impl FnMut(&mut dyn FileSystem),
) -> Vec<String> {
    let mut names = Vec::new();
    let mut from = 0;
    loop {
        let before = names.len();
        fs.readdir(dir, from, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            from = entry.next;
            !names.len().is_multiple_of(13)
        })
        .unwrap();
        between(fs);
        if names.len() == before {
            return names;
        }
    }
}

fn contents(fs: &mut dyn FileSystem, ino: Ino, step: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; step];
    loop {
        let count = fs.read(ino, all.len() as u64, &mut buffer).unwrap();
        if count == 0 {
            return all;
        }
        all.extend_from_slice(&buffer[..count]);
    }
}

/// Compares a directory with one of the host: names, modes, owners, times in seconds, links,
/// contents. Names in `beside` may be there without being on the host.
pub fn compare(fs: &mut dyn FileSystem, dir: Ino, host: &Path, beside: &[&str]) {
    let mut expected: Vec<String> = fs::read_dir(host)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    expected.sort();
    let mut found = names(fs, dir);
    found.retain(|name| !beside.contains(&&**name));
    found.sort();
    assert_eq!(found, expected, "{}", host.display());
    for name in expected {
        let at = host.join(&name);
        let reported = fs::symlink_metadata(&at).unwrap();
        let attr = fs.lookup(dir, name.as_bytes()).unwrap();
        let found = (attr.mode.into(), attr.uid, attr.gid, attr.mtime.secs);
        let host = (
            reported.mode() & 0o7777,
            reported.uid(),
            reported.gid(),
            reported.mtime(),
        );
        assert_eq!(found, host, "{}", at.display());
        assert_eq!(u64::from(attr.links), reported.nlink(), "{}", at.display());
        match attr.kind {
            FileType::Directory => compare(fs, attr.ino, &at, &[]),
            FileType::Symlink => {
                let target = fs::read_link(&at).unwrap();
                assert_eq!(fs.readlink(attr.ino).unwrap(), text(&target).as_bytes());
            }
            _ if attr.size < 1 << 24 => {
                let is_same = contents(fs, attr.ino, 70_001) == fs::read(&at).unwrap();
                assert!(is_same, "{}", at.display());
            }
            _ => assert_eq!(attr.size, reported.len()),
        }
    }
}

/// Files of all lengths around a block's, text, holes, links, many names.
pub fn tree(root: &Path) {
    for name in ["etc", "many", "deep/down/there", "empty"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for size in [0, 1, 4095, 4096, 4097, 60_000, 131_072, 131_073, 400_001] {
        fs::write(
            root.join(format!("etc/of {size}")),
            bytes(size as u64, size),
        )
        .unwrap();
        let words = "a line of text, as long as it is\n".repeat(size / 33 + 1);
        fs::write(root.join(format!("etc/text {size}")), &words[..size]).unwrap();
    }
    for number in 0..700 {
        let name = format!("many/a file with a name {number:03}");
        fs::write(root.join(name), bytes(number, number as usize)).unwrap();
    }
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(3_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &bytes(5, 5000), 1_200_000).unwrap();
    fs::File::create(root.join("hole"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    std::os::unix::fs::symlink("etc/of 1", root.join("link")).unwrap();
    fs::hard_link(root.join("etc/of 4097"), root.join("deep/a second name")).unwrap();
    fs::write(root.join("deep/down/there/gr\u{f6}\u{df}er"), "12345").unwrap();
}
