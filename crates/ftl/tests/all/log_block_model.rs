//! BAST, SAST and FAST against a plain array: random writes, reads, discards and flushes, with
//! program and erase failures, bad blocks, bit errors and power cuts at arbitrary moments. Whatever
//! was flushed is there; whatever is there was written.

use crate::common::{flaky, small_chip};
use crate::lives::{Outcome, against_an_array};
use nandlab_ftl::Merges;
use nandlab_ftl::logblock::{
    FirstWrite, LogBlockFtl, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending,
    Scheme, SeededBug,
};
use nandlab_mtd::Geometry;
use nandlab_nand::{ChipSpec, Reliability, Rules};
use nandlab_testkit::share::whole_or;

/// Every other seed on a small-block chip, which takes pages in any order.
fn chip(seed: u64, reliability: Reliability) -> (ChipSpec, PageOrder) {
    let mut spec = small_chip(seed, reliability);
    if seed.is_multiple_of(2) {
        return (spec, PageOrder::Ascending);
    }
    spec.rules = Rules {
        order: nandlab_nand::PageOrder::Any,
        partial_programs: 3,
    };
    spec.geometry = Geometry {
        page: 512,
        write_unit: 512,
        ..spec.geometry
    };
    (spec, PageOrder::Any)
}

/// Options that walk through their values with the seed.
fn vary(options: LogBlockOptions, seed: u64, page_order: PageOrder) -> LogBlockOptions {
    let victim =
        [LogVictim::LeastRecent, LogVictim::Fifo, LogVictim::Random][seed as usize / 2 % 3];
    let scheme = match options.scheme {
        Scheme::Bast { .. } => Scheme::Bast { victim },
        Scheme::Sast { .. } => Scheme::Sast {
            blocks: 1 + seed as u32 % 5,
            logs: 1 + seed as u32 % 3,
            victim,
        },
        Scheme::Fast { .. } => Scheme::Fast {
            mismatch: [Mismatch::Merge, Mismatch::Random][seed as usize / 2 % 2],
            pending: [Pending::Merged, Pending::Logged][seed as usize / 4 % 2],
            owner: [OwnerMerge::Partial, OwnerMerge::Full][seed as usize % 2],
        },
    };
    LogBlockOptions {
        scheme,
        log_blocks: 2 + seed as u32 % 7,
        spare_blocks: 8,
        page_order,
        first_write: [
            FirstWrite::InPlace,
            FirstWrite::InPlaceUnlessLogged,
            FirstWrite::Logged,
        ][seed as usize % 3],
        skip_stale: (seed / 3).is_multiple_of(2),
        eager: (seed / 2).is_multiple_of(3),
        wear_threshold: [0, 3, 100][seed as usize / 4 % 3],
        seed,
        ..options
    }
}

fn log_block(
    options: LogBlockOptions,
    seeds: std::ops::Range<u64>,
    ops: u32,
    reliability: fn() -> Reliability,
) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds {
        let (spec, page_order) = chip(seed, reliability());
        let options = vary(options.clone(), seed, page_order);
        all.add(against_an_array(
            spec,
            ops,
            |chip| LogBlockFtl::format(chip, options.clone()).unwrap(),
            |chip| LogBlockFtl::attach(chip, options.clone()).unwrap(),
        ));
    }
    all
}

/// A hundred thousand operations and more, in every combination of options.
fn thoroughly(
    options: LogBlockOptions,
    seeds: std::ops::Range<u64>,
    reliability: fn() -> Reliability,
) {
    let name = format!("{:?} {}", options.scheme, seeds.start);
    let all = log_block(options, seeds, 9_000, reliability);
    let Merges {
        switch,
        partial,
        full,
        ..
    } = all.merges;
    assert!(
        all.done >= 100_000 && all.cuts > 500 && switch > 100 && partial > 100 && full > 1000,
        "{all:?}"
    );
    assert!(
        reliability() == Reliability::default() || all.failures > 3,
        "{all:?}"
    );
    all.media.assert(&name);
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn bast_on_perfect_chips() {
    thoroughly(LogBlockOptions::bast(), 0..12, Reliability::default);
}

#[test]
fn bast_on_failing_chips() {
    thoroughly(LogBlockOptions::bast(), 12..24, flaky);
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn sast_on_perfect_chips() {
    thoroughly(LogBlockOptions::sast(4, 2), 0..12, Reliability::default);
}

#[test]
fn sast_on_failing_chips() {
    thoroughly(LogBlockOptions::sast(4, 2), 12..24, flaky);
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn fast_on_perfect_chips() {
    thoroughly(LogBlockOptions::fast(), 0..12, Reliability::default);
}

#[test]
fn fast_on_failing_chips() {
    thoroughly(LogBlockOptions::fast(), 12..24, flaky);
}

/// So bad a chip that it wears out within a run, after failures of every kind of program and erase.
fn dying() -> Reliability {
    Reliability {
        program_fail: [1e-4; 2],
        erase_fail: [1e-3; 2],
        ..flaky()
    }
}

#[test]
fn a_chip_that_wears_out_keeps_what_it_holds() {
    for options in [
        LogBlockOptions::bast(),
        LogBlockOptions::sast(4, 2),
        LogBlockOptions::fast(),
    ] {
        let all = log_block(options.clone(), 24..whole_or(44, 30), 10_000, dying);
        assert!(
            all.worn_out > whole_or(15, 4) && all.failures > whole_or(150, 45),
            "{:?}: {all:?}",
            options.scheme
        );
    }
}

/// The seed that catches a bug, if one does.
fn catch(options: &LogBlockOptions, bug: SeededBug) -> Option<u64> {
    (0..12).find(|&seed| {
        let (spec, page_order) = chip(seed, Reliability::default());
        let options = LogBlockOptions {
            seeded_bug: Some(bug),
            ..vary(options.clone(), seed, page_order)
        };
        std::panic::catch_unwind(|| {
            against_an_array(
                spec,
                10_000,
                |chip| LogBlockFtl::format(chip, options.clone()).unwrap(),
                |chip| LogBlockFtl::attach(chip, options.clone()).unwrap(),
            )
        })
        .is_err()
    })
}

#[test]
fn every_seeded_bug_is_caught_in_every_scheme() {
    use SeededBug::*;
    for options in [
        LogBlockOptions::bast(),
        LogBlockOptions::sast(4, 2),
        LogBlockOptions::fast(),
    ] {
        for bug in [
            EraseUnfenced,
            ReuseOpenBlock,
            IgnoreSequence,
            FlushWithoutSync,
        ] {
            let caught = catch(&options, bug);
            eprintln!("{:?}, {bug:?}: {caught:?}", options.scheme);
            assert!(
                caught.is_some(),
                "{:?}: {bug:?} was not caught",
                options.scheme
            );
        }
    }
    assert!(catch(&LogBlockOptions::bast(), SwitchUnordered).is_some());
    assert!(catch(&LogBlockOptions::sast(4, 2), SwitchUnordered).is_some());
}
