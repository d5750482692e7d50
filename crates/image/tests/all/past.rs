//! What images still know of the past: versions of files of F2FS, deleted files of ext2.
//!
//! Needs e2fsprogs; fails saying so.

use crate::common;
use nandlab_block::Image as Disk;
use nandlab_image::file::ImageFile;
use nandlab_image::make::{Format, Making, make};
use nandlab_image::past::{Former, contents, former};
use nandlab_image::tree::{Data, Entry, Node, Tree};
use nandlab_image::volume::{Access, Opening, Volume};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use std::fs;
use std::path::Path;
use std::process::Command;

fn opened(image: &Path) -> Volume {
    Volume::open(image, &Opening::default(), Access::Read).unwrap()
}

fn bytes_of(volume: &mut Volume, one: &Former, scratch: &Path) -> (Vec<u8>, u64) {
    let path = scratch.join("found");
    let lost = contents(volume, one, &fs::File::create(&path).unwrap()).unwrap();
    (fs::read(path).unwrap(), lost)
}

#[test]
fn the_log_of_f2fs_has_former_versions_of_a_file() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let mut tree = Tree::default();
    tree.normalize().unwrap();
    let format = Format::F2fs(nandlab_f2fs::Format::default());
    make(
        tree,
        Making {
            format,
            size: Some(64 << 20),
            lossy: false,
            threads: 1,
            progress: &mut |_| {},
        },
        &image,
    )
    .unwrap();
    let disk = Disk::new(ImageFile::open_writable(&image).unwrap(), 512).unwrap();
    let mut f2fs = nandlab_f2fs::F2fs::mount(
        disk,
        nandlab_f2fs::Options {
            inline_data: false,
            ..Default::default()
        },
    )
    .unwrap();
    let at = |round: u8| Time::new(1_000_000_000 + i64::from(round) * 100);
    let file = f2fs
        .create(
            Ino::ROOT,
            b"report",
            NewNode::File,
            0o640,
            Caller::root(at(0)),
        )
        .unwrap()
        .ino;
    for round in 1..=3u8 {
        f2fs.write(file, 0, &vec![round; 9000], at(round)).unwrap();
        f2fs.fsync(file, Sync::All).unwrap();
    }
    f2fs.unlink(Ino::ROOT, b"report", at(4)).unwrap();
    f2fs.forget(file, 1);
    f2fs.unmount().unwrap();
    drop(f2fs);
    let mut volume = opened(&image);
    let all: Vec<Former> = former(&mut volume)
        .unwrap()
        .into_iter()
        .filter(|one| one.size == 9000)
        .collect();
    assert!(
        all.len() >= 3
            && all
                .iter()
                .all(|one| !one.current && one.name.to_string() == "report"),
        "{all:#?}"
    );
    for round in 1..=3u8 {
        let one = all
            .iter()
            .rfind(|one| one.mtime == at(round).secs)
            .unwrap_or_else(|| panic!("round {round}: {all:#?}"));
        assert_eq!(
            bytes_of(&mut volume, one, scratch.path()),
            (vec![round; 9000], 0),
            "round {round}"
        );
    }
}

#[test]
fn a_deleted_file_of_ext2_comes_back_and_none_of_ext3() {
    for journal in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let image = scratch.path().join("image");
        let data = common::bytes(8, 100_000);
        fs::write(scratch.path().join("data"), &data).unwrap();
        let mut tree = Tree::default();
        let node = Node::File {
            size: data.len() as u64,
        };
        tree.push(
            Entry {
                node,
                mode: 0o640,
                uid: 7,
                ..Entry::directory(b"gone")
            },
            Data::whole(scratch.path().join("data"), data.len() as u64),
        );
        tree.normalize().unwrap();
        common::made(
            &tree,
            Format::Ext(nandlab_ext::Format {
                journal,
                ..Default::default()
            }),
            &image,
            1,
        );
        if journal {
            // As Linux does it: the numbers of blocks are cleared.
            let disk = Disk::new(ImageFile::open_writable(&image).unwrap(), 512).unwrap();
            let mut ext = nandlab_ext::Ext::mount(disk, nandlab_ext::Options::default()).unwrap();
            ext.unlink(Ino::ROOT, b"gone", Time::new(1_000_000_000))
                .unwrap();
            ext.unmount().unwrap();
            assert_eq!(former(&mut opened(&image)).unwrap(), []);
            continue;
        }
        let debugfs = Command::new("/sbin/debugfs")
            .args(["-w", "-R", "rm /gone"])
            .arg(&image)
            .output();
        let output =
            debugfs.unwrap_or_else(|error| panic!("debugfs: {error}: apt-get install e2fsprogs"));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut volume = opened(&image);
        let all = former(&mut volume).unwrap();
        assert_eq!(
            (all.len(), all[0].size, all[0].lost, all[0].mode),
            (1, 100_000, 0, 0o640),
            "{all:?}"
        );
        assert!(bytes_of(&mut volume, &all[0], scratch.path()).0 == data);
    }
}
