//! The non-volatile memory as the processor sees it: every byte takes its time.

use crate::{HostDescription, NvramDescription};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Nvram};
use nandlab_sim::{Clock, Rail};

/// A memory on a clock; without a processor its bytes cost nothing.
#[derive(Clone, Debug)]
pub struct Memory {
    nvram: Nvram,
    clock: Clock,
    host: Option<HostDescription>,
}

impl Memory {
    /// The memory that is described, all zeros.
    pub fn new(
        described: &NvramDescription,
        host: Option<&HostDescription>,
        clock: &Clock,
        rail: &Rail,
    ) -> Self {
        Self {
            nvram: described.build(rail),
            clock: clock.clone(),
            host: host.cloned(),
        }
    }

    fn spend(&self, bytes: usize) {
        if let Some(host) = &self.host {
            self.clock.spend(host.nvram(bytes as u64));
        }
    }
}

impl BlockDevice for Memory {
    fn geometry(&self) -> &BlockGeometry {
        self.nvram.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.spend(buf.len());
        self.nvram.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.spend(data.len());
        self.nvram.write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.nvram.flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.nvram.discard(lba, sectors)
    }
}
