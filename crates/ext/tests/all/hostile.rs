//! Whatever the bytes of a volume: no panic, no endless loop; and what is wrong is found.

use crate::common::{NOW, bytes, fsck, made_by_mke2fs, mkdir, mount, put, ram, read_only};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, ExtError, Finding, Format, Options, format};
use nandlab_sim::mix;
use nandlab_testkit::disk::{metadata, poke, word};
use nandlab_testkit::hostile::{strike, use_up};
use nandlab_testkit::share::whole_or;
use nandlab_vfs::{Caller, FileSystem, Ino, SetXattr};
use proptest::prelude::*;
use std::sync::OnceLock;

/// A volume with something of everything, the directory `many` with an index.
fn volume() -> Ram {
    let mut disk = ram(1200);
    format(
        &mut disk,
        &Format {
            inode_ratio: Some(4096),
            ..Format::default()
        },
    )
    .unwrap();
    let mut ext = mount(&mut disk);
    let many = mkdir(&mut ext, Ino::ROOT, "many");
    let below = mkdir(&mut ext, many, "below");
    for number in 0..90 {
        put(
            &mut ext,
            many,
            &format!("a file with a long name, so that an index is needed {number}"),
            &bytes(number, 100),
        );
    }
    let large = put(&mut ext, below, "LARGE", &bytes(1, 400_000));
    ext.setxattr(large, b"user.inside", b"value", SetXattr::Any, NOW)
        .unwrap();
    ext.setxattr(large, b"user.outside", &[5; 300], SetXattr::Any, NOW)
        .unwrap();
    ext.symlink(below, b"slow", &[b's'; 100], Caller::root(NOW))
        .unwrap();
    ext.unmount().unwrap();
    disk
}

/// Volumes of ext4 with trees of extents and indexes: with checksums, and with none, so that damage
/// is met deeper.
fn ext4_volumes() -> &'static [Ram; 3] {
    static VOLUMES: OnceLock<[Ram; 3]> = OnceLock::new();
    VOLUMES.get_or_init(|| {
        let features = [
            "orphan_file,mmp",
            "^metadata_csum,uninit_bg",
            "^metadata_csum,^uninit_bg,meta_bg,^resize_inode,^has_journal,large_dir",
        ];
        features.map(|features| {
            let options = ["-t", "ext4", "-b", "1024", "-N", "256", "-O", features];
            let mut disk = made_by_mke2fs(4 * 1024, &options);
            let mut ext = mount(&mut disk);
            let many = mkdir(&mut ext, Ino::ROOT, "many");
            for number in 0..90 {
                let name = format!("a file with a long name, so that an index is needed {number}");
                put(&mut ext, many, &name, &bytes(number, 100));
            }
            let file = put(&mut ext, many, "PIECES", b"");
            for index in 0..200 {
                ext.write(file, index * 2048, b"an extent", NOW).unwrap();
            }
            ext.setxattr(file, b"user.outside", &[5; 300], SetXattr::Any, NOW)
                .unwrap();
            ext.unmount().unwrap();
            drop(ext);
            disk
        })
    })
}

/// Mounts, checks, uses and unmounts.
fn survive(disk: &mut Ram) {
    let Ok(mut ext) = Ext::mount(
        &mut *disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    ) else {
        return;
    };
    _ = ext.check();
    let Ok(mut ext) = Ext::mount(
        &mut *disk,
        Options {
            cache_bytes: 16 * 1024,
            ..Options::default()
        },
    ) else {
        return;
    };
    use_up(&mut ext, 120);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: whole_or(400, 100), ..ProptestConfig::default() })]

    #[test]
    fn no_volume_breaks_anything(seed: u64, pokes in 1..40u64, superblock: bool) {
        let mut disk = volume();
        let blocks = metadata(&mut disk, 1024);
        for number in 0..pokes {
            let word = mix(seed, number);
            // The superblock mostly fails to mount: the rest is worth more attention.
            let block = if superblock && number == 0 { 1024 } else { blocks[(word >> 16) as usize % blocks.len()].max(2048) };
            let used = if word >> 61 == 0 { 1024 } else { 256 };
            strike(&mut disk, block + word % used, word);
        }
        survive(&mut disk);
    }

    #[test]
    fn no_ext4_breaks_anything(seed: u64, which in 0..3usize, pokes in 1..40u64, superblock: bool) {
        let mut disk = ext4_volumes()[which].clone();
        let blocks = metadata(&mut disk, 1024);
        for number in 0..pokes {
            let word = mix(seed, number);
            let block = if superblock && number == 0 {
                1024
            } else {
                blocks[(word >> 16) as usize % blocks.len()].max(2048)
            };
            let used = if word >> 61 == 0 { 1024 } else { 256 };
            strike(&mut disk, block + word % used, word);
        }
        survive(&mut disk);
    }

    #[test]
    fn no_noise_breaks_anything(seed: u64, keep in 0..3u64) {
        let mut disk = volume();
        for sector in 6..2400 {
            if mix(seed, sector) % 16 > 12 + keep {
                disk.write(Lba(sector), &bytes(mix(seed, sector), 512)).unwrap();
            }
        }
        survive(&mut disk);
    }
}

