//! A disk of which only the beginning is there: its image ends before the file system on it does.
//!
//! *Promises.* What is there reads as it is. What is not there is [`BlockError::Missing`] with its
//! place, never zeros; unless it was written since, as a journal's recovery does above an
//! [overlay](crate::overlay): that is kept beside, and read back. Memory does not depend on the
//! length that is declared. *Knows nothing of* what lies where. *Power loss.* What was kept beside
//! is lost, on purpose.

use crate::detect::DiskKind;
use crate::overlay::Overlay;
use crate::volume::AnyDisk;
use crate::words::counted;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_sim::Backing as _;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Bytes of a disk's beginning in which every format says how long it is.
const HEAD: u64 = 8192;
/// The longest volume that is believed in whatever is there of it; a longer one must be there to a
/// part of [`PART`].
const BELIEVED: u64 = 64 << 30;
const PART: u64 = 64;

/// Where a disk ends, and where the file system on it says to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Truncation {
    /// Bytes that are there.
    pub there: u64,
    /// Bytes that the file system takes.
    pub declared: u64,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { there, declared } = self;
        write!(
            f,
            "the image ends at byte {there}, its file system at byte {declared}: {} missing",
            counted(declared - there, "byte")
        )
    }
}

/// The missing end of the file system on a truncated disk; `None` if it is whole, or not
/// understood.
pub(crate) fn truncation(disk: &mut AnyDisk, kind: DiskKind) -> Option<Truncation> {
    let geometry = *disk.geometry();
    let there = geometry.bytes();
    let mut head = vec![
        0;
        (HEAD.min(there) / u64::from(geometry.sector) * u64::from(geometry.sector))
            as usize
    ];
    disk.read(Lba(0), &mut head).ok()?;
    let declared = match kind {
        DiskKind::Ext => nandlab_ext::declared_bytes(&head),
        DiskKind::F2fs => nandlab_f2fs::declared_bytes(&head),
        DiskKind::Fat => nandlab_fat::declared_bytes(&head),
        DiskKind::Squashfs => nandlab_squashfs::declared_bytes(&head),
        DiskKind::Ubifs => nandlab_ubifs::declared_bytes(&head),
    }?;
    (declared > there).then_some(Truncation { there, declared })
}

/// A disk with nothing behind its end.
pub(crate) struct TruncatedDisk {
    disk: AnyDisk,
    geometry: BlockGeometry,
    /// Sectors that are there.
    there: u64,
    beside: Overlay<Vec<u8>>,
    /// Sectors that are beside.
    known: BTreeSet<u64>,
}

impl TruncatedDisk {
    /// Makes the disk as long as its file system; returns it as it is where so much is missing that
    /// its length is not believed.
    pub fn new(disk: AnyDisk, truncation: Truncation) -> Result<Self, AnyDisk> {
        if truncation.declared > BELIEVED.max(truncation.there.saturating_mul(PART)) {
            return Err(disk);
        }
        let there = disk.geometry().sectors;
        let sectors = truncation.declared.div_ceil(disk.geometry().sector.into());
        let geometry = BlockGeometry {
            sectors,
            ..*disk.geometry()
        };
        Ok(Self {
            disk,
            geometry,
            there,
            beside: Overlay::new(Vec::new(), geometry.bytes()),
            known: BTreeSet::new(),
        })
    }

    /// Sectors of an extent that are there; the rest lies behind them.
    fn inside(&self, lba: Lba, sectors: u64) -> u64 {
        self.there.saturating_sub(lba.0).min(sectors)
    }

    fn byte(&self, sector: u64) -> u64 {
        sector * u64::from(self.geometry.sector)
    }
}

impl BlockDevice for TruncatedDisk {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        let count = self.geometry.check(lba, buf.len())?;
        let inside = self.inside(lba, count);
        if let Some(missing) =
            (lba.0 + inside..lba.0 + count).find(|sector| !self.known.contains(sector))
        {
            return Err(BlockError::Missing {
                at: self.byte(missing),
                end: self.byte(self.there),
            });
        }
        let (here, beside) = buf.split_at_mut(self.byte(inside) as usize);
        if !here.is_empty() {
            self.disk.read(lba, here)?;
        }
        if !beside.is_empty() {
            self.beside.read_at(self.byte(lba.0 + inside), beside)?;
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        let count = self.geometry.check(lba, data.len())?;
        let inside = self.inside(lba, count);
        let (here, beside) = data.split_at(self.byte(inside) as usize);
        if !here.is_empty() {
            self.disk.write(lba, here)?;
        }
        if !beside.is_empty() {
            self.beside.write_at(self.byte(lba.0 + inside), beside)?;
            self.known.extend(lba.0 + inside..lba.0 + count);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.disk.flush()
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        let inside = self.inside(lba, sectors);
        for sector in lba.0 + inside..lba.0 + sectors {
            self.known.remove(&sector);
        }
        if inside > 0 {
            self.disk.discard(lba, inside)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::Ram;

    fn truncated(there: u64, declared: u64) -> TruncatedDisk {
        let mut disk: AnyDisk = Box::new(Ram::new(512, there));
        disk.write(Lba(there - 1), &[7; 512]).unwrap();
        TruncatedDisk::new(
            disk,
            Truncation {
                there: there * 512,
                declared,
            },
        )
        .map_err(|_| "too long")
        .unwrap()
    }

    #[test]
    fn what_is_missing_is_an_error_with_its_place_until_it_is_written() {
        let mut disk = truncated(10, 20 * 512);
        let mut two = [0; 1024];
        let missing = |sector: u64| BlockError::Missing {
            at: sector * 512,
            end: 5120,
        };
        assert_eq!(disk.read(Lba(9), &mut two), Err(missing(10)));
        assert_eq!(
            missing(10).to_string(),
            "byte 5120 lies beyond the end of the image at byte 5120"
        );
        assert_eq!(disk.read(Lba(9), &mut two[..512]), Ok(()));
        assert_eq!(two[..512], [7; 512]);
        // Over the end, and only what was written.
        disk.write(Lba(9), &[5; 1024]).unwrap();
        assert_eq!(disk.read(Lba(9), &mut two), Ok(()));
        assert_eq!(two, [5; 1024]);
        assert_eq!(disk.read(Lba(10), &mut two), Err(missing(11)));
        disk.discard(Lba(8), 12).unwrap();
        assert_eq!(disk.read(Lba(10), &mut two[..512]), Err(missing(10)));
        assert!(matches!(
            disk.read(Lba(19), &mut two),
            Err(BlockError::OutOfRange { .. })
        ));
    }

    #[test]
    fn a_length_out_of_all_proportion_is_not_believed() {
        let disk: AnyDisk = Box::new(Ram::new(512, 4));
        assert!(
            TruncatedDisk::new(
                disk,
                Truncation {
                    there: 2048,
                    declared: BELIEVED + 1
                }
            )
            .is_err()
        );
        assert_eq!(truncated(4, BELIEVED).geometry().sectors, BELIEVED / 512);
    }
}
