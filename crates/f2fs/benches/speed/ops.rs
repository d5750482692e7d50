//! Calls on a volume of a disk in memory, beside the kernel's F2FS through a loop device, or its
//! ext4 where it has no F2FS.

use crate::beside::{self, Seconds};
use nandlab_block::Ram;
use nandlab_f2fs::{F2fs, Format, Options, format};
use std::fs::File;
use std::path::Path;
use std::process::Command;

fn ours() -> Seconds {
    let mut disk = Ram::new(512, beside::VOLUME / 512);
    format(&mut disk, &Format::default()).expect("room");
    let options = Options {
        cache_bytes: 512 << 20,
        dirty_bytes_max: 512 << 20,
        request_bytes: 512 << 10,
        ordered: false,
        ..Options::default()
    };
    beside::ours(F2fs::mount(disk, options).expect("a new volume"))
}

fn make(image: &Path, program: &str) {
    File::create(image)
        .and_then(|file| file.set_len(beside::VOLUME))
        .expect("space for the image");
    let made = Command::new(program).arg("-q").arg(image).output();
    let why = format!("{program} failed: apt-get install f2fs-tools e2fsprogs");
    assert!(made.is_ok_and(|output| output.status.success()), "{why}");
}

fn f2fs() -> Option<Seconds> {
    beside::kernels("f2fs", "loop", |image| make(image, "/usr/sbin/mkfs.f2fs"))
}

fn ext4() -> Option<Seconds> {
    beside::kernels("ext4", "loop", |image| make(image, "/usr/sbin/mkfs.ext4"))
}

/// Prints a line for each. Needs root and loop devices.
pub fn table() {
    if !beside::keeps_memory("ops") {
        return;
    }
    let (name, round): (_, fn() -> Option<Seconds>) = if f2fs().is_some() {
        ("F2FS", f2fs)
    } else {
        ("ext4, since it has no F2FS", ext4)
    };
    let kernels = || round().expect("mounting needs root and loop devices (apt-get install mount)");
    beside::table(
        &format!("\nF2FS, beside this kernel's {name}"),
        ours,
        kernels,
    );
}
