//! What mksquashfs packed is read as it was, with each compressor.

use crate::made::{COMPRESSORS, made};
use nandlab_block::{BlockDevice, Ram};
use nandlab_squashfs::Squashfs;
use nandlab_testkit::host::{compare, names, names_in_parts, tree};
use nandlab_testkit::share::whole_or;
use nandlab_testkit::tools::{find, succeed, text};
use nandlab_vfs::{Caller, Errno, FileSystem, FileType, Ino, NewNode, SetAttr, Time, path};
use std::fs;

fn node(fs: &mut Squashfs<Ram>, at: &str) -> nandlab_vfs::Attr {
    path::resolve(fs, at.as_bytes()).unwrap()
}

#[test]
fn a_tree_is_read_back_with_each_compressor() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for compressor in COMPRESSORS {
        let mut fs = Squashfs::mount(made(dir.path(), &["-comp", compressor])).unwrap();
        assert_eq!(fs.head().compressor.name(), compressor);
        compare(&mut fs, Ino::ROOT, dir.path(), &["dev"]);
        let report = fs.check().unwrap();
        assert_eq!(report.findings, [], "{compressor}");
        assert_eq!(report.inodes, fs.head().inodes.into());
    }
}

#[test]
fn a_tree_is_read_back_whatever_the_maker_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let choices: [&[&str]; 8] = [
        &["-b", "4096"],
        &["-b", "1M", "-comp", "xz", "-Xbcj", "x86,arm,sparc"],
        &["-noI", "-noD", "-noF"],
        &["-no-fragments", "-noX"],
        &["-always-use-fragments", "-no-exports"],
        &["-no-duplicates", "-nopad", "-no-sparse"],
        &["-comp", "lz4", "-Xhc"],
        &[
            "-comp",
            "gzip",
            "-Xwindow-size",
            "9",
            "-Xstrategy",
            "huffman_only",
        ],
    ];
    // A sample has tables as they are, a fragment for each end, and a compressor's option.
    for options in choices
        .into_iter()
        .skip(whole_or(0, 2))
        .step_by(whole_or(1, 2))
    {
        let mut fs = Squashfs::mount(made(dir.path(), options)).unwrap();
        compare(&mut fs, Ino::ROOT, dir.path(), &["dev"]);
        assert_eq!(fs.check().unwrap().findings, [], "{options:?}");
    }
}

#[test]
fn special_files_owners_and_hard_links_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut fs = Squashfs::mount(made(dir.path(), &[])).unwrap();
    let many = node(&mut fs, "dev/many");
    assert_eq!((many.kind, many.device), (FileType::Block, (300, 70_000)));
    assert_eq!((many.uid, many.gid, many.mode), (7, 3_000_000_000, 0o660));
    let null = node(&mut fs, "dev/null");
    assert_eq!((null.kind, null.device), (FileType::Character, (1, 3)));
    assert_eq!(node(&mut fs, "dev/fifo").kind, FileType::Fifo);
    assert_eq!(node(&mut fs, "dev/socket").kind, FileType::Socket);
    let first = node(&mut fs, "etc/of 4097");
    let second = node(&mut fs, "deep/a second name");
    assert_eq!((first.ino, first.links), (second.ino, 2));
    assert_eq!(node(&mut fs, "/").ino, Ino::ROOT);
}

#[test]
fn holes_are_reported_and_read_as_zeros() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut fs = Squashfs::mount(made(dir.path(), &[])).unwrap();
    let sparse = node(&mut fs, "sparse");
    let block = 131_072;
    assert_eq!(fs.next_data(sparse.ino, 0), Ok(1_200_000 / block * block));
    assert_eq!(fs.next_data(sparse.ino, 1_199_000), Ok(1_199_000));
    assert_eq!(fs.next_data(sparse.ino, 1_400_000), Ok(3_000_000));
    assert!(sparse.blocks < 3_000_000 / 512 / 4, "{}", sparse.blocks);
    let hole = node(&mut fs, "hole");
    assert_eq!(fs.next_data(hole.ino, 5), Ok(1 << 30));
    let mut end = [1; 10];
    assert_eq!(fs.read(hole.ino, (1 << 30) - 4, &mut end), Ok(4));
    assert_eq!(end, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    assert_eq!(fs.read(hole.ino, u64::MAX, &mut end), Ok(0));
}

