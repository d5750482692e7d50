//! The page-mapped layer with a map cache against a plain array: tiny caches, little spare space,
//! remaps, failing chips and power cuts at arbitrary moments. A cache that drops a changed map page
//! is caught.

use crate::common::{flaky, step, step_or_remap};
use crate::lives::{Outcome, lives};
use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{AttachError, Cause, Ftl, MapCache, Victim};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Contents, Reliability, preset};
use nandlab_sim::mix;
use nandlab_testkit::chip;

/// Bytes of a page, and of a sector.
const PAGE: u32 = 512;
/// Entries of a map page.
const ENTRIES: u32 = 120;

/// Blocks of eight pages of one sector: 120 of them share a map page.
fn small_pages(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let spec = chip::spec(seed, blocks, reliability);
    ChipSpec {
        geometry: Geometry {
            page: PAGE,
            write_unit: PAGE,
            ..spec.geometry
        },
        ..spec
    }
}

fn bytes(pages: u32) -> Option<u64> {
    Some(u64::from(pages * PAGE))
}

/// Every combination of a cache, a way to collect and a rule for victims comes up.
fn options(seed: u64) -> PageOptions {
    PageOptions {
        over_provisioning: 0.6,
        victim: [Victim::Greedy, Victim::CostBenefit][seed as usize % 2],
        collection: [Collection::Whole, Collection::Steps][seed as usize / 2 % 2],
        separate_streams: seed % 5 != 4,
        map_interval: [4, 64, 100_000][seed as usize / 3 % 3],
        map_cache: bytes([2, 3, 5][seed as usize % 3]),
        wear_threshold: 8,
        scrub_bits: 3,
        ..PageOptions::default()
    }
}

fn lives_of(seed: u64, ops: u32, reliability: Reliability, options: &PageOptions) -> Outcome {
    let remaps = seed % 4 == 3;
    lives(
        small_pages(seed, 160, reliability),
        ops,
        |chip| PageFtl::format(chip, options.clone()).unwrap(),
        |chip| PageFtl::attach(chip, options.clone()).unwrap(),
        |device, model, random| match remaps {
            true => step_or_remap(device, model, random, 120),
            false => step(device, model, random),
        },
    )
}

fn against_an_array(first: u64, reliability: fn() -> Reliability) {
    let mut all = Outcome::default();
    for seed in first..first + 12 {
        all.add(lives_of(seed, 12_000, reliability(), &options(seed)));
    }
    assert!(all.cuts > 400, "{all:?}");
    all.media.assert(&format!("map cache {first}"));
}

#[test]
fn a_map_cache_on_perfect_chips() {
    against_an_array(0, Reliability::default);
}

#[test]
fn a_map_cache_on_failing_chips() {
    against_an_array(100, flaky);
}
