//! Volumes made here are, byte by byte, those that mke2fs makes.

use crate::common::{assert_clean, made_by_mke2fs, ram};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Format, FormatError, format};
use nandlab_testkit::disk::{difference, poke, word};
use nandlab_testkit::share::is_whole;
use nandlab_vfs::Time;

/// The sizes that a test tries, in KiB. A sample has the small ones.
fn tried<const N: usize>(kib: [u64; N]) -> impl Iterator<Item = u64> {
    kib.into_iter().filter(|kib| is_whole() || *kib < 200_000)
}

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
    for kib in tried([
        200, 1440, 3000, 8192, 8300, 20_000, 65_536, 300_000, 600_000,
    ]) {
        assert_same(kib, &["-t", "ext2"], &Format::default());
    }
}

/// Its largest size is in each sample: from 512 MiB on, mke2fs takes blocks of 4 KiB.
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

/// mke2fs counts what it wrote itself, in KiB.
const KBYTES_WRITTEN: u64 = 1024 + 376;
const CHECKSUM: u64 = 1024 + 1020;

/// The same for ext4, where the superblock counts what mke2fs has written.
fn assert_same_ext4(kib: u64, options: &[&str], choices: &Format) {
    for attempt in 0.. {
        let mut theirs = made_by_mke2fs(kib, &[&["-t", "ext4"], options].concat());
        let made = word(&mut theirs, 1024 + 264);
        let mut ours = ram(kib);
        let choices = Format {
            now: Time::new(i64::from(made)),
            ext4: true,
            journal: true,
            ..choices.clone()
        };
        format(&mut ours, &choices).unwrap();
        assert_clean(&mut ours, &format!("{kib} KiB {options:?}"));
        for disk in [&mut ours, &mut theirs] {
            poke(disk, KBYTES_WRITTEN, &[0; 8]);
            poke(disk, CHECKSUM, &[0; 4]);
        }
        match differences(&mut ours, &mut theirs) {
            None => return,
            Some(_) if attempt < 3 => {}
            Some((at, ours, theirs)) => panic!(
                "{kib} KiB {options:?}: byte {at} (block {}): {ours:?}, mke2fs {theirs:?}",
                at / 1024
            ),
        }
    }
}

/// The first difference that is not in a copy of the superblock.
fn differences(ours: &mut Ram, theirs: &mut Ram) -> Option<(u64, Vec<u8>, Vec<u8>)> {
    while let Some((at, one, other)) = difference(ours, theirs) {
        let block = at / 1024 * 1024;
        let mut sector = [0; 512];
        ours.read(Lba(block / 512), &mut sector).unwrap();
        let is_copy = sector[56..58] == [0x53, 0xEF];
        let within = at - block;
        if !is_copy || !((376..384).contains(&within) || within >= 1020) {
            return Some((at, one, other));
        }
        for disk in [&mut *ours, &mut *theirs] {
            poke(disk, block + 376, &[0; 8]);
            poke(disk, block + 1020, &[0; 4]);
        }
    }
    None
}

#[test]
fn ext4_is_what_mke2fs_makes() {
    for kib in tried([1600, 4096, 20_000, 65_536, 140_000, 300_000, 600_000]) {
        assert_same_ext4(kib, &[], &Format::default());
    }
    let block = |block| Format {
        block: Some(block),
        ..Format::default()
    };
    assert_same_ext4(100_000, &["-b", "4096"], &block(4096));
    let fast = Format {
        fast_commit: true,
        ..Format::default()
    };
    for kib in [8192, 140_000] {
        assert_same_ext4(kib, &["-O", "fast_commit"], &fast);
    }
    assert_same_ext4(
        100_000,
        &["-b", "2048", "-m", "0"],
        &Format {
            reserved_percent: 0,
            ..block(2048)
        },
    );
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
