//! Linux's `mtdblock` in `[ftl]`: no keys of its own.

use crate::{DiskScheme, Translation};
use nandlab_ftl::mtdblock::MtdBlock;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;

/// Linux's cache of one erase block.
#[derive(Clone, Copy, Debug)]
struct OneBlock;

impl Layer<Chip> for OneBlock {
    type Device = MtdBlock<Chip>;

    fn format(&self, chip: Chip) -> Result<MtdBlock<Chip>, LayerError> {
        Ok(MtdBlock::format(chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<MtdBlock<Chip>, LayerError> {
        Ok(MtdBlock::attach(chip)?)
    }

    fn power_off(&self, device: MtdBlock<Chip>) -> Chip {
        device.into_medium()
    }
}

pub(super) const MTDBLOCK: DiskScheme = DiskScheme {
    name: "mtdblock",
    keys: &[],
    take: |_| {
        Ok(Translation {
            queues_flushes: true,
            ..Translation::disk("mtdblock", OneBlock)
        })
    },
};
