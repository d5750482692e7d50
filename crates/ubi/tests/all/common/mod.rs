//! What the tests share: small chips of every kind, and options that walk through their values.

use nandlab_nand::{Chip, ChipSpec, Reliability};
use nandlab_testkit::chip;
use nandlab_testkit::share::is_whole;
use nandlab_ubi::{Commit, Headers, LogOptions, Memory, Options, Superblock};

/// A chip with or without sub-pages, of one die or more, whose shape varies with the seed.
pub fn spec(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let mut spec = chip::spec(seed, blocks, reliability);
    if seed / 2 % 2 == 1 {
        spec.geometry.write_unit = 256;
        spec.rules.partial_programs = 4;
    }
    spec
}

pub fn chip(seed: u64, blocks: u32) -> Chip {
    Chip::new(spec(seed, blocks, Reliability::default())).unwrap()
}

/// Bad blocks, failures and bit errors.
pub fn flaky() -> Reliability {
    chip::flaky(1e-4, 1e-4, 2e-6)
}

/// The ways to remember a scan.
pub fn memories() -> Vec<(&'static str, Options)> {
    let with = |memory| Options {
        memory,
        wear_threshold: 16,
        bad_per_1024: 100,
        ..Options::default()
    };
    let log = |superblock, commit, compress| {
        with(Memory::Log(LogOptions {
            blocks: 2,
            compress,
            superblock,
            commit,
        }))
    };
    let without = |options| Options {
        headers: Headers::None,
        ..options
    };
    use Commit::{Full, Incremental};
    use Superblock::{Chain, Pair};
    vec![
        ("scan", with(Memory::Scan)),
        ("fastmap", with(Memory::Fastmap)),
        ("log", log(Pair, Full, false)),
        ("log, compressed", log(Pair, Full, true)),
        ("log, no headers", without(log(Pair, Full, false))),
        ("log, chain", log(Chain, Full, false)),
        (
            "log, chain, compressed, no headers",
            without(log(Chain, Full, true)),
        ),
        ("log, incremental", log(Pair, Incremental, false)),
        (
            "log, incremental, no headers",
            without(log(Pair, Incremental, false)),
        ),
        ("log, chain, incremental", log(Chain, Incremental, false)),
        (
            "log, chain, incremental, no headers",
            without(log(Chain, Incremental, false)),
        ),
    ]
}

/// Indices of memories that together have each option: headers or none, a pair or a chain, full or
/// incremental commits, compressed or not; and a fastmap.
const SAMPLE: [usize; 3] = [1, 6, 7];

/// The memories that a slow test tries.
pub fn tried() -> Vec<(&'static str, Options)> {
    let all = memories();
    match is_whole() {
        true => all,
        false => SAMPLE.map(|at| all[at]).into(),
    }
}
