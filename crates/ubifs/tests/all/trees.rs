//! What mkfs.ubifs packed is read as it was.

use crate::made::{COMPRESSORS, SHAPES, made, mounted};
use nandlab_testkit::host::{compare, names, names_in_parts, tree};
use nandlab_testkit::share::whole_or;
use nandlab_ubifs::{Bare, Ubifs};
use nandlab_vfs::{Caller, Errno, FileSystem, FileType, Ino, NewNode, Time, path};
use std::fs;

#[test]
fn a_tree_is_read_back_from_each_page_size_and_compressor() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let all = SHAPES
        .into_iter()
        .flat_map(|shape| COMPRESSORS.map(|compressor| (shape, compressor)));
    // A sample has each shape and each compressor.
    for (shape, compressor) in all.step_by(whole_or(1, 3)) {
        let mut fs = mounted(made(dir.path(), shape, &["-x", compressor]));
        assert_eq!(fs.head().compressor_name(), compressor);
        compare(&mut fs, Ino::ROOT, dir.path(), &["dev"]);
        let report = fs.check();
        assert_eq!(report.findings, [], "{shape:?} {compressor}");
        assert_eq!(fs.journal().nodes, 0);
    }
}

#[test]
fn a_tree_is_read_back_whatever_the_maker_was_told() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let choices: [&[&str]; 5] = [
        &["-f", "3"],
        &["-f", "32", "-F"],
        // Names with the same four bytes collide.
        &["-k", "test"],
        &["-p", "4", "-l", "9"],
        &["-x", "favor_lzo", "-j", "1MiB"],
    ];
    for options in choices.into_iter().step_by(whole_or(1, 2)) {
        let mut fs = mounted(made(dir.path(), SHAPES[1], options));
        compare(&mut fs, Ino::ROOT, dir.path(), &["dev"]);
        assert_eq!(fs.check().findings, [], "{options:?}");
    }
}

#[test]
fn special_files_owners_and_hard_links_are_told() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut fs = mounted(made(dir.path(), SHAPES[1], &[]));
    let mut node = |at: &str| path::resolve(&mut fs, at.as_bytes()).unwrap();
    let many = node("dev/many");
    assert_eq!((many.kind, many.device), (FileType::Block, (300, 70_000)));
    assert_eq!((many.uid, many.gid, many.mode), (7, 300_000, 0o660));
    let null = node("dev/null");
    assert_eq!((null.kind, null.device), (FileType::Character, (1, 3)));
    assert_eq!(node("dev/fifo").kind, FileType::Fifo);
    let first = node("etc/of 4097");
    let second = node("deep/a second name");
    assert_eq!((first.ino, first.links), (second.ino, 2));
}

#[test]
fn holes_are_told_and_read_as_zeros() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut fs = mounted(made(dir.path(), SHAPES[1], &[]));
    let mut ino = |at: &str| path::resolve(&mut fs, at.as_bytes()).unwrap().ino;
    let sparse = ino("sparse");
    let hole = ino("hole");
    assert_eq!(fs.next_data(sparse, 0), Ok(1_200_000 / 4096 * 4096));
    assert_eq!(fs.next_data(sparse, 1_200_001), Ok(1_200_001));
    assert_eq!(fs.next_data(sparse, 1_400_000), Ok(3_000_000));
    assert_eq!(fs.next_data(hole, 5), Ok(1 << 30));
    let mut end = [1; 10];
    assert_eq!(fs.read(hole, (1 << 30) - 4, &mut end), Ok(4));
    assert_eq!(end, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    assert_eq!(fs.read(hole, u64::MAX, &mut end), Ok(0));
}

#[test]
fn a_listing_goes_on_where_it_was_left_also_among_colliding_names() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for options in [&["-k", "r5"], &["-k", "test"]] {
        let mut fs = mounted(made(dir.path(), SHAPES[0], options));
        let many = path::resolve(&mut fs, b"many").unwrap().ino;
        let whole = names(&mut fs, many);
        assert_eq!(whole.len(), 700);
        let parts = names_in_parts(&mut fs, many, |fs| {
            // A look-up between two calls must not disturb.
            fs.lookup(many, whole[650].as_bytes()).unwrap();
            assert_eq!(fs.lookup(many, b"nothing"), Err(Errno::NoEntry));
            assert_eq!(fs.lookup(many, &[b'x'; 256]), Err(Errno::NameTooLong));
        });
        assert_eq!(parts, whole);
    }
}

#[test]
fn calls_that_would_change_it_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "contents").unwrap();
    let mut fs = mounted(made(dir.path(), SHAPES[1], &[]));
    let now = Time::new(5);
    let ino = path::resolve(&mut fs, b"a").unwrap().ino;
    assert_eq!(fs.write(ino, 0, b"x", now), Err(Errno::ReadOnly));
    let made = fs.create(Ino::ROOT, b"b", NewNode::File, 0o644, Caller::root(now));
    assert_eq!(made, Err(Errno::ReadOnly));
    fs.unmount().unwrap();
    assert_eq!(fs.getattr(ino), Err(Errno::Io));
}

/// Writes a field of the superblock, with the checksum.
fn with_field(mut bytes: Vec<u8>, at: usize, value: u32) -> Vec<u8> {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let sum = nandlab_ubi::format::crc(&bytes[8..4096]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn features_that_are_not_supported_are_named_and_wrong_fields_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = made(dir.path(), SHAPES[1], &[]);
    let cases = [
        (28, 0x20, "superblock: authentication is not supported"),
        (28, 0x10, "superblock: encryption is not supported"),
        (28, 0x40, "superblock: a flag beyond 0x3e is not supported"),
        (80, 2, "superblock: a format before 3 is not supported"),
        (
            80,
            5,
            "LEB 0, byte 0: the flags of format 5 is 0x0, expected 0x08 among them",
        ),
        (
            72,
            2,
            "LEB 0, byte 0: the fanout is 0x2, expected 3 or more, in a logical block",
        ),
        (
            56,
            u32::MAX,
            "LEB 0, byte 0: the number of logical blocks is 0xe, expected room for each area",
        ),
    ];
    for (at, value, expected) in cases {
        let bytes = with_field(bytes.clone(), at, value);
        let lebs = Bare::new(bytes).unwrap().unwrap();
        assert_eq!(Ubifs::mount(lebs).unwrap_err().to_string(), expected);
    }
    // Double hashing says nothing that a reader needs.
    let double = with_field(with_field(bytes, 80, 5), 28, 0x08);
    assert_eq!(mounted(double).head().version, 5);
}
