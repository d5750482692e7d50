//! Logical blocks against a plain map: random writes, changes, reads, maps and unmaps, volume
//! changes, with program and erase failures, bad blocks, bit errors, and power cuts at arbitrary
//! moments, with each kind of memory. Whatever was synced is there; whatever is there was written.

use crate::common::{flaky, memories, spec};
use crate::lives::{Outcome, live};
use nandlab_nand::Reliability;
use nandlab_testkit::share::whole_or;

fn run(seeds: std::ops::Range<u64>, ops: u32, reliability: fn() -> Reliability) -> Outcome {
    let mut all = Outcome::default();
    for (name, options) in memories() {
        for seed in seeds.clone() {
            let one = live(spec(seed, 96, reliability()), options, 0, ops, name);
            eprintln!("{name}, seed {seed}: {one:?}");
            all.add(&one);
        }
    }
    all
}

/// Incremental commits of a device whose tables have many leaves.
#[test]
fn where_most_of_the_tables_sleep() {
    let mut all = Outcome::default();
    for (name, options) in memories()
        .into_iter()
        .filter(|(name, _)| name.contains("incremental"))
    {
        for (seed, reliability) in [
            (30, Reliability::default()),
            (31, flaky()),
            (32, Reliability::default()),
            (33, flaky()),
        ] {
            let one = live(spec(seed, 440, reliability), options, 260, 2000, name);
            eprintln!("{name}, seed {seed}, large: {one:?}");
            all.add(&one);
        }
    }
    assert!(
        all.done >= 30_000 && all.cuts > 300 && all.failures > 0 && all.scrubbed > 80,
        "{all:?}"
    );
}

#[test]
fn on_perfect_chips() {
    let all = run(0..whole_or(6, 2), 5000, Reliability::default);
    assert!(
        all.done >= whole_or(330_000, 100_000)
            && all.cuts > whole_or(3_300, 1_000)
            && all.moves > whole_or(600, 180),
        "{all:?}"
    );
}

#[test]
fn on_failing_chips() {
    let all = run(10..whole_or(16, 12), 5000, flaky);
    assert!(
        all.done >= whole_or(300_000, 90_000)
            && all.cuts > whole_or(3_300, 1_000)
            && all.failures > whole_or(140, 35)
            && all.scrubbed > whole_or(2_000, 500),
        "{all:?}"
    );
}

/// A chip so bad that it has to give up in the end: until then nothing is lost.
#[test]
fn on_dying_chips() {
    let dying = || Reliability {
        program_fail: [1e-2; 2],
        erase_fail: [1e-2; 2],
        ..flaky()
    };
    let all = run(20..24, 5000, dying);
    assert!(all.worn_out > 10 && all.failures > 500, "{all:?}");
}

/// Linux uses blocks that it finds free as they are.
#[test]
fn linuxs_trust_in_free_blocks_meets_torn_pages() {
    let caught = memories()[..2].iter().any(|(name, options)| {
        let trusting = nandlab_ubi::Options {
            trust_free: true,
            ..*options
        };
        (0..12).any(|seed| {
            std::panic::catch_unwind(|| {
                live(
                    spec(seed, 96, Reliability::default()),
                    trusting,
                    0,
                    5000,
                    name,
                )
            })
            .is_err()
        })
    });
    assert!(caught, "the warning in the documentation would be idle");
}
