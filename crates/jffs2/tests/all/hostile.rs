//! Whatever the bytes of a medium: no panic, no endless loop, no memory beyond what is stated; and
//! what is damaged is reported.

use crate::common::{NAND, NOW, bytes, mkdir, nand, nor, nor_of, put, read_only, text};
use nandlab_jffs2::{
    Compression, Endian, Finding, Jffs2, Jffs2Error, Options, Severity, Unreached,
};
use nandlab_mtd::{Image, Mtd};
use nandlab_sim::mix;
use nandlab_testkit::hostile::{exercise, use_up};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr};
use proptest::prelude::*;

pub const BLOCK: u32 = 16 * 1024;

/// A medium with something of everything.
pub fn medium(options: Options) -> Vec<u8> {
    let mut fs = Jffs2::mount(nor(14, BLOCK), options).unwrap();
    let dir = mkdir(&mut fs, Ino::ROOT, "directory");
    let below = mkdir(&mut fs, dir, "below");
    for number in 0..12 {
        put(
            &mut fs,
            below,
            &format!("file number {number}"),
            &text(number, 300 * number as usize),
        );
    }
    let file = put(
        &mut fs,
        Ino::ROOT,
        "large",
        &[text(1, 9000), bytes(1, 9000)].concat(),
    );
    fs.write(file, 30_000, b"behind a gap", NOW).unwrap();
    fs.setattr(
        file,
        &SetAttr {
            size: Some(25_000),
            ..SetAttr::default()
        },
        NOW,
    )
    .unwrap();
    fs.setxattr(file, b"user.k", b"value", SetXattr::Any, NOW)
        .unwrap();
    fs.setxattr(dir, b"user.other", &[7; 90], SetXattr::Any, NOW)
        .unwrap();
    fs.symlink(dir, b"link", b"target", Caller::root(NOW))
        .unwrap();
    fs.create(
        dir,
        b"null",
        NewNode::Character { device: (1, 3) },
        0o666,
        Caller::root(NOW),
    )
    .unwrap();
    fs.link(file, dir, b"second name", NOW).unwrap();
    fs.unlink(below, b"file number 3", NOW).unwrap();
    fs.rename(
        (below, b"file number 4"),
        (dir, b"moved"),
        Rename::Replace,
        NOW,
    )
    .unwrap();
    fs.unmount().unwrap();
    fs.into_mtd().into_backing()
}

/// Mounts, checks, uses and unmounts; gives what the check found.
fn survive<M: Mtd>(mut mtd: M, options: Options) -> Option<Vec<Finding>> {
    let mut fs = Jffs2::mount(
        &mut mtd,
        Options {
            read_only: true,
            ..options
        },
    )
    .ok()?;
    let findings = fs.check().ok().map(|report| report.findings);
    exercise(&mut fs, 60);
    drop(fs);
    let mut fs = Jffs2::mount(&mut mtd, options).ok()?;
    exercise(&mut fs, 100);
    for _ in 0..300 {
        _ = FileSystem::work(&mut fs, NOW);
    }
    use_up(&mut fs, 0);
    findings
}

pub fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    hasher.update(bytes);
    !hasher.finalize()
}

fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Where nodes begin, with their kind.
pub fn nodes(image: &[u8]) -> Vec<(usize, u16)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at + 12 <= image.len() {
        let len = u32::from_le_bytes(image[at + 4..at + 8].try_into().unwrap()) as usize;
        if image[at..at + 2] == [0x85, 0x19]
            && crc(&image[at..at + 8])
                == u32::from_le_bytes(image[at + 8..at + 12].try_into().unwrap())
        {
            all.push((at, u16::from_le_bytes([image[at + 2], image[at + 3]])));
            at += len.max(12).next_multiple_of(4);
        } else {
            at += 4;
        }
    }
    all
}

/// Bytes of a node's fixed part, and those at its end that its own checksum does not cover.
fn shape(kind: u16) -> Option<(usize, usize)> {
    match kind {
        0xE001 => Some((40, 8)),
        0xE002 => Some((68, 8)),
        0x2006 => Some((32, 8)),
        0xE008 => Some((32, 4)),
        0xE009 => Some((28, 4)),
        _ => None,
    }
}

