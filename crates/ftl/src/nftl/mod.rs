//! Chains of replacement units: Linux's NFTL, on its format; with [`Ordering::Linux`] byte for byte
//! and operation for operation.
//!
//! *Promises* what [`BlockDevice`] promises, over any [`Mtd`] of 512-byte pages that corrects
//! errors. It must take the pages of a block in any order and a page in three programs.
//! [`Ordering::Linux`] needs four, and does not promise what a power cut leaves. A sector whose
//! newest contents cannot be read is lost and says so; one that is found unreadable when the layer
//! is attached is taken for torn: it counts as what it was before.
//!
//! *How.* A unit is an erase block. Each virtual unit of the disk has a chain of units; a sector
//! lies at its own offset in one of them, and a new version goes to the first unit of the chain in
//! which that offset is still free. Where none is, a free unit is linked to the end; where fewer
//! than two are left, a chain is folded into one unit (see `fold`). The order of a chain is all
//! that dates its sectors: there are no sequence numbers. Nothing of this is cached: each access
//! reads the OOB of its offset in one unit of the chain after another. A discard is written like a
//! sector, without data. Facts: Linux 2.6 to 6, `drivers/mtd/nftlcore.c` and `nftlmount.c`, read
//! for facts alone.
//!
//! *Power loss.* Linux programs pages again that hold something (links, fold marks, the name of a
//! folded unit), and a torn program takes the whole page. Five rules make up for it on Linux's
//! format:
//! 1. A unit is erased, linked to, or named the one and only of its chain, only behind everything
//!    issued before. So what replaces a unit is there before it goes.
//! 2. The first page of a unit is first programmed with its name and the contents of sector 0
//!    together, those of the unit before if there is nothing newer. So a torn link takes nothing
//!    that its successor does not have. Before a unit is named the only one of its chain, a copy of
//!    what its first page holds is made in the same way.
//! 3. A unit says which one it was to be linked to. So a unit whose name is lost with its first
//!    page is found again.
//! 4. A unit that is named the only one of its chain is complete. So of two chains of a virtual
//!    unit the single unit counts, whatever is left of the other.
//! 5. What looks erased in a unit that was found on the medium is not programmed: its chain is
//!    folded to a fresh unit first.
//!
//! *Memory.* 26 bytes a unit, 4 bytes a virtual unit.

mod attach;
mod chain;
mod flash;
mod fold;
mod format;
mod make;
mod options;
mod state;
mod trace;
mod units;

pub use format::SECTOR;
pub use options::{Allocation, ChainVictim, NftlOptions, Ordering, SeededBug};

use crate::fault::Health;
use crate::{Cause, Ftl, Tally};
use alloc::{boxed::Box, vec};
use format::Place;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Block, Mtd, MtdError};
use nandlab_sim::MediumFault;
use state::{Newest, Payload, Prepared};
use units::Units;

/// The replacement-block translation layer.
#[derive(Debug)]
pub struct Nftl<M> {
    mtd: M,
    options: NftlOptions,
    geometry: BlockGeometry,
    /// Sectors of a unit.
    pages: u32,
    place: Place,
    units: Units,
    /// What the last fold has left to be linked or erased.
    prepared: Option<Prepared>,
    erases_until_levelling: u32,
    tally: Tally,
    scratch: Box<[u8]>,
    health: Health,
}

impl<M: Mtd> Nftl<M> {
    fn new(mtd: M, options: NftlOptions, place: Place, units: Units) -> Self {
        let pages = mtd.geometry().pages_per_block;
        Self {
            geometry: BlockGeometry {
                sector: SECTOR,
                sectors: u64::from(units.chains()) * u64::from(pages),
                page: SECTOR,
            },
            pages,
            place,
            prepared: None,
            erases_until_levelling: 0,
            tally: Tally::default(),
            scratch: vec![0; SECTOR as usize].into(),
            health: Health::new("NFTL"),
            options,
            units,
            mtd,
        }
    }

    /// Gives the flash back, without any further write.
    pub fn into_medium(self) -> M {
        self.mtd
    }

    /// Virtual units of the disk.
    pub fn virtual_units(&self) -> u32 {
        self.units.chains().into()
    }

    /// Free units, those included that are kept for folding.
    pub fn free_units(&self) -> u32 {
        self.units.free()
    }

    /// The virtual unit of a sector inside the disk, and the sector's offset in it.
    #[inline]
    fn split(&self, lba: u64) -> (u16, u32) {
        let pages = u64::from(self.pages);
        ((lba / pages) as u16, (lba % pages) as u32)
    }
}

impl<M: Mtd> BlockDevice for Nftl<M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check(lba, buf.len())?;
        for (lba, sector) in (lba.0..).zip(buf.chunks_exact_mut(SECTOR as usize)) {
            let (chain, offset) = self.split(lba);
            let walk = self.walk(chain, offset)?;
            match walk.newest {
                Newest::At(unit) => {
                    if !self.read_data(unit, offset, sector, Cause::Host)? {
                        let error = MtdError::Uncorrectable(self.page(unit, offset));
                        return Err(self.health.lost_to(lba, error, self.mtd.geometry()));
                    }
                }
                Newest::Lost => {
                    let (unit, how) = walk.lost;
                    let place = nandlab_sim::Place::Page {
                        page: self.page(unit, offset).0,
                        block: unit.into(),
                    };
                    return Err(self.health.lost(lba, MediumFault::new(place, how)));
                }
                Newest::Nothing => sector.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check(lba, data.len())?;
        for (lba, sector) in (lba.0..).zip(data.chunks_exact(SECTOR as usize)) {
            let (chain, offset) = self.split(lba);
            self.put(chain, offset, Payload::Data(sector))?;
            self.tally.host_pages += 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        if self.bug(SeededBug::FlushWithoutSync) {
            return Ok(());
        }
        self.mtd.sync().map_err(|e| self.fault(e))
    }

    /// Costs a program without data for each sector that is not zero already; like a write it may
    /// need another unit.
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check_sectors(lba, sectors)?;
        (lba.0..lba.0 + sectors).try_for_each(|lba| {
            let (chain, offset) = self.split(lba);
            self.put(chain, offset, Payload::Discard)
        })
    }
}

impl<M: Mtd> Ftl for Nftl<M> {
    type Medium = M;

    fn medium(&self) -> &M {
        &self.mtd
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn valid_pages(&self, block: Block) -> u32 {
        if block.0 < u32::from(self.units.count()) {
            self.units.unit(block.0 as u16).live.count_ones()
        } else {
            0
        }
    }

    /// Makes everything durable; there is nothing to write that would make an attach quicker.
    fn detach(&mut self) -> Result<(), BlockError> {
        self.flush()
    }

    fn into_medium(self: Box<Self>) -> M {
        (*self).into_medium()
    }
}
