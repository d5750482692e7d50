//! Fast commits that an fsync writes: what they cover, and when an fsync writes a transaction
//! instead. The real kernel judges in `slow/fast_kernel.rs`.

use crate::common::fast::{TAIL, tags};
use crate::common::{NOW, assert_clean, bytes, made_by_mke2fs, manifest, mkdir, mount, put};
use nandlab_block::{BlockDevice, Ram, WriteLog};
use nandlab_ext::{Ext, Options};
use nandlab_oracle::manifest::{Kind, Manifest, differences};
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Caller, FileSystem, Ino, Rename, SetAttr, SetXattr, Sync};

/// Mounts with fast commits over a log of all writes.
fn writing(disk: &Ram) -> Ext<WriteLog<Ram>> {
    let options = Options {
        fast_commit: true,
        ..Options::default()
    };
    Ext::mount(WriteLog::new(disk.clone()), options).unwrap()
}

/// The disk as a cut leaves it now.
fn cut(base: &Ram, ext: &mut Ext<WriteLog<Ram>>) -> Ram {
    let mut disk = base.clone();
    for record in ext.device_mut().records() {
        record.apply(&mut disk).unwrap();
    }
    disk
}

/// Fast commits on a disk.
fn count(disk: &mut Ram) -> usize {
    tags(disk).iter().filter(|tag| tag.kind == TAIL).count()
}

type Work = fn(&mut Ext<WriteLog<Ram>>, Ino, Ino);

#[test]
fn an_fsync_writes_a_fast_commit_where_tags_can_say_what_changed() {
    let cases: [(&str, bool, Work); 12] = [
        ("append", true, |ext, file, _| {
            _ = ext.write(file, 9000, b"more", NOW).unwrap()
        }),
        ("create", true, |ext, _, dir| {
            _ = put(ext, dir, "new", b"new")
        }),
        ("link", true, |ext, file, dir| {
            _ = ext.link(file, dir, b"link", NOW).unwrap()
        }),
        ("unlink", true, |ext, _, dir| {
            ext.unlink(dir, b"other", NOW).unwrap()
        }),
        ("rename", true, |ext, _, dir| {
            let to = (Ino::ROOT, &b"moved"[..]);
            ext.rename((dir, b"other"), to, Rename::Replace, NOW)
                .unwrap();
        }),
        ("mode", true, |ext, file, _| {
            let mode = Some(0o600);
            let change = SetAttr {
                mode,
                ..SetAttr::default()
            };
            ext.setattr(file, &change, NOW).unwrap();
        }),
        ("truncate", false, |ext, file, _| {
            let size = Some(100);
            let change = SetAttr {
                size,
                ..SetAttr::default()
            };
            ext.setattr(file, &change, NOW).unwrap();
        }),
        ("attribute", false, |ext, file, _| {
            ext.setxattr(file, b"user.a", b"value", SetXattr::Any, NOW)
                .unwrap();
        }),
        ("directory", false, |ext, _, dir| {
            _ = mkdir(ext, dir, "below")
        }),
        ("mode of a directory", false, |ext, _, dir| {
            let mode = Some(0o700);
            let change = SetAttr {
                mode,
                ..SetAttr::default()
            };
            ext.setattr(dir, &change, NOW).unwrap();
        }),
        ("symbolic link", false, |ext, _, dir| {
            ext.symlink(dir, b"symbolic", b"target", Caller::root(NOW))
                .unwrap();
        }),
        ("exchange", false, |ext, _, dir| {
            ext.rename((dir, b"file"), (dir, b"other"), Rename::Exchange, NOW)
                .unwrap();
        }),
    ];
    for (name, is_fast, work) in cases {
        let base = made_by_mke2fs(8 * 1024, &["-t", "ext4", "-b", "1024", "-O", "fast_commit"]);
        let mut ext = writing(&base);
        let dir = mkdir(&mut ext, Ino::ROOT, "d");
        let file = put(&mut ext, dir, "file", &bytes(1, 5000));
        put(&mut ext, dir, "other", &bytes(2, 5000));
        ext.fsync(file, Sync::All).unwrap();
        work(&mut ext, file, dir);
        ext.fsync(file, Sync::All).unwrap();
        let mut disk = cut(&base, &mut ext);
        assert_eq!(count(&mut disk) > 0, is_fast, "{name}");
        assert_eq!(
            differences(&undated(&mut ext), &undated(&mut mount(disk))),
            "",
            "{name}"
        );
    }
}

/// The tree without the times of directories, which no tag has.
fn undated<D: BlockDevice>(ext: &mut Ext<D>) -> Manifest {
    let mut tree = manifest(ext);
    let dirs = tree
        .values_mut()
        .filter(|entry| entry.kind == Kind::Directory);
    dirs.for_each(|dir| (dir.mtime, dir.mtime_nanos) = (0, 0));
    tree
}

#[test]
fn what_was_fsynced_in_a_long_run_is_in_a_transaction_or_in_fast_commits() {
    let mut fast = 0;
    for seed in 0..4 {
        let base = made_by_mke2fs(
            12 * 1024,
            &["-t", "ext4", "-b", "1024", "-O", "fast_commit"],
        );
        let mut ext = writing(&base);
        ext.rmdir(Ino::ROOT, b"lost+found", NOW).unwrap();
        let mut model = Model::new(
            seed,
            Rules {
                xattrs: false,
                ..Rules::unix()
            },
        );
        let mut before = 0;
        for round in 0..120 {
            model
                .run(&mut ext, 3)
                .unwrap_or_else(|mismatch| panic!("{mismatch}"));
            ext.fsync(Ino::ROOT, Sync::All).unwrap();
            let mut disk = cut(&base, &mut ext);
            let tails = count(&mut disk);
            fast += usize::from(tails > 0 && tails != before);
            before = tails;
            let mut recovered = mount(&mut disk);
            let what = format!("seed {seed}, round {round}");
            assert_eq!(
                differences(&undated(&mut ext), &undated(&mut recovered)),
                "",
                "{what}"
            );
            recovered.unmount().unwrap();
            drop(recovered);
            if round % 40 == 0 {
                assert_clean(&mut disk, &what);
            }
        }
    }
    println!("{fast} states with another fast commit");
    assert!(fast > 60, "{fast}");
}
