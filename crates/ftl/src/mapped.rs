//! The rest of a translation layer around its one idea: where each page lies.
//!
//! *Promises.* [`Mapped`] makes a disk of 512-byte sectors out of a [`PageMap`]: it cuts requests
//! into pages, rewrites parts of pages, counts operations, and keeps the first error that stops the
//! layer.
//!
//! *Knows nothing of* maps, blocks and collection: these are the map's own.

use crate::extent::{Paged, SECTOR};
use crate::{Ftl, Health, Tallied, Tally};
use alloc::{boxed::Box, vec};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Mtd, MtdError};

/// Where the logical pages lie on flash. A logical page is as large as a page of the flash.
pub trait PageMap<M: Mtd> {
    /// Logical pages of the disk.
    fn pages(&self) -> u32;

    /// Reads a page. A page that was never written reads as zeros.
    fn read(&mut self, flash: &mut Tallied<M>, page: u32, buf: &mut [u8]) -> Result<(), MtdError>;

    /// Writes a page. It is durable after the next [`flush`](Self::flush).
    fn write(&mut self, flash: &mut Tallied<M>, page: u32, data: &[u8]) -> Result<(), MtdError>;

    /// Makes everything written so far durable.
    fn flush(&mut self, flash: &mut Tallied<M>) -> Result<(), MtdError> {
        flash.sync()
    }
}

/// A [`PageMap`] as a disk.
#[derive(Debug)]
pub struct Mapped<P, M> {
    map: P,
    flash: Tallied<M>,
    health: Health,
    geometry: BlockGeometry,
    scratch: Box<[u8]>,
}

impl<P: PageMap<M>, M: Mtd> Mapped<P, M> {
    /// The disk of a map on its flash. Errors carry the layer's `name`.
    pub fn new(name: &'static str, map: P, flash: Tallied<M>) -> Self {
        let page = flash.geometry().page;
        let sectors = u64::from(map.pages()) * u64::from(page / SECTOR);
        Self {
            map,
            flash,
            health: Health::new(name),
            geometry: BlockGeometry {
                sector: SECTOR,
                sectors,
                page,
            },
            scratch: vec![0; page as usize].into(),
        }
    }

    /// Gives the flash back as it is.
    pub fn into_flash(self) -> M {
        self.flash.into_inner()
    }

    fn fault(&mut self, error: MtdError) -> BlockError {
        self.health.fault(error, self.flash.geometry())
    }
}

impl<P: PageMap<M>, M: Mtd> Paged for Mapped<P, M> {
    fn sectors_per_page(&self) -> u32 {
        self.geometry.page / SECTOR
    }

    fn scratch(&mut self) -> &mut Box<[u8]> {
        &mut self.scratch
    }

    fn is_mapped(&mut self, _: u32) -> Result<bool, BlockError> {
        Ok(true)
    }

    fn read_page(&mut self, page: u32, buf: &mut [u8]) -> Result<(), BlockError> {
        let read = self.map.read(&mut self.flash, page, buf);
        read.map_err(|error| match error {
            MtdError::Uncorrectable(_) => {
                let lba = u64::from(page) * u64::from(self.sectors_per_page());
                self.health.lost_to(lba, error, self.flash.geometry())
            }
            other => self.fault(other),
        })
    }

    fn write_page(&mut self, page: u32, data: &[u8]) -> Result<(), BlockError> {
        self.flash.tally_mut().host_pages += 1;
        let written = self.map.write(&mut self.flash, page, data);
        written.map_err(|error| self.fault(error))
    }

    fn discard_page(&mut self, page: u32) -> Result<(), BlockError> {
        let zeros = vec![0; self.geometry.page as usize];
        self.write_page(page, &zeros)
    }
}

impl<P: PageMap<M>, M: Mtd> BlockDevice for Mapped<P, M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry.check(lba, buf.len())?;
        self.read_extent(lba, count, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry.check(lba, data.len())?;
        self.write_extent(lba, count, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        let flushed = self.map.flush(&mut self.flash);
        flushed.map_err(|error| self.fault(error))
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check_sectors(lba, sectors)?;
        self.discard_extent(lba, sectors)
    }
}

impl<P: PageMap<M>, M: Mtd> Ftl for Mapped<P, M> {
    type Medium = M;

    fn medium(&self) -> &M {
        self.flash.inner()
    }

    fn tally(&self) -> &Tally {
        self.flash.tally()
    }

    fn into_medium(self: Box<Self>) -> M {
        self.into_flash()
    }
}
