//! Damaged volumes: no panic, no endless loop, and no change that is not reported.

use crate::made::{SHAPES, made};
use crate::salvage::{nodes, with_a_file};
use nandlab_sim::mix;
use nandlab_testkit::hostile::use_up;
use nandlab_testkit::share::whole_or;
use nandlab_ubifs::format::Kind;
use nandlab_ubifs::{Bare, Ubifs};
use nandlab_vfs::tree::{Tree, snapshot};
use nandlab_vfs::{Caller, Errno, FileSystem, Ino, NewNode, Rename, SetAttr, SetXattr, Time};
use std::fs;

fn small(options: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..40u64 {
        let name = format!("directory {}", number % 4);
        fs::create_dir_all(dir.path().join(&name)).unwrap();
        let contents = nandlab_testkit::files::bytes(number, number as usize * 300);
        let path = dir.path().join(name).join(format!("a file {number}"));
        fs::write(path, contents).unwrap();
    }
    std::os::unix::fs::symlink("directory 1", dir.path().join("link")).unwrap();
    made(dir.path(), SHAPES[0], options)
}

type Volume = Ubifs<Bare<Vec<u8>>>;

fn mount(bytes: Vec<u8>) -> Option<Volume> {
    Ubifs::mount(Bare::new(bytes).unwrap()?).ok()
}

/// Everything that can be read, without a word of what cannot.
fn tree(bytes: Vec<u8>) -> Option<Tree> {
    snapshot(&mut mount(bytes)?).ok()
}

#[test]
fn a_flipped_bit_is_never_a_change_that_is_not_told() {
    for compressor in ["none", "lzo", "zlib", "zstd"] {
        let bytes = small(&["-x", compressor]);
        let whole = tree(bytes.clone()).unwrap();
        let mut refused = 0;
        for seed in 0..800u64 {
            let mut struck = bytes.clone();
            // Mostly where nodes are.
            let places = (0..).map(|try_| mix(seed, 16 + try_) as usize % struck.len());
            let is_wanted = |at: &usize| struck[*at] != 0xFF || mix(seed, 7).is_multiple_of(8);
            let at = places.into_iter().find(is_wanted).unwrap();
            struck[at] ^= 1 << (mix(seed, 9) % 8);
            match tree(struck) {
                None => refused += 1,
                Some(found) => assert!(found == whole, "{compressor} {seed}: byte {at:#x}"),
            }
        }
        assert!(refused > 200, "{compressor}: {refused} of 800");
    }
}

#[test]
fn damage_is_found_by_a_check_with_its_logical_block() {
    let bytes = small(&["-x", "none"]);
    let needle = nandlab_testkit::files::bytes(39, 300);
    let at = bytes
        .windows(300)
        .position(|window| window == needle)
        .unwrap();
    let mut struck = bytes;
    struck[at + 7] ^= 4;
    let mut fs = mount(struck).unwrap();
    let report = fs.check();
    let [finding] = &report.findings[..] else {
        panic!("{report:?}");
    };
    let leb = SHAPES[0].1 as usize;
    let said = finding.to_string();
    let place = format!("LEB {}, byte {}", at / leb, (at - 48) % leb);
    assert!(
        said.starts_with("/directory 3/a file 39: contents: "),
        "{said}"
    );
    assert!(
        said.contains(&place) && said.contains("checksum"),
        "{said}, {place}"
    );
}

#[test]
fn a_damaged_entry_does_not_hide_the_names_beside_it() {
    let bytes = small(&[]);
    let needle = b"a file 17\0";
    let at = bytes
        .windows(10)
        .position(|window| window == needle)
        .unwrap();
    let mut struck = bytes;
    struck[at] ^= 1;
    let mut fs = mount(struck).unwrap();
    let dir = fs.lookup(Ino::ROOT, b"directory 1").unwrap().ino;
    let mut count = 0;
    let listed = fs.readdir(dir, 0, &mut |_| {
        count += 1;
        true
    });
    assert_eq!((count, listed.is_err()), (9, true));
}

