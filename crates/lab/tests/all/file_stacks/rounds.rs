//! How often a run goes round its journal.

use super::{JOURNAL_BLOCKS, PageMapped};
use nandlab_block::{BlockDevice, BlockError, Hook, Hooked, Op, Ram, Request};
use nandlab_ext::{Ext, Options, Region};
use nandlab_ftl::page::PageFtl;
use nandlab_lab::crash::files::{ExtVolume, Volume};
use nandlab_lab::crash::{Cuts, FileOp, Files, Layer, Plan, explore};
use nandlab_nand::Chip;
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

impl Layer for Counted {
    type Device = Hooked<PageFtl<Chip>, Count>;

    fn format(&self) -> Result<Self::Device, String> {
        Ok(Hooked::with(
            PageMapped::default().format()?,
            Count {
                part: Vec::new(),
                count: Arc::default(),
            },
        ))
    }

    fn attach(&self, chip: Chip) -> Result<Self::Device, String> {
        let count = Count {
            part: self.part.clone(),
            count: self.count.clone(),
        };
        Ok(Hooked::with(PageMapped::default().attach(chip)?, count))
    }

    fn power_off(&self, device: Self::Device) -> Chip {
        PageMapped::default().power_off(device.into_inner())
    }
}

/// Blocks written to the journal by a run, as multiples of its length.
pub fn of(volume: &ExtVolume, ops: &[FileOp]) -> f64 {
    let mut disk = Ram::new(
        512,
        PageMapped::default().format().unwrap().geometry().sectors,
    );
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
    let layer = Counted {
        part,
        count: Arc::default(),
    };
    let count = layer.count.clone();
    explore(
        &Files {
            layer,
            volume: volume.clone(),
        },
        ops,
        &Plan {
            cuts: Cuts::Sample(0),
            ..Plan::default()
        },
    )
    .unwrap();
    count.load(Relaxed) as f64 / (u64::from(JOURNAL_BLOCKS) * SECTORS) as f64
}