/// Sets a field of a node and makes all its checksums right again.
pub fn forge(image: &mut [u8], (at, kind): (usize, u16), field: usize, value: u32) {
    let Some((len, uncovered)) = shape(kind) else {
        return;
    };
    let field = field % (len / 4) * 4;
    put32(image, at + field, value);
    let head = crc(&image[at..at + 8]);
    put32(image, at + 8, head);
    let own = crc(&image[at..at + len - uncovered]);
    // An inode's checksum is behind that of its data, a name's before that of the name; a list's is
    // last.
    let place = if kind == 0xE001 { len - 8 } else { len - 4 };
    put32(image, at + place, own);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_flips_break_anything(seed: u64, flips in 1..60u64, summary: bool, big: bool) {
        let endian = Some(if big { Endian::Big } else { Endian::Little });
        let options = Options { summary, endian, ..Options::default() };
        let mut image = medium(options);
        for number in 0..flips {
            let word = mix(seed, number);
            let at = word as usize % (5 * BLOCK as usize);
            image[at] ^= 1 << (word >> 40 & 7);
        }
        survive(nor_of(image, BLOCK), Options { endian: None, ..options });
    }

    #[test]
    fn no_forged_fields_break_anything(seed: u64, forgeries in 1..12u64, summary: bool) {
        let options = Options { summary, ..Options::default() };
        let mut image = medium(options);
        let nodes = nodes(&image);
        for number in 0..forgeries {
            let word = mix(seed, number);
            let value = [0, 1, 2, 12, 4096, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x0200_0000, word as u32 % 40, word as u32][(word >> 32) as usize % 10];
            forge(&mut image, nodes[(word >> 8) as usize % nodes.len()], (word >> 50) as usize, value);
        }
        survive(nor_of(image, BLOCK), options);
    }

    #[test]
    fn no_noise_breaks_anything(seed: u64, keep in 0..4u64) {
        let mut image = medium(Options::default());
        for (number, part) in image.chunks_mut(512).enumerate() {
            if mix(seed, number as u64) % 4 >= keep {
                part.copy_from_slice(&bytes(mix(seed, number as u64), 512));
            }
        }
        survive(nor_of(image, BLOCK), Options::default());
    }

    #[test]
    fn no_spare_area_breaks_anything(seed: u64, flips in 1..80u64) {
        let mut fs = Jffs2::mount(nand(NAND, 12), Options::default()).unwrap();
        put(&mut fs, Ino::ROOT, "file", &text(1, 300_000));
        fs.unmount().unwrap();
        let mut image = fs.into_mtd().into_backing();
        for number in 0..flips {
            let word = mix(seed, number);
            let page = word as usize % (12 * 64);
            image[page * 2112 + 2040 + (word >> 32) as usize % 72] ^= 1 << (word >> 40 & 7);
        }
        survive(Image::new(image, NAND).unwrap(), Options::default());
    }
}

/// The node of a kind that meets a condition.
pub fn find(image: &[u8], kind: u16, wanted: impl Fn(&[u8]) -> bool) -> usize {
    nodes(image)
        .into_iter()
        .find(|(at, found)| *found == kind && wanted(&image[*at..]))
        .unwrap_or_else(|| panic!("no node of kind {kind:#x}"))
        .0
}