/// Replaces bytes and repairs the checksum of the node that they lie in.
pub fn forge(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
    let magic = 0x0610_1831u32.to_le_bytes();
    let mut start = at / 8 * 8;
    while start > 0 && !(bytes[start..start + 4] == magic && start + 24 <= at) {
        start -= 8;
    }
    let len = u32::from_le_bytes(bytes[start + 16..start + 20].try_into().unwrap()) as usize;
    if len >= 24 && start + len <= bytes.len() && at < start + len {
        let sum = nandlab_ubi::format::crc(&bytes[start + 8..start + len]);
        bytes[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn counts_at_their_greatest_take_no_more() {
    let (mut bytes, _) = with_a_file();
    for (at, _) in nodes(&bytes, Kind::Inode) {
        for links_and_bytes_of_attributes in [at + 92, at + 120] {
            forge(&mut bytes, links_and_bytes_of_attributes, &[0xFF; 4]);
        }
    }
    let mut fs = Ubifs::mount_writable(Bare::new(bytes).unwrap().unwrap()).unwrap();
    let by = Caller::root(Time::new(5));
    let none = Err(Errno::TooManyLinks);
    assert_eq!(fs.mkdir(Ino::ROOT, b"new", 0o755, by).map(drop), none);
    let dir = fs.lookup(Ino::ROOT, b"dir").unwrap().ino;
    let file = fs.lookup(dir, b"file").unwrap().ino;
    assert_eq!(fs.link(file, dir, b"second", by.now).map(drop), none);
    for value in [&b"a"[..], b"a longer value"] {
        let set = fs.setxattr(file, b"user.a", value, SetXattr::Any, by.now);
        assert_eq!(set, Ok(()));
        assert_eq!(fs.getxattr(file, b"user.a").unwrap(), value);
    }
}

#[test]
fn a_check_ends_where_an_inode_is_the_value_of_its_own_attribute() {
    let (bytes, _) = with_a_file();
    let mut fs = Ubifs::mount_writable(Bare::new(bytes).unwrap().unwrap()).unwrap();
    let dir = fs.lookup(Ino::ROOT, b"dir").unwrap().ino;
    let file = fs.lookup(dir, b"file").unwrap().ino;
    fs.setxattr(file, b"user.a", b"value", SetXattr::Any, Time::new(5))
        .unwrap();
    fs.unmount().unwrap();
    let mut bytes = fs.into_lebs().into_bytes();
    let number = (file.0 as u32).to_le_bytes();
    for (at, _) in nodes(&bytes, Kind::Inode) {
        if bytes[at + 24..at + 28] == number {
            let with_value = bytes[at + 108] | 0x20;
            forge(&mut bytes, at + 108, &[with_value]);
        }
    }
    for (at, _) in nodes(&bytes, Kind::Xent) {
        forge(&mut bytes, at + 40, &number);
    }
    // Damage, so that the check wants the path.
    let (at, _) = nodes(&bytes, Kind::Data)[0];
    bytes[at + 60] ^= 1;
    assert!(!mount(bytes).unwrap().check().findings.is_empty());
}

#[test]
fn three_thousand_forged_volumes_neither_panic_nor_hang() {
    let mut mounted = 0;
    for (index, options) in [&["-x", "lzo"][..], &["-x", "zstd", "-k", "test"]]
        .iter()
        .enumerate()
    {
        let bytes = small(options);
        for seed in (0..1500u64).step_by(whole_or(1, 7)) {
            let mut forged = bytes.clone();
            for number in 0..1 + seed % 4 {
                let word = mix(index as u64 * 10_000 + seed, number);
                let mut at = word as usize % (forged.len() - 8);
                while forged[at] == 0xFF {
                    at = (at + 97) % (forged.len() - 8);
                }
                let any = (mix(word, 1) >> 9).to_le_bytes();
                let limits = [0, 1, 0xFF, 0x7F, 0x20, any[0], any[1], any[2]];
                let value = [limits[(word >> 50) as usize % 8], any[3]];
                forge(&mut forged, at, &value[..1 + (word >> 60) as usize % 2]);
            }
            if let Some(mut fs) = mount(forged) {
                mounted += 1;
                fs.check();
                use_up(&mut fs, 120);
            }
        }
    }
    let least = whole_or(1000, 140);
    assert!(mounted > least, "{mounted} were mounted");
}

/// Calls that write everywhere, whatever they answer.
fn write_about(fs: &mut Volume, seed: u64) {
    let now = Time::new(5);
    let mut names = Vec::new();
    _ = fs.readdir(Ino::ROOT, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    let made = fs.create(Ino::ROOT, b"made", NewNode::File, 0o644, Caller::root(now));
    if let Ok(made) = made {
        let data = nandlab_testkit::files::bytes(seed, 30_000);
        _ = fs.write(made.ino, 5, &data, now);
        _ = fs.sync();
        let change = SetAttr {
            size: Some(7000),
            ..SetAttr::default()
        };
        _ = fs.setattr(made.ino, &change, now);
        _ = fs.setxattr(made.ino, b"user.a", &data[..90], SetXattr::Any, now);
    }
    for (number, name) in names.iter().enumerate() {
        let other = format!("other {number}");
        _ = fs.rename(
            (Ino::ROOT, name),
            (Ino::ROOT, other.as_bytes()),
            Rename::Replace,
            now,
        );
        _ = fs.unlink(Ino::ROOT, other.as_bytes(), now);
    }
    _ = fs.sync();
    _ = fs.unmount();
}

#[test]
fn forged_volumes_are_written_without_a_panic() {
    let mut bytes = small(&["-x", "lzo"]);
    bytes.resize(bytes.len() + 60 * SHAPES[0].1 as usize, 0xFF);
    let mut written = 0;
    for seed in 0..1000u64 {
        let mut forged = bytes.clone();
        let word = mix(seed, 3);
        // Master nodes, the properties tree and the index lie at both ends of what is used.
        let mut at = word as usize % (forged.len() - 8);
        while forged[at] == 0xFF {
            at = (at + 97) % (forged.len() - 8);
        }
        let value = [0, 1, 0xFF, 0x20, (word >> 40) as u8][(word >> 50) as usize % 5];
        forge(&mut forged, at, &[value]);
        let Some(lebs) = Bare::new(forged).unwrap() else {
            continue;
        };
        if let Ok(mut fs) = Ubifs::mount_writable(lebs) {
            written += 1;
            write_about(&mut fs, seed);
        }
    }
    assert!(written > 200, "{written} of 1000 were mounted");
}