/// First byte of an inode.
fn inode_at(disk: &mut Ram, inode: u64) -> u64 {
    let mut descriptors = [0; 512];
    disk.read(Lba(4), &mut descriptors).unwrap();
    u64::from(u32::from_le_bytes(descriptors[8..12].try_into().unwrap())) * 1024 + (inode - 1) * 256
}

fn number_of(disk: &mut Ram, path: &str) -> u64 {
    nandlab_vfs::path::resolve(&mut read_only(disk), path.as_bytes())
        .unwrap()
        .ino
        .0
}

/// Changes a name in `many/below`, which is one block without an index.
fn rename(disk: &mut Ram, from: &[u8], to: &[u8]) {
    let below = number_of(disk, "many/below");
    let inode = inode_at(disk, below);
    let block = u64::from(word(disk, inode + 40));
    let mut names = [0; 1024];
    disk.read(Lba(block * 2), &mut names).unwrap();
    let at = names.windows(from.len()).position(|name| name == from);
    let at = block * 1024 + at.unwrap() as u64;
    poke(disk, at, to);
    poke(disk, at - 2, &[to.len() as u8]);
}

#[test]
fn each_kind_of_damage_is_found_and_fsck_is_not_content_either() {
    type Harm = fn(&mut Ram, u64, u64);
    type Seen = fn(&Finding) -> bool;
    let harms: [(&str, Harm, Seen); 16] = [
        (
            "inode of a journal that is none",
            |d, _, _| {
                let inode = inode_at(d, 8);
                poke(d, inode + 28, &[2]);
            },
            |f| {
                matches!(f, Finding::Field { field, .. }
                    if field.contains("without a journal"))
            },
        ),
        (
            "shared block",
            |d, large, dir| {
                let block = word(d, dir + 40);
                poke(d, large + 40, &block.to_le_bytes());
            },
            |f| matches!(f, Finding::CrossLink { .. }),
        ),
        (
            "stray block",
            |d, large, _| poke(d, large + 44, &3u32.to_le_bytes()),
            |f| matches!(f, Finding::Stray { block: 3, .. }),
        ),
        (
            "units",
            |d, large, _| poke(d, large + 28, &[9, 9]),
            |f| {
                matches!(
                    f,
                    Finding::Field {
                        field: "units of 512 bytes",
                        ..
                    }
                )
            },
        ),
        (
            "links",
            |d, large, _| poke(d, large + 26, &[7]),
            |f| {
                matches!(
                    f,
                    Finding::Links {
                        found: 7,
                        expected: 1,
                        ..
                    }
                )
            },
        ),
        (
            "ended inode",
            |d, large, _| poke(d, large + 26, &[0]),
            |f| matches!(f, Finding::Dangling { .. }),
        ),
        (
            "index",
            |d, _, dir| {
                let root = u64::from(word(d, dir + 40)) * 1024;
                poke(d, root + 40, &[0xFF, 0xFF, 0xFF, 0x7F]);
            },
            |f| matches!(f, Finding::Index { .. }),
        ),
        (
            "record",
            |d, _, dir| {
                let leaf = u64::from(word(d, dir + 44)) * 1024;
                poke(d, leaf + 4, &[3, 0]);
            },
            |f| matches!(f, Finding::Unreadable { .. }),
        ),
        (
            "slash in a name",
            |d, _, _| rename(d, b"slow", b"s/ow"),
            |f| matches!(f, Finding::Name { name, .. } if name == b"s/ow"),
        ),
        (
            "NUL in a name",
            |d, _, _| rename(d, b"slow", b"s\0ow"),
            |f| matches!(f, Finding::Name { name, .. } if name == b"s\0ow"),
        ),
        (
            "a name twice",
            |d, _, _| rename(d, b"slow", b"LARGE"),
            |f| matches!(f, Finding::Twice { name, .. } if name == b"LARGE"),
        ),
        (
            "free count",
            |d, _, _| poke(d, 2048 + 12, &[1, 0]),
            |f| {
                matches!(
                    f,
                    Finding::Count {
                        what: "free blocks",
                        ..
                    }
                )
            },
        ),
        (
            "root that is a file",
            |d, _, _| {
                let root = inode_at(d, 2);
                poke(d, root, &0o100_755u16.to_le_bytes());
            },
            |f| {
                matches!(
                    f,
                    Finding::Field {
                        inode: 2,
                        field: "mode of the root, or its links,",
                        ..
                    }
                )
            },
        ),
        (
            "two bitmaps in one block",
            |d, _, _| {
                let block = word(d, 2048);
                poke(d, 2048 + 4, &block.to_le_bytes());
            },
            |f| matches!(f, Finding::Overlap { .. }),
        ),
        (
            "attributes without their feature",
            |d, _, _| {
                let compat = word(d, 1024 + 92) & !8;
                poke(d, 1024 + 92, &compat.to_le_bytes());
            },
            |f| {
                matches!(
                    f,
                    Finding::Field {
                        field: "block of attributes, without the feature,",
                        ..
                    }
                )
            },
        ),
        (
            "in use",
            |d, _, _| poke(d, 1024 + 58, &[0]),
            |f| *f == Finding::InUse,
        ),
    ];
    for (what, harm, seen) in harms {
        let mut disk = volume();
        let large = number_of(&mut disk, "many/below/LARGE");
        let many = number_of(&mut disk, "many");
        let large = inode_at(&mut disk, large);
        let many = inode_at(&mut disk, many);
        harm(&mut disk, large, many);
        let found = read_only(&mut disk).check().unwrap().findings;
        assert!(found.iter().any(seen), "{what}: {found:?}");
        if what != "in use" {
            let (content, text) = fsck(&mut disk);
            assert!(!content, "{what}: {text}");
        }
    }
}

