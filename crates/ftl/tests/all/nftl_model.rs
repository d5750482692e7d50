//! The replacement-block layer against a plain array: random writes, reads, discards and flushes,
//! with program and erase failures, bad blocks, bit errors and power cuts at arbitrary moments.
//! Whatever was flushed is there; whatever is there was written. And Linux's own rules, of which
//! that cannot be said.

use crate::common::{flaky, small_chip};
use crate::lives::{Outcome, against_an_array};
use nandlab_ftl::nftl::{Allocation, ChainVictim, Nftl, NftlOptions, Ordering};
use nandlab_mtd::Geometry;
use nandlab_nand::{ChipSpec, PageOrder, Reliability, Rules};
use nandlab_testkit::share::whole_or;

/// A small-block chip whose dies, planes, spare area and block size vary with the seed.
fn chip(seed: u64, reliability: Reliability, partial_programs: u8) -> ChipSpec {
    let spec = small_chip(seed, reliability);
    let oob = [15, 10, 16][seed as usize % 3];
    let pages_per_block = [8, 5, 16, 3][seed as usize / 2 % 4];
    let geometry = Geometry {
        page: 512,
        write_unit: 512,
        oob,
        pages_per_block,
        ..spec.geometry
    };
    ChipSpec {
        geometry,
        rules: Rules {
            order: PageOrder::Any,
            partial_programs,
        },
        ..spec
    }
}

/// Options that walk through their values with the seed.
fn vary(seed: u64) -> NftlOptions {
    NftlOptions {
        spare_units: 10 + seed as u32 % 7,
        victim: [ChainVictim::Longest, ChainVictim::MinCopy][seed as usize % 2],
        allocation: [Allocation::RoundRobin, Allocation::LeastWorn][seed as usize / 2 % 2],
        verify_free: (seed / 3).is_multiple_of(2),
        wear_threshold: [0, 8][seed as usize / 4 % 2],
        ..NftlOptions::default()
    }
}

fn live(spec: ChipSpec, options: &NftlOptions, ops: u32) -> Outcome {
    against_an_array(
        spec,
        ops,
        |chip| Nftl::format(chip, options.clone()).unwrap(),
        |chip| Nftl::attach(chip, options.clone()).unwrap(),
    )
}

fn run(seeds: std::ops::Range<u64>, ops: u32, reliability: fn() -> Reliability) -> Outcome {
    let mut all = Outcome::default();
    seeds.for_each(|seed| all.add(live(chip(seed, reliability(), 3), &vary(seed), ops)));
    all
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn on_perfect_chips() {
    let all = run(0..6, 10_000, Reliability::default);
    assert!(
        all.done >= 60_000
            && all.cuts > 250
            && all.merges.folds_in_place > 500
            && all.merges.folds_elsewhere > 500,
        "{all:?}"
    );
    all.media.assert("NFTL, sound chips");
}

#[test]
fn on_failing_chips() {
    let all = run(12..24, 10_000, flaky);
    assert!(
        all.done >= 110_000 && all.cuts > 500 && all.failures > 3,
        "{all:?}"
    );
    all.media.assert("NFTL, failing chips");
}

/// So bad a chip that it wears out within a run, after failures of every kind of program and erase.
#[test]
fn a_chip_that_wears_out_keeps_what_it_holds() {
    let dying = || Reliability {
        program_fail: [1e-4; 2],
        erase_fail: [1e-3; 2],
        ..flaky()
    };
    let all = run(24..whole_or(40, 30), 10_000, dying);
    assert!(
        all.worn_out > whole_or(10, 3) && all.failures > whole_or(80, 25),
        "{all:?}"
    );
}

/// The seed with which a run goes wrong, if one does.
fn catch(partial_programs: u8, options: impl Fn(NftlOptions) -> NftlOptions) -> Option<u64> {
    (0..24).find(|&seed| {
        let options = options(vary(seed));
        let spec = chip(seed, Reliability::default(), partial_programs);
        std::panic::catch_unwind(|| live(spec, &options, 10_000)).is_err()
    })
}

#[test]
fn linuxs_order_and_linuxs_trust_lose_what_was_flushed() {
    let order = catch(4, |options| NftlOptions {
        ordering: Ordering::Linux,
        ..options
    });
    let trust = catch(3, |options| NftlOptions {
        trust_free: true,
        ..options
    });
    assert!(
        order.is_some() && trust.is_some(),
        "{order:?} {trust:?}: the warnings in the documentation would be idle"
    );
}
