//! What the tests share: small chips of every kind, and options that walk through their values.

use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Contents, Ecc, PageOrder, Reliability, Rules, Timing};
use nandlab_ubi::{Commit, Headers, LogOptions, Memory, Options, Superblock};

/// A chip with or without sub-pages, of one die or more, whose shape varies with the seed.
pub fn spec(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let timing = Timing {
        read_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        bus_ps_per_byte: 25_000,
        oob_bus_bytes: 16,
        oob_read_ns: None,
        oob_program_ns: None,
        cache_program: seed.is_multiple_of(2),
        multi_plane: false,
        copy_back: false,
    };
    let dies = [1, 2, 4][seed as usize % 3];
    let write_unit = [1024, 256][seed as usize / 2 % 2];
    let geometry = Geometry {
        dies,
        channels: 1,
        write_unit,
        ..Geometry::single_die(1024, 15, 8, blocks)
    };
    let partial_programs = if write_unit < 1024 { 4 } else { 1 };
    let rules = Rules {
        order: PageOrder::Ascending,
        partial_programs,
    };
    ChipSpec {
        geometry,
        timing,
        rules,
        reliability,
        contents: Contents::Kept,
        seed,
        superblock: None,
    }
}

pub fn chip(seed: u64, blocks: u32) -> Chip {
    Chip::new(spec(seed, blocks, Reliability::default())).unwrap()
}

/// Bad blocks, failures and bit errors.
pub fn flaky() -> Reliability {
    Reliability {
        rated_erases: 10_000,
        factory_bad: 0.03,
        program_fail: [1e-4; 2],
        erase_fail: [1e-4; 2],
        bit_errors: [2e-6; 2],
        ecc: Ecc::Bch {
            bits: 8,
            codeword: 512,
        },
        ..Reliability::default()
    }
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
