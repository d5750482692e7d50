//! The write cache against a plain array: random writes, reads, discards and flushes, over
//! log-block and page-mapped layers. There are program and erase failures, bad blocks, bit errors,
//! and power cuts at any moment of the flash and of the cache's own memory. Whatever was flushed is
//! there; whatever is there was written.

use crate::common::{flaky, small_chip};
use crate::lives::{Outcome, against_an_array};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Nvram};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_ftl::write_cache::{CacheCounts, CacheOptions, CachePolicy, WriteCache};
use nandlab_ftl::{Ftl, Tally};
use nandlab_mtd::Block;
use nandlab_nand::{Chip, Reliability};
use nandlab_sim::Rail;
use nandlab_testkit::share::whole_or;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A memory that outlives the stacks that use it.
#[derive(Clone)]
struct Shared(Rc<RefCell<Nvram>>, BlockGeometry);

impl Shared {
    fn new(bytes: u64, rail: &Rail) -> Self {
        let nvram = Nvram::new(64, bytes / 64, rail.clone());
        let geometry = *nvram.geometry();
        Self(Rc::new(RefCell::new(nvram)), geometry)
    }
}

impl BlockDevice for Shared {
    fn geometry(&self) -> &BlockGeometry {
        &self.1
    }
    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.0.borrow_mut().read(lba, buf)
    }
    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.0.borrow_mut().write(lba, data)
    }
    fn flush(&mut self) -> Result<(), BlockError> {
        self.0.borrow_mut().flush()
    }
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.0.borrow_mut().discard(lba, sectors)
    }
}

/// A cached layer that adds up what its cache did when it is given up.
struct Counted<F: Ftl> {
    cache: WriteCache<F, Shared>,
    sum: Rc<Cell<CacheCounts>>,
}

impl<F: Ftl> Drop for Counted<F> {
    fn drop(&mut self) {
        let mut sum = self.sum.get();
        let counts = self.cache.counts();
        sum.absorbed += counts.absorbed;
        sum.read_hits += counts.read_hits;
        sum.fill_reads += counts.fill_reads;
        sum.evictions += counts.evictions;
        sum.written_back += counts.written_back;
        sum.padding_reads += counts.padding_reads;
        sum.flushes_below += counts.flushes_below;
        self.sum.set(sum);
    }
}

impl<F: Ftl> BlockDevice for Counted<F> {
    fn geometry(&self) -> &BlockGeometry {
        self.cache.geometry()
    }
    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.cache.read(lba, buf)
    }
    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.cache.write(lba, data)?;
        assert!(self.cache.dirty_pages() <= self.cache.capacity_pages());
        Ok(())
    }
    fn flush(&mut self) -> Result<(), BlockError> {
        self.cache.flush()
    }
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.cache.discard(lba, sectors)
    }
}

impl<F: Ftl> Ftl for Counted<F> {
    type Medium = F::Medium;
    fn medium(&self) -> &F::Medium {
        self.cache.medium()
    }
    fn tally(&self) -> &Tally {
        self.cache.tally()
    }
    fn valid_pages(&self, block: Block) -> u32 {
        self.cache.valid_pages(block)
    }
    fn detach(&mut self) -> Result<(), BlockError> {
        self.cache.detach()
    }
    fn into_medium(self: Box<Self>) -> F::Medium {
        unreachable!("these tests look at the flash through `medium`")
    }
}

/// One run; `options` is asked at every attach, with its number.
fn cached<F: Ftl<Medium = Chip>>(
    seed: u64,
    ops: u32,
    sum: &Rc<Cell<CacheCounts>>,
    options: impl Fn(u64) -> CacheOptions,
    format: impl Fn(Chip) -> F,
    attach: impl Fn(Chip) -> F,
) -> Outcome {
    let reliability = if seed % 2 == 1 {
        flaky()
    } else {
        Reliability::default()
    };
    let rail = Rail::new();
    let nvram = Shared::new([12_800, 25_600, 51_200][seed as usize / 2 % 3], &rail);
    let attaches = Cell::new(0);
    let count = |cache| Counted {
        cache,
        sum: sum.clone(),
    };
    against_an_array(
        small_chip(seed, reliability),
        ops,
        |chip| {
            count(
                WriteCache::format(format(chip.on_rail(&rail)), nvram.clone(), options(0)).unwrap(),
            )
        },
        |chip| {
            rail.restore();
            attaches.set(attaches.get() + 1);
            count(
                WriteCache::attach(
                    attach(chip.on_rail(&rail)),
                    nvram.clone(),
                    options(attaches.get()),
                )
                .unwrap(),
            )
        },
    )
}

