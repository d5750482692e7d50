//! The partition on the device.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_stack::Device;

/// What of a device's work its host asked for.
const OF_HOST: [&str; 2] = ["host data", "mapping"];

/// The first bytes of a device. Trims may be ignored, as by a device or a kernel without them.
pub struct Disk<'a> {
    device: &'a mut dyn Device,
    geometry: BlockGeometry,
    trims: bool,
}

impl<'a> Disk<'a> {
    pub fn new(device: &'a mut dyn Device, bytes: u64, trims: bool) -> Self {
        let whole = *device.geometry();
        let sectors = (bytes / u64::from(whole.sector)).min(whole.sectors);
        let geometry = BlockGeometry { sectors, ..whole };
        Self {
            device,
            geometry,
            trims,
        }
    }

    /// What the device has done so far.
    pub fn pages(&self) -> Pages {
        let tally = self.device.tally();
        let count = |is_counted: &dyn Fn(&str) -> bool| {
            let rows = tally.rows().filter(|(cause, _)| is_counted(cause.name()));
            rows.map(|(_, row)| row.copies + row.programs).sum()
        };
        Pages {
            taken: tally.host_pages,
            moved: count(&|cause| !OF_HOST.contains(&cause)),
            programmed: count(&|_| true),
        }
    }
}

/// Pages of a device, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Taken from the host.
    pub taken: u64,
    /// Moved by the translation layer: its collection and its merges.
    pub moved: u64,
    /// Programmed, for whatever reason.
    pub programmed: u64,
}

impl Pages {
    pub fn with(&self, other: &Self) -> Self {
        Self {
            taken: self.taken + other.taken,
            moved: self.moved + other.moved,
            programmed: self.programmed + other.programmed,
        }
    }

    /// Since an earlier look.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            taken: self.taken - before.taken,
            moved: self.moved - before.moved,
            programmed: self.programmed - before.programmed,
        }
    }
}

impl BlockDevice for Disk<'_> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn expect(&mut self, lba: Lba) {
        self.device.expect(lba);
    }

    fn stream(&mut self, stream: u8) {
        self.device.stream(stream);
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        self.device.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, data.len())?;
        self.device.write(lba, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.device.flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        if self.trims {
            self.device.discard(lba, sectors)
        } else {
            Ok(())
        }
    }
}
