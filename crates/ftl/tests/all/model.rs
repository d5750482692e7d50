//! The page-mapped layer against a plain array: random writes, reads, discards and flushes, with
//! program and erase failures, bad blocks, bit errors and power cuts at arbitrary moments. Whatever
//! was flushed is there; whatever is there was written.

use crate::common::{flaky, small_chip};
use crate::lives::{Outcome, against_an_array};
use nandlab_ftl::Victim;
use nandlab_ftl::page::{Collection, PageFtl, PageOptions};
use nandlab_nand::Reliability;

/// Half a million operations, on as many chips as that takes: a life of 90,000 at the most each,
/// fewer where a failing chip wears out.
fn page_mapped(first: u64, reliability: fn() -> Reliability) {
    let mut all = Outcome::default();
    for seed in first.. {
        if all.done >= 500_000 {
            break;
        }
        let options = PageOptions {
            over_provisioning: 1.0,
            victim: if seed % 2 == 0 {
                Victim::Greedy
            } else {
                Victim::CostBenefit
            },
            collection: [Collection::Whole, Collection::Steps][seed as usize / 2 % 2],
            separate_streams: seed % 4 != 3,
            map_interval: [4, 16, 64][seed as usize % 3],
            wear_threshold: 8,
            scrub_bits: 3,
            ..PageOptions::default()
        };
        all.add(against_an_array(
            small_chip(seed, reliability()),
            90_000,
            |chip| PageFtl::format(chip, options.clone()).unwrap(),
            |chip| PageFtl::attach(chip, options.clone()).unwrap(),
        ));
    }
    assert!(all.cuts > 1_000, "{all:?}");
    all.media.assert(&format!("page map {first}"));
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn page_mapping_on_perfect_chips() {
    page_mapped(0, Reliability::default);
}

#[test]
fn page_mapping_on_failing_chips() {
    page_mapped(6, flaky);
}

#[test]
fn every_seeded_bug_is_caught() {
    use nandlab_ftl::page::SeededBug::*;
    for bug in [
        EraseUnfenced,
        MapUnfenced,
        DiscardForgotten,
        FlushWithoutSync,
        ReuseOpenBlock,
        IgnoreSequence,
    ] {
        let caught = (0..12).find(|&seed| {
            let options = PageOptions {
                over_provisioning: 1.0,
                map_interval: [4, 256][seed as usize % 2],
                seeded_bug: Some(bug),
                ..PageOptions::default()
            };
            let chip = small_chip(seed, Reliability::default());
            std::panic::catch_unwind(|| {
                against_an_array(
                    chip,
                    20_000,
                    |c| PageFtl::format(c, options.clone()).unwrap(),
                    |c| PageFtl::attach(c, options.clone()).unwrap(),
                )
            })
            .is_err()
        });
        eprintln!("{bug:?}: {caught:?}");
        assert!(caught.is_some(), "{bug:?} was not caught");
    }
}
