//! Whatever the bytes of a volume: no panic, no endless loop; and what is wrong is found.

use crate::common::{NOW, bytes, fsck, mkdir, mount, put, ram, read_only};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{F2fs, Finding, Format, Options, Severity, format};
use nandlab_sim::mix;
use nandlab_testkit::disk::{metadata, poke};
use nandlab_testkit::hostile::{strike, use_up};
use nandlab_vfs::report::Finding as _;
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, SetXattr, Sync};
use proptest::prelude::*;
use std::sync::OnceLock;

/// A volume with something of everything, and fsyncs behind its last checkpoint.
fn volume() -> Ram {
    let mut disk = ram(60 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut f2fs = mount(&mut disk);
    let many = mkdir(&mut f2fs, Ino::ROOT, "many");
    let below = mkdir(&mut f2fs, many, "below");
    for number in 0..400 {
        put(
            &mut f2fs,
            many,
            &format!("a file with a long name, so that levels are needed {number}"),
            &bytes(number, 10),
        );
    }
    let large = put(&mut f2fs, below, "LARGE", &bytes(1, 400_000));
    f2fs.write(large, 9_000_000, &bytes(2, 100_000), NOW)
        .unwrap();
    f2fs.setxattr(large, b"user.inside", b"value", SetXattr::Any, NOW)
        .unwrap();
    f2fs.setxattr(large, b"user.outside", &[5; 300], SetXattr::Any, NOW)
        .unwrap();
    f2fs.symlink(below, b"link", &[b's'; 100], Caller::root(NOW))
        .unwrap();
    f2fs.create(
        below,
        b"device",
        NewNode::Block { device: (8, 1) },
        0o600,
        Caller::root(NOW),
    )
    .unwrap();
    let held = put(&mut f2fs, below, "orphan", &bytes(3, 9000));
    f2fs.unlink(below, b"orphan", NOW).unwrap();
    f2fs.sync().unwrap();
    for number in 0..5 {
        let file = put(
            &mut f2fs,
            below,
            &format!("new {number}"),
            &bytes(number, 9000 * number as usize),
        );
        f2fs.fsync(file, Sync::All).unwrap();
    }
    f2fs.write(large, 50_000, &bytes(4, 9000), NOW).unwrap();
    f2fs.fsync(large, Sync::All).unwrap();
    let _ = held;
    drop(f2fs);
    disk
}

fn shared() -> &'static (Ram, Vec<u64>) {
    static VOLUME: OnceLock<(Ram, Vec<u64>)> = OnceLock::new();
    VOLUME.get_or_init(|| {
        let mut disk = volume();
        let blocks = metadata(&mut disk, 4096);
        (disk, blocks)
    })
}

/// Mounts, checks, uses and unmounts.
fn survive(disk: &mut Ram) {
    let Ok(mut f2fs) = F2fs::mount(
        &mut *disk,
        Options {
            read_only: true,
            ..Options::default()
        },
    ) else {
        return;
    };
    _ = f2fs.check();
    let Ok(mut f2fs) = F2fs::mount(
        &mut *disk,
        Options {
            cache_bytes: 64 * 1024,
            ..Options::default()
        },
    ) else {
        return;
    };
    use_up(&mut f2fs, 100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_volume_breaks_anything(seed: u64, pokes in 1..60u64, dense: bool) {
        let (disk, blocks) = shared();
        let mut disk = disk.clone();
        for number in 0..pokes {
            let word = mix(seed, number);
            let block = blocks[(word >> 16) as usize % blocks.len()];
            let at = if dense { word % 400 } else { word % 4096 };
            strike(&mut disk, block + at, word);
        }
        survive(&mut disk);
    }

    #[test]
    fn no_checkpoint_breaks_anything(seed: u64, pokes in 1..20u64) {
        let (disk, _) = shared();
        let mut disk = disk.clone();
        // Fields of both packs' heads, with the checksums that belong to them.
        for number in 0..pokes {
            let word = mix(seed, number);
            let value = [0, 1, 0xFF, 0x7F, (word >> 50) as u8][(word >> 58) as usize % 5];
            for pack in 0..2 {
                for block in blocks_of_pack(&mut disk, pack) {
                    poke(&mut disk, block + word % 700, &[value]);
                    seal(&mut disk, block);
                }
            }
        }
        survive(&mut disk);
    }
}

/// First and last block of a pack, in bytes.
pub fn blocks_of_pack(disk: &mut Ram, pack: u64) -> Vec<u64> {
    let start = (1 + pack) * 512 * 4096;
    let mut head = vec![0; 4096];
    disk.read(Lba(start / 512), &mut head).unwrap();
    let blocks = u64::from(u32::from_le_bytes(head[136..140].try_into().unwrap()));
    if blocks > 1 && blocks < 512 {
        vec![start, start + (blocks - 1) * 4096]
    } else {
        vec![start]
    }
}

pub fn seal(disk: &mut Ram, block: u64) {
    let mut data = vec![0; 4096];
    disk.read(Lba(block / 512), &mut data).unwrap();
    let mut crc = 0xF2F5_2010u32;
    for byte in &data[..4092] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0xEDB8_8320 } else { 0 };
        }
    }
    poke(disk, block + 4092, &crc.to_le_bytes());
}

