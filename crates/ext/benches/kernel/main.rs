//! How fast ext3 and ext4 are here, over a disk in memory, beside the kernel's ext4 driver with the
//! same volume through a loop device over a file in memory.
//!
//! This crate makes the volume of ext3, mke2fs that of ext4 with its defaults. Both sides
//! have data=ordered, and a page cache that holds everything. Needs root, loop devices and
//! e2fsprogs. `ext3` or `ext4` as an argument chooses one table.

mod beside;

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, Format, Options, format};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

/// Bytes of one copy between a disk and a file.
const PIECE: usize = 1 << 20;

fn formatted() -> Ram {
    let mut disk = Ram::new(512, beside::VOLUME / 512);
    format(
        &mut disk,
        &Format {
            journal: true,
            inode_ratio: Some(8192),
            ..Format::default()
        },
    )
    .unwrap();
    disk
}

fn ours(disk: Ram) -> beside::Seconds {
    let options = Options {
        cache_bytes: 600 << 20,
        dirty_bytes_max: 512 << 20,
        ..Options::default()
    };
    beside::ours(Ext::mount(disk, options).unwrap())
}

/// Makes the volume of ext3 in a file.
fn make_ext3(image: &Path) {
    let mut file =
        File::create(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()));
    let mut disk = formatted();
    let mut piece = vec![0; PIECE];
    for at in (0..beside::VOLUME).step_by(PIECE) {
        disk.read(Lba(at / 512), &mut piece).unwrap();
        file.write_all(&piece).unwrap();
    }
}

/// Makes the volume of ext4 in a file.
fn make_ext4(image: &Path) {
    File::create(image)
        .and_then(|file| file.set_len(beside::VOLUME))
        .unwrap_or_else(|error| panic!("{}: {error}", image.display()));
    let made = Command::new("/usr/sbin/mkfs.ext4")
        .arg("-q")
        .arg(image)
        .output();
    let why = "mkfs.ext4 failed: apt-get install e2fsprogs";
    assert!(made.is_ok_and(|output| output.status.success()), "{why}");
}

/// The volume of ext4 in memory.
fn made_by_mke2fs() -> Ram {
    let image = Path::new("/dev/shm").join(format!("nandlab-bench-{}", std::process::id()));
    make_ext4(&image);
    let mut file = File::open(&image).unwrap();
    let mut disk = Ram::new(512, beside::VOLUME / 512);
    let mut piece = vec![0; PIECE];
    for at in (0..beside::VOLUME).step_by(PIECE) {
        file.read_exact(&mut piece).unwrap();
        disk.write(Lba(at / 512), &piece).unwrap();
    }
    fs::remove_file(image).unwrap();
    disk
}

fn kernels(kind: &str, make: fn(&Path)) -> beside::Seconds {
    beside::kernels(kind, "loop,data=ordered", make)
        .expect("mounting needs root and loop devices (apt-get install mount)")
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let is_wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if is_wanted("ext3") && beside::keeps_memory("ext3") {
        beside::table(
            "ext3, data=ordered, blocks of 4 KiB",
            || ours(formatted()),
            || kernels("ext3", make_ext3),
        );
    }
    if is_wanted("ext4") && beside::keeps_memory("ext4") {
        beside::table(
            "ext4 as mke2fs makes it, data=ordered",
            || ours(made_by_mke2fs()),
            || kernels("ext4", make_ext4),
        );
    }
}
