//! Volumes of ext4 as mke2fs makes them: read, checked, written.

use crate::common::{
    self, NOW, assert_clean, bytes, fsck, made_by_mke2fs, mkdir, mount, put, read_only,
};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, ExtError, Options, Region};
use nandlab_testkit::disk::poke;
use nandlab_testkit::model;
use nandlab_vfs::model::{Model, Rules};
use nandlab_vfs::{Errno, FileSystem, Ino, SetAttr, SetXattr, Sync};

#[test]
fn a_volume_of_mke2fs_is_clean() {
    for (kib, options) in [
        (16 * 1024, &["-t", "ext4"][..]),
        (64 * 1024, &["-t", "ext4"]),
        (64 * 1024, &["-t", "ext4", "-b", "4096"]),
        (700 * 1024, &["-t", "ext4"]),
        (64 * 1024, &["-t", "ext4", "-O", "^metadata_csum,uninit_bg"]),
        (64 * 1024, &["-t", "ext4", "-O", "^has_journal"]),
        (
            64 * 1024,
            &["-t", "ext4", "-O", "^64bit,inline_data,ea_inode,large_dir"],
        ),
        (
            64 * 1024,
            &["-t", "ext4", "-O", "meta_bg,^resize_inode,mmp"],
        ),
        (64 * 1024, &["-t", "ext4", "-O", "sparse_super2"]),
        (
            64 * 1024,
            &["-t", "ext4", "-O", "bigalloc,^resize_inode", "-b", "4096"],
        ),
        (64 * 1024, &["-t", "ext4", "-O", "quota,project"]),
        (
            64 * 1024,
            &[
                "-t",
                "ext4",
                "-O",
                "orphan_file,metadata_csum_seed,fast_commit",
            ],
        ),
    ] {
        let mut disk = made_by_mke2fs(kib, options);
        assert_clean(&mut disk, &format!("{kib} {options:?}"));
    }
}

#[test]
fn a_volume_is_written_and_stays_clean() {
    for (seed, (kib, options)) in (1..).zip([
        (32 * 1024, &["-t", "ext4"][..]),
        (32 * 1024, &["-t", "ext4", "-b", "4096"]),
        (
            32 * 1024,
            &["-t", "ext4", "-O", "^metadata_csum,uninit_bg,^64bit"],
        ),
        (32 * 1024, &["-t", "ext4", "-O", "^has_journal"]),
        (
            32 * 1024,
            &["-t", "ext4", "-O", "meta_bg,^resize_inode,mmp,large_dir"],
        ),
    ]) {
        let mut disk = made_by_mke2fs(kib, options);
        let mut ext = mount(&mut disk);
        assert!(!ext.is_read_only());
        nandlab_vfs::FileSystem::rmdir(
            &mut ext,
            nandlab_vfs::Ino::ROOT,
            b"lost+found",
            common::NOW,
        )
        .unwrap();
        let mut calls = Model::new(seed, Rules::unix());
        for _ in 0..4 {
            model::run(&mut calls, &mut ext, 1000);
            ext.sync().unwrap();
        }
        model::unmount(&mut calls, &mut ext);
        assert_clean(&mut disk, &format!("{kib} {options:?}"));
    }
}

/// Blocks of 1 KiB of a disk.
fn blocks(disk: &mut Ram) -> Vec<Vec<u8>> {
    let count = disk.geometry().bytes() / 1024;
    let block = |number| {
        let mut bytes = vec![0; 1024];
        disk.read(Lba(number * 2), &mut bytes).unwrap();
        bytes
    };
    (0..count).map(block).collect()
}

/// A volume with every structure that has a checksum.
fn with_every_structure() -> Ram {
    let features = "orphan_file,mmp,large_dir";
    let mut disk = made_by_mke2fs(32 * 1024, &["-t", "ext4", "-b", "1024", "-O", features]);
    let mut ext = mount(&mut disk);
    let many = mkdir(&mut ext, Ino::ROOT, "many");
    for number in 0..700 {
        put(&mut ext, many, &format!("{number:0>240}"), b"");
    }
    let file = put(&mut ext, Ino::ROOT, "file", b"");
    for index in 0..40 {
        ext.write(file, index * 2048, b"an extent of its own", NOW)
            .unwrap();
    }
    ext.setxattr(file, b"user.outside", &[5; 300], SetXattr::Any, NOW)
        .unwrap();
    ext.unmount().unwrap();
    assert_clean(&mut disk, "every structure");
    disk
}

