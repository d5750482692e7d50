//! Calls on a damaged file system. They may fail; they must not panic or loop without end.

use crate::disk::poke;
use crate::files::NOW;
use nandlab_block::Ram;
use nandlab_vfs::{
    Attr, Caller, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, SetXattr, Sync,
};

/// Replaces one or two bytes by values that `word` chooses, mostly limits of fields.
pub fn strike(disk: &mut Ram, at: u64, word: u64) {
    let any = [(word >> 50) as u8, (word >> 40) as u8];
    let value = [0, 1, 2, 0xFF, 0x0F, 0x40, any[0], any[1]][(word >> 58) as usize % 8];
    let length = 1 + (word >> 20) as usize % 2;
    poke(disk, at, &[value, (word >> 32) as u8][..length]);
}

/// Makes calls on up to `names` files, then syncs and unmounts.
pub fn use_up<F: FileSystem + ?Sized>(fs: &mut F, mut names: u32) {
    exercise(fs, &mut names, Ino::ROOT, 0);
    _ = fs.statfs();
    _ = fs.sync();
    _ = fs.unmount();
}

/// Walks the tree and makes calls on each file, until the budget of names is spent.
pub fn exercise<F: FileSystem + ?Sized>(fs: &mut F, budget: &mut u32, dir: Ino, depth: u32) {
    let mut names = Vec::new();
    _ = fs.readdir(dir, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.kind));
        names.len() < 40
    });
    for (index, (name, kind)) in names.into_iter().enumerate() {
        let Some(left) = budget.checked_sub(1) else {
            return;
        };
        *budget = left;
        let Ok(attr) = fs.lookup(dir, &name) else {
            continue;
        };
        if kind == FileType::Directory && depth < 6 {
            exercise(fs, budget, attr.ino, depth + 1);
        }
        let data = look(fs, &attr);
        let new = &data[..index * 7];
        _ = fs.setxattr(attr.ino, b"user.new", new, SetXattr::Any, NOW);
        change(fs, (dir, &name), &attr, &data, (index, depth));
        _ = fs.fsync(attr.ino, Sync::All);
        _ = fs.work(NOW);
        fs.forget(attr.ino, 1);
    }
}

/// Reads what belongs to a file; returns the end of its contents.
fn look<F: FileSystem + ?Sized>(fs: &mut F, attr: &Attr) -> Vec<u8> {
    let mut data = vec![0; 2000];
    _ = fs.read(attr.ino, attr.size.saturating_sub(1000), &mut data);
    _ = fs.next_data(attr.ino, attr.size / 2);
    _ = fs.readlink(attr.ino);
    for name in fs.listxattr(attr.ino).unwrap_or_default() {
        _ = fs.getxattr(attr.ino, &name);
    }
    data
}

fn change<F: FileSystem + ?Sized>(
    fs: &mut F,
    (dir, name): (Ino, &[u8]),
    attr: &Attr,
    data: &[u8],
    (index, depth): (usize, u32),
) {
    match index % 7 {
        0 => _ = fs.write(attr.ino, attr.size.min(100_000), data, NOW),
        1 => _ = fs.setattr(attr.ino, &half(attr), NOW),
        2 => _ = fs.unlink(dir, name, NOW),
        3 => {
            let to = format!("moved {index} {depth}");
            let to = (Ino::ROOT, to.as_bytes());
            _ = fs.rename((dir, name), to, Rename::Replace, NOW);
        }
        4 => create(fs, dir, index),
        5 => _ = fs.setxattr(attr.ino, b"user.k", &data[..50], SetXattr::Any, NOW),
        _ => _ = fs.rmdir(dir, name, NOW),
    }
}

fn create<F: FileSystem + ?Sized>(fs: &mut F, dir: Ino, index: usize) {
    let name = format!("a new file {index}");
    let by = Caller::root(NOW);
    _ = fs.create(dir, name.as_bytes(), NewNode::File, 0o644, by);
}

fn half(attr: &Attr) -> SetAttr {
    SetAttr {
        size: Some(attr.size / 2),
        ..SetAttr::default()
    }
}
