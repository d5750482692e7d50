//! A tree with a bit of everything, as an archive and as entries.

use nandlab_image::make::{Format, Making, make};
use nandlab_image::sink::pour;
use nandlab_image::tar_in;
use nandlab_image::tar_out::TarOut;
use nandlab_image::tree::{Data, Entry, Extent, Node, Origin, Tree};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_jffs2::Compression;
use nandlab_vfs::Time;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// CAP_NET_BIND_SERVICE, permitted and effective: the kernel shows none that makes no sense.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// `u::rwx,u:1000:r--,g::r-x,m::r-x,o::---`: the mask is the group's permissions in the mode.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

pub const ERASE: u32 = 64 * 1024;

/// Bytes that do not compress to nothing, and are the same each time.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (nandlab_sim::mix(seed, at / 3) >> 11) as u8)
        .collect()
}

/// Collects entries, with contents from one file.
struct Planter {
    tree: Tree,
    contents: Vec<u8>,
    places: Vec<(usize, u64, u64)>,
}

impl Planter {
    fn entry(&mut self, path: &[u8], node: Node, mode: u16) -> &mut Entry {
        let mtime = Time {
            secs: 1_000_000_000 + self.tree.entries.len() as i64,
            nanos: 123_456_789,
        };
        self.tree.push(
            Entry {
                path: path.to_vec(),
                node,
                mode,
                uid: 0,
                gid: 0,
                mtime,
                xattrs: Vec::new(),
            },
            Data::default(),
        );
        let last = self.tree.entries.len() - 1;
        &mut self.tree.entries[last].0
    }

    /// A file of some parts, and zeros between and behind them.
    fn file(&mut self, path: &[u8], size: u64, parts: &[(u64, Vec<u8>)]) {
        self.entry(path, Node::File { size }, 0o644);
        let at = self.tree.entries.len() - 1;
        for (place, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            let from = self.contents.len() as u64;
            self.contents.extend(part);
            self.tree.entries[at].1.extents.push(Extent {
                at: *place,
                from,
                len: part.len() as u64,
            });
        }
        self.places.push((at, 0, 0));
    }
}

/// A tree that every format but FAT can hold; the larger formats' own edges with `wide`.
pub fn tree(scratch: &Path, wide: bool) -> Tree {
    let mut planter = Planter {
        tree: Tree::default(),
        contents: Vec::new(),
        places: Vec::new(),
    };
    let p = &mut planter;
    p.entry(b"", Node::Directory, 0o755);
    p.entry(b"etc", Node::Directory, 0o2755).gid = 50;
    let owned = p.entry(b"etc/shadow", Node::File { size: 0 }, 0o640);
    (owned.uid, owned.gid) = (1000, 65_534);
    p.entry(b"etc/su", Node::File { size: 0 }, 0o4711).xattrs = vec![
        (b"security.capability".into(), CAPABILITY.into()),
        (b"trusted.empty".into(), vec![]),
        (b"user.a key".into(), bytes(2, 300)),
    ];
    for size in [1, 4095, 4096, 4097, 60_000, 300_001] {
        p.file(
            format!("etc/of {size}").as_bytes(),
            size as u64,
            &[(0, bytes(size as u64, size))],
        );
    }
    p.file(
        b"sparse",
        3_000_000,
        &[(8192, bytes(3, 5000)), (1_200_000, bytes(4, 70_000))],
    );
    p.file(b"zeros", 100_000, &[]);
    p.entry(b"dev", Node::Directory, 0o1777);
    p.entry(b"dev/null", Node::Character { device: (1, 3) }, 0o666);
    p.entry(
        b"dev/many",
        Node::Block {
            device: (300, 70_000),
        },
        0o660,
    )
    .uid = 7;
    p.entry(b"dev/fifo", Node::Fifo, 0o600);
    p.entry(b"dev/socket", Node::Socket, 0o755);
    p.entry(
        b"link",
        Node::Symlink {
            target: b"etc/of 1".into(),
        },
        0o777,
    );
    p.entry(
        b"dev/long",
        Node::Symlink {
            target: vec![b'x'; 254],
        },
        0o777,
    )
    .uid = 3;
    p.entry(
        b"a second name",
        Node::Link {
            to: b"etc/su".into(),
        },
        0,
    );
    p.entry(b"dev/link too", Node::Link { to: b"link".into() }, 0);
    p.entry(b"names", Node::Directory, 0o700).xattrs =
        vec![(b"user.of a directory".into(), b"value".into())];
    p.entry(b"acl", Node::Directory, 0o750).xattrs = vec![
        (b"system.posix_acl_access".into(), ACL.into()),
        (b"system.posix_acl_default".into(), ACL.into()),
    ];
    for name in [
        &b"gr\xc3\xb6\xc3\x9fer"[..],
        b"\xff\xfe not text",
        b"new\nline",
        b"-dash",
        b"quote'\"\\",
        &[b'n'; 254],
    ] {
        p.file(&[b"names/", name].concat(), 5, &[(0, b"12345".into())]);
    }
    for number in 0..150 {
        p.file(
            format!("names/many {number:03}").as_bytes(),
            10,
            &[(0, bytes(number, 10))],
        );
    }
    p.entry(
        &[&b"deep"[..], &b"/down".repeat(20)].concat(),
        Node::Directory,
        0o755,
    );
    if wide {
        p.entry(&[b'w'; 255], Node::Fifo, 0o600).uid = 3_000_000_000;
        p.entry(b"before 1970", Node::Fifo, 0o600).mtime = Time {
            secs: -300_000_000,
            nanos: 5,
        };
        p.entry(b"after 2038", Node::Directory, 0o755).mtime = Time {
            secs: 4_102_444_800,
            nanos: 999_999_999,
        };
        p.entry(
            b"longer",
            Node::Symlink {
                target: vec![b'y'; 1000],
            },
            0o777,
        );
    }
    finish(planter, scratch)
}

