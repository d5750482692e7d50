//! The real kernel mounts what we make, and sees the tree that went in: contents, permissions,
//! owners, times, links, devices, attributes.
//!
//! Needs the tools of `nandlab-oracle`, and gcc with libc6-dev; fails naming the Debian package
//! that is missing.

use crate::common::{archive, formats, held, made, tree};
use nandlab_image::make::Format;
use nandlab_image::tree::{Entry, Node};
use nandlab_oracle::Disk;
use nandlab_oracle::manifest::{Entry as Seen, Kind, Manifest, differences};
use nandlab_testkit::kernel;
use nandlab_testkit::share::is_whole;
use nandlab_testkit::xattrs::{self, Attributes};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

fn place(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        b".".to_vec()
    } else {
        [b"./", path].concat()
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// What the kernel should show of a list of entries.
pub(super) fn expected(
    entries: &[(Entry, Vec<u8>)],
    whole_seconds: bool,
) -> (Manifest, Attributes) {
    let mut manifest = Manifest::new();
    let mut attributes = Attributes::new();
    let mut links = BTreeMap::new();
    for (entry, _) in entries {
        let first = if let Node::Link { to } = &entry.node {
            to.clone()
        } else {
            entry.path.clone()
        };
        *links.entry(first).or_insert(0) += 1;
    }
    for (entry, _) in entries {
        let first = if let Node::Link { to } = &entry.node {
            to
        } else {
            &entry.path
        };
        let (whole, contents) = entries
            .iter()
            .find(|(other, _)| other.path == *first)
            .unwrap();
        let kind = match &whole.node {
            Node::Directory => Kind::Directory,
            Node::File { size } => {
                let sha256: String = Sha256::digest(contents)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                Kind::File {
                    size: *size,
                    sha256,
                }
            }
            Node::Symlink { target } => Kind::Symlink {
                target: path_of(target),
            },
            Node::Character { device } => Kind::Character {
                major: device.0,
                minor: device.1,
            },
            Node::Block { device } => Kind::Block {
                major: device.0,
                minor: device.1,
            },
            Node::Fifo => Kind::Fifo,
            Node::Socket => Kind::Socket,
            Node::Link { .. } => panic!("a link to a link"),
        };
        let links = if kind == Kind::Directory {
            1
        } else {
            links[first]
        };
        let mtime_nanos = if whole_seconds { 0 } else { whole.mtime.nanos };
        let mode = whole.mode;
        let uid = whole.uid;
        let gid = whole.gid;
        manifest.insert(
            path_of(&place(&entry.path)),
            Seen {
                kind,
                mode,
                uid,
                gid,
                links,
                mtime: whole.mtime.secs,
                mtime_nanos,
            },
        );
        attributes.extend(
            whole
                .xattrs
                .iter()
                .map(|(name, value)| ((place(&entry.path), name.clone()), value.clone())),
        );
    }
    (manifest, attributes)
}

/// JFFS2 lies on flash that the guest makes of a disk.
fn mount(name: &str, device: char) -> String {
    match name {
        "jffs2" => format!(
            "dd if=/dev/vd{device} of=/dev/mtd0 bs=64k 2>/dev/null && mount -t jffs2 mtd0 /mnt"
        ),
        "f2fs" => format!("mount -t f2fs /dev/vd{device} /mnt"),
        _ => format!("mount -r -t ext4 /dev/vd{device} /mnt"),
    }
}

#[test]
fn the_kernel_sees_what_went_into_our_images() {
    let scratch = tempfile::tempdir().unwrap();
    let mut guest = kernel::guest().file("/xattrs", xattrs::program());
    let mut script = String::from(
        "mp f2fs && mp ext4 && mp mtdram total_size=4096 erase_size=64 && mp mtdblock && mp jffs2 || exit 1\n",
    );
    let mut trees = Vec::new();
    // A sample has the newest of the ext family.
    let mut tried = formats();
    tried.retain(|(name, _)| is_whole() || !["ext2", "ext3"].contains(name));
    for ((name, format), device) in tried.into_iter().zip('a'..) {
        let tree = tree(scratch.path(), name != "jffs2");
        let image = scratch.path().join(name);
        made(&tree, format.clone(), &image, 2);
        pad(&image, &format);
        trees.push((
            name,
            expected(&held(&archive(&tree), scratch.path()), name == "jffs2"),
        ));
        guest = guest.disk(Disk::File(image));
        script += &mount(name, device);
        script += &format!(
            " && manifest /mnt {name} && /xattrs /mnt >/tmp/x && send {name} /tmp/x && umount /mnt || {{ echo {name} failed; exit 1; }}\n"
        );
    }
    let report = kernel::boot(guest.script(script));
    for (name, (manifest, attributes)) in trees {
        let mut seen = report.manifests[name].clone();
        seen.retain(|path, _| path != Path::new("./lost+found"));
        assert_eq!(differences(&manifest, &seen), "", "{name}");
        let mut named = xattrs::sent(&report.files[name]);
        // What F2FS shows of its hints under a name.
        named.retain(|(_, name), _| name != b"system.advise");
        let shown = |all: &Attributes| {
            all.keys()
                .map(|(path, name)| {
                    [path.escape_ascii(), name.escape_ascii()].map(|part| part.to_string())
                })
                .collect::<Vec<_>>()
        };
        assert!(
            named == attributes,
            "{name}: attributes {:?}, expected {:?}",
            shown(&named),
            shown(&attributes)
        );
    }
}

/// A flash image ends with its last block, the guest's flash does not.
fn pad(image: &Path, format: &Format) {
    if matches!(format, Format::Jffs2 { .. }) {
        let mut bytes = fs::read(image).unwrap();
        bytes.resize(4 << 20, 0xFF);
        fs::write(image, bytes).unwrap();
    }
}
