//! Reads everything that a walk reaches, within bounds.

use nandlab_block::{BlockDevice, Ram};
use nandlab_ext::{Ext, Options};
use nandlab_vfs::{Attr, FileSystem, FileType, Ino};
use std::collections::BTreeSet;

/// The bytes of a read.
const STEP: usize = 64 * 1024;

/// The most reads of one file, holes left out.
const READS_MAX: usize = 512;

/// The fewest bytes of a name in a directory.
const NAME_BYTES_MIN: u64 = 8;

/// Reads every name, attribute, link and file. A call may fail; none may panic, and none may list
/// more names than the disk has space for.
pub fn read_everything(disk: &Ram) {
    let mut copy = disk.clone();
    let names_max = copy.geometry().bytes() / NAME_BYTES_MIN;
    let options = Options {
        read_only: true,
        ..Options::default()
    };
    let Ok(mut ext) = Ext::mount(&mut copy, options) else {
        return;
    };
    let mut seen = BTreeSet::from([Ino::ROOT]);
    let mut waiting = vec![Ino::ROOT];
    while let Some(dir) = waiting.pop() {
        for name in names(&mut ext, dir, names_max) {
            let Ok(attr) = ext.lookup(dir, &name) else {
                continue;
            };
            if seen.insert(attr.ino) {
                read(&mut ext, &attr);
                if attr.kind == FileType::Directory {
                    waiting.push(attr.ino);
                }
            }
        }
    }
    _ = ext.statfs();
}

fn names<F: FileSystem>(fs: &mut F, dir: Ino, most: u64) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    _ = fs.readdir(dir, 0, &mut |entry| {
        assert!((names.len() as u64) < most, "{dir:?} lists without an end");
        names.push(entry.name.to_vec());
        true
    });
    names
}

fn read<F: FileSystem>(fs: &mut F, attr: &Attr) {
    _ = fs.readlink(attr.ino);
    for name in fs.listxattr(attr.ino).unwrap_or_default() {
        _ = fs.getxattr(attr.ino, &name);
    }
    let mut bytes = vec![0; STEP];
    let mut at = 0;
    for _ in 0..READS_MAX {
        at = fs.next_data(attr.ino, at).unwrap_or(at);
        match fs.read(attr.ino, at, &mut bytes) {
            Ok(0) => break,
            Ok(count) => at += count as u64,
            Err(_) => at += STEP as u64,
        }
        if at >= attr.size {
            break;
        }
    }
}
