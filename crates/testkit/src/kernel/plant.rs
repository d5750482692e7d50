//! A tree with a bit of everything that a file system for Unix can hold.

use crate::files::{bytes, mkdir, put};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};

/// Makes the tree. Some of it gets to its place through removals, truncations and renames.
pub fn plant(fs: &mut dyn FileSystem) {
    let clock = Time {
        secs: 1_234_567_890,
        nanos: 123_456_789,
    };
    let by = Caller {
        uid: 70_000,
        gid: 80_000,
        now: clock,
    };
    let dir = mkdir(fs, Ino::ROOT, "directory of many");
    let below = mkdir(fs, dir, "below");
    for number in 0..700 {
        put(
            fs,
            dir,
            &format!("one of many files with a rather long name {number:03}"),
            &bytes(number, number as usize * 7),
        );
    }
    for number in (0..700).step_by(3) {
        fs.unlink(
            dir,
            format!("one of many files with a rather long name {number:03}").as_bytes(),
            clock,
        )
        .unwrap();
    }
    for (number, length) in [1usize, 4096, 12 * 4096, 300_000, 1_500_000]
        .into_iter()
        .enumerate()
    {
        put(
            fs,
            below,
            &format!("of {length}"),
            &bytes(number as u64, length),
        );
    }
    let sparse = put(fs, Ino::ROOT, "sparse", b"beginning");
    fs.write(sparse, 3_000_000, b"middle", clock).unwrap();
    fs.write(sparse, 5_000_000, b"end", clock).unwrap();
    let cut = put(fs, Ino::ROOT, "cut", &bytes(9, 900_000));
    for size in [700_001, 5000, 1_000_000] {
        fs.setattr(
            cut,
            &SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
            clock,
        )
        .unwrap();
    }
    fs.symlink(below, b"fast", b"../of 1", by).unwrap();
    fs.symlink(below, b"slow", &[b'x'; 200], by).unwrap();
    fs.create(below, b"fifo", NewNode::Fifo, 0o600, by).unwrap();
    fs.create(below, b"socket", NewNode::Socket, 0o600, by)
        .unwrap();
    fs.create(
        below,
        b"old device",
        NewNode::Block { device: (8, 17) },
        0o660,
        by,
    )
    .unwrap();
    fs.create(
        below,
        b"new device",
        NewNode::Character {
            device: (300, 70_000),
        },
        0o660,
        by,
    )
    .unwrap();
    fs.link(sparse, below, b"another name of sparse", clock)
        .unwrap();
    fs.setxattr(sparse, b"user.small", b"value", SetXattr::Any, clock)
        .unwrap();
    fs.setxattr(sparse, b"user.large", &[7; 500], SetXattr::Any, clock)
        .unwrap();
    fs.rename(
        (dir, b"below"),
        (Ino::ROOT, b"moved up"),
        Rename::Replace,
        clock,
    )
    .unwrap();
    let all = SetAttr {
        mode: Some(0o4751),
        uid: Some(100_000),
        gid: Some(5),
        mtime: Some(clock),
        ..SetAttr::default()
    };
    fs.setattr(cut, &all, clock).unwrap();
}
