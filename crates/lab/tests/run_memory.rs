//! A run takes the same memory however many requests it serves. Alone in its process, so that
//! nothing else is measured.

use nandlab_lab::{Experiment, run};
use nandlab_stack::Document;
use std::path::Path;

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    let text = "[chip]\npreset = \"slc-2k\"\nsize = \"16 MiB\"\npages-per-block = 16\n[ftl]\nover-provisioning = 0.1\n\
                [workload]\nblock = 2048\nreads = 0.3\nflush-every = 100\nrequests = 3000000\narrival = \"poisson\"\ninterval = \"2 ms\"\n";
    let experiment =
        Experiment::take(Document::parse("e.toml", Path::new(""), text, &[]).unwrap()).unwrap();
    let mut seen = Vec::new();
    run(&experiment, &mut |_| seen.push(resident())).unwrap();
    // A tenth of the run reaches every page of the device and the last doubling of the series'
    // first cells; a byte a request would be 2.7 MB.
    let early = seen[seen.len() / 10];
    let late = *seen.last().unwrap();
    assert!(
        seen.len() > 40 && late < early + (1 << 20),
        "{early} {late}"
    );
}
