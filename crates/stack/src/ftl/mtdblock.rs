//! Linux's `mtdblock` in `[ftl]`: no keys of its own.

use crate::{DescriptionError, Scheme, SchemeInput, Translation};
use nandlab_ftl::mtdblock::MtdBlock;
use nandlab_mtd::{Layer, LayerError};
use nandlab_nand::Chip;

/// Linux's cache of one erase block.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneBlock;

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

impl Scheme for OneBlock {
    fn name(&self) -> &'static str {
        "mtdblock"
    }

    fn take(&self, _: &mut SchemeInput<'_>) -> Result<Translation, DescriptionError> {
        Ok(Translation::disk(self.name(), *self))
    }
}
