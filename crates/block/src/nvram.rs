//! Memory that keeps its contents without power, behind the interface of a disk.
//!
//! *Promises.* A sector that was written is durable at once and never torn; a longer write can be
//! cut between any two of its sectors. While the power is off nothing is served, and when it is
//! back everything is there. *Knows nothing of* what it is used for.

use crate::{BlockDevice, BlockError, BlockGeometry, Lba, Ram};
use nandlab_sim::Rail;

/// A battery-backed memory. Lend it to a stack as `&mut`, and to the next one after a cut.
#[derive(Clone, Debug)]
pub struct Nvram {
    ram: Ram,
    rail: Rail,
}

impl Nvram {
    /// A memory of zeros on `rail`.
    ///
    /// # Panics
    /// As [`Ram::new`].
    pub fn new(sector_bytes: u32, sectors: u64, rail: Rail) -> Self {
        Self {
            ram: Ram::new(sector_bytes, sectors),
            rail,
        }
    }
}

impl BlockDevice for Nvram {
    fn geometry(&self) -> &BlockGeometry {
        self.ram.geometry()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.rail.powered()?;
        self.ram.read(lba, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.rail.powered()?;
        self.geometry().check(lba, data.len())?;
        let sector = self.geometry().sector as usize;
        for (at, part) in (lba.0..).zip(data.chunks(sector)) {
            self.rail.step()?;
            self.ram.write(Lba(at), part)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        Ok(self.rail.powered()?)
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.rail.powered()?;
        self.geometry().check_sectors(lba, sectors)?;
        self.rail.step()?;
        self.ram.discard(lba, sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_survive_a_cut_sector_by_sector() {
        let rail = Rail::new();
        let mut nvram = Nvram::new(64, 16, rail.clone());
        nvram.write(Lba(0), &[1; 4 * 64]).unwrap();
        rail.cut_at(6);
        assert_eq!(nvram.write(Lba(0), &[2; 4 * 64]), Err(BlockError::PowerCut));
        assert_eq!(nvram.write(Lba(9), &[2; 64]), Err(BlockError::PowerCut));
        assert_eq!(
            (nvram.flush(), nvram.discard(Lba(0), 1)),
            (Err(BlockError::PowerCut), Err(BlockError::PowerCut))
        );
        assert_eq!(nvram.read(Lba(0), &mut [0; 64]), Err(BlockError::PowerCut));
        rail.restore();
        let mut buf = [0; 10 * 64];
        nvram.read(Lba(0), &mut buf).unwrap();
        assert_eq!(
            [buf[0], buf[64], buf[128], buf[192], buf[9 * 64]],
            [2, 2, 1, 1, 0]
        );
    }

    #[test]
    fn a_refused_request_takes_no_step() {
        let rail = Rail::new();
        let mut nvram = Nvram::new(64, 16, rail.clone());
        assert!(nvram.write(Lba(15), &[0; 128]).is_err() && nvram.discard(Lba(16), 1).is_err());
        assert_eq!(rail.steps(), 0);
    }
}
