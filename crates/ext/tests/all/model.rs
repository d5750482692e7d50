//! Random calls give the answers of the reference file system, on every size of block, and leave a
//! volume that e2fsck accepts.

use crate::common::{assert_clean, made_by_mke2fs, mount, ram};
use nandlab_block::Ram;
use nandlab_ext::{Ext, Format, Options, format};
use nandlab_testkit::media::Media;
use nandlab_testkit::model::{self, Rounds};
use nandlab_vfs::FileSystem;
use nandlab_vfs::model::{Model, Rules};

fn formatted(kib: u64, choices: &Format) -> Ram {
    let mut disk = ram(kib);
    format(&mut disk, choices).unwrap();
    disk
}

/// mke2fs puts lost+found into the root, which the reference does not have.
fn without_lost_found(fs: &mut Ext<&mut Ram>) {
    fs.rmdir(
        nandlab_vfs::Ino::ROOT,
        b"lost+found",
        nandlab_vfs::Time::new(1_000_000_000),
    )
    .unwrap();
}

/// Runs, and in between remounts, and compares what the new mount sees.
fn compare(disk: &mut Ram, rules: Rules, seed: u64, rounds: u64, steps: u64) {
    let mut ext = mount(&mut *disk);
    without_lost_found(&mut ext);
    ext.unmount().unwrap();
    drop(ext);
    let rounds = Rounds {
        mount: &|disk| Box::new(mount(disk)),
        assert_clean,
        rules,
        seed,
        rounds,
        steps,
    };
    rounds.run(disk);
}

/// The same on a volume of ours, whose bytes in the end are kept.
fn run(disk: &mut Ram, rules: Rules, seed: u64, rounds: u64, steps: u64) {
    compare(disk, rules, seed, rounds, steps);
    Media::default().disk(disk).assert(&format!("ext {seed}"));
}

#[test]
fn blocks_of_1_kib_answer_like_the_reference() {
    // Attributes of three names need more than a block of 1 KiB and this inode.
    run(
        &mut formatted(64 * 1024, &Format::default()),
        Rules {
            xattrs: false,
            ..Rules::unix()
        },
        1,
        8,
        5000,
    );
}

#[test]
fn blocks_of_2_kib_answer_like_the_reference() {
    run(
        &mut formatted(
            64 * 1024,
            &Format {
                block: Some(2048),
                ..Format::default()
            },
        ),
        Rules::unix(),
        2,
        4,
        5000,
    );
}

#[test]
fn blocks_of_4_kib_answer_like_the_reference() {
    run(
        &mut formatted(
            100 * 1024,
            &Format {
                block: Some(4096),
                inode_size: 128,
                ..Format::default()
            },
        ),
        Rules::unix(),
        4,
        8,
        5000,
    );
}

#[test]
fn a_volume_of_mke2fs_with_old_choices_answers_like_the_reference() {
    let options = [
        "-t",
        "ext2",
        "-b",
        "2048",
        "-O",
        "^dir_index,^filetype,^sparse_super,^resize_inode",
        "-I",
        "128",
    ];
    compare(
        &mut made_by_mke2fs(60 * 1024, &options),
        Rules::unix(),
        5,
        2,
        5000,
    );
}

#[test]
fn every_set_of_options_answers_like_the_reference() {
    let base = Options::default();
    let tight = Options {
        cache_bytes: 8192,
        dirty_bytes_max: 16_384,
        discard: true,
        ..base
    };
    for (seed, options) in [
        (1, Options { sync: true, ..base }),
        (2, tight),
        (
            3,
            Options {
                barriers: false,
                ..base
            },
        ),
    ] {
        let mut disk = formatted(
            48 * 1024,
            &Format {
                block: Some(2048),
                ..Format::default()
            },
        );
        let mut ext = Ext::mount(&mut disk, options).unwrap();
        without_lost_found(&mut ext);
        let mut model = Model::new(seed, Rules::unix());
        println!("{options:?}");
        model::run(&mut model, &mut ext, 5000);
        model.compare(&mut ext).unwrap();
        model::unmount(&mut model, &mut ext);
        assert_clean(&mut disk, &format!("{options:?}"));
    }
}
