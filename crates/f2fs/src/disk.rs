//! The device in blocks of 4096 bytes.
//!
//! *Knows nothing of* what the blocks hold.

use crate::{F2fsError, format::BLOCK};
use alloc::{boxed::Box, vec};
use nandlab_block::{BlockDevice, Lba};

/// One block in memory.
pub(crate) type Block = Box<[u8]>;

/// A block of zeros.
pub(crate) fn zeros() -> Block {
    vec![0; BLOCK].into_boxed_slice()
}

#[derive(Debug)]
pub(crate) struct Disk<D> {
    pub device: D,
    sectors: u64,
    /// Something was written since the last flush.
    unsettled: bool,
}

impl<D: BlockDevice> Disk<D> {
    pub fn open(device: D) -> Result<Self, F2fsError> {
        let sector = device.geometry().sector;
        match sector {
            1.. if (BLOCK as u32).is_multiple_of(sector) => Ok(Self { device, sectors: (BLOCK as u32 / sector).into(), unsettled: false }),
            _ => Err(F2fsError::Sectors { sector }),
        }
    }

    pub fn blocks(&self) -> u64 {
        self.device.geometry().sectors / self.sectors
    }

    pub fn read(&mut self, addr: u32) -> Result<Block, F2fsError> {
        let mut block = zeros();
        self.device.read(Lba(u64::from(addr) * self.sectors), &mut block)?;
        Ok(block)
    }

    pub fn write(&mut self, addr: u32, block: &[u8]) -> Result<(), F2fsError> {
        self.unsettled = true;
        Ok(self.device.write(Lba(u64::from(addr) * self.sectors), block)?)
    }

    /// Everything written so far is durable.
    pub fn flush(&mut self) -> Result<(), F2fsError> {
        if core::mem::take(&mut self.unsettled) { Ok(self.device.flush()?) } else { Ok(()) }
    }

    pub fn discard(&mut self, addr: u32, blocks: u32) -> Result<(), F2fsError> {
        match self.device.discard(Lba(u64::from(addr) * self.sectors), u64::from(blocks) * self.sectors) {
            Err(nandlab_block::BlockError::Unsupported) => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}
