//! Volumes of ext4 as mke2fs makes them: read, checked, written.

use crate::common::{self, assert_clean, made_by_mke2fs, mount};

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
    use nandlab_testkit::model;
    use nandlab_vfs::model::{Model, Rules};
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
            nandlab_vfs::FileSystem::sync(&mut ext).unwrap();
        }
        model::unmount(&mut calls, &mut ext);
        assert_clean(&mut disk, &format!("{kib} {options:?}"));
    }
}
