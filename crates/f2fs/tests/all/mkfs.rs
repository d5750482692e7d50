//! Volumes made here are, byte by byte, those that mkfs.f2fs makes.

use crate::common::{assert_clean, made_by_mkfs, ram};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{F2fs, F2fsError, Format, FormatError, Options, format};
use nandlab_testkit::disk::{difference, poke, word};
use nandlab_vfs::Time;

fn block(disk: &mut Ram, number: u64) -> Vec<u8> {
    let mut data = vec![0; 4096];
    disk.read(Lba(number * 8), &mut data).unwrap();
    data
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// What mkfs.f2fs draws, and where it runs.
fn drawn(theirs: &mut Ram, choices: &Format) -> Format {
    let sb = block(theirs, 0);
    let main = le32(&block(theirs, 0), 1024 + 92);
    let pack = block(theirs, le32(&sb, 1024 + 76).into());
    let root = block(theirs, main.into());
    let maker = &sb[1024 + 1668..1024 + 1924];
    let end = maker.iter().position(|byte| *byte == 0).unwrap();
    Format {
        uuid: sb[1024 + 108..1024 + 124].try_into().unwrap(),
        checkpoint: le32(&pack, 0).into(),
        maker: String::from_utf8(maker[..end].to_vec()).unwrap(),
        now: Time::new(le32(&root, 32).into()),
        ..choices.clone()
    }
}

fn assert_same(mib: u64, options: &[&str], choices: &Format) {
    let mut theirs = made_by_mkfs(mib, options);
    let choices = drawn(&mut theirs, choices);
    let mut ours = ram(mib * 1024);
    format(&mut ours, &choices).unwrap();
    if let Some((at, ours, theirs)) = difference(&mut ours, &mut theirs) {
        panic!(
            "{mib} MiB {options:?}: block {}, byte {}: {ours:?}, mkfs.f2fs {theirs:?}",
            at / 4096,
            at % 4096
        );
    }
    assert_clean(&mut ours, &format!("{mib} MiB {options:?}"));
}

#[test]
fn volumes_are_what_mkfs_makes() {
    for mib in [52, 64, 77, 128, 300] {
        assert_same(mib, &[], &Format::default());
    }
}

#[test]
fn choices_are_those_of_mkfs() {
    let base = Format::default();
    assert_same(
        200,
        &["-s", "2"],
        &Format {
            segs_per_sec: 2,
            ..base.clone()
        },
    );
    assert_same(
        300,
        &["-s", "2", "-z", "3"],
        &Format {
            segs_per_sec: 2,
            secs_per_zone: 3,
            ..base.clone()
        },
    );
    assert_same(
        128,
        &["-l", "größer"],
        &Format {
            label: "größer".into(),
            ..base.clone()
        },
    );
    assert_same(
        128,
        &["-o", "40"],
        &Format {
            overprovision: Some(40.0),
            ..base
        },
    );
}

#[test]
fn features_that_are_not_understood_are_refused_by_name() {
    let mut disk = made_by_mkfs(100, &["-O", "extra_attr,quota"]);
    let refused = F2fs::mount(&mut disk, Options::default()).unwrap_err();
    assert_eq!(
        refused,
        F2fsError::OnlyRead {
            bit: 0x80,
            name: "quota"
        }
    );
    let features = word(&mut disk, 1024 + 2180) | 0x4000;
    poke(&mut disk, 1024 + 2180, &features.to_le_bytes());
    let refused = F2fs::mount(&mut disk, Options::default()).unwrap_err();
    let feature = F2fsError::Feature {
        bit: 0x4000,
        name: "ro",
    };
    assert_eq!(refused, feature);
    let mut disk = made_by_mkfs(
        100,
        &[
            "-O",
            "extra_attr,inode_checksum,inode_crtime,sb_checksum,lost_found,flexible_inline_xattr",
        ],
    );
    assert_clean(&mut disk, "features that are understood");
}

#[test]
fn devices_too_small_are_refused() {
    assert!(matches!(
        format(&mut ram(30 * 1024), &Format::default()),
        Err(FormatError::Size { .. })
    ));
    let error = format(
        &mut ram(100 * 1024),
        &Format {
            secs_per_zone: 0,
            ..Format::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "sections of a zone is 0, expected 1 to 16384"
    );
}
