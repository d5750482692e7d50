//! The SLC cache of the page-mapped layer: what it takes, when it is folded, what that costs, and
//! that everything stays: against a plain array, on failing chips, through power cuts at arbitrary
//! moments, and from one attach to the next with another cache or none.

use crate::common::{Model, flaky, least_spare, step, step_or_remap};
use crate::lives::{Outcome, lives};
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::page::{Collection, PageFtl, PageOptions, SlcOverflow};
use nandlab_ftl::{AttachError, Cause, CauseCounts, Ftl, SlcCacheCounts, Victim};
use nandlab_mtd::{Block, Geometry, Mtd};
use nandlab_nand::{Chip, ChipSpec, Contents, Reliability, SlcMode, preset};
use nandlab_sim::{Rng, mix};
use nandlab_testkit::chip;
use std::cell::Cell;

/// Pages of a block, and of one in SLC mode.
const PAGES: u32 = 12;
const SLC_PAGES: u32 = 4;

/// Small TLC chips on one, two or four dies, of one or two planes.
fn tlc(seed: u64, blocks: u32, reliability: Reliability) -> ChipSpec {
    let spec = chip::spec(seed, blocks, reliability);
    let mut timing = chip::timing(seed);
    timing.program_ns = 900_000;
    timing.multi_plane = true;
    timing.copy_back = seed.is_multiple_of(5);
    ChipSpec {
        geometry: Geometry {
            pages_per_block: PAGES,
            planes: if spec.geometry.dies == 2 { 2 } else { 1 },
            ..spec.geometry
        },
        timing,
        slc: Some(SlcMode {
            cell_bits: 3,
            read_ns: 20_000,
            program_ns: 150_000,
            erase_ns: 1_000_000,
            rated_erases: 50_000,
        }),
        ..spec
    }
}

fn options(seed: u64) -> PageOptions {
    let planes = seed % 3 == 1;
    PageOptions {
        over_provisioning: 1.0,
        victim: [Victim::Greedy, Victim::CostBenefit][seed as usize % 2],
        collection: [Collection::Whole, Collection::Steps][seed as usize / 2 % 2],
        separate_streams: seed % 4 != 3,
        streams: [1, 1, 2][seed as usize / 3 % 3],
        map_interval: [4, 16, 64][seed as usize % 3],
        map_cache: [None, Some(2048)][seed as usize / 4 % 2],
        multi_plane_copies: planes && seed.is_multiple_of(2),
        slc_cache_blocks: [3, 6, 9][seed as usize / 2 % 3],
        slc_overflow: [SlcOverflow::Direct, SlcOverflow::Fold][seed as usize / 3 % 2],
        wear_threshold: 8,
        scrub_bits: 3,
        ..PageOptions::default()
    }
}

/// One operation, or a moment without any.
fn step_or_idle<F: BlockDevice>(
    device: &mut F,
    model: &mut Model,
    random: &mut Rng,
) -> Result<(), BlockError> {
    use rand::RngExt as _;
    if random.random_bool(0.1) {
        return device.idle().map(drop);
    }
    step_or_remap(device, model, random, 40)
}

