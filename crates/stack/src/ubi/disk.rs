//! A volume as a disk on a chip, as the lab sees a translation layer.
//!
//! Operations are counted by what they are for: the host's calls (headers and UBIL's log among
//! them), erases, moves, what the next attach needs. Erases that a call cannot do without are the
//! call's.

use super::UbiDescription;
use crate::BuildError;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_ftl::{Cause, Ftl, Tallied, Tally};
use nandlab_mtd::{Block, Mtd, Page};
use nandlab_nand::Chip;
use nandlab_ubi::{Task, Ubi, UbiError, VolumeDisk};

/// A volume as a disk.
#[derive(Debug)]
pub struct UbiDisk {
    disk: VolumeDisk<Tallied<Chip>>,
    background: bool,
}

impl UbiDisk {
    /// Formats the chip and attaches the volume.
    pub fn format(described: &UbiDescription, chip: Chip) -> Result<Self, BuildError> {
        Self::of(described, described.make(Tallied::new(chip))?)
    }

    /// Attaches what is on the chip.
    pub fn attach(described: &UbiDescription, chip: Chip) -> Result<Self, BuildError> {
        Self::of(described, described.open(Tallied::new(chip), None)?)
    }

    fn of(described: &UbiDescription, ubi: Ubi<Tallied<Chip>>) -> Result<Self, BuildError> {
        let volume = described.volume_of(&ubi)?;
        let mut disk = VolumeDisk::new(ubi, volume)?;
        disk.ubi_mut().medium_mut().cause = Cause::Host;
        Ok(Self {
            disk,
            background: described.background,
        })
    }

    /// Gives the chip back as it is, without another operation.
    pub fn into_chip(self) -> Chip {
        self.disk.into_medium().into_inner()
    }

    fn tallied(&self) -> &Tallied<Chip> {
        self.disk.ubi().medium()
    }

    /// Does work under its own cause.
    fn under<T>(
        &mut self,
        cause: Cause,
        work: impl FnOnce(&mut Ubi<Tallied<Chip>>) -> Result<T, UbiError>,
    ) -> Result<T, UbiError> {
        let ubi = self.disk.ubi_mut();
        ubi.medium_mut().cause = cause;
        let outcome = work(ubi);
        ubi.medium_mut().cause = Cause::Host;
        outcome
    }

    /// The device's thread has its turn. Its failure is not the call's: it shows in the next one.
    fn turn(&mut self) {
        let Some(task) = self.disk.ubi().due().filter(|_| self.background) else {
            return;
        };
        let cause = match task {
            Task::Erase => Cause::Collection,
            Task::Level => Cause::Wear,
            Task::Scrub => Cause::Repair,
            Task::Remember => Cause::Mapping,
        };
        let _ = self.under(cause, Ubi::work);
    }
}

impl BlockDevice for UbiDisk {
    fn geometry(&self) -> &BlockGeometry {
        self.disk.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.disk.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.disk.write(lba, data)?;
        let page = u64::from(self.tallied().geometry().page);
        let at = lba.0 * u64::from(self.geometry().sector);
        let pages = (at + data.len() as u64).div_ceil(page) - at / page;
        self.disk.ubi_mut().medium_mut().tally_mut().host_pages += pages;
        self.turn();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.disk.flush()?;
        self.turn();
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.disk.discard(lba, sectors)?;
        self.turn();
        Ok(())
    }
}

impl Ftl for UbiDisk {
    type Medium = Chip;

    fn medium(&self) -> &Chip {
        self.tallied().inner()
    }

    fn tally(&self) -> &Tally {
        self.tallied().tally()
    }

    /// Pages programmed in a block that holds a logical one.
    fn valid_pages(&self, block: Block) -> u32 {
        let chip = self.medium();
        let pages = chip.geometry().pages_per_block;
        let programmed = || {
            (block.0 * pages..(block.0 + 1) * pages)
                .filter(|page| chip.is_programmed(Page(*page)))
                .count() as u32
        };
        if self.disk.ubi().is_used(block.0) {
            programmed()
        } else {
            0
        }
    }

    fn detach(&mut self) -> Result<(), BlockError> {
        self.disk.flush()?;
        let finished = self.under(Cause::Mapping, Ubi::finish_work);
        finished.map_err(|error| self.disk.whole_error(error))
    }

    fn into_medium(self: Box<Self>) -> Chip {
        self.into_chip()
    }
}
