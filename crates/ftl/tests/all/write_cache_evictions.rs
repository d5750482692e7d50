//! What the write cache asks of the layer below: worked by hand, request by request.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Nvram};
use nandlab_ftl::logblock::{LogBlockFtl, LogBlockOptions, PageOrder};
use nandlab_ftl::write_cache::{CacheCounts, CacheOptions, CachePolicy, WriteCache};
use nandlab_ftl::{Ftl, Merges, Tally};
use nandlab_mtd::{Block, Geometry};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Rail, Schedule};
use std::cell::RefCell;
use std::rc::Rc;

const PAGE: usize = 2048;
/// Sectors of a page.
const PER: u64 = 4;

/// What happened to a layer, and what is to happen to it.
#[derive(Default)]
struct Script {
    /// Pages: `w` written, `r` read, `d` discarded; flushes have no page.
    seen: Vec<(char, u64)>,
    failing_writes: Option<Schedule>,
    lost: Option<u64>,
}

/// A layer that follows a script.
struct Scripted<F>(F, Rc<RefCell<Script>>);

impl<F> Scripted<F> {
    fn see(&self, what: char, lba: Lba) {
        self.1.borrow_mut().seen.push((what, lba.0 / PER));
    }
}

impl<F: Ftl> BlockDevice for Scripted<F> {
    fn geometry(&self) -> &BlockGeometry {
        self.0.geometry()
    }
    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.see('r', lba);
        if self.1.borrow().lost == Some(lba.0 / PER) {
            Err(BlockError::lost(lba))
        } else {
            self.0.read(lba, buf)
        }
    }
    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.see('w', lba);
        let fails = self
            .1
            .borrow_mut()
            .failing_writes
            .as_mut()
            .is_some_and(Schedule::fires);
        if fails {
            Err(BlockError::WornOut(None))
        } else {
            self.0.write(lba, data)
        }
    }
    fn flush(&mut self) -> Result<(), BlockError> {
        self.see('f', Lba(0));
        self.0.flush()
    }
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.see('d', lba);
        self.0.discard(lba, sectors)
    }
}

impl<F: Ftl> Ftl for Scripted<F> {
    type Medium = F::Medium;
    fn medium(&self) -> &F::Medium {
        self.0.medium()
    }
    fn tally(&self) -> &Tally {
        self.0.tally()
    }
    fn valid_pages(&self, block: Block) -> u32 {
        self.0.valid_pages(block)
    }
    fn detach(&mut self) -> Result<(), BlockError> {
        self.0.detach()
    }
    fn into_medium(self: Box<Self>) -> F::Medium {
        Box::new(self.0).into_medium()
    }
}

type Layer = Scripted<LogBlockFtl<Chip>>;

/// BAST with one log block over blocks of four large pages.
fn layer() -> Layer {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    assert_eq!(spec.geometry.page as usize, PAGE);
    spec.geometry = Geometry {
        blocks: 64,
        pages_per_block: 4,
        dies: 1,
        planes: 1,
        channels: 1,
        ..spec.geometry
    };
    let options = LogBlockOptions {
        log_blocks: 1,
        spare_blocks: 0,
        page_order: PageOrder::Ascending,
        ..LogBlockOptions::bast()
    };
    Scripted(
        LogBlockFtl::format(Chip::new(spec).unwrap(), options).unwrap(),
        Rc::default(),
    )
}

/// A memory of nine slots: eight pages may be dirty.
fn memory() -> Nvram {
    Nvram::new(64, 2 + (9 * (PAGE as u64 + 16)).div_ceil(64), Rail::new())
}

struct Bench {
    cache: WriteCache<Layer, Nvram>,
    script: Rc<RefCell<Script>>,
}

impl Bench {
    fn new(policy: CachePolicy) -> Self {
        let layer = layer();
        let script = layer.1.clone();
        let cache = WriteCache::format(layer, memory(), options(policy)).unwrap();
        assert_eq!(cache.capacity_pages(), 8);
        Self { cache, script }
    }

