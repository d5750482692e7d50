//! A tree becomes a medium: the same bytes every time, everything on it, and an error where the
//! format cannot hold it.

use crate::common::{NAND, bytes, manifest, nand, nor, nor_of, read_only, text};
use nandlab_jffs2::{
    Endian, Entry, Format, FormatError, Jffs2, Made, PAGE, Severity, format, populate,
};
use nandlab_mtd::Mtd;
use nandlab_vfs::{Errno, FileSystem, Ino, NewNode, Time, path, tree};
use std::path::Path;

fn entry<'a>(path: &'a [u8], made: Made<'a>) -> Entry<'a> {
    Entry {
        path,
        made,
        mode: 0o640,
        owner: (1000, 65_535),
        mtime: Time::new(1_111_111_111),
        xattrs: &[(b"user.k", b"shared")],
    }
}

/// Data of a file that are half a hole.
fn sparse() -> Vec<u8> {
    [
        vec![0; 3 * PAGE as usize],
        text(1, 9000),
        vec![0; 20_000 / 4096 * 4096],
        bytes(2, 100),
        vec![0; 8192],
    ]
    .concat()
}

fn entries(sparse: &[u8]) -> Vec<Entry<'_>> {
    vec![
        Entry {
            mode: 0o755,
            ..entry(b"", Made::Node(NewNode::Directory))
        },
        Entry {
            mode: 0o2755,
            ..entry(b"dir", Made::Node(NewNode::Directory))
        },
        Entry {
            mode: 0o700,
            ..entry(b"dir/below", Made::Node(NewNode::Directory))
        },
        entry(b"dir/sparse", Made::File(sparse)),
        entry(b"dir/empty", Made::File(b"")),
        Entry {
            mode: 0o777,
            ..entry(
                b"link",
                Made::Node(NewNode::Symlink {
                    target: b"dir/sparse",
                }),
            )
        },
        entry(
            b"dir/null",
            Made::Node(NewNode::Character { device: (1, 3) }),
        ),
        entry(
            b"dir/far",
            Made::Node(NewNode::Block {
                device: (300, 70_000),
            }),
        ),
        entry(b"again", Made::Link(b"dir/sparse")),
    ]
}

fn assert_whole<M: Mtd>(mtd: M, data: &[u8], what: &str) {
    let mut fs = read_only(mtd);
    let seen = manifest(&mut fs);
    assert_eq!(seen.len(), 9, "{what}");
    for (path, entry) in &seen {
        assert_eq!(
            (entry.uid, entry.gid, entry.mtime),
            (1000, 65_535, 1_111_111_111),
            "{what} {path:?}"
        );
    }
    assert_eq!(
        (
            seen[Path::new("./dir")].mode,
            seen[Path::new("./dir/below")].mode
        ),
        (0o2755, 0o700),
        "{what}"
    );
    assert_eq!(seen[Path::new("./again")].links, 2, "{what}");
    let file = path::resolve(&mut fs, b"again").unwrap();
    assert!(tree::contents(&mut fs, file.ino).unwrap() == data, "{what}");
    assert_eq!(
        fs.getxattr(file.ino, b"user.k").as_deref(),
        Ok(&b"shared"[..]),
        "{what}"
    );
    let report = fs.check().unwrap();
    assert_eq!(report.worst(), None, "{what}: {:?}", report.findings);
}

#[test]
fn a_tree_is_whole_on_every_medium_and_the_same_every_time() {
    let data = sparse();
    for endian in [Endian::Little, Endian::Big] {
        for summary in [false, true] {
            for page in [PAGE, 4 * PAGE] {
                let choices = Format {
                    endian,
                    summary,
                    page,
                    ..Format::default()
                };
                let what = format!("{choices:?}");
                let [first, again] = [0, 1].map(|_| {
                    populate(nor(12, 32 * 1024), &choices, entries(&data))
                        .unwrap()
                        .into_backing()
                });
                assert!(first == again, "{what}");
                // Whatever was there before.
                let used = nor_of(bytes(3, first.len()), 32 * 1024);
                assert!(
                    first
                        == populate(used, &choices, entries(&data))
                            .unwrap()
                            .into_backing(),
                    "{what}"
                );
                assert_whole(nor_of(first, 32 * 1024), &data, &what);
                assert_whole(
                    populate(nand(NAND, 12), &choices, entries(&data)).unwrap(),
                    &data,
                    &what,
                );
            }
        }
    }
}

#[test]
fn what_the_format_cannot_hold_is_an_error_that_names_the_entry() {
    let long_name = [b'n'; 255];
    let long_link = [b't'; 255];
    let device = |device| Made::Node(NewNode::Character { device });
    let bad = [
        (
            entry(&long_name, Made::File(b"")),
            "length of the name",
            255,
        ),
        (
            entry(b"l", Made::Node(NewNode::Symlink { target: &long_link })),
            "length of the symbolic link",
            255,
        ),
        (
            Entry {
                owner: (70_000, 0),
                ..entry(b"o", Made::File(b""))
            },
            "owner",
            70_000,
        ),
        (
            Entry {
                owner: (0, 65_536),
                ..entry(b"g", Made::File(b""))
            },
            "group",
            65_536,
        ),
        (
            Entry {
                mtime: Time::new(-1),
                ..entry(b"t", Made::File(b""))
            },
            "time",
            -1,
        ),
        (entry(b"d", device((4096, 0))), "major number", 4096),
        (entry(b"d", device((0, 1 << 20))), "minor number", 1 << 20),
    ];
    for (entry, wrong, value) in bad {
        let refused = populate(nor(6, 16 * 1024), &Format::default(), [entry.clone()]).unwrap_err();
        let FormatError::Entry {
            path, what, found, ..
        } = refused
        else {
            panic!("{refused}")
        };
        assert_eq!((path.as_bytes(), what, found), (entry.path, wrong, value));
    }
    let noise = bytes(1, 100_000);
    let full = populate(
        nor(6, 16 * 1024),
        &Format::default(),
        [entry(b"large", Made::File(&noise))],
    )
    .unwrap_err();
    assert_eq!(
        full,
        FormatError::Call {
            path: "large".into(),
            error: Errno::NoSpace
        }
    );
}

#[test]
fn an_empty_medium_is_a_root_and_wants_a_shape_that_can_hold_more() {
    let mut fs = Jffs2::mount(
        format(nand(NAND, 8), &Format::default()).unwrap(),
        Default::default(),
    )
    .unwrap();
    assert_eq!(tree::names(&mut fs, Ino::ROOT), Ok(vec![]));
    assert_eq!(fs.check().unwrap().worst(), None::<Severity>);
    let refused = Jffs2::mount(nor(8, 4096), Default::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "erase block is 4096, expected at least 8192 bytes"
    );
    assert_eq!(
        Jffs2::mount(nor(4, 8192), Default::default())
            .unwrap_err()
            .to_string(),
        "blocks is 4, expected at least 5"
    );
}
