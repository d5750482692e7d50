//! A volume as flash of its own, for what stands on [`Mtd`] (Linux's `gluebi`): its logical blocks
//! are the erase blocks, none of them ever bad, without spare area.
//!
//! *Promises* the contract of [`Mtd`] on one die. An erase maps the logical block anew, whole or
//! not at all; the old physical block is erased when the device works ([`Ubi::work`]) or needs it.
//!
//! A cut may have torn the first page of a block so that the whole block reads as erased; nobody
//! above could tell. So a block that was mapped before the attach and reads as erased is mapped
//! anew before its first page is programmed.

use crate::flash::is_wear;
use crate::format::VolumeKind;
use crate::{Ubi, UbiError};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Corrected, Geometry, Mtd, MtdError, Page};
use nandlab_sim::Place;

/// A volume as flash.
#[derive(Debug)]
pub struct VolumeMtd<M> {
    ubi: Ubi<M>,
    volume: u32,
    geometry: Geometry,
    /// Logical blocks mapped since the attach: what reads as erased there is.
    fresh: Vec<bool>,
}

impl<M: Mtd> VolumeMtd<M> {
    /// Of a dynamic volume.
    pub fn new(ubi: Ubi<M>, volume: u32) -> Result<Self, UbiError> {
        let info = ubi.volume(volume)?;
        if info.record.kind != VolumeKind::Dynamic {
            return Err(UbiError::Invalid {
                what: "volume",
                found: volume.into(),
                expected: "a dynamic one",
            });
        }
        let page = ubi.flash.shape.page;
        let geometry = Geometry::single_die(page, 0, info.leb_bytes / page, info.record.reserved);
        let fresh = vec![false; geometry.blocks as usize];
        Ok(Self {
            ubi,
            volume,
            geometry,
            fresh,
        })
    }

    /// Returns the id of the volume.
    pub fn volume(&self) -> u32 {
        self.volume
    }

    /// Returns the UBI device below the volume.
    pub fn ubi(&self) -> &Ubi<M> {
        &self.ubi
    }

    /// The device, for its background work.
    pub fn ubi_mut(&mut self) -> &mut Ubi<M> {
        &mut self.ubi
    }

    /// Gives the device back.
    pub fn into_ubi(self) -> Ubi<M> {
        self.ubi
    }

    /// Logical block and offset of a page.
    fn place(&self, page: Page, data: usize, oob: usize) -> Result<(u32, u32), MtdError> {
        let g = &self.geometry;
        if page.0 >= g.pages() {
            return Err(MtdError::OutOfRange(page));
        }
        let fine = (data == 0 || data == g.page as usize) && oob == 0;
        if !fine {
            return Err(MtdError::BadLength {
                found: if oob > 0 { oob } else { data },
                expected: if oob > 0 { 0 } else { g.page as usize },
            });
        }
        Ok((g.block_of(page).0, g.index_of(page) * g.page))
    }

    /// Makes sure that a logical block whose first page is about to be programmed was never
    /// programmed.
    fn freshen(&mut self, lnum: u32) -> Result<(), UbiError> {
        if !self.fresh[lnum as usize] && self.ubi.is_mapped(self.volume, lnum)? {
            let mut page = vec![0; self.geometry.page as usize];
            self.ubi.read(self.volume, lnum, 0, &mut page)?;
            // A second program of a page is an error.
            if page.iter().all(|byte| *byte == 0xFF) {
                self.ubi.renew(self.volume, lnum)?;
            }
        }
        self.fresh[lnum as usize] = true;
        Ok(())
    }

    fn block(&self, block: Block) -> Result<Page, MtdError> {
        let first = Page(block.0.saturating_mul(self.geometry.pages_per_block));
        if block.0 < self.geometry.blocks {
            Ok(first)
        } else {
            Err(MtdError::OutOfRange(first))
        }
    }

    /// An error of the device as one of this flash.
    #[cold]
    fn error(&self, error: UbiError, page: Page) -> MtdError {
        let place = Place::Leb {
            volume: self.volume,
            leb: self.geometry.block_of(page).0,
        };
        let fault = error
            .fault(place, self.ubi.flash.mtd.geometry())
            .in_layer("UBI");
        match error {
            UbiError::Mtd(
                error @ (MtdError::PowerCut | MtdError::Backing(_) | MtdError::ReadOnly(_)),
            ) => error,
            UbiError::Lost { .. } => MtdError::Uncorrectable(page),
            UbiError::Mtd(MtdError::Illegal(_, why)) => MtdError::Illegal(page, why),
            UbiError::ReadOnly(_) => MtdError::ReadOnly(Some(fault)),
            UbiError::Mtd(error) if is_wear(&error) => MtdError::ProgramFailed(page),
            _ => MtdError::Below(page, fault),
        }
    }
}

impl<M: Mtd> Mtd for VolumeMtd<M> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        let (lnum, offset) = self.place(page, data.len(), oob.len())?;
        self.ubi
            .read(self.volume, lnum, offset, data)
            .map_err(|e| self.error(e, page))?;
        Ok(Corrected::default())
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        let (lnum, offset) = self.place(page, data.len(), oob.len())?;
        if data.is_empty() {
            return Ok(());
        }
        if offset == 0 {
            self.freshen(lnum).map_err(|e| self.error(e, page))?;
        }
        self.ubi
            .write(self.volume, lnum, offset, data)
            .map_err(|e| self.error(e, page))
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        let mut data = vec![0; self.geometry.page as usize];
        let corrected = self.read(from, &mut data, head)?;
        self.program(to, &data, tail)?;
        Ok(corrected)
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        let page = self.block(block)?;
        self.ubi
            .renew(self.volume, block.0)
            .map_err(|e| self.error(e, page))?;
        self.fresh[block.0 as usize] = true;
        Ok(())
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.block(block).map(|_| false)
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        let page = self.block(block)?;
        Err(MtdError::Illegal(
            page,
            "a logical erase block cannot be bad",
        ))
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        self.ubi.sync().map_err(|e| self.error(e, Page(0)))
    }
}
