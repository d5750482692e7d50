//! A write or read that hits the write cache allocates nothing. One test, since the allocator
//! counts for the whole program.

use nandlab_block::{BlockDevice, Lba, Nvram};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_ftl::write_cache::{CacheOptions, CachePolicy, WriteCache};
use nandlab_nand::{Chip, preset};
use nandlab_sim::{Rail, mix};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn a_hit_allocates_nothing() {
    for policy in [
        CachePolicy::Lru,
        CachePolicy::Fab,
        CachePolicy::Bplru {
            padding: true,
            compensation: true,
        },
        CachePolicy::LbClock,
    ] {
        let mut spec = preset::find("slc-2k").unwrap().spec();
        spec.geometry.blocks = 128;
        let below = PageFtl::format(Chip::new(spec).unwrap(), PageOptions::default()).unwrap();
        let nvram = Nvram::new(64, 1 << 14, Rail::new());
        let mut cache = WriteCache::format(
            below,
            nvram,
            CacheOptions {
                policy,
                ..CacheOptions::new(64)
            },
        )
        .unwrap();
        let pages = u64::from(cache.capacity_pages());
        let mut page = [7; 2048];
        let place = |i| Lba(mix(1, mix(2, i) % pages) % 4_000 * 4);
        // Every slot is used once, so that the memory itself has its memory.
        (0..20 * pages).for_each(|i| cache.write(place(i), &page).unwrap());
        let region = Region::new(ALLOCATOR);
        let before = *cache.counts();
        for i in 0..10_000 {
            cache.write(place(i), &page).unwrap();
            cache.write(Lba(place(i).0 + 1), &page[..512]).unwrap();
            cache.read(place(i), &mut page).unwrap();
        }
        let change = region.change();
        let counts = cache.counts();
        assert_eq!(
            (
                counts.absorbed - before.absorbed,
                counts.read_hits - before.read_hits
            ),
            (20_000, 10_000),
            "{policy:?}"
        );
        assert_eq!(
            (change.allocations, change.reallocations),
            (0, 0),
            "{policy:?}"
        );
    }
}