/// First byte of the newest copy of a node.
fn node_at(disk: &mut Ram, nid: u32) -> u64 {
    let mut found = 0;
    let mut data = vec![0; 4096];
    for block in 4096..60 * 256u64 {
        disk.read(Lba(block * 8), &mut data).unwrap();
        let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
        if word(4072) == nid && word(4076) == nid {
            found = block * 4096;
        }
    }
    found
}

#[test]
fn a_superblock_without_a_table_of_nodes_is_refused() {
    let mut disk = ram(60 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut head = [0; 512];
    disk.read(Lba(2), &mut head).unwrap();
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    // The table of segments takes the place of the table of nodes.
    let nodes = word(60);
    let moved = [
        (56, word(56) + nodes),
        (60, 0),
        (84, word(84) + 512 * nodes),
    ];
    for copy in [1024, 4096 + 1024] {
        for (at, word) in moved {
            poke(&mut disk, copy + at, &u32::to_le_bytes(word));
        }
    }
    let refused = F2fs::mount(&mut disk, Options::default()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("segments of the tables"), "{refused}");
}

/// Two logs of nodes and data each, and the bytes of their segments in a checkpoint.
#[test]
fn a_log_in_a_segment_that_is_not_there_is_refused_at_its_field() {
    for at in [84, 88, 36, 44] {
        let mut disk = ram(60 * 1024);
        format(&mut disk, &Format::default()).unwrap();
        for pack in 0..2 {
            for block in blocks_of_pack(&mut disk, pack) {
                poke(&mut disk, block + at, &[0xFF; 4]);
                seal(&mut disk, block);
            }
        }
        let refused = F2fs::mount(&mut disk, Options::default())
            .unwrap_err()
            .to_string();
        let named = format!("byte {at}");
        assert!(refused.contains("segment of a log"), "{refused}");
        assert!(refused.contains(&named), "{at}: {refused}");
    }
}

#[test]
fn as_many_links_as_can_be_counted_are_not_one_more() {
    let mut disk = ram(60 * 1024);
    format(&mut disk, &Format::default()).unwrap();
    let mut f2fs = mount(&mut disk);
    let file = put(&mut f2fs, Ino::ROOT, "file", b"contents");
    f2fs.unmount().unwrap();
    drop(f2fs);
    let node = node_at(&mut disk, file.0 as u32);
    poke(&mut disk, node + 12, &[0xFF; 4]);
    let mut f2fs = mount(&mut disk);
    assert_eq!(
        f2fs.link(file, Ino::ROOT, b"one more", NOW),
        Err(Errno::TooManyLinks)
    );
    assert_eq!(f2fs.lookup(Ino::ROOT, b"one more"), Err(Errno::NoEntry));
}

#[test]
fn each_kind_of_damage_is_found_and_fsck_is_not_content_either() {
    type Seen = fn(&Finding) -> bool;
    let harms: [(&str, u64, &[u8], Seen); 7] = [
        ("names in a file", 3, &[0x05], |f| {
            matches!(
                f,
                Finding::Field {
                    field: "flag of names in the inode",
                    found: 4,
                    ..
                }
            )
        }),
        ("blocks", 24, &[9, 9], |f| {
            matches!(
                f,
                Finding::Field {
                    field: "blocks",
                    ..
                }
            )
        }),
        ("links", 12, &[7], |f| {
            matches!(
                f,
                Finding::Links {
                    found: 7,
                    expected: 1,
                    ..
                }
            )
        }),
        ("stray address", 360, &[0xFF, 0xFF, 0xFF, 0x70], |f| {
            matches!(
                f,
                Finding::Stray {
                    addr: 0x70FF_FFFF,
                    ..
                }
            )
        }),
        ("shared address", 364, &[], |f| {
            matches!(f, Finding::CrossLink { .. })
        }),
        ("footer", 4072, &[0xFE], |f| {
            matches!(f, Finding::Unreadable { .. })
        }),
        ("mode", 0, &[0, 0], |f| {
            matches!(f, Finding::Unreadable { .. })
        }),
    ];
    for (what, at, value, seen) in harms {
        let mut disk = ram(60 * 1024);
        format(&mut disk, &Format::default()).unwrap();
        let mut f2fs = mount(&mut disk);
        let file = put(&mut f2fs, Ino::ROOT, "file", &bytes(1, 100_000));
        f2fs.unmount().unwrap();
        let node = node_at(&mut disk, file.0 as u32);
        let mut first = vec![0; 512];
        disk.read(Lba(node / 512), &mut first).unwrap();
        poke(
            &mut disk,
            node + at,
            if what == "shared address" {
                &first[360..364]
            } else {
                value
            },
        );
        let found = read_only(&mut disk).check().unwrap().findings;
        assert!(found.iter().any(seen), "{what}: {found:?}");
        let (content, text) = fsck(&mut disk);
        assert!(!content, "{what}: {text}");
    }
}

/// Changes all bytes `from` of a volume's names to `to`.
fn rename(disk: &mut Ram, from: &[u8], to: &[u8]) {
    let sectors = disk.geometry().sectors;
    let mut bytes = vec![0; sectors as usize * 512];
    disk.read(Lba(0), &mut bytes).unwrap();
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            poke(disk, at as u64, to);
        }
    }
}

