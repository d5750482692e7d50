//! Mounting images of several sizes: time, memory for each node, and beside the kernel in
//! instructions.
//!
//! In the guest both mount the same bytes from memory on the same emulated processor, whose clock
//! counts instructions, so that no load of the machine is in the ratio. The kernel's number has in
//! it the start of its `mount` program, the system call, and mtdram's copies; ours the copies of an
//! image in memory.

use crate::{BLOCK, make, threads};
use nandlab_jffs2::{Compression, Format, Jffs2, Options};
use nandlab_mtd::Image;
use nandlab_oracle::{Disk, Oracle};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The verb by which the benchmark calls itself in the guest.
pub const IN_GUEST: &str = "mount-in-guest";
const ROUNDS: u32 = 5;
/// Entries of the tree in each image.
const ENTRIES: [usize; 4] = [800, 2700, 8000, usize::MAX];
/// The largest of them that go into the guest's memory several times.
const IN_GUEST_MOST: usize = 3;

const READ_ONLY: Options = Options {
    medium: None,
    endian: None,
    compression: Compression::LINUX,
    summary: true,
    sync: false,
    read_only: true,
    sync_collects: true,
    resume: false,
    node_bytes: nandlab_jffs2::PAGE,
    inodes_kept: 1024,
    seed: 0,
    end: None,
    seeded_bug: None,
};

pub fn tables(source: &Path, scratch: &Path) {
    println!(
        "\n| image | lists of nodes | nodes | mount, wall ms | MB/s of image | heap bytes a node |\n|---:|---|---:|---:|---:|---:|"
    );
    let mut images = Vec::new();
    for summary in [false, true] {
        for (number, entries) in ENTRIES.into_iter().enumerate() {
            let choices = Format {
                compression: Compression::LINUX,
                summary,
                ..Format::default()
            };
            let mut bytes = make::bytes(source, &choices, threads(), entries);
            row(&mut bytes, summary);
            if number < IN_GUEST_MOST {
                let path = scratch.join(format!("mount-{number}-{summary}"));
                fs::write(&path, &bytes).expect("space for the image");
                images.push((path, bytes.len(), summary));
            }
        }
    }
    println!(
        "\n| image | lists of nodes | kernel, M instructions | ours, M instructions | kernel : ours |\n|---:|---|---:|---:|---:|"
    );
    for (path, len, summary) in images {
        let (kernel, ours) = beside_the_kernel(&path, len);
        println!(
            "| {:.1} MB | {} | {:.1} | {:.1} | **{:.2}** |",
            len as f64 / 1e6,
            yes(summary),
            kernel / 1e6,
            ours / 1e6,
            kernel / ours
        );
    }
}

fn yes(summary: bool) -> &'static str {
    if summary { "yes" } else { "no" }
}

fn row(bytes: &mut Vec<u8>, summary: bool) {
    let mut best = Duration::MAX;
    let mut heap = 0;
    let mut nodes = 0;
    let mut image = std::mem::take(bytes);
    let len = image.len() as f64;
    for _ in 0..ROUNDS {
        let medium = Image::new(image, make::NOR).expect("whole blocks");
        let region = Region::new(HEAP);
        let start = Instant::now();
        let mut fs = Jffs2::mount(medium, READ_ONLY).expect("a good image");
        best = best.min(start.elapsed());
        let change = region.change();
        heap = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
        nodes = fs.check().expect("a good image").nodes;
        image = fs.into_mtd().into_backing();
    }
    let seconds = best.as_secs_f64();
    println!(
        "| {:.1} MB | {} | {nodes} | {:.1} | {:.0} | {:.0} |",
        len / 1e6,
        yes(summary),
        seconds * 1e3,
        len / 1e6 / seconds,
        heap as f64 / nodes as f64
    );
    *bytes = image;
}

/// Instructions of both for the same image.
fn beside_the_kernel(image: &Path, len: usize) -> (f64, f64) {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let program = std::env::current_exe().expect("this program");
    let script = format!(
        "mp mtdram total_size={} erase_size={} && mp mtdblock && mp jffs2 && cat /dev/vda > /tmp/image && dd if=/tmp/image of=/dev/mtdblock0 bs={BLOCK} && sync \
        && {} {IN_GUEST} /tmp/image > /tmp/said && say kernel $(sed -n 1p /tmp/said) && say ours $(sed -n 2p /tmp/said)",
        len / 1024,
        BLOCK / 1024,
        program.display()
    );
    let guest = oracle
        .guest()
        .icount(0)
        .memory(1500)
        .timeout(Duration::from_secs(1800));
    let report = guest
        .disk(Disk::File(image.into()))
        .program(program)
        .script(script)
        .run()
        .and_then(nandlab_oracle::Report::success);
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    let value = |key: &str| {
        report
            .value(key)
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no number of {key}: {}", report.console))
    };
    (value("kernel"), value("ours"))
}

/// Mounts by the kernel what is in mtd0, and the same bytes here; prints nanoseconds of each, one
/// an instruction.
pub fn in_guest(image: &Path) {
    let start = Instant::now();
    let status = Command::new("/bin/busybox")
        .args(["mount", "-r", "-t", "jffs2", "mtd0", "/mnt"])
        .status()
        .expect("the guest has it");
    let kernel = start.elapsed();
    assert!(status.success(), "the kernel refuses the image");
    let medium = Image::new(fs::read(image).expect("the script put it there"), make::NOR)
        .expect("whole blocks");
    let start = Instant::now();
    let fs = Jffs2::mount(medium, READ_ONLY).expect("a good image");
    let ours = start.elapsed();
    drop(fs);
    println!("{}\n{}", kernel.as_nanos(), ours.as_nanos());
}
