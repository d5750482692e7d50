//! Remaps in the page-mapped layer against a plain array: mixed with random writes, reads, discards
//! and flushes, with program and erase failures, bad blocks, bit errors and power cuts at arbitrary
//! moments. A remap is there as a whole or not at all, and for good once it has returned.

use crate::common::{flaky, small_chip, step_or_remap};
use crate::lives::{Outcome, lives};
use nandlab_block::{BlockDevice, Lba, Nvram, Remap};
use nandlab_ftl::page::{PageFtl, PageOptions, SeededBug};
use nandlab_ftl::write_cache::{CacheOptions, WriteCache};
use nandlab_ftl::{Ftl, Victim};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Reliability};
use nandlab_sim::Rail;
use nandlab_testkit::share::whole_or;

/// Every other seed with pages of one sector, of which a record page takes 40 pairs, so that many
/// records have several pages.
fn chip(seed: u64, reliability: Reliability) -> ChipSpec {
    let mut spec = small_chip(seed, reliability);
    if seed % 2 == 1 {
        spec.geometry = Geometry {
            page: 512,
            write_unit: 512,
            ..spec.geometry
        };
    }
    spec
}

fn options(seed: u64) -> PageOptions {
    PageOptions {
        over_provisioning: 1.0,
        victim: if (seed / 2).is_multiple_of(2) {
            Victim::Greedy
        } else {
            Victim::CostBenefit
        },
        separate_streams: seed % 4 != 3,
        map_interval: [4, 16, 64, 1024][seed as usize % 4],
        wear_threshold: 8,
        scrub_bits: 3,
        ..PageOptions::default()
    }
}

fn remapping(seed: u64, ops: u32, reliability: Reliability, options: &PageOptions) -> Outcome {
    lives(
        chip(seed, reliability),
        ops,
        |chip| PageFtl::format(chip, options.clone()).unwrap(),
        |chip| PageFtl::attach(chip, options.clone()).unwrap(),
        |device, model, random| step_or_remap(device, model, random, 120),
    )
}

fn thoroughly(first: u64, reliability: fn() -> Reliability) {
    let mut all = Outcome::default();
    for seed in first.. {
        if all.done >= whole_or(150_000, 40_000) {
            break;
        }
        all.add(remapping(seed, 12_000, reliability(), &options(seed)));
    }
    assert!(all.cuts > whole_or(500, 130), "{all:?}");
    assert!(
        reliability() == Reliability::default() || all.failures > whole_or(3, 0),
        "{all:?}"
    );
}

#[test]
fn remaps_on_perfect_chips() {
    thoroughly(0, Reliability::default);
}

#[test]
fn remaps_on_failing_chips() {
    thoroughly(20, || Reliability {
        program_fail: [2e-5, 2e-5],
        ..flaky()
    });
}

#[test]
fn remaps_on_chips_where_one_program_in_two_hundred_fails() {
    let failing = || Reliability {
        program_fail: [5e-3, 5e-3],
        ..Reliability::default()
    };
    let mut all = Outcome::default();
    for seed in (40..240).step_by(whole_or(1, 3)) {
        all.add(remapping(seed, 12_000, failing(), &options(seed)));
    }
    assert!(
        all.failures > whole_or(1_000, 300)
            && all.done > whole_or(10_000, 3_000)
            && all.worn_out > whole_or(100, 30),
        "{all:?}"
    );
}

#[test]
fn every_seeded_bug_is_caught() {
    use SeededBug::*;
    for bug in [
        RemapUnfenced,
        RemapInPieces,
        RecordDropped,
        RemapNameKept,
        RecordsLast,
        RemapWithoutSync,
    ] {
        let first = whole_or(0, 20);
        let caught = (first..first + 24).find(|&seed| {
            let options = PageOptions {
                seeded_bug: Some(bug),
                ..options(seed)
            };
            std::panic::catch_unwind(|| remapping(seed, 12_000, Reliability::default(), &options))
                .is_err()
        });
        eprintln!("{bug:?}: {caught:?}");
        assert!(caught.is_some(), "{bug:?} was not caught");
    }
}

#[test]
fn a_write_cache_lets_go_of_what_is_remapped() {
    let rail = Rail::new();
    let page = options(1);
    let below = PageFtl::format(
        Chip::new(chip(1, Reliability::default()))
            .unwrap()
            .on_rail(&rail),
        page.clone(),
    )
    .unwrap();
    let nvram = Nvram::new(64, 512, rail.clone());
    let mut cache = WriteCache::format(below, nvram, CacheOptions::new(8)).unwrap();
    let expected = |lba: u64| {
        if lba < 8 {
            0
        } else {
            [lba as u8 + 2, lba as u8][usize::from(lba >= 16)]
        }
    };
    (0..24).for_each(|lba| {
        cache
            .write(Lba(lba), &[lba as u8 + if lba < 8 { 10 } else { 0 }; 512])
            .unwrap()
    });
    let pairs: Vec<Remap> = (0..8)
        .map(|i| Remap {
            from: Lba(i),
            to: Lba(i + 8),
        })
        .collect();
    cache.remap(&pairs).unwrap();
    let check = |device: &mut dyn BlockDevice, when: &str| {
        for lba in 0..24 {
            let mut sector = [0; 512];
            device.read(Lba(lba), &mut sector).unwrap();
            assert_eq!(sector, [expected(lba); 512], "sector {lba} {when}");
        }
    };
    check(&mut cache, "after the remap");
    // Neither is anything written back that the remap has replaced.
    let (below, memory) = cache.into_parts();
    let below = PageFtl::attach(below.into_medium(), page).unwrap();
    let mut cache = WriteCache::attach(below, memory, CacheOptions::new(8)).unwrap();
    check(&mut cache, "after an attach");
    cache.detach().unwrap();
    check(&mut cache.into_parts().0, "on flash");
}
