//! mkfs.jffs2's and sumtool's images read equal; jffs2dump finds nothing wrong with ours.
//!
//! Needs mtd-utils, and gcc with libc6-dev; fails naming the Debian package that is missing.

use crate::common::{
    bytes, manifest, nor, nor_of, printed, read_only, text, tool, without_directory_times,
};
use crate::guest;
use crate::guest::{Attributes, attribute_differences, attributes, attributes_of};
use nandlab_jffs2::{
    Choice, Compression, Endian, Entry as Planted, Format, Made, format, populate,
};
use nandlab_oracle::manifest::{Entry, Kind, Manifest, differences};
use nandlab_vfs::{NewNode, Time};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// A directory of the host.
fn grow(root: &Path) {
    fs::create_dir_all(root.join("dir/deep")).unwrap();
    for (number, name) in (0u64..).zip([
        "empty",
        "text",
        "dir/noise",
        "dir/deep/zeros",
        "größer",
        "one",
        "dir/mixed",
    ]) {
        let data = match number {
            0 => vec![],
            1 => text(1, 100_000),
            2 => bytes(2, 60_000),
            3 => vec![0; 33_333],
            5 => vec![1],
            _ => [text(3, 5000), bytes(3, 5000)].concat(),
        };
        fs::write(root.join(name), data).unwrap();
    }
    fs::hard_link(root.join("text"), root.join("dir/second name")).unwrap();
    std::os::unix::fs::symlink("../text", root.join("dir/link")).unwrap();
    fs::set_permissions(root.join("one"), fs::Permissions::from_mode(0o4711)).unwrap();
}

/// Gives entries of a directory of the host extended attributes; gives what the host says of them
/// then.
fn adorn(scratch: &Path, root: &Path) -> Attributes {
    let play = scratch.join("play");
    let list = scratch.join("list");
    fs::write(&play, guest::player()).unwrap();
    fs::set_permissions(&play, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        &list,
        "a text user.one 20 1\na text user.long 2000 2\na dir user.one 20 1\na dir/mixed user.empty 0 3\na one trusted.two 9 4\n",
    )
    .unwrap();
    let run = |arguments: &[&Path]| {
        let output = Command::new(&play).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "extended attributes in {}: {}",
            root.display(),
            printed(&output)
        );
        output.stdout
    };
    run(&[Path::new("calls"), root, &list]);
    let reported = attributes(&run(&[Path::new("xattrs"), root]));
    assert!(
        reported.len() >= 6,
        "the file with two names tells them twice"
    );
    reported
}

/// The tree of a directory of the host, without the times of directories and the owners, which
/// mkfs.jffs2 does not keep.
fn of_host(root: &Path, at: &Path, tree: &mut Manifest) {
    let meta = fs::symlink_metadata(root.join(at)).unwrap();
    let kind = match meta.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Symlink {
            target: fs::read_link(root.join(at)).unwrap(),
        },
        _ => {
            let sha256 = Sha256::digest(fs::read(root.join(at)).unwrap())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            Kind::File {
                size: meta.len(),
                sha256,
            }
        }
    };
    let (links, mtime) = if meta.is_dir() {
        (1, 0)
    } else {
        (meta.nlink() as u32, meta.mtime())
    };
    tree.insert(
        at.into(),
        Entry {
            kind,
            mode: (meta.mode() & 0o7777) as u16,
            uid: 0,
            gid: 0,
            links,
            mtime,
            mtime_nanos: 0,
        },
    );
    if meta.is_dir() {
        for entry in fs::read_dir(root.join(at)).unwrap() {
            of_host(root, &at.join(entry.unwrap().file_name()), tree);
        }
    }
}

