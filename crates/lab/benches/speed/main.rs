//! How fast and how large: the whole stack through the lab's own run loop, beside a bare loop over
//! arrays in the same run.
//!
//! Figures are CPU seconds of one thread and allocated heap bytes, never wall time. A rate is a
//! difference of two runs of different length, so that formatting and filling the device are not in
//! it. Every pair is measured three times, in turn, and the best of each is shown: what disturbs a
//! run only ever makes it slower.

mod bare;

use bare::{Bare, Done, PAGE, Slots};
use nandlab_lab::{Experiment, run};
use nandlab_stack::{Document, Stack};
use rand::Rng as _;
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::Write as _;
use std::path::Path;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ROUNDS: usize = 3;
const MIB: f64 = (1 << 20) as f64;

fn main() {
    // `cargo bench` and `cargo test --benches` pass words of their own; only a name filters.
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|f| name.contains(f));
    println!(
        "CPU seconds of one thread, best of {ROUNDS}; 4 KiB pages, 256 a block, greedy collection, uniform writes"
    );
    if wanted("timing") {
        beside("timing only, 8 GiB, 7 %", 8192, 0.07, false, 8_000_000);
        beside("timing only, 8 GiB, 28 %", 8192, 0.28, false, 8_000_000);
    }
    if wanted("contents") {
        beside(
            "page contents kept, 2 GiB, 7 %",
            2048,
            0.07,
            true,
            1_500_000,
        );
    }
    if wanted("device") {
        four_gib();
    }
    if wanted("replay") {
        replay();
    }
    if wanted("heap") {
        heap();
    }
    if wanted("start") {
        start_up();
    }
}

/// CPU seconds of this thread.
fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = cpu();
    work();
    cpu() - began
}

fn description(blocks: u32, op: f64, contents: bool, workload: &str) -> Experiment {
    let contents = if contents { "kept" } else { "dropped" };
    let text = format!(
        "[chip]\npreset = \"slc-2k\"\npage = 4096\noob = 15\npages-per-block = 256\nblocks = {blocks}\npartial-programs = 1\ncontents = \"{contents}\"\n\
         [ftl]\nscheme = \"page\"\nover-provisioning = {op}\nwear-threshold = 0\n{workload}"
    );
    experiment(&text)
}

fn experiment(text: &str) -> Experiment {
    let document = Document::parse("bench", Path::new("."), text, &[])
        .expect("a description of this file is right");
    Experiment::take(document).expect("a description of this file is right")
}

fn random(requests: u64) -> String {
    format!(
        "[workload]\npattern = \"random\"\nblock = \"4 KiB\"\nrequests = {requests}\n[run]\nprecondition = \"random\"\n"
    )
}

/// Seconds and write amplification of a whole run.
fn ours(experiment: &Experiment) -> (f64, f64) {
    let mut amplification = 0.0;
    let seconds = seconds(|| {
        let outcome = run(experiment, &mut |_| {}).expect("the run goes through");
        assert_eq!(outcome.result.host.failed, 0);
        amplification = outcome.result.flash.write_amplification.unwrap_or(0.0);
    });
    (seconds, amplification)
}

/// Seconds of the quickest of several runs, and the write amplification.
fn quickest(experiment: &Experiment) -> (f64, f64) {
    (0..ROUNDS)
        .map(|_| ours(experiment))
        .fold((f64::INFINITY, 0.0), |best, run| (best.0.min(run.0), run.1))
}

/// Host writes per CPU second of nandlab at the end of a run: from two runs, the longer by `more`
/// requests.
fn rate_of_ours(make: impl Fn(u64) -> Experiment, more: u64) -> (f64, f64) {
    let (short, _) = quickest(&make(more / 4));
    let (long, amplification) = quickest(&make(more / 4 + more));
    (more as f64 / (long - short).max(1e-9), amplification)
}

/// The same of the bare loop, after the same filling.
fn rate_of_bare(blocks: u32, op: f64, contents: bool, writes: u64) -> (f64, Done) {
    let pages = blocks * 256;
    let logical = (f64::from(pages) / (1.0 + op)) as u32;
    let mut bare = Bare::new(
        blocks,
        256,
        logical,
        contents.then(|| Slots::new(pages, logical)),
    );
    let mut random = nandlab_sim::rng(1, "bare");
    let mut data = [7u8; PAGE];
    (0..logical).for_each(|lpn| bare.write(lpn, &data));
    let mut some = |bare: &mut Bare, n: u64| {
        for i in 0..n {
            data[0] = i as u8;
            let lpn = ((u64::from(random.next_u32()) * u64::from(logical)) >> 32) as u32;
            bare.write(lpn, &data);
        }
    };
    some(&mut bare, u64::from(logical) + writes / 4);
    let before = bare.programs;
    let seconds = seconds(|| some(&mut bare, writes));
    std::hint::black_box(bare.slots.as_ref().map(Slots::bytes));
    (
        writes as f64 / seconds,
        Done {
            writes,
            programs: bare.programs - before,
        },
    )
}