    /// Comes back from the memory and the layer as they are.
    fn attach_again(self, options: CacheOptions) -> Self {
        let (below, memory) = self.cache.into_parts();
        Self {
            cache: WriteCache::attach(below, memory, options).unwrap(),
            script: self.script,
        }
    }

    fn try_write(&mut self, page: u64, stamp: u8) -> Result<(), BlockError> {
        self.cache.write(Lba(page * PER), &[stamp; PAGE])
    }

    /// Writes pages, each with its number plus one.
    fn write(&mut self, pages: impl IntoIterator<Item = u64>) {
        pages
            .into_iter()
            .for_each(|page| self.try_write(page, page as u8 + 1).unwrap());
    }

    fn read(&mut self, page: u64) -> u8 {
        read(&mut self.cache, page)
    }

    /// What the layer below saw since the last time.
    fn seen(&self) -> String {
        let seen = core::mem::take(&mut self.script.borrow_mut().seen);
        let words = seen.iter().map(|&(what, page)| {
            if what == 'f' {
                "f".into()
            } else {
                format!("{what}{page}")
            }
        });
        words.collect::<Vec<String>>().join(" ")
    }
}

fn options(policy: CachePolicy) -> CacheOptions {
    CacheOptions {
        policy,
        ..CacheOptions::new(4)
    }
}

fn read(device: &mut impl BlockDevice, page: u64) -> u8 {
    let mut buf = [0; PAGE];
    device.read(Lba(page * PER), &mut buf).unwrap();
    assert!(buf.iter().all(|&b| b == buf[0]));
    buf[0]
}

const BPLRU: CachePolicy = CachePolicy::Bplru {
    padding: true,
    compensation: true,
};
const UNPADDED: CachePolicy = CachePolicy::Bplru {
    padding: false,
    compensation: true,
};
const POLICIES: [CachePolicy; 5] = [
    CachePolicy::Lru,
    CachePolicy::Fab,
    BPLRU,
    UNPADDED,
    CachePolicy::LbClock,
];

#[test]
fn nothing_reaches_the_layer_below_before_the_cache_is_full() {
    let mut bench = Bench::new(CachePolicy::Lru);
    for round in 0..100 {
        bench.write(0..8);
        assert_eq!(bench.read(round % 8), (round % 8) as u8 + 1);
        bench.cache.flush().unwrap();
    }
    assert_eq!((bench.seen().as_str(), bench.cache.dirty_pages()), ("", 8));
    let expected = CacheCounts {
        page_writes: 800,
        absorbed: 792,
        page_reads: 100,
        read_hits: 100,
        flushes: 100,
        ..CacheCounts::default()
    };
    assert_eq!(*bench.cache.counts(), expected);
}

#[test]
fn lru_writes_back_one_page_at_a_time_and_flushes_when_the_spare_slots_are_used_up() {
    let mut bench = Bench::new(CachePolicy::Lru);
    bench.write(0..8);
    bench.write([0, 40]);
    assert_eq!(bench.seen(), "w1");
    // The one spare slot is taken: it is the layer's turn to become durable.
    bench.write([41]);
    assert_eq!(bench.seen(), "w2 f");
    let expected = CacheCounts {
        page_writes: 11,
        absorbed: 1,
        evictions: 2,
        written_back: 2,
        flushes_below: 1,
        ..CacheCounts::default()
    };
    assert_eq!(
        (*bench.cache.counts(), bench.cache.dirty_pages()),
        (expected, 8)
    );
}

#[test]
fn fab_flushes_the_fullest_block_in_page_order() {
    let mut bench = Bench::new(CachePolicy::Fab);
    bench.write([0, 1, 11, 9, 8, 20, 21, 30]);
    assert_eq!(bench.seen(), "");
    bench.write([31]);
    assert_eq!(bench.seen(), "w8 w9 w11");
    bench.write([3, 2]);
    assert_eq!(
        (
            bench.cache.dirty_pages(),
            bench.cache.counts().evictions,
            bench.seen().as_str()
        ),
        (8, 1, "f")
    );
    bench.write([60]);
    assert_eq!(bench.seen(), "w0 w1 w2 w3");
}