#[test]
fn images_of_mkfs_read_equal_in_both_orders_with_every_compressor_with_and_without_lists() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    let image = scratch.path().join("image");
    let listed = scratch.path().join("listed");
    grow(&root);
    let mut expected = Manifest::new();
    of_host(&root, Path::new("."), &mut expected);
    let adorned = adorn(scratch.path(), &root);
    let off = |names: &[&str]| {
        names
            .iter()
            .flat_map(|name| ["-x", *name])
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let choices = [
        ("zlib", off(&["rtime", "lzo"])),
        ("rtime", off(&["zlib", "lzo"])),
        (
            "lzo",
            [off(&["zlib", "rtime"]), vec!["-X".into(), "lzo".into()]].concat(),
        ),
        (
            "size",
            ["-m", "size", "-X", "lzo"].map(String::from).to_vec(),
        ),
        ("none", ["-m", "none"].map(String::from).to_vec()),
    ];
    for (name, options) in choices {
        for order in ["-l", "-b"] {
            for markers in [true, false] {
                let mut arguments = vec![
                    "--with-xattr",
                    "-U",
                    "-p",
                    "-e",
                    "64KiB",
                    order,
                    "-r",
                    root.to_str().unwrap(),
                    "-o",
                    image.to_str().unwrap(),
                ];
                arguments.extend(options.iter().map(String::as_str));
                arguments.extend((!markers).then_some("-n"));
                let made = tool("mkfs.jffs2", &arguments);
                assert!(made.status.success(), "{arguments:?}: {}", printed(&made));
                let mut sum = vec![
                    "-p",
                    "-e",
                    "64KiB",
                    order,
                    "-i",
                    image.to_str().unwrap(),
                    "-o",
                    listed.to_str().unwrap(),
                ];
                sum.extend((!markers).then_some("-n"));
                let summed = tool("sumtool", &sum);
                assert!(summed.status.success(), "{}", printed(&summed));
                for path in [&image, &listed] {
                    let mut dump = fs::read(path).unwrap();
                    dump.resize(dump.len() + 8 * 64 * 1024, 0xFF);
                    let what = format!("{name} {order} {}", path.display());
                    let mut mounted = read_only(nor_of(dump, 64 * 1024));
                    assert_eq!(
                        mounted.endian(),
                        if order == "-l" {
                            Endian::Little
                        } else {
                            Endian::Big
                        }
                    );
                    let found = without_directory_times(manifest(&mut mounted));
                    assert_eq!(differences(&expected, &found), "", "{what}");
                    assert_eq!(
                        attribute_differences(&adorned, &attributes_of(&mut mounted)),
                        "",
                        "{what}"
                    );
                    let report = mounted.check().unwrap();
                    assert_eq!(report.worst(), None, "{what}: {:?}", report.findings);
                }
            }
        }
    }
}

#[test]
fn jffs2dump_finds_nothing_wrong_with_what_we_make() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("image");
    let long = text(1, 50_000);
    let noise = bytes(2, 20_000);
    let entry = |path: &'static [u8], made| Planted {
        path,
        made,
        mode: 0o755,
        owner: (1, 2),
        mtime: Time::new(1_000_000_000),
        xattrs: &[(b"user.k", b"v")],
    };
    let entries = [
        entry(b"", Made::Node(NewNode::Directory)),
        entry(b"dir", Made::Node(NewNode::Directory)),
        entry(b"dir/text", Made::File(&long)),
        entry(b"dir/noise", Made::File(&noise)),
        entry(
            b"link",
            Made::Node(NewNode::Symlink {
                target: b"dir/text",
            }),
        ),
        entry(b"again", Made::Link(b"dir/text")),
    ];
    for (endian, order) in [(Endian::Little, "-l"), (Endian::Big, "-b")] {
        for summary in [false, true] {
            let by_size = Compression {
                choice: Choice::Size,
                ..Compression::LINUX
            };
            let choices = Format {
                endian,
                summary,
                compression: by_size,
                ..Format::default()
            };
            let made = || {
                populate(nor(12, 64 * 1024), &choices, entries.clone())
                    .unwrap()
                    .into_backing()
            };
            let image = made();
            assert!(image == made(), "the same entries give the same bytes");
            fs::write(&path, &image).unwrap();
            let dumped = printed(&tool("jffs2dump", &["-c", order, path.to_str().unwrap()]));
            assert!(
                dumped.matches("Inode").count() > 15 && dumped.matches("Dirent").count() == 5,
                "{dumped}"
            );
            assert!(
                !dumped.to_lowercase().contains("wrong") && !dumped.contains("Unknown"),
                "{dumped}"
            );
            let mut fs = read_only(nor_of(image, 64 * 1024));
            let seen = manifest(&mut fs);
            assert_eq!(seen.len(), 6);
            assert_eq!(seen[Path::new("./dir")].mtime, 1_000_000_000);
            assert_eq!(seen[Path::new("./again")].links, 2);
        }
    }
    // An empty one.
    let mut empty = read_only(format(nor(12, 64 * 1024), &Format::default()).unwrap());
    assert_eq!(manifest(&mut empty).len(), 1);
}