fn finish(planter: Planter, scratch: &Path) -> Tree {
    let Planter {
        mut tree,
        contents,
        places,
    } = planter;
    let path = scratch.join("contents");
    std::fs::write(&path, contents).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    places.iter().for_each(|(at, ..)| {
        tree.entries[*at].1.origin = Some(Origin::Open(file.clone(), path.clone()))
    });
    tree.normalize().unwrap();
    tree
}

/// The tree as an archive of ours.
pub fn archive(tree: &Tree) -> Vec<u8> {
    let mut sink = TarOut::new(Vec::new(), "archive");
    pour(tree, &mut sink).unwrap();
    sink.into_inner()
}

/// Every format in which everything in [`tree`] has its place, with what it is called.
pub fn formats() -> Vec<(&'static str, Format)> {
    let ext = |journal, block| nandlab_ext::Format {
        journal,
        block,
        ..Default::default()
    };
    vec![
        ("jffs2", Format::jffs2(ERASE, Compression::CLASSIC)),
        ("ext2", Format::Ext(ext(false, None))),
        ("ext3", Format::Ext(ext(true, Some(4096)))),
        (
            "ext4",
            Format::Ext(nandlab_ext::Format {
                ext4: true,
                ..ext(true, None)
            }),
        ),
        ("f2fs", Format::F2fs(nandlab_f2fs::Format::default())),
    ]
}

pub fn made(tree: &Tree, format: Format, to: &Path, threads: usize) {
    let making = Making {
        format,
        size: None,
        lossy: false,
        threads,
        progress: &mut |_| {},
    };
    let made = make(tree.clone(), making, to).unwrap();
    assert!(made.losses.is_empty(), "{:?}", made.losses);
}

/// The tree in an image, as an archive.
pub fn extracted(image: &Path) -> Vec<u8> {
    let mut volume = Volume::open(image, &Opening::default(), Access::Read).unwrap();
    let mut sink = TarOut::new(Vec::new(), "archive");
    let mut progress = |_| {};
    let mut walk = volume.walk(false, &mut progress).unwrap();
    walk.run(b"", &mut sink).unwrap();
    sink.into_inner()
}

/// What an archive holds: each entry with its contents.
pub fn held(archive: &[u8], scratch: &Path) -> Vec<(Entry, Vec<u8>)> {
    let path = PathBuf::from(scratch).join("archive.tar");
    std::fs::write(&path, archive).unwrap();
    let tree = tar_in::read(&path).unwrap();
    let entries = tree.entries.into_iter().map(|(entry, data)| {
        let mut contents = vec![0; entry.size() as usize];
        data.read(0, &mut contents).unwrap();
        (entry, contents)
    });
    entries.collect()
}

