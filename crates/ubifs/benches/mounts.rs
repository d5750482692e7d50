//! Mounts of volumes of several sizes, and of journals of several lengths: virtual time on the
//! chip, time on the wall, and the memory that the mount keeps.
//!
//! The volume lies in UBI on an SLC chip of 2 KiB pages and 128 KiB blocks. The attach of UBI comes
//! before the clock starts. The processor's costs are zero in virtual time.

use nandlab_nand::{Chip, preset};
use nandlab_ubi::{Options, Ubi, VolumeSpec};
use nandlab_ubifs::{Format, UbiLebs, Ubifs, format};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Sync, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Volume = Ubifs<UbiLebs<Chip>>;

const MIB: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 128 * 1024;
const ROUNDS: u32 = 3;
/// Blocks of contents that a write appends; each is a node.
const NODE_BYTES: u64 = 4096;
/// Sizes of chips, with what a volume on them holds when it was committed last.
const SIZES: [(u64, u64); 4] = [
    (64 * MIB, 8 * MIB),
    (256 * MIB, 8 * MIB),
    (256 * MIB, 64 * MIB),
    (1024 * MIB, 8 * MIB),
];
/// Bytes written behind the last commit, on a chip of 256 MiB.
const JOURNALS: [u64; 5] = [0, MIB / 4, MIB, 3 * MIB, 6 * MIB];

fn main() {
    println!(
        "| chip, MiB | contents, MiB | journal, KiB | nodes in it \
         | mount, virtual ms | mount, wall ms | heap, KiB |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for (chip, contents) in SIZES {
        row(chip, contents, 0);
    }
    for journal in JOURNALS {
        row(256 * MIB, 16 * MIB, journal);
    }
}

/// Prints the costs of a mount of one volume.
fn row(bytes: u64, contents: u64, journal: u64) {
    let chip = lived(bytes, contents, journal);
    let mut wall = Duration::MAX;
    let mut virtual_ns = 0;
    let mut heap = 0;
    let mut nodes = 0;
    for _ in 0..ROUNDS {
        let chip = chip.fork().expect("the chip keeps its contents");
        let ubi = Ubi::attach(chip, Options::default()).expect("a device of UBI");
        let before = ubi.medium().clock().now();
        let lebs = lebs(ubi);
        let region = Region::new(HEAP);
        let start = Instant::now();
        let fs = Ubifs::mount(lebs).expect("a volume of UBIFS");
        wall = wall.min(start.elapsed());
        let change = region.change();
        heap = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
        nodes = fs.journal().nodes;
        virtual_ns = fs.into_lebs().into_ubi().medium().clock().now() - before;
    }
    println!(
        "| {} | {} | {} | {nodes} | {:.1} | {:.2} | {} |",
        bytes / MIB,
        contents / MIB,
        journal / 1024,
        virtual_ns as f64 / 1e6,
        wall.as_secs_f64() * 1e3,
        heap / 1024
    );
}

fn lebs(ubi: Ubi<Chip>) -> UbiLebs<Chip> {
    UbiLebs::new(ubi, 0).expect("the volume")
}

/// A chip with a volume that was committed, then written further, and never unmounted.
fn lived(bytes: u64, contents: u64, journal: u64) -> Chip {
    let mut spec = preset::find("slc-2k").expect("a preset").spec();
    spec.geometry.blocks = (bytes / BLOCK_BYTES) as u32;
    let chip = Chip::new(spec).expect("a chip");
    let mut ubi = Ubi::format(chip, Options::default()).expect("an empty chip");
    let volume = VolumeSpec {
        name: "files".into(),
        lebs: ubi.info().available,
        ..VolumeSpec::default()
    };
    ubi.create_volume(&volume).expect("space for the volume");
    let choices = Format {
        compressor: 0,
        ..Format::default()
    };
    let empty = format(lebs(ubi), &choices).expect("space for a volume");
    let mut fs = Ubifs::mount_writable(empty).expect("a new volume");
    let files = contents / (256 * 1024);
    for number in 0..files {
        append(&mut fs, &format!("file {number}"), 256 * 1024);
    }
    fs.sync().expect("a chip without faults");
    if journal > 0 {
        append(&mut fs, "journal", journal);
    }
    fs.fsync(Ino::ROOT, Sync::All)
        .expect("a chip without faults");
    fs.into_lebs().into_ubi().into_medium()
}

/// Makes a file, node by node.
fn append(fs: &mut Volume, name: &str, bytes: u64) {
    let by = Caller::root(Time::new(1));
    let made = fs.create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by);
    let file = made.expect("space for a file").ino;
    for at in (0..bytes).step_by(NODE_BYTES as usize) {
        let data: Vec<u8> = (0..NODE_BYTES / 8)
            .flat_map(|word| nandlab_sim::mix(at, word).to_le_bytes())
            .collect();
        fs.write(file, at, &data, by.now)
            .expect("space for contents");
    }
    fs.fsync(file, Sync::All).expect("a chip without faults");
    fs.forget(file, 1);
}
