//! A run of sectors of a disk as a disk of its own.
//!
//! *Promises* that nothing outside the run is read or changed, and that errors speak of the
//! partition's own sectors. *Knows nothing of* partition tables.

use crate::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use alloc::vec::Vec;

/// Part of the disk `D`.
#[derive(Clone, Debug)]
pub struct Partition<D> {
    inner: D,
    start: u64,
    geometry: BlockGeometry,
}

impl<D: BlockDevice> Partition<D> {
    /// The `sectors` sectors of `inner` from `start` on; refused if they leave the disk.
    pub fn new(inner: D, start: Lba, sectors: u64) -> Result<Self, BlockError> {
        inner.geometry().check_sectors(start, sectors)?;
        let geometry = BlockGeometry {
            sectors,
            ..*inner.geometry()
        };
        Ok(Self {
            inner,
            start: start.0,
            geometry,
        })
    }

    /// The whole disk, to be looked at.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Gives the whole disk back.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Where a sector lies on the whole disk; the caller has checked it.
    fn shift(&self, lba: Lba) -> Lba {
        Lba(self.start + lba.0)
    }

    /// An error of the whole disk as one of this partition.
    fn shift_back(&self, error: BlockError) -> BlockError {
        match error {
            BlockError::Lost { lba, cause } => BlockError::Lost {
                lba: Lba(lba.0.saturating_sub(self.start)),
                cause,
            },
            other => other,
        }
    }
}

impl<D: BlockDevice> BlockDevice for Partition<D> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.inner.idle()
    }

    fn stream(&mut self, stream: u8) {
        self.inner.stream(stream);
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        self.inner
            .read(self.shift(lba), buf)
            .map_err(|e| self.shift_back(e))
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, data.len())?;
        self.inner
            .write(self.shift(lba), data)
            .map_err(|e| self.shift_back(e))
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.inner.flush().map_err(|e| self.shift_back(e))
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        self.inner
            .discard(self.shift(lba), sectors)
            .map_err(|e| self.shift_back(e))
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        let mut shifted = Vec::with_capacity(pairs.len());
        for pair in pairs {
            self.geometry.check_sectors(pair.from, 1)?;
            self.geometry.check_sectors(pair.to, 1)?;
            shifted.push(Remap {
                from: self.shift(pair.from),
                to: self.shift(pair.to),
            });
        }
        self.inner.remap(&shifted).map_err(|e| self.shift_back(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultInjector, Op, Ram};

    #[test]
    fn sectors_are_those_of_the_disk_from_the_start_on() {
        let mut part = Partition::new(Ram::new(512, 16), Lba(4), 8).unwrap();
        part.write(Lba(7), &[7; 512]).unwrap();
        let mut buf = [0; 512];
        part.into_inner().read(Lba(11), &mut buf).unwrap();
        assert_eq!(buf, [7; 512]);
    }

    #[test]
    fn nothing_outside_can_be_reached() {
        let mut part = Partition::new(Ram::new(512, 16), Lba(4), 8).unwrap();
        let outside = |lba, count| {
            Err(BlockError::OutOfRange {
                lba: Lba(lba),
                count,
                sectors: 8,
            })
        };
        assert_eq!(part.read(Lba(8), &mut [0; 512]), outside(8, 1));
        assert_eq!(part.write(Lba(7), &[0; 1024]), outside(7, 2));
        assert_eq!(part.discard(Lba(u64::MAX), 1), outside(u64::MAX, 1));
        assert_eq!(
            part.remap(&[Remap {
                from: Lba(0),
                to: Lba(9)
            }]),
            outside(9, 1)
        );
        assert!(Partition::new(Ram::new(512, 16), Lba(9), 8).is_err());
    }

    #[test]
    fn a_lost_sector_is_named_as_the_partition_knows_it() {
        let mut disk = FaultInjector::new(Ram::new(512, 16));
        disk.add(Fault::lost(6..7));
        let mut part = Partition::new(disk, Lba(4), 8).unwrap();
        assert_eq!(
            part.read(Lba(0), &mut [0; 8 * 512]),
            Err(BlockError::lost(Lba(2)))
        );
        disk = part.into_inner();
        disk.add(Fault::new(Op::Flush, BlockError::WornOut(None)));
        assert_eq!(
            Partition::new(disk, Lba(4), 8).unwrap().flush(),
            Err(BlockError::WornOut(None))
        );
    }
}