#[test]
fn damage_is_found_where_it_is_and_only_there() {
    let options = Options {
        compression: Compression::NONE,
        summary: false,
        ..Options::default()
    };
    let clean = medium(options);
    assert_eq!(
        read_only(nor_of(clean.clone(), BLOCK))
            .check()
            .unwrap()
            .worst(),
        None
    );

    // Data: the file says so when it is read, the others do not.
    let mut image = clean.clone();
    let noise = find(&image, 0xE002, |node| {
        node[68..].starts_with(&bytes(1, 16))
            || node[56] == 0 && node[52..56] == 4096u32.to_le_bytes()
    });
    image[noise + 100] ^= 1;
    let mut fs = Jffs2::mount(
        nor_of(image, BLOCK),
        Options {
            read_only: true,
            ..options
        },
    )
    .unwrap();
    let report = fs.check().unwrap();
    assert!(
        report
            .findings
            .iter()
            .any(|finding| matches!(finding, Finding::Node { at, what: "checksum of the data", .. } if *at == noise as u32)),
        "{report:?}"
    );

    // A name: it is gone, and what it named with it.
    let mut image = clean.clone();
    let name = find(&image, 0xE001, |node| {
        node[40..].starts_with(b"file number 7")
    });
    image[name + 41] ^= 1;
    let mut fs = read_only(nor_of(image, BLOCK));
    assert!(fs.check().unwrap().findings.iter().any(|finding| matches!(
        finding,
        Finding::Node {
            what: "checksum of the name",
            ..
        }
    )));
    let below = fs.lookup(Ino::ROOT, b"directory").unwrap().ino;
    let below = fs.lookup(below, b"below").unwrap().ino;
    assert_eq!(
        fs.lookup(below, b"file number 7").map(|attr| attr.size),
        Err(Errno::NoEntry)
    );
    assert!(fs.lookup(below, b"file number 8").is_ok());

    // A length that leads out of the block is not trusted.
    let mut image = clean.clone();
    let node = find(&image, 0xE002, |node| node[12..16] == 5u32.to_le_bytes());
    put32(&mut image, node + 4, 1 << 31);
    let head = crc(&image[node..node + 8]);
    put32(&mut image, node + 8, head);
    let mut fs = read_only(nor_of(image, BLOCK));
    let report = fs.check().unwrap();
    assert!(
        report.inodes > 12
            && report
                .findings
                .iter()
                .any(|finding| matches!(finding, Finding::Garbage { .. })),
        "{report:?}"
    );

    // A compressor that nobody knows.
    let mut image = clean;
    let node = find(&image, 0xE002, |node| {
        node[56] == 0 && node[52..56] == 4096u32.to_le_bytes()
    });
    let ino = u32::from_le_bytes(image[node + 12..node + 16].try_into().unwrap());
    image[node + 56] = 9;
    let own = crc(&image[node..node + 60]);
    put32(&mut image, node + 64, own);
    let mut fs = read_only(nor_of(image, BLOCK));
    let report = fs.check().unwrap();
    assert_eq!(report.worst(), Some(Severity::Damage));
    assert!(
        report
            .findings
            .iter()
            .any(|finding| matches!(finding, Finding::Unreadable { ino: found, error: Jffs2Error::Data { .. } } if *found == ino)),
        "{report:?}"
    );
}

#[test]
fn what_is_foreign_is_not_touched() {
    let noise = bytes(3, 14 * BLOCK as usize);
    let mut mtd = nor_of(noise.clone(), BLOCK);
    let refused = Jffs2::mount(&mut mtd, Options::default()).unwrap_err();
    assert_eq!(refused, Jffs2Error::Foreign { blocks: 14 });
    assert!(mtd.into_backing() == noise);
    // An unknown node without which nothing can be understood; and one that only writers must know.
    for (kind, refused) in [(0xF0F0u16 | 0xC000, true), (0xB0F0, false)] {
        let mut image = medium(Options::default());
        let at = find(&image, 0x2003, |_| true);
        image[at + 2..at + 4].copy_from_slice(&kind.to_le_bytes());
        let head = crc(&image[at..at + 8]);
        put32(&mut image, at + 8, head);
        match Jffs2::mount(
            nor_of(image, BLOCK),
            Options {
                summary: false,
                ..Options::default()
            },
        ) {
            Err(error) => assert!(
                refused
                    && error
                        == Jffs2Error::Incompatible {
                            at: at as u32,
                            kind
                        },
                "{error}"
            ),
            Ok(fs) => assert!(!refused && fs.is_read_only(), "{kind:#x}"),
        }
    }
}

/// Changes a name's node and makes its checksums right again.
pub fn forge_name(image: &mut [u8], at: usize, change: impl FnOnce(&mut [u8])) {
    let end = at + 40 + usize::from(image[at + 28]);
    change(&mut image[at..end]);
    let name = crc(&image[at + 40..end]);
    put32(image, at + 36, name);
    let own = crc(&image[at..at + 32]);
    put32(image, at + 32, own);
}

/// The node of a name in a medium without lists of blocks, and the medium.
pub fn with_name(name: &[u8]) -> (Vec<u8>, usize) {
    let image = medium(Options {
        summary: false,
        ..Options::default()
    });
    let at = find(&image, 0xE001, |node| {
        node[28] == name.len() as u8 && node[40..].starts_with(name)
    });
    (image, at)
}

pub fn damage_of(image: Vec<u8>) -> Vec<Finding> {
    let mut findings = read_only(nor_of(image, BLOCK)).check().unwrap().findings;
    findings.retain(|finding| finding.severity() == Severity::Damage);
    findings
}