/// A structure, the byte of the disk that is changed, and the words of the finding.
fn places(disk: &mut Ram) -> Vec<(&'static str, u64, &'static str)> {
    let mut all = blocks(disk);
    // The journal has copies of all that changes.
    for (range, region) in read_only(&mut *disk).regions().unwrap() {
        if region == Region::Journal {
            range.for_each(|block| all[block as usize].fill(0));
        }
    }
    let desc = |at: usize| u64::from(u32::from_le_bytes(all[2][at..at + 4].try_into().unwrap()));
    let find = |is: &dyn Fn(&[u8]) -> bool| {
        let found = all.iter().position(|block| is(block));
        found.unwrap() as u64 * 1024
    };
    let is_node = |block: &[u8]| block[..8] == [0, 0, 0, 0, 0, 4, 0, 0] && block[8] == 126;
    let is_leaf = |block: &[u8]| {
        block[8..20] == [b'0'; 12] && block[1012..1020] == [0, 0, 0, 0, 12, 0, 0, 0xDE]
    };
    let is_root = |block: &[u8]| block[28..32] == [1, 8, 1, 0] && block[8] == b'.';
    let is_tree = |block: &[u8]| block[..2] == [0x0A, 0xF3] && block[6] == 0;
    vec![
        ("descriptor", 2 * 1024 + 44, "a group descriptor"),
        ("block bitmap", desc(0) * 1024 + 800, "a block bitmap"),
        ("inode bitmap", desc(4) * 1024 + 200, "an inode bitmap"),
        ("inode", desc(8) * 1024 + 256 + 100 - 64, "an inode"),
        ("names", find(&is_leaf) + 1000, "a block of names"),
        ("index", find(&is_root) + 42, "a block of names"),
        (
            "index below",
            find(&is_node) + 40 * 8 + 2,
            "a block of names",
        ),
        ("extents", find(&is_tree) + 10, "a block of extents"),
        (
            "attributes",
            find(&|block| block[..4] == [0, 0, 2, 0xEA]) + 600,
            "a block of attributes",
        ),
        (
            "guard",
            find(&|block| block[..4] == [0x50, 0x4D, 0x4D, 0]) + 20,
            "multiple mount protection",
        ),
        (
            "orphans",
            find(&|block| block[1016..1020] == [4, 0xCA, 0x10, 0x0B]) + 500,
            "a block of orphans",
        ),
    ]
}

#[test]
fn a_change_of_each_structure_is_found_by_its_checksum() {
    let mut disk = with_every_structure();
    for (name, at, words) in places(&mut disk) {
        let mut sector = [0; 512];
        disk.read(Lba(at / 512), &mut sector).unwrap();
        let old = sector[(at % 512) as usize];
        poke(&mut disk, at, &[old ^ 0x10]);
        let report = read_only(&mut disk).check().unwrap();
        let text: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let told = text
            .iter()
            .any(|line| line.contains("checksum") && line.contains(words));
        assert!(told, "{name}: {text:?}");
        let (content, said) = fsck(&mut disk);
        // e2fsck looks at that block only when it mounts for writing.
        assert!(
            !content || name == "guard",
            "{name}: e2fsck is content: {said}"
        );
        poke(&mut disk, at, &[old]);
    }
    assert_clean(&mut disk, "changed back");
    poke(&mut disk, 1024 + 0x80, b"x");
    let refused = Ext::mount(&mut disk, Options::default()).unwrap_err();
    assert!(refused.to_string().contains("checksum"), "{refused}");
}

#[test]
fn a_damaged_volume_with_checksums_is_repaired_to_what_e2fsck_accepts() {
    let mut disk = with_every_structure();
    let places = places(&mut disk);
    for name in ["block bitmap", "inode bitmap", "descriptor"] {
        let at = places.iter().find(|place| place.0 == name).unwrap().1;
        poke(&mut disk, at, &[0]);
    }
    for _ in 0..4 {
        let patches = read_only(&mut disk).repair().unwrap();
        for patch in &patches {
            disk.write(Lba(patch.at / 512), &patch.bytes).unwrap();
        }
    }
    assert_clean(&mut disk, "repaired");
}

#[test]
fn a_tree_of_extents_grows_to_three_levels_and_shrinks_again() {
    let mut disk = made_by_mke2fs(80 * 1024, &["-t", "ext4", "-b", "1024"]);
    let mut ext = mount(&mut disk);
    let file = put(&mut ext, Ino::ROOT, "deep", b"");
    // 84 entries in a block, 4 in the root: more than 84 * 84 * 4 extents. The middle comes last.
    let count = 28_400u64;
    let order = (0..count / 2).chain((count / 2..count).rev());
    for index in order {
        ext.write(file, index * 2048, &index.to_le_bytes(), NOW)
            .unwrap();
    }
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "deep");
    let tree = debugfs(&mut disk, "dump_extents /deep");
    assert!(tree.contains(" 3/ 3 "), "{}", &tree[..2000.min(tree.len())]);
    let mut ext = mount(&mut disk);
    for index in 0..count {
        let mut found = [0; 8];
        ext.read(file, index * 2048, &mut found).unwrap();
        assert_eq!(u64::from_le_bytes(found), index);
    }
    for left in [20_000u64, 7000, 300, 3, 0] {
        let size = SetAttr {
            size: Some(left * 2048),
            ..SetAttr::default()
        };
        ext.setattr(file, &size, NOW).unwrap();
        ext.unmount().unwrap();
        drop(ext);
        assert_clean(&mut disk, &format!("cut to {left}"));
        ext = mount(&mut disk);
    }
}