fn against_an_array(first: u64, reliability: fn() -> Reliability) {
    let mut all = Outcome::default();
    for seed in first..first + 12 {
        let options = options(seed);
        all.add(lives(
            tlc(seed, 112, reliability()),
            15_000,
            |chip| PageFtl::format(chip, options.clone()).unwrap(),
            |chip| PageFtl::attach(chip, options.clone()).unwrap(),
            step_or_idle,
        ));
    }
    assert!(all.cuts > 400, "{all:?}");
    all.media.assert(&format!("SLC cache {first}"));
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn an_slc_cache_on_perfect_chips() {
    against_an_array(0, Reliability::default);
}

#[test]
fn an_slc_cache_on_failing_chips() {
    against_an_array(100, flaky);
}

/// Blocks in SLC mode are read, folded and collected by a layer without a cache, too.
#[test]
fn the_cache_may_come_go_and_change_its_size_at_every_attach() {
    for seed in 0..6 {
        let attaches = Cell::new(seed as usize);
        let begin = PageOptions {
            slc_cache_blocks: [0, 9][seed as usize % 2],
            ..options(seed)
        };
        let next = || {
            attaches.set(attaches.get() + 1);
            PageOptions {
                slc_cache_blocks: [0, 9, 3, 0, 1][attaches.get() % 5],
                ..options(seed)
            }
        };
        let outcome = lives(
            tlc(seed, 112, Reliability::default()),
            10_000,
            |chip| PageFtl::format(chip, begin.clone()).unwrap(),
            |chip| PageFtl::attach(chip, next()).unwrap(),
            step_or_idle,
        );
        assert!(outcome.cuts > 20, "{outcome:?}");
    }
}

/// The chip of the experiments, small, without contents.
fn emmc() -> ChipSpec {
    let spec = preset::find("emmc-16GiB").unwrap().spec();
    ChipSpec {
        geometry: Geometry {
            blocks: 256,
            pages_per_block: 64,
            ..spec.geometry
        },
        contents: Contents::Dropped,
        ..spec
    }
}

/// Pages that 32 blocks of 32 pages hold.
const CACHE: u64 = 1024;

fn cached(slc_overflow: SlcOverflow, collection: Collection) -> PageFtl<Chip> {
    let options = PageOptions {
        over_provisioning: 0.2,
        slc_cache_blocks: 32,
        slc_overflow,
        collection,
        ..PageOptions::default()
    };
    PageFtl::format(Chip::new(emmc()).unwrap(), options).unwrap()
}

/// Writes pages in order; gives the time of each in microseconds, all dies included.
fn write(device: &mut PageFtl<Chip>, pages: std::ops::Range<u64>) -> f64 {
    let clock = device.medium().clock().clone();
    let began = device.medium().issued().0.max(clock.now());
    clock.set(began);
    let count = pages.end - pages.start;
    let whole = u64::from(device.logical_pages());
    let data = [0; 8192];
    for page in pages {
        device.write(Lba(page % whole * 16), &data).unwrap();
    }
    device.flush().unwrap();
    (clock.now() - began) as f64 / count as f64 / 1000.0
}

fn rest(device: &mut PageFtl<Chip>) -> u32 {
    let clock = device.medium().clock().clone();
    let mut steps = 0;
    while device.idle().unwrap() {
        clock.set(device.medium().issued().0);
        steps += 1;
    }
    steps
}

fn fold_of(device: &PageFtl<Chip>) -> CauseCounts {
    let mut rows = device.tally().rows();
    rows.find(|row| row.0 == Cause::Fold).unwrap().1
}

#[test]
fn writes_are_quick_until_the_cache_is_full_and_again_after_idle_time() {
    let mut device = cached(SlcOverflow::Direct, Collection::Whole);
    let quick = write(&mut device, 0..CACHE);
    assert_eq!(fold_of(&device).copies, 0);
    let slow = write(&mut device, CACHE..2 * CACHE);
    let counts = SlcCacheCounts {
        buffered: CACHE,
        direct: CACHE,
    };
    assert_eq!(device.tally().slc_cache, counts);
    // Two planes share a program, and the bus is the same in both modes.
    assert!(
        slow > 2.0 * quick,
        "{quick} us in the cache, {slow} us past it"
    );
    let steps = rest(&mut device);
    assert!(
        steps > 200 && fold_of(&device).copies == CACHE,
        "{steps} steps"
    );
    let again = write(&mut device, 2 * CACHE..3 * CACHE);
    assert!(
        (again - quick).abs() < 0.1 * quick,
        "{quick} us, then {again} us"
    );
    let erases = device.medium().slc_erases();
    assert_eq!(erases, 64, "each block of the cache was erased twice");
}

#[test]
fn a_full_cache_that_folds_is_as_slow_as_the_fold() {
    for collection in [Collection::Whole, Collection::Steps] {
        let mut direct = cached(SlcOverflow::Direct, collection);
        let mut fold = cached(SlcOverflow::Fold, collection);
        let [past, folding] = [&mut direct, &mut fold].map(|device| {
            write(device, 0..2 * CACHE);
            write(device, 2 * CACHE..4 * CACHE)
        });
        assert_eq!(fold.tally().slc_cache.direct, 0);
        let folded = fold_of(&fold).copies;
        assert!(
            (3 * CACHE..=3 * CACHE + 200).contains(&folded),
            "{folded} pages"
        );
        assert!(
            folding > 1.2 * past,
            "{collection:?}: {past} us past it, {folding} us folding"
        );
    }
}

#[test]
fn what_is_overwritten_in_the_cache_is_never_folded() {
    let mut device = cached(SlcOverflow::Fold, Collection::Whole);
    for _ in 0..20 {
        write(&mut device, 0..256);
    }
    assert_eq!(device.tally().host_pages, 20 * 256);
    // Whatever is folded is valid then: at most the pages of the working set now and then.
    let folded = fold_of(&device).copies;
    assert_eq!(folded, 0);
    assert!(device.tally().amplification(true).unwrap() < 1.05);
}

#[test]
fn a_block_in_slc_mode_takes_a_third_of_a_tlc_blocks_pages() {
    let options = PageOptions {
        over_provisioning: 1.0,
        slc_cache_blocks: 4,
        ..PageOptions::default()
    };
    let chip = Chip::new(tlc(0, 64, Reliability::default())).unwrap();
    let mut device = PageFtl::format(chip, options).unwrap();
    for page in 0..4 * u64::from(SLC_PAGES) {
        device.write(Lba(page * 2), &[1; 1024]).unwrap();
    }
    let chip = device.medium();
    let blocks = (0..64).map(|block| chip.block(Block(block)));
    let slc: Vec<u32> = blocks.filter(|b| b.slc).map(|b| b.next).collect();
    assert_eq!(slc, [SLC_PAGES; 4]);
    assert_eq!(device.tally().slc_cache.direct, 0);
}

#[test]
fn a_cache_on_flash_without_the_mode_is_refused() {
    let mut spec = tlc(0, 64, Reliability::default());
    spec.slc = None;
    let options = PageOptions {
        slc_cache_blocks: 4,
        ..PageOptions::default()
    };
    let format = PageFtl::format(Chip::new(spec.clone()).unwrap(), options.clone());
    assert_eq!(format.err(), Some(AttachError::NoSlcMode));
    let attach = PageFtl::attach(Chip::new(spec).unwrap(), options);
    assert_eq!(attach.err(), Some(AttachError::NoSlcMode));
}

#[test]
fn a_cache_that_leaves_too_few_blocks_is_refused() {
    let options = PageOptions {
        over_provisioning: 0.2,
        slc_cache_blocks: 60,
        ..PageOptions::default()
    };
    let chip = Chip::new(tlc(0, 64, Reliability::default())).unwrap();
    let refused = PageFtl::format(chip, options).err();
    assert!(
        matches!(refused, Some(AttachError::TooSmall(64, ..))),
        "{refused:?}"
    );
}

/// A disk that is full, with little spare space, and writes all over it.
#[test]
fn a_full_disk_never_runs_out_of_blocks() {
    for seed in 0..12 {
        let mut spec = tlc(seed, 160, Reliability::default());
        spec.contents = Contents::Dropped;
        let options = PageOptions {
            spare_blocks: 0,
            ..options(seed)
        };
        let options = least_spare(&spec, &options);
        let mut device =
            PageFtl::format(Chip::new(spec.clone()).unwrap(), options.clone()).unwrap();
        let pages = u64::from(device.logical_pages());
        let random = (0..10_000).map(|number| mix(seed, number) % pages);
        for (number, page) in (0..pages).chain(random).enumerate() {
            let written = device.write(Lba(page * 2), &[0; 1024]);
            assert_eq!(written, Ok(()), "write {number}, {options:?}");
            if number % 7 == 0 {
                device.idle().unwrap();
            }
        }
    }
}

/// Without the option the layer is the one that it was, on a chip that has the mode, too.
#[test]
fn an_option_that_is_off_changes_nothing() {
    let run = |slc: bool| {
        let mut spec = tlc(1, 112, Reliability::default());
        spec.slc = spec.slc.filter(|_| slc);
        let options = PageOptions {
            slc_cache_blocks: 0,
            ..options(1)
        };
        let outcome = lives(
            spec,
            5_000,
            |chip| PageFtl::format(chip, options.clone()).unwrap(),
            |chip| PageFtl::attach(chip, options.clone()).unwrap(),
            step,
        );
        format!("{outcome:?}")
    };
    assert_eq!(run(true), run(false));
}