#[test]
fn bplru_reads_what_is_missing_and_writes_the_whole_block() {
    let mut bench = Bench::new(BPLRU);
    bench.write([1, 3, 4, 5, 6, 8, 9, 10]);
    bench.write([12]);
    assert_eq!(bench.seen(), "r0 w0 w1 r2 w2 w3");
    bench.write([13, 14]);
    assert_eq!(bench.seen(), "f w4 w5 w6 r7 w7");
    // Block 3 is written to its end in order: it goes before block 2, and needs no padding.
    bench.write([15, 16]);
    assert_eq!(bench.seen(), "f");
    bench.write([17]);
    assert_eq!(bench.seen(), "w12 w13 w14 w15");
    let expected = CacheCounts {
        page_writes: 14,
        evictions: 3,
        written_back: 9,
        padding_reads: 3,
        flushes_below: 2,
        ..CacheCounts::default()
    };
    assert_eq!(*bench.cache.counts(), expected);
    for (page, stamp) in [(0, 0), (1, 2), (2, 0), (3, 4), (7, 0), (12, 13), (17, 18)] {
        assert_eq!(bench.read(page), stamp, "page {page}");
    }
}

#[test]
fn padding_leaves_the_log_blocks_nothing_but_switches() {
    let run = |policy| {
        let mut bench = Bench::new(policy);
        bench.write(0..200);
        bench.cache.drain().unwrap();
        let before = bench.cache.tally().merges;
        (0..1_000).for_each(|i| bench.try_write(nandlab_sim::mix(4, i) % 200, 9).unwrap());
        bench.cache.drain().unwrap();
        let Merges {
            switch,
            partial,
            full,
            ..
        } = bench.cache.tally().merges;
        (
            [
                switch - before.switch,
                partial - before.partial,
                full - before.full,
            ],
            bench.cache.counts().padding_reads,
        )
    };
    let ([switch, partial, full], padding) = run(BPLRU);
    assert!(switch > 500 && padding > 1_000, "{switch} {padding}");
    assert_eq!((partial, full), (0, 0));
    let ([.., full], padding) = run(UNPADDED);
    assert!(full > 200, "{full}");
    assert_eq!(padding, 0);
}

#[test]
fn lb_clock_spares_what_is_being_written() {
    let mut bench = Bench::new(CachePolicy::LbClock);
    bench.write([0, 1, 2, 8, 9, 20, 24, 28]);
    bench.write([32]);
    assert_eq!(bench.seen(), "w0 w1 w2");
    // Block 7 is the fullest, but recent; block 2 is the fullest of the others.
    bench.write([29, 30, 33]);
    assert_eq!(bench.seen(), "f w8 w9");
}

#[test]
fn a_part_of_a_page_is_completed_once() {
    let mut bench = Bench::new(CachePolicy::Lru);
    bench.write([5]);
    bench.cache.drain().unwrap();
    assert_eq!(bench.seen(), "w5 f");
    bench.cache.write(Lba(5 * PER + 1), &[9; 512]).unwrap();
    bench.cache.write(Lba(5 * PER + 2), &[8; 512]).unwrap();
    bench.cache.discard(Lba(5 * PER + 3), 1).unwrap();
    assert_eq!(
        (bench.seen().as_str(), bench.cache.counts().fill_reads),
        ("r5", 1)
    );
    bench.cache.detach().unwrap();
    assert_eq!(
        (bench.seen().as_str(), bench.cache.dirty_pages()),
        ("w5 f", 0)
    );
    let mut page = [0; PAGE];
    bench
        .cache
        .into_parts()
        .0
        .read(Lba(5 * PER), &mut page)
        .unwrap();
    assert_eq!([0, 512, 1024, 1536].map(|at| page[at]), [6, 9, 8, 0]);
}

#[test]
fn a_part_of_a_lost_page_is_refused_at_once_and_padding_leaves_it_alone() {
    let mut bench = Bench::new(BPLRU);
    bench.script.borrow_mut().lost = Some(2);
    assert_eq!(
        bench.cache.write(Lba(2 * PER + 1), &[9; 512]),
        Err(BlockError::lost(Lba(2 * PER)))
    );
    assert_eq!(bench.cache.dirty_pages(), 0);
    bench.write([1]);
    bench.cache.drain().unwrap();
    assert_eq!(bench.seen(), "r2 r0 w0 w1 r2 r3 w3 f");
    assert_eq!(bench.cache.counts().padding_reads, 2);
}