/// The differences of two lists of entries, in few words.
pub fn differences(expected: &[(Entry, Vec<u8>)], found: &[(Entry, Vec<u8>)]) -> String {
    let mut text = String::new();
    let name = |entry: &Entry| nandlab_image::Shown(entry.path.clone()).to_string();
    for (entry, contents) in expected {
        match found.iter().find(|(other, _)| other.path == entry.path) {
            None => text += &format!("missing: {}\n", name(entry)),
            Some((other, _)) if other != entry => text += &format!("{entry:?}\nis {other:?}\n"),
            Some((_, other)) if other != contents => {
                text += &format!("contents of {}\n", name(entry))
            }
            Some(_) => {}
        }
    }
    let extra = found
        .iter()
        .filter(|(entry, _)| !expected.iter().any(|(other, _)| other.path == entry.path));
    extra.for_each(|(entry, _)| text += &format!("too many: {}\n", name(entry)));
    text
}

/// What the format's own judge says, changing nothing; nothing if it is content.
pub fn judged(image: &Path, name: &str) -> Option<String> {
    let (package, program, options): (_, _, &[&str]) = match name {
        "ext2" | "ext3" | "ext4" => ("e2fsprogs", "/sbin/e2fsck", &["-fn"]),
        "f2fs" => ("f2fs-tools", "/sbin/fsck.f2fs", &["--dry-run"]),
        _ => ("dosfstools", "/sbin/fsck.vfat", &["-n", "-V"]),
    };
    let output = Command::new(program).args(options).arg(image).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: apt-get install {package}"));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (!output.status.success()).then(|| text.lines().take(20).collect::<Vec<_>>().join("\n"))
}

/// Forty files in three directories.
pub fn plain(scratch: &Path) -> Tree {
    files(scratch, 40, 500, 3)
}

/// So many files, each `step` bytes longer than the one before, in so many directories.
pub fn files(scratch: &Path, count: usize, step: usize, directories: usize) -> Tree {
    let mut tree = Tree::default();
    for number in 0..count {
        let path = scratch.join(format!("contents {number}"));
        let contents = bytes(number as u64, number * step);
        std::fs::write(&path, &contents).unwrap();
        let directory = number % directories;
        let name = format!("directory {directory}/a file with a name {number}");
        let entry = Entry {
            node: Node::File {
                size: contents.len() as u64,
            },
            mode: 0o644,
            ..Entry::directory(name.as_bytes())
        };
        tree.push(entry, Data::whole(path, contents.len() as u64));
    }
    tree.normalize().unwrap();
    tree
}

/// Makes wrong what follows from something else: a bitmap and counts, the second copy of a table, a
/// number of links.
pub fn derange(name: &str, bytes: &mut [u8]) {
    match name {
        // The first group's bitmap of blocks, which its descriptor names, and its counts.
        "ext2" | "ext3" | "ext4" => {
            let block = 1024usize << bytes[1048];
            let descriptor = if block == 1024 { 2048 } else { block };
            let bitmap = u32::from_le_bytes(bytes[descriptor..descriptor + 4].try_into().unwrap())
                as usize
                * block;
            bytes[bitmap] = 0;
            bytes[bitmap + block / 16] ^= 0xFF;
            // ext4's checksums make damage of a count.
            if name != "ext4" {
                bytes[descriptor + 12] ^= 0x55;
                bytes[1024 + 12] ^= 0x77;
            }
        }
        // The second copy of the table.
        "fat" => {
            let reserved = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
            let sectors = usize::from(u16::from_le_bytes([bytes[22], bytes[23]]));
            let second = (reserved + sectors) * 512;
            bytes[second + 3..second + 60].fill(0);
        }
        // The number of links in the node of a file: its name is in it.
        _ => {
            let name = b"a file with a name 7\0";
            let at = bytes
                .windows(name.len())
                .position(|window| window == name)
                .unwrap()
                / 4096
                * 4096;
            let inode = (at..bytes.len())
                .step_by(4096)
                .find(|at| bytes[at + 92..].starts_with(name))
                .unwrap();
            bytes[inode + 12] = 9;
        }
    }
}

/// True if a volume of UBIFS asks for a fix-up of its free space.
pub fn asks_for_fixup(volume: &Volume) -> bool {
    let is_marked = |layer: &Layer| matches!(layer, Layer::Ubifs { fixup: true, .. });
    volume.layers.iter().any(is_marked)
}
