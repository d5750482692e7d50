//! Our volumes are those of mkfs.vfat, field by field, and fsck.vfat accepts them; those of
//! mkfs.vfat are mounted and edited.

use crate::common;
use crate::common::{assert_clean, bytes, made_by_mkfs, mkdir, mount, put, ram, save};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_fat::{Bits, Format, FormatError, format};
use nandlab_testkit::share::whole_or;
use nandlab_testkit::tools::{succeed, text};
use nandlab_vfs::{FileSystem, Ino, Sync, tree};

/// The first `count` sectors.
fn sectors(disk: &mut Ram, count: usize) -> Vec<u8> {
    let mut data = vec![0; count * 512];
    disk.read(Lba(0), &mut data).unwrap();
    data
}

/// The same choices for both programs: theirs as options, ours as fields.
fn assert_same(kib: u64, options: &[&str], choices: &Format) {
    let mut theirs = made_by_mkfs(kib, &[&["-n", "LABEL"], options].concat());
    let choices = Format {
        volume_id: 0x1234_ABCD,
        label: Some(b"LABEL".to_vec()),
        ..choices.clone()
    };
    let mut ours = ram(kib);
    let layout = format(&mut ours, &choices)
        .unwrap_or_else(|error| panic!("{kib} KiB {options:?}: {error}"));
    assert_clean(&mut ours, &format!("{kib} KiB {options:?}"));
    let fields = if layout.bits == Bits::Fat32 {
        11..90
    } else {
        11..62
    };
    let [a, b] = [&mut theirs, &mut ours].map(|disk| sectors(disk, 1)[fields.clone()].to_vec());
    assert_eq!(a, b, "{kib} KiB {options:?}: boot sector from byte 11");
    // Everything between the boot sector and the root's first entry's times; boot sectors differ in
    // code.
    let per = (layout.sector / 512) as usize;
    let end = (layout.data_start as usize
        + if layout.root_cluster == 0 {
            0
        } else {
            layout.cluster_sectors as usize
        })
        * per;
    let root = (layout.data_start - layout.root_slots * 32 / layout.sector) as usize * per;
    let [mut a, mut b] = [&mut theirs, &mut ours].map(|disk| sectors(disk, end));
    for image in [&mut a, &mut b] {
        image[..512].fill(0);
        if let Some(backup) = layout.backup {
            image[backup as usize * per * 512..][..512].fill(0);
        }
        image[root * 512 + 12..root * 512 + 26].fill(0);
    }
    let first = a.iter().zip(&b).position(|(a, b)| a != b);
    assert_eq!(
        first,
        None,
        "{kib} KiB {options:?}: sector {:?}",
        first.map(|at| at / 512)
    );
}

#[test]
fn default_volumes_of_all_sizes_are_those_of_mkfs() {
    let sizes = [
        64, 100, 360, 720, 1200, 1440, 2880, 2000, 4096, 4097, 8191, 16_383, 16_500, 32_768,
        65_537, 131_072, 262_145,
    ];
    let huge = [524_287, 524_288, 520_000, 700_001, 8_388_609];
    let huge = &huge[..whole_or(5, 2)];
    for &kib in sizes.iter().chain(huge) {
        assert_same(kib, &[], &Format::default());
    }
}

#[test]
fn chosen_volumes_are_those_of_mkfs() {
    let base = Format::default();
    let bits = |bits| Format {
        bits: Some(bits),
        ..base.clone()
    };
    assert_same(65_536, &["-F", "32"], &bits(Bits::Fat32));
    assert_same(266_241, &["-F", "32"], &bits(Bits::Fat32));
    assert_same(
        40_000,
        &["-F", "16", "-R", "8"],
        &Format {
            reserved: Some(8),
            ..bits(Bits::Fat16)
        },
    );
    assert_same(
        3000,
        &["-F", "16", "-s", "1"],
        &Format {
            cluster_sectors: Some(1),
            ..bits(Bits::Fat16)
        },
    );
    assert_same(
        70_000,
        &["-s", "16", "-f", "1"],
        &Format {
            cluster_sectors: Some(16),
            fats: 1,
            ..base.clone()
        },
    );
    assert_same(
        40_000,
        &["-S", "4096"],
        &Format {
            sector: 4096,
            ..base.clone()
        },
    );
    assert_same(
        600_000,
        &["-S", "2048"],
        &Format {
            sector: 2048,
            ..base.clone()
        },
    );
    assert_same(
        30_000,
        &["-a"],
        &Format {
            align: false,
            ..base.clone()
        },
    );
    assert_same(
        3000,
        &["-r", "112", "-h", "63"],
        &Format {
            root_entries: Some(112),
            hidden_sectors: 63,
            ..base
        },
    );
}