#[test]
fn discards_drop_what_is_cached_and_a_flush_makes_the_others_durable() {
    let mut bench = Bench::new(CachePolicy::Fab);
    bench.write([0, 1, 2, 3]);
    bench.cache.discard(Lba(PER), 2 * PER).unwrap();
    assert_eq!(
        (bench.seen().as_str(), bench.cache.dirty_pages()),
        ("d1 d2", 2)
    );
    // Their tags say so: nothing to be flushed.
    bench.cache.flush().unwrap();
    assert_eq!(bench.seen(), "");
    let mut bench = bench.attach_again(options(CachePolicy::Lru));
    assert_eq!([0, 1, 2, 3].map(|page| bench.read(page)), [1, 0, 0, 4]);
    bench.cache.discard(Lba(50 * PER), 2 * PER).unwrap();
    bench.cache.flush().unwrap();
    bench.cache.flush().unwrap();
    assert_eq!(bench.seen(), "d50 d51 f");
    bench.write([1]);
    bench.cache.drain().unwrap();
    assert_eq!(bench.seen(), "w0 d2 w3 w1 f");
    assert_eq!([0, 1, 2, 3].map(|page| bench.read(page)), [1, 2, 0, 4]);
}

#[test]
fn a_flush_may_be_passed_on() {
    let mut bench = Bench::new(CachePolicy::Lru).attach_again(CacheOptions {
        flush_through: true,
        ..options(CachePolicy::Lru)
    });
    bench.write([3, 1]);
    bench.cache.flush().unwrap();
    assert_eq!(
        (bench.seen().as_str(), bench.cache.dirty_pages()),
        ("w3 w1 f", 0)
    );
}

#[test]
fn another_size_writes_everything_back_first() {
    let mut bench = Bench::new(CachePolicy::Fab);
    bench.write([0, 1, 2, 3, 9]);
    let smaller = CacheOptions {
        bytes: Some(5 * (PAGE as u64 + 16) + 128),
        ..options(CachePolicy::Fab)
    };
    let mut bench = bench.attach_again(smaller);
    assert_eq!(bench.seen(), "w0 w1 w2 w3 w9 f");
    assert_eq!(
        (bench.cache.dirty_pages(), bench.cache.capacity_pages()),
        (0, 4)
    );
    assert_eq!(
        [0, 1, 2, 3, 9].map(|page| bench.read(page)),
        [1, 2, 3, 4, 10]
    );
}

#[test]
fn a_write_back_that_fails_loses_nothing() {
    for policy in POLICIES {
        let mut failed = 0;
        for nth in 0..60 {
            let mut bench = Bench::new(policy);
            bench.script.borrow_mut().failing_writes = Some(Schedule::listed([nth, nth + 1]));
            let mut model = [0; 64];
            for i in 0..80 {
                let page = nandlab_sim::mix(nth, i) % 64;
                let stamp = i as u8 + 1;
                match bench.try_write(page, stamp) {
                    Ok(()) => model[page as usize] = stamp,
                    Err(error) => {
                        assert_eq!(error, BlockError::WornOut(None));
                        failed += 1;
                        (0..64).for_each(|page| {
                            assert_eq!(
                                bench.read(page),
                                model[page as usize],
                                "page {page}, {policy:?}"
                            )
                        });
                    }
                }
            }
            let mut bench = bench.attach_again(options(CachePolicy::LbClock));
            while bench.cache.drain().is_err() {}
            let (mut below, _) = bench.cache.into_parts();
            (0..64).for_each(|page| {
                assert_eq!(
                    read(&mut below, page),
                    model[page as usize],
                    "page {page} below, {policy:?}"
                )
            });
        }
        assert!(failed >= 80, "{failed} failures with {policy:?}");
    }
}