#[test]
fn features_that_are_not_understood_are_refused_by_name_or_not_written() {
    let mut disk = volume();
    poke(&mut disk, 1024 + 98, &[1]);
    let refused = Ext::mount(&mut disk, Options::default()).unwrap_err();
    assert!(
        matches!(
            refused,
            ExtError::Feature {
                bit: 0x1_0000,
                name: "encrypt"
            }
        ),
        "{refused}"
    );
    let mut disk = volume();
    poke(&mut disk, 1024 + 101, &[1]);
    let mut ext = mount(&mut disk);
    assert!(ext.is_read_only());
    assert_eq!(ext.layout().read_only_features(), ["quota"]);
    assert_eq!(
        ext.mkdir(Ino::ROOT, b"new", 0o755, Caller::root(NOW)),
        Err(nandlab_vfs::Errno::ReadOnly)
    );
    assert!(ext.lookup(Ino::ROOT, b"many").is_ok());
}

#[test]
fn data_are_looked_for_in_files_longer_than_any_block_number() {
    let mut disk = volume();
    let large = number_of(&mut disk, "/many/below/LARGE");
    let at = inode_at(&mut disk, large);
    // The upper half of the size.
    poke(&mut disk, at + 108, &[0, 0, 0xFF]);
    let mut ext = read_only(&mut disk);
    let size = ext.getattr(Ino(large)).unwrap().size;
    assert!(size > 1 << 50, "{size}");
    assert_eq!(ext.next_data(Ino(large), 0).unwrap(), 0);
    // From a block of block pointers, and behind all that has block pointers.
    assert_eq!(ext.next_data(Ino(large), 300_000).unwrap(), 300_000);
    assert!(
        ext.next_data(Ino(large), 1 << 30)
            .is_ok_and(|at| at > 1 << 30)
    );
}