fn beside(name: &str, blocks: u32, op: f64, contents: bool, writes: u64) {
    let mut best_bare = (0.0f64, 0.0);
    for _ in 0..ROUNDS {
        let (rate, done) = rate_of_bare(blocks, op, contents, writes);
        best_bare = (
            best_bare.0.max(rate),
            done.programs as f64 / done.writes as f64,
        );
    }
    let best_ours = rate_of_ours(|n| description(blocks, op, contents, &random(n)), writes);
    println!("\n{name}");
    println!(
        "  bare loop  {:6.2} M host writes/s   write amplification {:.2}   (arrays only)",
        best_bare.0 / 1e6,
        best_bare.1
    );
    println!(
        "  nandlab    {:6.2} M host writes/s   write amplification {:.2}   (chip rules, virtual clock, tally, latency histogram, series, map on flash{})",
        best_ours.0 / 1e6,
        best_ours.1,
        if contents { ", page contents" } else { "" }
    );
    println!("  ratio      {:6.2}", best_ours.0 / best_bare.0);
}

fn four_gib() {
    let best = rate_of_ours(|n| description(4096, 0.4, false, &random(n)), 8_000_000);
    println!(
        "\n4 GiB device, timing only\n  nandlab    {:6.2} M timed 4 KiB writes/s   write amplification {:.2}",
        best.0 / 1e6,
        best.1
    );
}

/// A trace in MSR-Cambridge form, half reads, 4 to 64 KiB, read from a file, parsed and replayed.
fn replay() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let write = |name: &str, requests: u64| {
        let path = dir.path().join(name);
        let mut file =
            std::io::BufWriter::new(std::fs::File::create(&path).expect("a scratch file"));
        let mut random = nandlab_sim::rng(3, "trace");
        for i in 0..requests {
            let word = random.next_u32();
            let kind = if random.next_u32() & 1 == 0 {
                "Read"
            } else {
                "Write"
            };
            let offset = u64::from(word >> 12) * 4096;
            let size = [4096, 8192, 16384, 65536][(word & 3) as usize];
            writeln!(
                file,
                "{},web,0,{kind},{offset},{size},1000",
                128_166_372_002_061_629 + i * 100
            )
            .expect("a scratch file takes a line");
        }
        path
    };
    let short = write("short.csv", 250_000);
    let long = write("long.csv", 1_250_000);
    let make = |path: &Path| {
        description(
            4096,
            0.4,
            false,
            &format!(
                "[workload]\ntype = \"trace\"\nfile = \"{}\"\nfit = \"wrap\"\n[run]\nqueue-depth = 8\n",
                path.display()
            ),
        )
    };
    let best = 1e6 / (quickest(&make(&long)).0 - quickest(&make(&short)).0);
    println!(
        "\ntrace replay with parsing, MSR-Cambridge CSV, half reads, 4 to 64 KiB\n  nandlab    {:6.2} M requests/s",
        best / 1e6
    );
}

fn heap() {
    println!("\nheap, timing only");
    for (gib, op) in [(4u32, 0.07), (16, 0.07), (16, 0.28)] {
        let region = Region::new(HEAP);
        let mut stack = Stack::build(&description(gib * 1024, op, false, &random(1)).stack)
            .expect("the stack is built");
        let held = region.change();
        let bytes = (held.bytes_allocated - held.bytes_deallocated) as f64;
        let logical = stack.disk().expect("a disk").geometry().bytes() as f64 / 1024.0 / MIB;
        println!(
            "  {gib:3} GiB of flash, {:2.0} % spare: {:.2} MiB a GiB of flash, {:.2} MiB a GiB offered",
            op * 100.0,
            bytes / MIB / f64::from(gib),
            bytes / MIB / logical
        );
    }
    let peak = |requests| {
        let region = Region::new(HEAP);
        let _ = ours(&description(256, 0.07, false, &random(requests)));
        region.change().bytes_allocated
    };
    let short = peak(100_000);
    let long = peak(2_000_000);
    println!(
        "  allocated in a whole run of 100 k requests {short} bytes, of 2 M {long}: {:.3} bytes a request",
        (long as f64 - short as f64) / 1.9e6
    );
}

fn start_up() {
    let text = "[chip]\npreset = \"ssd-512GiB\"\ncontents = \"dropped\"\n[ftl]\nscheme = \"page\"\n[workload]\npattern = \"random\"\nrequests = 1\n";
    let description = experiment(text);
    let best = (0..ROUNDS)
        .map(|_| seconds(|| drop(Stack::build(&description.stack).expect("the stack is built"))))
        .fold(f64::MAX, f64::min);
    println!("\n512 GiB device, built and formatted\n  nandlab    {best:6.3} CPU s");
}