#[test]
fn a_file_reaches_to_the_last_block_that_extents_can_number() {
    let mut disk = made_by_mke2fs(32 * 1024, &["-t", "ext4", "-b", "4096"]);
    let mut ext = mount(&mut disk);
    let file = put(&mut ext, Ino::ROOT, "sparse", b"begin");
    let end = u64::from(u32::MAX) * 4096;
    assert_eq!(ext.write(file, end - 3, b"end!", NOW), Ok(3));
    assert_eq!(ext.write(file, end, b"x", NOW), Err(Errno::FileTooBig));
    let mut found = [1; 6];
    assert_eq!(ext.read(file, end - 6, &mut found), Ok(6));
    assert_eq!(&found, b"\0\0\0end");
    assert_eq!(ext.next_data(file, 5000).unwrap(), end - 4096);
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "sparse");
}

#[test]
fn an_index_grows_to_three_levels() {
    let options = ["-t", "ext4", "-b", "1024", "-O", "large_dir"];
    let mut disk = made_by_mke2fs(80 * 1024, &options);
    let mut ext = mount(&mut disk);
    let dir = mkdir(&mut ext, Ino::ROOT, "many");
    let file = put(&mut ext, Ino::ROOT, "file", b"");
    let count = 60_000;
    for number in 0..count {
        ext.link(file, dir, format!("{number:0>250}").as_bytes(), NOW)
            .unwrap();
    }
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "three levels");
    let index = debugfs(&mut disk, "htree_dump /many");
    assert!(index.contains("Indirect levels: 2"), "{}", &index[..500]);
    let mut ext = mount(&mut disk);
    for number in (0..count).step_by(97) {
        let name = format!("{number:0>250}");
        assert_eq!(ext.lookup(dir, name.as_bytes()).unwrap().ino, file);
        ext.unlink(dir, name.as_bytes(), NOW).unwrap();
    }
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "three levels, with gaps");
}

#[test]
fn a_directory_has_more_directories_than_links_can_be_counted() {
    let options = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-N",
        "66000",
        "-O",
        "^has_journal",
    ];
    let mut disk = made_by_mke2fs(160 * 1024, &options);
    let mut ext = mount(&mut disk);
    let dir = mkdir(&mut ext, Ino::ROOT, "many");
    for number in 0..65_100 {
        mkdir(&mut ext, dir, &format!("{number}"));
    }
    assert_eq!(ext.getattr(dir).unwrap().links, 1);
    ext.unmount().unwrap();
    drop(ext);
    assert_clean(&mut disk, "many directories");
    let mut ext = mount(&mut disk);
    for number in 0..200 {
        ext.rmdir(dir, format!("{number}").as_bytes(), NOW).unwrap();
    }
    assert_eq!(ext.getattr(dir).unwrap().links, 1);
    ext.unmount().unwrap();
    drop(ext);
    // e2fsck counts again and says so, without calling it an error.
    assert_eq!(read_only(&mut disk).check().unwrap().findings, []);
}

/// A journal with checksums, left by a cut, with one byte of each of its blocks changed in turn.
#[test]
fn a_journal_with_checksums_is_recovered_whole_or_refused() {
    let mut disk = made_by_mke2fs(16 * 1024, &["-t", "ext4", "-b", "1024"]);
    let mut ext = mount(&mut disk);
    for number in 0..30 {
        let name = format!("file {number}");
        let file = put(&mut ext, Ino::ROOT, &name, &bytes(number, 3000));
        ext.fsync(file, Sync::All).unwrap();
    }
    drop(ext);
    let sound = blocks(&mut disk);
    let log: Vec<u64> = (0..sound.len() as u64)
        .filter(|at| sound[*at as usize][..8] == [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1])
        .collect();
    assert!(log.len() > 10, "{} descriptors", log.len());
    let mut refused = 0;
    for descriptor in log {
        for block in descriptor..descriptor + 3 {
            let mut copy = disk.clone();
            poke(
                &mut copy,
                block * 1024 + 700,
                &[sound[block as usize][700] ^ 1],
            );
            match Ext::mount(&mut copy, Options::default()) {
                Err(ExtError::Journal(error)) => {
                    assert!(error.to_string().contains("checksum"), "{error}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
                Ok(mut ext) => {
                    ext.unmount().unwrap();
                    drop(ext);
                    assert_clean(&mut copy, &format!("block {block}"));
                }
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

fn debugfs(disk: &mut Ram, request: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("disk");
    common::save(disk, &path);
    common::printed(&common::tool(
        "debugfs",
        &["-R", request, path.to_str().unwrap()],
    ))
}
