//! The page-mapped layer with a map cache against a plain array: tiny caches, little spare space,
//! remaps, failing chips and power cuts at arbitrary moments. They find a cache that drops a
//! changed map page.

use crate::common::{
    SMALL_PAGE, flaky, large_pages, least_spare, small_pages, step, step_or_remap,
};
use crate::lives::{Outcome, lives};
use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SeededBug};
use nandlab_ftl::{AttachError, Cause, Ftl, MapCache, Victim};
use nandlab_mtd::{self as mtd, Hook, Hooked, MtdError, Page, Request};
use nandlab_nand::{Chip, ChipSpec, Contents, Reliability};
use nandlab_sim::{Chain, mix};
use nandlab_testkit::share::whole_or;
use std::cell::Cell;
use std::rc::Rc;

fn bytes(pages: u32) -> Option<u64> {
    Some(u64::from(pages * SMALL_PAGE))
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

/// How often an operation is a remap.
#[derive(Clone, Copy)]
enum Remaps {
    Never,
    /// Every eighth, of up to 120 pages.
    Often,
}

fn lives_of(chip: ChipSpec, ops: u32, options: &PageOptions, remaps: Remaps) -> Outcome {
    lives(
        chip,
        ops,
        |chip| PageFtl::format(chip, options.clone()).unwrap(),
        |chip| PageFtl::attach(chip, options.clone()).unwrap(),
        |device, model, random| match remaps {
            Remaps::Never => step(device, model, random),
            Remaps::Often => step_or_remap(device, model, random, 120),
        },
    )
}

fn against_an_array(first: u64, reliability: fn() -> Reliability, remaps: Remaps) {
    let mut all = Outcome::default();
    for seed in first..first + 12 {
        let chip = small_pages(seed, 160, reliability());
        all.add(lives_of(chip, 12_000, &options(seed), remaps));
    }
    assert!(all.cuts > 400, "{all:?}");
    all.media.assert(&format!("map cache {first}"));
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn a_map_cache_on_perfect_chips() {
    against_an_array(0, Reliability::default, Remaps::Never);
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn a_map_cache_on_failing_chips() {
    against_an_array(100, flaky, Remaps::Never);
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn a_map_cache_with_remaps_on_perfect_chips() {
    against_an_array(200, Reliability::default, Remaps::Often);
}

#[test]
fn a_map_cache_with_remaps_on_failing_chips() {
    against_an_array(300, flaky, Remaps::Often);
}

/// An attach may find more changed map pages than its own cache holds.
#[test]
fn the_size_of_the_cache_may_change_at_every_attach() {
    let attaches = Cell::new(0);
    let sizes = [None, bytes(2), bytes(100), bytes(3)];
    let next = |options: PageOptions| {
        attaches.set(attaches.get() + 1);
        PageOptions {
            map_cache: sizes[attaches.get() % 4],
            ..options
        }
    };
    for seed in 0..6 {
        let outcome = lives(
            small_pages(seed, 160, Reliability::default()),
            8_000,
            |chip| PageFtl::format(chip, options(seed)).unwrap(),
            |chip| PageFtl::attach(chip, next(options(seed))).unwrap(),
            |device, model, random| step_or_remap(device, model, random, 120),
        );
        assert!(outcome.cuts > 20, "{outcome:?}");
    }
}

fn fill(device: &mut PageFtl<Chip>, writes: u64, data: &[u8]) {
    let sectors = device.geometry().sectors;
    for lba in 0..sectors {
        device.write(Lba(lba), data).unwrap();
    }
    for number in 0..writes {
        let lba = Lba(mix(5, number) % sectors);
        let result = device.write(lba, data);
        assert_eq!(result, Ok(()), "write {number}");
    }
}

/// Every page of a victim lies in the range of another map page than its neighbours, and the pool
/// is as small as it may be.
#[test]
fn a_full_disk_with_the_least_spare_space_never_runs_out_of_blocks() {
    for seed in (0..12).step_by(whole_or(1, 5)) {
        let mut spec = small_pages(seed, 512, Reliability::default());
        spec.contents = Contents::Dropped;
        let options = PageOptions {
            spare_blocks: 0,
            map_cache: bytes(2),
            wear_threshold: [2, 100][seed as usize / 4 % 2],
            ..options(seed)
        };
        let options = least_spare(&spec, &options);
        let mut device = PageFtl::format(Chip::new(spec).unwrap(), options.clone()).unwrap();
        fill(&mut device, 20_000, &[0; SMALL_PAGE as usize]);
        let cache = device.tally().map_cache;
        assert!(cache.write_backs > 15_000, "{options:?}: {cache:?}");
    }
}

#[test]
fn a_changed_map_page_that_is_dropped_is_caught() {
    let caught = (0..4).find(|&seed| {
        let options = PageOptions {
            seeded_bug: Some(SeededBug::EvictUnwritten),
            ..options(seed)
        };
        let chip = small_pages(seed, 160, Reliability::default());
        let run = || lives_of(chip, 2_000, &options, Remaps::Never);
        std::panic::catch_unwind(run).is_err()
    });
    assert_eq!(caught, Some(0));
}

/// Entries of a map page of 4 KiB.
const ENTRIES: u64 = 1016;

/// A chip whose map has 16 pages of 4 KiB and a bit more, and a disk on it that is full.
fn mapped_in_16_pages(map_cache: Option<u64>) -> PageFtl<Chip> {
    let options = PageOptions {
        over_provisioning: 0.5,
        map_cache,
        ..PageOptions::default()
    };
    let mut device = PageFtl::format(Chip::new(large_pages(192, 128)).unwrap(), options).unwrap();
    for page in 0..device.logical_pages() {
        device.write(Lba(u64::from(page) * 8), &[0; 4096]).unwrap();
    }
    device
}

/// Hits and misses of uniform random reads.
fn read_at_random(device: &mut PageFtl<Chip>, reads: u64) -> MapCache {
    let before = device.tally().map_cache;
    let pages = u64::from(device.logical_pages());
    for number in 0..reads {
        let page = mix(9, number) % pages;
        device.read(Lba(page * 8), &mut [0; 4096]).unwrap();
    }
    let after = device.tally().map_cache;
    MapCache {
        hits: after.hits - before.hits,
        misses: after.misses - before.misses,
        write_backs: after.write_backs - before.write_backs,
    }
}

fn map_reads(device: &PageFtl<Chip>) -> u64 {
    let mut rows = device.tally().rows();
    let mapping = rows.find(|(cause, _)| *cause == Cause::Mapping);
    mapping.map_or(0, |(_, counts)| counts.reads)
}

#[test]
fn the_hit_rate_of_random_reads_is_the_share_of_the_map_in_memory() {
    for resident in [2, 4, 8, 12] {
        let mut device = mapped_in_16_pages(Some(resident * 4096));
        let reads_before = map_reads(&device);
        let cache = read_at_random(&mut device, 20_000);
        let rate = cache.hits as f64 / 20_000.0;
        let expected = (resident * ENTRIES) as f64 / f64::from(device.logical_pages());
        assert!(
            (rate - expected).abs() < 0.02,
            "{resident} pages: {rate}, expected {expected}"
        );
        // Each miss is a read of the chip.
        assert_eq!(map_reads(&device) - reads_before, cache.misses);
    }
}

#[test]
fn a_cache_of_the_whole_map_misses_each_map_page_once() {
    let mut device = mapped_in_16_pages(Some(1 << 30));
    let count = u64::from(device.logical_pages().div_ceil(ENTRIES as u32));
    let filling = device.tally().map_cache;
    assert_eq!((filling.misses, filling.write_backs), (count, 0));
    let reads = map_reads(&device);
    let reading = read_at_random(&mut device, 20_000);
    assert_eq!((reading.hits, reading.misses), (20_000, 0));
    assert_eq!(map_reads(&device), reads);
}

#[test]
fn without_a_cache_nothing_is_counted_or_read() {
    let mut device = mapped_in_16_pages(None);
    let reading = read_at_random(&mut device, 1_000);
    assert_eq!(reading, MapCache::default());
    assert_eq!(map_reads(&device), 0);
}

/// Counts erases.
struct Erases(Rc<Cell<u32>>);

impl Hook for Erases {
    fn before(&mut self, request: &Request) -> Result<(), MtdError> {
        let erase = matches!(request, Request::Erase(_));
        self.0.set(self.0.get() + u32::from(erase));
        Ok(())
    }
}

#[test]
fn a_cache_of_less_than_two_map_pages_is_refused_before_anything_is_erased() {
    let erases = Rc::new(Cell::new(0));
    let format = |bytes: u32| {
        let chip = Chip::new(small_pages(0, 160, Reliability::default())).unwrap();
        let options = PageOptions {
            map_cache: Some(bytes.into()),
            ..options(0)
        };
        PageFtl::format(Hooked::with(chip, Erases(erases.clone())), options).map(|_| ())
    };
    let refused = format(2 * SMALL_PAGE - 1).unwrap_err();
    assert_eq!(refused, AttachError::MapCache(1023, SMALL_PAGE));
    assert_eq!(
        refused.to_string(),
        "a map cache of 1023 bytes holds fewer than two map pages of 512 bytes; expected the size \
         of at least two"
    );
    assert_eq!(erases.get(), 0);
    assert_eq!(format(2 * SMALL_PAGE), Ok(()));
    assert_eq!(erases.get(), 160);
}

/// Once armed, the next read loses its page for good.
#[derive(Default)]
struct Decay {
    armed: Cell<bool>,
    page: Cell<Option<Page>>,
}

struct Decays(Rc<Decay>);

impl Hook for Decays {
    fn after(&mut self, request: &Request, outcome: mtd::Outcome) -> mtd::Outcome {
        let Request::Read { page, .. } = *request else {
            return outcome;
        };
        if self.0.armed.replace(false) {
            self.0.page.set(Some(page));
        }
        if self.0.page.get() == Some(page) {
            return Err(MtdError::Uncorrectable(page));
        }
        outcome
    }
}

#[test]
fn a_map_page_that_cannot_be_read_is_written_again() {
    const ENTRIES: u64 = 120;
    let decay = Rc::new(Decay::default());
    let chip = Chip::new(small_pages(0, 160, Reliability::default())).unwrap();
    let flash = Hooked::with(chip, Decays(decay.clone()));
    let options = PageOptions {
        map_interval: 1_000_000,
        ..options(0)
    };
    let mut device = PageFtl::format(flash, options).unwrap();
    let mut data = [0; SMALL_PAGE as usize];
    for index in 0..3 {
        let page = [index as u8 + 1; SMALL_PAGE as usize];
        device.write(Lba(index * ENTRIES), &page).unwrap();
    }
    decay.armed.set(true);
    for index in [0, 1, 2, 0] {
        device.read(Lba(index * ENTRIES), &mut data).unwrap();
        assert_eq!(data, [index as u8 + 1; SMALL_PAGE as usize]);
    }
    assert!(decay.page.get().is_some());
    let cache = device.tally().map_cache;
    // Map page 0 went to flash when it left memory first, and again after it decayed.
    assert_eq!((cache.misses, cache.write_backs), (7, 4));
}

#[test]
fn a_map_page_that_differs_from_the_map_stops_the_layer_and_is_named() {
    let options = PageOptions {
        map_interval: 1_000_000,
        seeded_bug: Some(SeededBug::EvictUnwritten),
        ..options(0)
    };
    let chip = Chip::new(small_pages(0, 160, Reliability::default())).unwrap();
    let mut device = PageFtl::format(chip, options).unwrap();
    device.detach().unwrap();
    let mut data = [0; SMALL_PAGE as usize];
    device.write(Lba(0), &[1; SMALL_PAGE as usize]).unwrap();
    (1..3).for_each(|index| device.read(Lba(index * 120), &mut data).unwrap());
    let error = device.read(Lba(0), &mut data).unwrap_err();
    assert_eq!(
        Chain(&error).to_string(),
        "internal error: page mapping: page 1 in block 0: the map page differs from the map in \
         memory"
    );
    assert_eq!(device.read(Lba(240), &mut data), Err(error));
}
