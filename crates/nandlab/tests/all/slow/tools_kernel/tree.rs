//! The tree that every tool gets: a bit of everything that a file system of firmware holds, small
//! enough for a guest.
//!
//! Files of `data` hold bytes that occur once in an image and do not compress: what is damaged is
//! found by them.

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Files of `data`, and bytes of each.
pub const FILES: usize = 20;
pub const BYTES: usize = 20_000;

/// Where a file of `data` is.
pub fn data(number: usize) -> String {
    format!("data/{number:02}.bin")
}

pub fn contents(number: usize) -> Vec<u8> {
    (0..BYTES as u64)
        .map(|at| (nandlab_sim::mix(number as u64, at) >> 13) as u8)
        .collect()
}

/// Makes the tree; with `plain` directories and files only.
pub fn make(root: &Path, plain: bool) -> std::io::Result<()> {
    let at = |path: &str| root.join(path);
    for dir in [
        "",
        "etc",
        "data",
        "names",
        "tmp",
        "deep",
        "deep/er",
        "deep/er/still",
    ] {
        fs::create_dir(at(dir))?;
    }
    (0..FILES).try_for_each(|number| fs::write(at(&data(number)), contents(number)))?;
    (0..100).try_for_each(|number| {
        fs::write(
            at(&format!("names/name-{number:03}.txt")),
            format!("the file of number {number}\n"),
        )
    })?;
    fs::write(at("etc/empty"), "")?;
    fs::write(at("etc/shadow"), "root:*:\n")?;
    fs::write(at("etc/su"), [7; 4097])?;
    fs::write(at("deep/er/still/here"), "here\n")?;
    let sparse = File::create(at("sparse"))?;
    sparse.set_len(1_000_000)?;
    sparse.write_all_at(&contents(90)[..5000], 8192)?;
    sparse.write_all_at(&contents(91)[..9000], 600_000 / 4096 * 4096)?;
    if !plain {
        special(root)?;
    }
    dates(root, &mut 0)
}

fn special(root: &Path) -> std::io::Result<()> {
    let at = |path: &str| root.join(path);
    let modes = [
        ("etc/su", 0o4711),
        ("etc/shadow", 0o640),
        ("tmp", 0o1777),
        ("names", 0o2750),
        ("etc/empty", 0o600),
    ];
    chown(at("etc/shadow"), Some(1000), Some(65_534))?;
    chown(at("names"), Some(7), Some(50))?;
    fs::hard_link(at("data/00.bin"), at("etc/second"))?;
    fs::hard_link(at("data/00.bin"), at("tmp/third"))?;
    symlink("etc/su", at("link"))?;
    symlink("x".repeat(200), at("tmp/long"))?;
    std::os::unix::fs::lchown(at("link"), Some(3), Some(4))?;
    let nodes = [
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("disk", FileType::BlockDevice, makedev(8, 1)),
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
    ];
    for (name, kind, device) in nodes {
        mknodat(
            CWD,
            at(&format!("tmp/{name}")),
            kind,
            Mode::from_raw_mode(0o660),
            device,
        )?;
        fs::set_permissions(at(&format!("tmp/{name}")), Permissions::from_mode(0o660))?;
    }
    let xattrs: [(&str, &str, &[u8]); 4] = [
        ("etc/su", "user.key", b"value"),
        ("etc/su", "trusted.of", &[0, 255, 7]),
        ("names", "user.dir", &[b'v'; 200]),
        ("data/03.bin", "user.empty", b""),
    ];
    for (path, name, value) in xattrs {
        lsetxattr(at(path), name, value, XattrFlags::empty())?;
    }
    modes
        .into_iter()
        .try_for_each(|(path, mode)| fs::set_permissions(at(path), Permissions::from_mode(mode)))
}

/// Every entry a time of its own: what is in a directory first.
fn dates(path: &Path, count: &mut u64) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        let mut names: Vec<PathBuf> = fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        names.sort();
        names.iter().try_for_each(|below| dates(below, count))?;
    }
    *count += 1;
    // Even, for FAT.
    let time = UNIX_EPOCH + Duration::new(1_000_000_000 + *count * 1000, 123_456_000);
    if kind.is_file() || kind.is_dir() {
        File::open(path)?.set_times(FileTimes::new().set_modified(time).set_accessed(time))?;
    }
    Ok(())
}