#[test]
fn a_name_that_no_path_can_hold_is_damage() {
    for name in [&b"../ge"[..], b"l\0rge", b"/arge"] {
        let (mut image, at) = with_name(b"large");
        forge_name(&mut image, at, |node| node[40..].copy_from_slice(name));
        let found = damage_of(image);
        let expected = |finding: &Finding| {
            matches!(finding, Finding::Name { dir: 1, name: found, at: place, .. }
                if *found == name && *place == at as u32)
        };
        assert!(found.iter().any(expected), "{found:?}");
    }
}

#[test]
fn a_directory_below_itself_is_damage_whatever_its_name_says() {
    // `moved` lies in `directory`, which is inode 2: the name leads back to it.
    for kind in [4, 8] {
        let (mut image, at) = with_name(b"moved");
        forge_name(&mut image, at, |node| {
            node[20..24].copy_from_slice(&2u32.to_le_bytes());
            node[29] = kind;
        });
        let found = damage_of(image);
        let expected = |finding: &Finding| match finding {
            Finding::Cycle { dir: 2, ino: 2, .. } => kind == 4,
            Finding::TwoParents { ino: 2, .. } => kind == 8,
            _ => false,
        };
        assert!(found.iter().any(expected), "type {kind}: {found:?}");
    }
}

#[test]
fn a_second_name_of_a_directory_is_no_cycle_unless_it_leads_back() {
    // `large` lies in the root, as `directory` does, which is inode 2.
    let (mut image, at) = with_name(b"large");
    forge_name(&mut image, at, |node| {
        node[20..24].copy_from_slice(&2u32.to_le_bytes());
        node[29] = 4;
    });
    let findings = read_only(nor_of(image, BLOCK)).check().unwrap().findings;
    let is_second =
        |finding: &&Finding| matches!(finding, Finding::TwoNames { dir: 1, ino: 2, .. });
    assert_eq!(findings.iter().filter(is_second).count(), 1, "{findings:?}");
    let is_cycle = |finding: &Finding| matches!(finding, Finding::Cycle { .. });
    assert!(!findings.iter().any(is_cycle), "{findings:?}");
}

#[test]
fn a_cycle_of_directories_apart_from_the_root_is_damage_with_all_that_is_in_it() {
    // `directory` is inode 2 and holds `below`, inode 3, which now holds `directory`.
    let (mut image, at) = with_name(b"directory");
    forge_name(&mut image, at, |node| {
        node[12..16].copy_from_slice(&3u32.to_le_bytes());
    });
    let found = damage_of(image.clone());
    let cycles = found
        .iter()
        .filter(|finding| matches!(finding, Finding::Cycle { .. }));
    assert_eq!(cycles.count(), 1, "{found:?}");
    let below = |path: &str| {
        let expected = [format!("#2/{path}"), format!("#3/directory/{path}")];
        let is_it = |finding: &&Finding| {
            matches!(finding, Finding::Unreachable { path, why: Unreached::Cycle, .. }
                if expected.iter().any(|one| one.as_bytes() == path))
        };
        found.iter().filter(is_it).count()
    };
    for path in [
        "below",
        "moved",
        "link",
        "null",
        "second name",
        "below/file number 5",
    ] {
        assert_eq!(below(path), 1, "{path}: {found:?}");
    }
    // `file number 3` was removed, and `file number 4` is `moved`.
    assert_eq!(
        below("below/file number 3") + below("below/file number 4"),
        0
    );
    survive(
        nor_of(image, BLOCK),
        Options {
            summary: false,
            ..Options::default()
        },
    )
    .unwrap();
}

#[test]
fn a_name_of_another_type_than_its_inode_is_damage() {
    let (mut image, at) = with_name(b"large");
    forge_name(&mut image, at, |node| node[29] = 2);
    let found = damage_of(image);
    let expected = |finding: &Finding| {
        matches!(
            finding,
            Finding::Type {
                found: 2,
                expected: 8,
                ..
            }
        )
    };
    assert!(found.iter().any(expected), "{found:?}");
}

#[test]
fn a_node_that_crosses_the_end_of_its_block_is_damage_with_both_lengths() {
    let (mut image, _) = with_name(b"large");
    let node = find(&image, 0xE002, |_| true);
    put32(&mut image, node + 4, BLOCK + 36);
    let head = crc(&image[node..node + 8]);
    put32(&mut image, node + 8, head);
    let expected = Finding::CrossesBlock {
        at: node as u32,
        len: BLOCK + 36,
        block: BLOCK,
    };
    assert!(damage_of(image.clone()).contains(&expected));
    let mut fs = read_only(nor_of(image, BLOCK));
    assert_eq!(fs.crossing_node().unwrap(), Some(expected));
}
