//! F2FS: the checksums of both checkpoints are right again after edits, unless the input says not
//! to.

use crate::{
    disk::{Disk, Target},
    plant::{self, NOW},
};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{F2fs, Format, Options, format};
use nandlab_vfs::{FileSystem, Ino, Sync};
use std::sync::OnceLock;

const BLOCK: usize = 4096;
const SEGMENT: u64 = 512;
/// As small as the format allows, a bit more.
const SECTORS: u64 = 60 * 2048;

/// Its good volumes and checksums.
pub const TARGET: Target = Target {
    seeds,
    repair: |ram, script| {
        if script.options & 0x80 == 0 {
            repair(ram);
        }
    },
};

fn seeds() -> &'static [Disk] {
    static SEEDS: OnceLock<Vec<Disk>> = OnceLock::new();
    let plain = Options::default();
    SEEDS.get_or_init(|| {
        vec![
            seed(plain),
            seed(Options {
                inline_data: false,
                inline_names: false,
                ..plain
            }),
        ]
    })
}

/// A volume with fsyncs behind its last checkpoint.
fn seed(options: Options) -> Disk {
    let mut ram = Ram::new(512, SECTORS);
    format(&mut ram, &Format::default()).expect("a volume of this size");
    let mut f2fs = F2fs::mount(&mut ram, options).expect("a new volume");
    plant::plant(&mut f2fs, 12, 30_000).expect("space for the tree");
    let large = f2fs
        .lookup(Ino::ROOT, b"large")
        .expect("it was planted")
        .ino;
    for at in 0..4 {
        f2fs.write(large, at * 5_000_000, b"far out", NOW)
            .expect("room");
        f2fs.fsync(large, Sync::All).expect("a disk without faults");
    }
    drop(f2fs);
    Disk::new(ram)
}

/// First and last block of each checkpoint.
fn repair(ram: &mut Ram) {
    for start in [SEGMENT, 2 * SEGMENT] {
        let mut head = block(ram, start);
        seal(ram, start, &mut head);
        let blocks = u64::from(u32::from_le_bytes([
            head[136], head[137], head[138], head[139],
        ]));
        if (2..SEGMENT).contains(&blocks) {
            let mut last = block(ram, start + blocks - 1);
            seal(ram, start + blocks - 1, &mut last);
        }
    }
}

fn block(ram: &mut Ram, number: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK];
    ram.read(Lba(number * 8), &mut data)
        .expect("a block of the disk");
    data
}

/// Where the checksum lies is said in the block itself.
fn seal(ram: &mut Ram, number: u64, data: &mut [u8]) {
    let at = u32::from_le_bytes([data[156], data[157], data[158], data[159]]) as usize;
    let at = if at <= BLOCK - 4 { at } else { BLOCK - 4 };
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xF2F5_2010);
    hasher.update(&data[..at]);
    data[at..at + 4].copy_from_slice(&(!hasher.finalize()).to_le_bytes());
    ram.write(Lba(number * 8), data)
        .expect("a block of the disk");
}