fn over_bast(
    seed: u64,
    ops: u32,
    sum: &Rc<Cell<CacheCounts>>,
    options: impl Fn(u64) -> CacheOptions,
) -> Outcome {
    let bast = LogBlockOptions {
        log_blocks: 2 + seed as u32 % 5,
        spare_blocks: 8,
        ..LogBlockOptions::bast()
    };
    let format = |chip| LogBlockFtl::format(chip, bast.clone()).unwrap();
    cached(seed, ops, sum, options, format, |chip| {
        LogBlockFtl::attach(chip, bast.clone()).unwrap()
    })
}

fn over_pages(
    seed: u64,
    ops: u32,
    sum: &Rc<Cell<CacheCounts>>,
    options: impl Fn(u64) -> CacheOptions,
) -> Outcome {
    let page = PageOptions {
        over_provisioning: 1.0,
        map_interval: 16,
        wear_threshold: 8,
        ..PageOptions::default()
    };
    let format = |chip| PageFtl::format(chip, page.clone()).unwrap();
    cached(seed, ops, sum, options, format, |chip| {
        PageFtl::attach(chip, page.clone()).unwrap()
    })
}

/// A sample does so small a part of the operations.
fn part() -> u32 {
    whole_or(1, 4)
}

/// A count that a run must exceed, or a sample of it.
fn least(count: u64) -> u64 {
    count / u64::from(part())
}

/// A hundred thousand operations and more, half of them over each layer, on as many chips as that
/// takes.
fn thoroughly(options: impl Fn(u64) -> CacheOptions) -> CacheCounts {
    let sum = Rc::default();
    let mut bast = Outcome::default();
    let mut pages = Outcome::default();
    for seed in 0.. {
        if bast.done + pages.done >= 110_000 / part() {
            break;
        }
        let ops = 9_200 / part();
        bast.add(over_bast(seed, ops, &sum, &options));
        pages.add(over_pages(seed, ops, &sum, &options));
    }
    let all = sum.get();
    let cuts = u64::from(bast.cuts.min(pages.cuts));
    assert!(cuts > least(300), "{bast:?} {pages:?}");
    assert!(
        all.absorbed > least(10_000)
            && all.read_hits > least(5_000)
            && all.fill_reads > least(1_000)
            && all.evictions > least(2_000)
            && all.flushes_below > least(1_000),
        "{all:?}"
    );
    all
}

fn always(policy: CachePolicy) -> CacheCounts {
    thoroughly(|_| CacheOptions {
        policy,
        ..CacheOptions::new(8)
    })
}

#[test]
fn lru() {
    let counts = always(CachePolicy::Lru);
    assert_eq!(counts.padding_reads, 0);
}

#[test]
fn fab() {
    let counts = always(CachePolicy::Fab);
    assert!(counts.written_back > 2 * counts.evictions);
}

#[test]
fn bplru_with_padding() {
    let counts = always(CachePolicy::Bplru {
        padding: true,
        compensation: true,
    });
    assert!(counts.padding_reads > least(10_000));
}

#[test]
fn bplru_without_padding() {
    let counts = always(CachePolicy::Bplru {
        padding: false,
        compensation: false,
    });
    assert_eq!(counts.padding_reads, 0);
}

#[test]
fn lb_clock() {
    let counts = always(CachePolicy::LbClock);
    assert!(counts.written_back > 2 * counts.evictions);
}

#[test]
fn every_choice_may_change_at_every_attach() {
    let policies = [
        CachePolicy::Lru,
        CachePolicy::Fab,
        CachePolicy::Bplru {
            padding: true,
            compensation: false,
        },
        CachePolicy::Bplru {
            padding: false,
            compensation: true,
        },
        CachePolicy::LbClock,
    ];
    thoroughly(|attach| {
        let word = nandlab_sim::mix(7, attach);
        CacheOptions {
            bytes: [None, Some(10_000), Some(8_000)][word as usize % 3],
            block_pages: [8, 8, 1, 5, 1_000][(word >> 8) as usize % 5],
            policy: policies[(word >> 16) as usize % 5],
            flush_through: (word >> 24).is_multiple_of(4),
        }
    });
}