#[test]
fn a_listing_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut fs = Squashfs::mount(made(dir.path(), &[])).unwrap();
    let many = node(&mut fs, "many").ino;
    let whole = names(&mut fs, many);
    assert_eq!(whole.len(), 700);
    let parts = names_in_parts(&mut fs, many, |fs| {
        // A look-up between two calls must not disturb.
        fs.lookup(many, whole[650].as_bytes()).unwrap();
        assert_eq!(fs.lookup(many, b"nothing"), Err(Errno::NoEntry));
    });
    assert_eq!(parts, whole);
}

#[test]
fn nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "contents").unwrap();
    let disk = made(dir.path(), &[]);
    let before = disk.clone();
    let mut fs = Squashfs::mount(disk).unwrap();
    let ino = node(&mut fs, "a").ino;
    let now = Time::new(5);
    let by = Caller::root(now);
    assert_eq!(fs.write(ino, 0, b"x", now), Err(Errno::ReadOnly));
    assert_eq!(
        fs.create(Ino::ROOT, b"b", NewNode::File, 0o644, by),
        Err(Errno::ReadOnly)
    );
    assert_eq!(fs.unlink(Ino::ROOT, b"a", now), Err(Errno::ReadOnly));
    assert_eq!(
        fs.setattr(ino, &SetAttr::default(), now),
        Err(Errno::ReadOnly)
    );
    assert_eq!(fs.removexattr(ino, b"user.a", now), Err(Errno::ReadOnly));
    fs.sync().unwrap();
    fs.unmount().unwrap();
    assert_eq!(fs.getattr(ino), Err(Errno::Io));
    let mut after = fs.into_device();
    assert_eq!(
        nandlab_testkit::disk::difference(&mut after, &mut before.clone()),
        None
    );
}

#[test]
fn versions_and_compressors_that_are_not_known_are_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let disk = made(dir.path(), &[]);
    let cases = [
        (
            28,
            3,
            "superblock, byte 28: version 3 is not supported, only 4.0",
        ),
        (
            20,
            9,
            "superblock, byte 20: compressor 9 is not supported, only gzip, lzma, lzo, xz, lz4 and zstd (1 to 6)",
        ),
        (
            0,
            7,
            "byte 0: the magic number is 1936814855, expected 0x73717368",
        ),
        (
            22,
            13,
            "byte 12: the length of a block is 131072, expected 4096 to 1048576, a power of two",
        ),
    ];
    for (at, byte, expected) in cases {
        let mut disk = disk.clone();
        nandlab_testkit::disk::poke(&mut disk, at, &[byte]);
        assert_eq!(Squashfs::mount(disk).unwrap_err().to_string(), expected);
    }
}

#[test]
fn unsquashfs_takes_out_the_same() {
    find("squashfs-tools", "unsquashfs");
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    tree(&root);
    let mut disk = made(&root, &["-comp", "zstd"]);
    let image = dir.path().join("image");
    let out = dir.path().join("out");
    assert!(disk.geometry().bytes() > 0);
    nandlab_testkit::disk::save(&mut disk, &image);
    let listed = [
        "-quiet",
        "-no-progress",
        "-d",
        text(&out),
        text(&image),
        "etc",
        "many",
        "deep",
    ];
    succeed("squashfs-tools", "unsquashfs", &listed);
    let mut fs = Squashfs::mount(disk).unwrap();
    for name in ["etc", "many", "deep"] {
        let ino = node(&mut fs, name).ino;
        compare(&mut fs, ino, &out.join(name), &[]);
    }
}
