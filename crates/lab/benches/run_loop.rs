//! What the run loop adds to the stack's own work: the same random writes by a bare loop over the
//! device, and by a run.

use nandlab_block::{BlockDevice, Lba};
use nandlab_lab::{Experiment, run};
use nandlab_stack::{Document, Stack};
use nandlab_workload::Spec;
use nandlab_workload::pattern::{Amount, Pattern};
use std::path::Path;
use std::time::Instant;

const REQUESTS: u64 = 4_000_000;
const ROUNDS: u32 = 7;

fn experiment(requests: u64, run: &str) -> Experiment {
    let text = format!(
        "[chip]\npreset = \"emmc-16GiB\"\nsize = \"1 GiB\"\ncontents = \"dropped\"\n[ftl]\nover-provisioning = 0.28\n\
         [workload]\nblock = \"8 KiB\"\nrequests = {requests}\n[run]\n{run}\n"
    );
    Experiment::take(Document::parse("bench.toml", Path::new(""), &text, &[]).expect("TOML"))
        .expect("an experiment")
}

/// Seconds that the bare loop takes.
fn bare(requests: u64) -> f64 {
    let mut stack = Stack::build(&experiment(requests, "").stack).expect("a stack");
    let device = stack.disk().expect("a disk");
    let bytes = device.geometry().bytes();
    let spec = Spec {
        block: 8192,
        align: 8192,
        amount: Amount::Requests(requests),
        ..Spec::new(bytes)
    };
    let mut pattern = Pattern::new(&spec).expect("a pattern");
    let data = vec![7; 8192];
    let began = Instant::now();
    while let Some(request) = pattern.draw() {
        device
            .write(Lba(request.offset / 512), &data)
            .expect("a write");
    }
    began.elapsed().as_secs_f64()
}

/// Seconds that the run takes, without building the stack.
fn whole(requests: u64, options: &str) -> f64 {
    let idle = run(&experiment(1, options), &mut |_| ())
        .expect("a run")
        .cost
        .wall_s;
    run(&experiment(requests, options), &mut |_| ())
        .expect("a run")
        .cost
        .wall_s
        - idle
}

/// The quickest of several times, in nanoseconds a request: what disturbs a measurement only ever
/// makes it longer.
fn quickest(seconds: impl Fn() -> f64) -> f64 {
    (0..ROUNDS).map(|_| seconds()).fold(f64::MAX, f64::min) * 1e9 / REQUESTS as f64
}

fn main() {
    let bare = quickest(|| bare(REQUESTS));
    println!("ns a request: bare {bare:.1}");
    for depth in [1, 32] {
        let whole = quickest(|| whole(REQUESTS, &format!("queue-depth = {depth}")));
        println!(
            "ns a request: depth {depth} {whole:.1} (+{:.1})",
            whole - bare
        );
    }
}
