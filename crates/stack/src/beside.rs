//! The memory beside the chip, for the crash explorer. With a battery it is a part of the chip,
//! because a power cut must find both at one moment. Without one it is new at each power-up.

use crate::NvramDescription;
use crate::layer::{Device, DiskLayer, Translation};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_ftl::write_cache::{CacheOptions, WriteCache};
use nandlab_mtd::LayerError;
use nandlab_nand::{Beside, Chip};
use nandlab_sim::Rail;
use std::sync::Arc;

/// The chip lacks the memory that its stack needs.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the chip has no memory beside it, which nvram.holds needs")]
pub(crate) struct NoMemory;

/// The memory beside a chip as a disk of lines.
#[derive(Clone, Debug)]
pub(crate) struct BesideChip {
    memory: Beside,
    geometry: BlockGeometry,
}

impl BesideChip {
    /// The memory of a chip.
    pub fn of(memory: Option<Beside>) -> Result<Self, NoMemory> {
        let memory = memory.ok_or(NoMemory)?;
        let line = Beside::LINE as u32;
        let geometry = BlockGeometry {
            sector: line,
            sectors: memory.lines().into(),
            page: line,
        };
        Ok(Self { memory, geometry })
    }
}

impl BlockDevice for BesideChip {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        Ok(self.memory.read(lba.0 as u32, buf)?)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, data.len())?;
        for (line, part) in (lba.0 as u32..).zip(data.chunks(Beside::LINE)) {
            self.memory.write(line, part)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        let zeros = [0; Beside::LINE];
        (lba.0..lba.0 + sectors).try_for_each(|line| self.write(Lba(line), &zeros))
    }
}

/// A layer on a chip that has the memory beside it, and the write cache that the memory may hold.
#[derive(Debug)]
struct WithNvram {
    below: Arc<dyn DiskLayer>,
    nvram: NvramDescription,
}

impl WithNvram {
    fn behind_cache(&self, device: Box<dyn Device>) -> Result<Box<dyn Device>, LayerError> {
        let Some(options): Option<CacheOptions> = self.nvram.cache() else {
            return Ok(device);
        };
        if !self.nvram.battery {
            // No supply: a cut within it leaves nothing that a cut of the flash does not.
            let memory = self.nvram.build(&Rail::new());
            return Ok(Box::new(WriteCache::attach(device, memory, options)?));
        }
        let memory = BesideChip::of(device.medium().beside())?;
        Ok(Box::new(WriteCache::attach(device, memory, options)?))
    }
}

impl DiskLayer for WithNvram {
    fn format(&self, mut chip: Chip) -> Result<Box<dyn Device>, LayerError> {
        if self.nvram.battery {
            chip.put_beside((self.nvram.size / Beside::LINE as u64) as u32);
        }
        self.behind_cache(self.below.format(chip)?)
    }

    fn attach(&self, chip: Chip) -> Result<Box<dyn Device>, LayerError> {
        self.behind_cache(self.below.attach(chip)?)
    }
}

impl Translation {
    /// The layer with the memory beside its chip. On flash such a memory has no use.
    pub fn with_nvram(mut self, nvram: NvramDescription) -> Self {
        let on = |below| Arc::new(WithNvram { below, nvram }) as Arc<dyn DiskLayer>;
        self.disk = self.disk.map(on);
        self
    }
}