#[test]
fn sizes_that_hold_no_volume_are_refused() {
    let refused = |kib, choices: &Format| format(&mut ram(kib), choices).unwrap_err();
    assert!(matches!(
        refused(8, &Format::default()),
        FormatError::Size { .. }
    ));
    assert!(matches!(
        refused(
            100_000,
            &Format {
                bits: Some(Bits::Fat12),
                cluster_sectors: Some(1),
                ..Format::default()
            }
        ),
        FormatError::Size { .. }
    ));
    let error = refused(
        1000,
        &Format {
            cluster_sectors: Some(3),
            ..Format::default()
        },
    );
    assert_eq!(
        error.to_string(),
        "sectors per cluster is 3, expected a power of two up to 128"
    );
    assert!(matches!(
        refused(
            1000,
            &Format {
                label: Some(b"lower".to_vec()),
                ..Format::default()
            }
        ),
        FormatError::Choice { .. }
    ));
}

#[test]
fn volumes_of_mkfs_are_edited() {
    let all: [(u64, &[&str]); 9] = [
        (1440, &[]),
        (500, &["-s", "1"]),
        (8192, &["-F", "12", "-s", "8"]),
        (20_000, &["-F", "16", "-s", "1"]),
        (65_536, &["-n", "CAMERA"]),
        (200_000, &["-s", "64"]),
        (70_000, &["-F", "32"]),
        (300_000, &["-F", "32", "-S", "4096"]),
        (600_000, &["-R", "40"]),
    ];
    for (kib, options) in all {
        let mut disk = made_by_mkfs(kib, options);
        let data = bytes(kib, 70_000);
        let mut fat = mount(&mut disk);
        let dir = mkdir(&mut fat, Ino::ROOT, "Pictures of a Journey");
        for number in 0..40 {
            put(
                &mut fat,
                dir,
                &format!("picture number {number}.jpeg"),
                &data[..number * 123],
            );
        }
        let large = put(&mut fat, Ino::ROOT, "LARGE.BIN", &data);
        fat.fsync(large, Sync::All).unwrap();
        fat.unlink(dir, b"picture number 7.jpeg", common::NOW)
            .unwrap();
        fat.rename(
            (dir, b"picture number 8.jpeg"),
            (Ino::ROOT, b"eight"),
            nandlab_vfs::Rename::Replace,
            common::NOW,
        )
        .unwrap();
        let before = tree::snapshot(&mut fat).unwrap();
        fat.unmount().unwrap();
        assert_clean(&mut disk, &format!("{kib} KiB {options:?}"));
        let after = tree::snapshot(&mut mount(&mut disk)).unwrap();
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>()
        );
        assert!(
            before
                .iter()
                .all(|(path, entry)| after[path].contents == entry.contents),
            "{kib} KiB {options:?}"
        );
        assert!(after[&b"LARGE.BIN"[..]].contents == data && after.len() == 42);
    }
}

#[test]
fn mtools_copies_our_trees_out_and_its_own_in() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let out = scratch.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let mut disk = ram(20_000);
    format(&mut disk, &Format::default()).unwrap();
    let mut fat = mount(&mut disk);
    let dir = mkdir(&mut fat, Ino::ROOT, "A Directory");
    let names = [
        "PLAIN.TXT",
        "lower.txt",
        "a much longer name than eight and three.jpeg",
        "größer",
    ];
    for (number, name) in (0u64..).zip(names) {
        put(&mut fat, dir, name, &bytes(number, 5000 * number as usize));
    }
    fat.unmount().unwrap();
    save(&mut disk, &image);
    let mcopy = |from: &str, to: &str| {
        let image = text(&image);
        succeed(
            "mtools",
            "mcopy",
            &["-n", "-s", "-m", "-i", image, from, to],
        );
    };
    mcopy("::A Directory", out.to_str().unwrap());
    for (number, name) in (0u64..).zip(names) {
        let copied = std::fs::read(out.join("A Directory").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(copied == bytes(number, 5000 * number as usize), "{name}");
    }
    std::fs::rename(out.join("A Directory"), out.join("Back Again")).unwrap();
    mcopy(out.join("Back Again").to_str().unwrap(), "::");
    let mut disk = common::load(&image);
    assert_clean(&mut disk, "after mcopy");
    let found = tree::snapshot(&mut mount(&mut disk)).unwrap();
    for name in names {
        let [ours, theirs] = ["A Directory", "Back Again"]
            .map(|dir| &found[format!("{dir}/{name}").as_bytes()].contents);
        assert!(ours == theirs, "{name}");
    }
}
