//! A walk over a mounted file system that does a bit of everything.
//!
//! *Promises.* Whatever the file system answers, the walk ends after a stated number of names and
//! bytes. Errors are welcome.

use nandlab_damage::plant::NOW;
use nandlab_vfs::{
    Attr, Caller, FileSystem, FileType, Ino, NewNode, Rename, SetAttr, SetXattr, Sync,
};

/// The steps left to do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Names to look at.
    pub names: u32,
    /// Calls that read data.
    pub reads: u32,
    /// True if steps change things.
    pub write: bool,
}

/// Walks the tree from the root.
pub fn walk<F: FileSystem>(fs: &mut F, mut budget: Budget) {
    _ = fs.getattr(Ino::ROOT);
    below(fs, &mut budget, Ino::ROOT, 0);
    _ = fs.statfs();
}

fn below<F: FileSystem>(fs: &mut F, budget: &mut Budget, dir: Ino, depth: u32) {
    let mut names = Vec::new();
    let mut from = 0;
    // In two calls, so that a directory is also listed from its middle.
    for most in [3, 40] {
        _ = fs.readdir(dir, from, &mut |entry| {
            names.push((entry.name.to_vec(), entry.kind));
            from = entry.next;
            names.len() < most
        });
    }
    for (index, (name, kind)) in names.into_iter().enumerate() {
        let Some(left) = budget.names.checked_sub(1) else {
            return;
        };
        budget.names = left;
        let Ok(attr) = fs.lookup(dir, &name) else {
            continue;
        };
        if kind == FileType::Directory && depth < 6 {
            below(fs, budget, attr.ino, depth + 1);
        }
        look(fs, budget, attr);
        if budget.write {
            change(fs, dir, &name, attr, index + depth as usize * 3);
            _ = fs.work(NOW);
        }
        fs.forget(attr.ino, 1);
    }
}

fn look<F: FileSystem>(fs: &mut F, budget: &mut Budget, attr: Attr) {
    let mut data = [0; 4096];
    for at in [0, attr.size / 2, attr.size.saturating_sub(1000)] {
        // A short file is read at once.
        let left = if at > 0 && attr.size < 4096 {
            None
        } else {
            budget.reads.checked_sub(1)
        };
        let Some(left) = left else { break };
        budget.reads = left;
        _ = fs.read(attr.ino, at, &mut data);
    }
    if attr.kind == FileType::Symlink {
        _ = fs.readlink(attr.ino);
    }
    for name in fs
        .listxattr(attr.ino)
        .unwrap_or_default()
        .into_iter()
        .take(5)
    {
        _ = fs.getxattr(attr.ino, &name);
    }
}

fn change<F: FileSystem>(fs: &mut F, dir: Ino, name: &[u8], attr: Attr, turn: usize) {
    let ino = attr.ino;
    let by = Caller::root(NOW);
    let data = [turn as u8; 600];
    match turn % 10 {
        0 => _ = fs.write(ino, attr.size.min(20_000), &data, NOW),
        1 => {
            _ = fs.setattr(
                ino,
                &SetAttr {
                    size: Some(attr.size / 2),
                    ..SetAttr::default()
                },
                NOW,
            )
        }
        2 => _ = fs.unlink(dir, name, NOW),
        3 => {
            _ = fs.rename(
                (dir, name),
                (Ino::ROOT, format!("moved {turn}").as_bytes()),
                Rename::Replace,
                NOW,
            )
        }
        4 => {
            _ = fs
                .create(
                    dir,
                    format!("a new file {turn}").as_bytes(),
                    NewNode::File,
                    0o644,
                    by,
                )
                .map(|new| fs.forget(new.ino, 1))
        }
        5 => _ = fs.setxattr(ino, b"user.k", &data[..50], SetXattr::Any, NOW),
        6 => {
            _ = fs
                .link(ino, Ino::ROOT, b"linked", NOW)
                .map(|new| fs.forget(new.ino, 1))
        }
        7 => _ = fs.write(ino, 1000, &data, NOW),
        8 => _ = fs.removexattr(ino, b"user.k", NOW),
        _ => _ = fs.rmdir(dir, name, NOW),
    }
    if turn % 4 == 0 {
        _ = fs.fsync(ino, Sync::All);
    }
}