#[test]
fn names_that_no_path_can_hold_and_names_given_twice_are_damage() {
    for (to, is_twice) in [(&b"na/e"[..], false), (b"na\0e", false), (b"fame", true)] {
        let mut disk = ram(60 * 1024);
        format(&mut disk, &Format::default()).unwrap();
        let mut f2fs = mount(&mut disk);
        put(&mut f2fs, Ino::ROOT, "name", b"one");
        put(&mut f2fs, Ino::ROOT, "fame", b"another");
        f2fs.unmount().unwrap();
        rename(&mut disk, b"name", to);
        let found = read_only(&mut disk).check().unwrap().findings;
        let seen = |finding: &Finding| match finding {
            Finding::Name { name, .. } => !is_twice && name == to,
            Finding::Twice { name, .. } => is_twice && name == to,
            _ => false,
        };
        let finding = found.iter().find(|finding| seen(finding));
        let finding = finding.unwrap_or_else(|| panic!("{found:?}"));
        // fsck.f2fs compares the hash of the name and nothing else.
        assert_eq!(finding.severity(), Severity::Damage, "{finding}");
    }
}

#[test]
fn a_bad_copy_of_the_superblock_is_a_note_and_two_are_no_volume() {
    const SUPERBLOCKS: [u64; 2] = [1024, 4096 + 1024];
    let harms: [(&str, u64, &[u8]); 3] = [
        ("size of a sector", 8, &[137]),
        ("sectors of a block", 12, &[4]),
        ("name extensions", 1148, &[0xFF; 4]),
    ];
    for (field, at, value) in harms {
        for block in 0..2 {
            let mut disk = ram(60 * 1024);
            format(&mut disk, &Format::default()).unwrap();
            let wrong = SUPERBLOCKS[block] + at;
            poke(&mut disk, wrong, value);
            let mut f2fs = read_only(&mut disk);
            let found = f2fs.check().unwrap().findings;
            let [finding] = &found[..] else {
                panic!("{field}: {found:?}")
            };
            assert_eq!(finding.severity(), Severity::Note, "{finding}");
            assert!(finding.to_string().contains(field), "{finding}");
            assert_eq!(f2fs.place_of(finding), Some(wrong), "{finding}");
            drop(f2fs);
            if block == 0 {
                let (_, text) = fsck(&mut disk);
                assert!(text.contains("superblock at 0x0"), "{text}");
            }
            poke(&mut disk, SUPERBLOCKS[1 - block] + at, value);
            let error = F2fs::mount(&mut disk, Options::default()).err().unwrap();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
