//! How fast ext3 is here, over a disk in memory, beside the kernel's ext4 driver with the same
//! volume through a loop device over a file in memory.
//!
//! Both have volumes made by this crate, data=ordered, and a page cache that holds everything.
//! Needs root and loop devices.

mod beside;

use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_ext::{Ext, Format, Options, format};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

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

fn ours() -> beside::Seconds {
    let options = Options {
        cache_bytes: 600 << 20,
        dirty_bytes_max: 512 << 20,
        ..Options::default()
    };
    beside::ours(Ext::mount(formatted(), options).unwrap())
}

fn make(image: &Path) {
    let mut file =
        File::create(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()));
    let mut disk = formatted();
    let mut piece = vec![0; 1 << 20];
    for at in (0..beside::VOLUME).step_by(piece.len()) {
        disk.read(Lba(at / 512), &mut piece).unwrap();
        file.write_all(&piece).unwrap();
    }
}

fn main() {
    let kernels = || {
        let seconds = beside::kernels("ext3", "loop,data=ordered", make);
        seconds.expect("mounting needs root and loop devices (apt-get install mount)")
    };
    beside::table("ext3, data=ordered, blocks of 4 KiB", ours, kernels);
}
