//! A write buffer without a battery: the explorer cuts the power, and the buffer is empty at the
//! next power-up. A flush is the only promise.

use crate::common::{hot_and_cold, serve, small_pages};
use nandlab_block::Nvram;
use nandlab_crash::{Disk, DiskOp, Plan, SecondLevel, assert_found, assert_survives};
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_ftl::write_cache::{CacheOptions, CachePolicy, WriteCache};
use nandlab_ftl::{Cause, Ftl};
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::{Chip, Reliability};
use nandlab_sim::Rail;

/// Bytes of the buffer: 30 pages of one sector, with their tags.
const BYTES: u64 = 16 << 10;

/// Page mapping behind a buffer that each power-up finds empty.
#[derive(Clone)]
struct Buffered {
    below: PageOptions,
    cache: CacheOptions,
}

impl Buffered {
    fn on(&self, device: PageFtl<Chip>) -> Result<WriteCache<PageFtl<Chip>, Nvram>, LayerError> {
        let memory = Nvram::new(64, BYTES / 64, Rail::new());
        Ok(WriteCache::attach(device, memory, self.cache)?)
    }
}

impl Layer<Chip> for Buffered {
    type Device = WriteCache<PageFtl<Chip>, Nvram>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.on(self.below.format(chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        self.on(self.below.attach(chip)?)
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        device.into_parts().0.into_medium()
    }
}

fn subject(policy: CachePolicy, flush_through: bool) -> Disk<Buffered> {
    let below = PageOptions {
        over_provisioning: 0.65,
        map_interval: 16,
        ..PageOptions::default()
    };
    let cache = CacheOptions {
        policy,
        flush_through,
        ..CacheOptions::new(8)
    };
    Disk {
        chip: small_pages(0, 40, Reliability::default()),
        layer: Buffered { below, cache },
    }
}

fn workload(subject: &Disk<Buffered>, requests: u64, flush_every: u64) -> Vec<DiskOp> {
    hot_and_cold(&subject.geometry().unwrap(), requests, flush_every, 0.15)
}

/// The buffer fills up between flushes, and the layer below collects.
fn assert_run_has_everything(subject: &Disk<Buffered>, ops: &[DiskOp]) {
    let mut device = subject.format().unwrap();
    serve(&mut device, ops);
    let counts = device.counts();
    assert!(
        counts.absorbed > 20 && counts.evictions > 20 && counts.flushes > 5,
        "{counts:?}"
    );
    let tally = device.tally();
    let collection = tally.rows().find(|row| row.0 == Cause::Collection).unwrap();
    assert!(collection.1.erases > 20, "{tally:?}");
}

#[test]
fn a_buffer_without_a_battery_keeps_the_promise_of_a_flush() {
    let padded = CachePolicy::Bplru {
        padding: true,
        compensation: true,
    };
    for policy in [CachePolicy::Lru, CachePolicy::LbClock, padded] {
        let subject = subject(policy, true);
        let ops = workload(&subject, 400, 40);
        assert_run_has_everything(&subject, &ops);
        let plan = Plan {
            words: 2,
            second: SecondLevel::Every(60),
            ..Plan::default()
        };
        let report = assert_survives(&subject, &ops, &plan);
        assert!(report.second_level_states > 300, "{report}");
    }
}

#[test]
fn a_flush_that_leaves_pages_in_the_buffer_is_found() {
    let subject = subject(CachePolicy::LbClock, false);
    let plan = Plan {
        second: SecondLevel::Off,
        shrink_states: 2_000,
        ..Plan::default()
    };
    assert_found(&subject, &workload(&subject, 60, 12), &plan);
}
