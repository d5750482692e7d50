//! How fast each translation layer is: random page overwrites of a 1 GiB chip that is 70 % full,
//! 256 log blocks, timing only, through the whole stack below the host.
//!
//! Figures are CPU seconds of one thread, and heap bytes allocated while the writes are served. The
//! best of three rounds is shown: what disturbs a round only ever makes it slower.

use nandlab_block::{BlockDevice as _, Lba};
use nandlab_ftl::Ftl as _;
use nandlab_lab::Experiment;
use nandlab_stack::{Below, Device, Document, Stack};
use rand::Rng as _;
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::path::Path;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUNDS: u32 = 3;
const FULL: f64 = 0.7;

/// Name, description of the chip, description of the layer, writes to be timed.
const CASES: [(&str, &str, &str, u32); 10] = [
    (
        "BAST",
        LARGE,
        "scheme = \"bast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "FAST",
        LARGE,
        "scheme = \"fast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "SAST 4:4+2",
        LARGE,
        "scheme = \"sast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "page",
        LARGE,
        "scheme = \"page\"\nover-provisioning = 0.07",
        400_000,
    ),
    (
        "BAST",
        SMALL,
        "scheme = \"bast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "FAST",
        SMALL,
        "scheme = \"fast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "SAST 4:4+2",
        SMALL,
        "scheme = \"sast\"\nlog-blocks = 256",
        400_000,
    ),
    (
        "page",
        SMALL,
        "scheme = \"page\"\nover-provisioning = 0.07",
        400_000,
    ),
    (
        "NFTL",
        LARGEST_NFTL,
        "scheme = \"nftl\"\nspare-units = 256",
        20_000,
    ),
    ("mtdblock", SMALL, "scheme = \"mtdblock\"", 20_000),
];
/// 2 KiB pages, 64 a block.
const LARGE: &str = "preset = \"slc-2k\"\nblocks = 8192";
/// 512 B pages, 32 a block.
const SMALL: &str = "preset = \"small-block-64MiB\"\nblocks = 65536";
/// The same, as many as Linux's format can number.
const LARGEST_NFTL: &str = "preset = \"small-block-64MiB\"\nblocks = 15872";

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    println!(
        "1 GiB, {:.0} % full, 256 log blocks, random page overwrites; CPU seconds of one thread, best of {ROUNDS}",
        FULL * 100.0
    );
    println!(
        "{:12} {:>6} {:>12} {:>10} {:>12} {:>8}  merges a write: switch / partial / full",
        "", "page", "writes/CPU s", "ns/write", "heap B/write", "WA"
    );
    for (name, chip, ftl, writes) in CASES {
        if filter
            .as_deref()
            .is_none_or(|f| name.to_lowercase().contains(f))
        {
            let best = (0..ROUNDS)
                .map(|_| measure(chip, ftl, writes))
                .min_by(|a, b| a.seconds.total_cmp(&b.seconds));
            best.expect("at least one round").print(name);
        }
    }
}

struct Round {
    page: u32,
    writes: u32,
    seconds: f64,
    heap: usize,
    programs: u64,
    merges: [u64; 3],
}

fn measure(chip: &str, ftl: &str, writes: u32) -> Round {
    let text = format!("[chip]\n{chip}\ncontents = \"dropped\"\n[ftl]\n{ftl}\n");
    let document = Document::parse("bench", Path::new("."), &text, &[])
        .expect("a description of this file is right");
    let stack = Stack::build(
        &Experiment::take(document)
            .expect("a description of this file is right")
            .stack,
    )
    .expect("the stack is built");
    let Below::Disk(mut device) = stack.below else {
        panic!("a disk")
    };
    let g = *device.geometry();
    let per_page = u64::from(g.page.min(2048) / g.sector);
    let data = vec![0x5a; g.page.min(2048) as usize];
    let pages = (g.sectors as f64 * FULL) as u64 / per_page;
    let mut random = nandlab_sim::rng(7, "schemes");
    let write = |device: &mut Box<dyn Device>, page: u64| {
        device
            .write(Lba(page * per_page), &data)
            .expect("the device takes a write")
    };
    (0..pages).for_each(|page| write(&mut device, page));
    // Until every log block has been in use.
    (0..writes / 2).for_each(|_| write(&mut device, (u64::from(random.next_u32()) * pages) >> 32));
    let before = *device.tally();
    let region = Region::new(HEAP);
    let began = cpu();
    (0..writes).for_each(|_| write(&mut device, (u64::from(random.next_u32()) * pages) >> 32));
    let seconds = cpu() - began;
    let heap = region.change().bytes_allocated;
    let after = *device.tally();
    let programs = |tally: &nandlab_ftl::Tally| {
        tally
            .rows()
            .map(|(_, counts)| counts.programs + counts.copies)
            .sum::<u64>()
    };
    let merges =
        |tally: &nandlab_ftl::Tally| [tally.merges.switch, tally.merges.partial, tally.merges.full];
    let a = merges(&after);
    let b = merges(&before);
    Round {
        page: data.len() as u32,
        writes,
        seconds,
        heap,
        programs: programs(&after) - programs(&before),
        merges: std::array::from_fn(|i| a[i] - b[i]),
    }
}

impl Round {
    fn print(&self, name: &str) {
        let each = |count: u64| count as f64 / f64::from(self.writes);
        println!(
            "{name:12} {:>6} {:>12.0} {:>10.0} {:>12.3} {:>8.2}  {:.4} / {:.4} / {:.4}",
            self.page,
            f64::from(self.writes) / self.seconds,
            self.seconds / f64::from(self.writes) * 1e9,
            self.heap as f64 / f64::from(self.writes),
            each(self.programs),
            each(self.merges[0]),
            each(self.merges[1]),
            each(self.merges[2]),
        );
    }
}

/// CPU seconds of this thread.
fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
