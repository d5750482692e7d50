//! Volumes made here are, byte by byte, those that mke2fs makes.

use crate::common::{assert_clean, made_by_mke2fs, ram};
use nandlab_ext::{Format, FormatError, format};
use nandlab_testkit::disk::{difference, word};
use nandlab_vfs::Time;

/// mke2fs takes the time from the clock; made in one second, its volume has one time.
fn assert_same(kib: u64, options: &[&str], choices: &Format) {
    for attempt in 0.. {
        let mut theirs = made_by_mke2fs(kib, options);
        let made = word(&mut theirs, 1024 + 264);
        let mut ours = ram(kib);
        format(
            &mut ours,
            &Format {
                now: Time::new(i64::from(made)),
                ..choices.clone()
            },
        )
        .unwrap();
        match difference(&mut ours, &mut theirs) {
            None => return assert_clean(&mut ours, &format!("{kib} KiB {options:?}")),
            Some(_) if attempt < 3 => {}
            Some((at, ours, theirs)) => panic!(
                "{kib} KiB {options:?}: byte {at} (block {}): {ours:?}, mke2fs {theirs:?}",
                at / 1024
            ),
        }
    }
}

#[test]
fn ext2_is_what_mke2fs_makes() {
    for kib in [
        200, 1440, 3000, 8192, 8300, 20_000, 65_536, 300_000, 600_000,
    ] {
        assert_same(kib, &["-t", "ext2"], &Format::default());
    }
}

#[test]
fn ext3_is_what_mke2fs_makes() {
    for kib in [1600, 4096, 20_000, 100_000, 600_000] {
        assert_same(
            kib,
            &["-t", "ext3"],
            &Format {
                journal: true,
                ..Format::default()
            },
        );
    }
}

#[test]
fn choices_are_those_of_mke2fs() {
    let base = Format::default();
    assert_same(
        20_000,
        &["-t", "ext2", "-b", "2048"],
        &Format {
            block: Some(2048),
            ..base.clone()
        },
    );
    assert_same(
        20_000,
        &["-t", "ext2", "-b", "4096", "-I", "128"],
        &Format {
            block: Some(4096),
            inode_size: 128,
            ..base.clone()
        },
    );
    assert_same(
        20_000,
        &["-t", "ext2", "-i", "20000", "-m", "0"],
        &Format {
            inode_ratio: Some(20_000),
            reserved_percent: 0,
            ..base.clone()
        },
    );
    assert_same(
        40_000,
        &["-t", "ext3", "-I", "512", "-i", "1024"],
        &Format {
            journal: true,
            inode_size: 512,
            inode_ratio: Some(1024),
            ..base.clone()
        },
    );
    assert_same(
        300_000,
        &["-t", "ext3", "-b", "4096", "-J", "size=6"],
        &Format {
            journal: true,
            journal_blocks: Some(1536),
            block: Some(4096),
            ..base.clone()
        },
    );
    assert_same(
        5000,
        &["-t", "ext2", "-L", "sixteen bytes ok"],
        &Format {
            label: b"sixteen bytes ok".to_vec(),
            ..base
        },
    );
}

#[test]
fn sizes_and_choices_that_make_no_volume_are_refused() {
    let refused = |kib, choices: &Format| format(&mut ram(kib), choices).unwrap_err();
    assert!(matches!(
        refused(8, &Format::default()),
        FormatError::Size { .. }
    ));
    assert!(matches!(
        refused(
            40,
            &Format {
                inode_ratio: Some(1024),
                ..Format::default()
            }
        ),
        FormatError::Size { .. }
    ));
    let error = refused(
        1000,
        &Format {
            block: Some(3000),
            ..Format::default()
        },
    );
    assert_eq!(
        error.to_string(),
        "block is 3000, expected 1024, 2048 or 4096 bytes"
    );
    assert!(matches!(
        refused(
            1000,
            &Format {
                label: vec![b'x'; 17],
                ..Format::default()
            }
        ),
        FormatError::Choice { .. }
    ));
}
