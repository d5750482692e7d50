//! How often a run goes round its journal.

use super::volumes::{JOURNAL_BLOCKS, chip, layer};
use nandlab_block::{BlockError, Hook, Hooked, Op, Ram, Request};
use nandlab_crash::{Cuts, Disk, FileOp, Files, Plan, explore};
use nandlab_ext::{Ext, ExtVolume, Options, Region};
use nandlab_ftl::page::PageFtl;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;
use nandlab_vfs::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sectors of a block.
const SECTORS: u64 = 2;

/// A layer that counts the sectors written to a part of its disk, from its first attach on.
struct Counted {
    part: Vec<Range<u64>>,
    count: Arc<AtomicU64>,
}

struct Count {
    part: Vec<Range<u64>>,
    count: Arc<AtomicU64>,
}

impl Hook for Count {
    fn before(&mut self, request: &Request) -> Result<(), BlockError> {
        if request.op == Op::Write && self.part.iter().any(|range| range.contains(&request.lba.0)) {
            self.count.fetch_add(request.sectors, Relaxed);
        }
        Ok(())
    }
}

impl Layer<Chip> for Counted {
    type Device = Hooked<PageFtl<Chip>, Count>;

    fn format(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let count = Count {
            part: Vec::new(),
            count: Arc::default(),
        };
        Ok(Hooked::with(layer(None).format(chip)?, count))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, LayerError> {
        let count = Count {
            part: self.part.clone(),
            count: self.count.clone(),
        };
        Ok(Hooked::with(layer(None).attach(chip)?, count))
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        layer(None).power_off(device.into_inner())
    }
}

/// Blocks written to the journal by a run, as multiples of its length.
pub fn of(volume: &ExtVolume, ops: &[FileOp]) -> f64 {
    let below = Disk {
        chip: chip(),
        layer: layer(None),
    };
    let mut disk = Ram::new(512, below.geometry().unwrap().sectors);
    volume.format(&mut disk).unwrap();
    let regions = Ext::mount(disk, Options::default())
        .unwrap()
        .regions()
        .unwrap();
    let journal = regions
        .into_iter()
        .filter(|(_, region)| *region == Region::Journal);
    let part = journal
        .map(|(blocks, _)| u64::from(blocks.start) * SECTORS..u64::from(blocks.end) * SECTORS)
        .collect();
    let count = Arc::new(AtomicU64::new(0));
    let stack = Files {
        chip: chip(),
        layer: Counted {
            part,
            count: count.clone(),
        },
        volume: volume.clone(),
    };
    let uncut = Plan {
        cuts: Cuts::Sample(0),
        ..Plan::default()
    };
    explore(&stack, ops, &uncut).unwrap();
    count.load(Relaxed) as f64 / (u64::from(JOURNAL_BLOCKS) * SECTORS) as f64
}
