//! The few ways in which the layer touches the flash, each counted. A program that fails is noted
//! with its unit.

use super::Nftl;
use super::format::{Oob, Status};
use super::options::{Ordering, SeededBug};
use super::state::Payload;
use super::units::{Guard, Traits, Unit};
use crate::Cause;
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// Where a unit to write to comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The place that the options choose.
    Allocation,
    /// The most worn free one.
    MostWorn,
}

impl<M: Mtd> Nftl<M> {
    /// An error of the flash as the host sees it.
    #[cold]
    pub(super) fn fault(&mut self, error: MtdError) -> BlockError {
        self.health.fault(error, self.mtd.geometry())
    }

    pub(super) fn bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    #[inline]
    pub(super) fn page(&self, unit: u16, sector: u32) -> Page {
        Page(u32::from(unit) * self.pages + sector)
    }

    /// Reads the OOB of a sector; none if it cannot be corrected.
    #[inline]
    pub(super) fn read_oob(
        &mut self,
        unit: u16,
        sector: u32,
        cause: Cause,
    ) -> Result<Option<Oob>, BlockError> {
        self.tally.count_read(cause, false);
        let page = self.page(unit, sector);
        let read = self.place.read(|user| self.mtd.read(page, &mut [], user));
        read.map_err(|e| self.fault(e))
    }

    /// Reads a sector; false if it cannot be corrected.
    #[inline]
    pub(super) fn read_data(
        &mut self,
        unit: u16,
        sector: u32,
        buf: &mut [u8],
        cause: Cause,
    ) -> Result<bool, BlockError> {
        self.tally.count_read(cause, true);
        match self.mtd.read(self.page(unit, sector), buf, &mut []) {
            Ok(_) => Ok(true),
            Err(MtdError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Reads a sector and its OOB at once; none if they cannot be corrected.
    pub(super) fn read_both(
        &mut self,
        unit: u16,
        sector: u32,
        buf: &mut [u8],
        cause: Cause,
    ) -> Result<Option<Oob>, BlockError> {
        self.tally.count_read(cause, true);
        let page = self.page(unit, sector);
        let read = self.place.read(|user| self.mtd.read(page, buf, user));
        read.map_err(|e| self.fault(e))
    }

    /// Reads a unit's first page: its OOB, and the status that a copy of the page is to have. Data
    /// that cannot be read are lost; none if the OOB alone cannot be read either.
    pub(super) fn read_first(
        &mut self,
        unit: u16,
        buf: &mut [u8],
        cause: Cause,
    ) -> Result<Option<(Oob, Status)>, BlockError> {
        if let Some(oob) = self.read_both(unit, 0, buf, cause)? {
            return Ok(Some((oob, oob.status())));
        }
        let oob = self.read_oob(unit, 0, cause)?;
        Ok(oob.map(|oob| match oob.status() {
            Status::Used => (oob, Status::Lost),
            status => (oob, status),
        }))
    }

    /// Programs a free sector with its OOB, or with empty data only the OOB. False if that failed:
    /// the sector is void then, and the unit to be replaced.
    #[inline]
    pub(super) fn program(
        &mut self,
        unit: u16,
        sector: u32,
        data: &[u8],
        oob: Oob,
        cause: Cause,
    ) -> Result<bool, BlockError> {
        let page = self.page(unit, sector);
        match self
            .place
            .write(oob, |user| self.mtd.program(page, data, user))
        {
            Ok(()) => {
                self.tally.count_program(cause, !data.is_empty());
                Ok(true)
            }
            Err(error @ MtdError::ProgramFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                self.units.add(unit, Guard::Failing);
                self.units.unit_mut(unit).void |= 1 << sector;
                Ok(false)
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Programs the OOB of a sector that holds something besides, over what it holds.
    pub(super) fn program_again(
        &mut self,
        unit: u16,
        sector: u32,
        oob: Oob,
        cause: Cause,
    ) -> Result<bool, BlockError> {
        let void = self.units.unit(unit).void;
        let done = self.program(unit, sector, &[], oob, cause)?;
        // Guarded, what the sector holds is elsewhere too. In Linux's order it may be there still,
        // or must be found to be lost.
        if !done && self.options.ordering == Ordering::Linux && oob.status() != Status::Free {
            self.units.unit_mut(unit).void = void;
        }
        Ok(done)
    }

    /// Programs a payload. Guarded, the third sector of a replacement unit gets the fold mark with
    /// its contents, since it could not be added later without endangering them.
    #[inline]
    pub(super) fn program_payload(
        &mut self,
        at: (u16, u16, u32),
        payload: Payload<'_>,
        oob: Oob,
    ) -> Result<bool, BlockError> {
        let (chain, unit, sector) = at;
        let marks = sector == 2
            && self.options.ordering == Ordering::Guarded
            && self.units.head(chain) != Some(unit);
        let oob = if marks { oob.with_fold_mark() } else { oob };
        match payload {
            Payload::Data(data) => self.program(
                unit,
                sector,
                data,
                oob.with_status(Status::Used),
                Cause::Host,
            ),
            Payload::Discard => self.program(
                unit,
                sector,
                &[],
                oob.with_status(Status::Deleted),
                Cause::Host,
            ),
        }
    }

    /// The next operation begins only when everything issued so far is on the medium.
    pub(super) fn fence(&mut self) {
        let issued = self.mtd.issued();
        self.mtd.fence(issued);
    }

    /// What a sector's OOB holds in a unit that was erased and given nothing but its erase mark.
    pub(super) fn fresh_oob(&self, unit: u16, sector: u32) -> Oob {
        match sector {
            1 => Oob::ERASED.with_erases(self.units.unit(unit).erases),
            _ => Oob::ERASED,
        }
    }

    /// Takes a free unit, ready to be written; none if there is none.
    pub(super) fn open(&mut self, source: Source) -> Result<Option<u16>, BlockError> {
        loop {
            let unit = match source {
                Source::Allocation => self.units.take(self.options.allocation),
                Source::MostWorn => self.units.take_most_worn(),
            };
            let Some(unit) = unit else { return Ok(None) };
            if !self.units.unit(unit).traits.has(Guard::Found) || self.erase(unit, Cause::Attach)? {
                return Ok(Some(unit));
            }
        }
    }

    /// A unit whose contents are replaced goes to the free ones, or out of service.
    pub(super) fn release(&mut self, unit: u16, cause: Cause) -> Result<(), BlockError> {
        if self.units.unit(unit).traits.has(Guard::Failing) {
            return self.retire(unit);
        }
        if self.erase(unit, cause)? {
            self.units.release(unit);
        }
        Ok(())
    }

    /// Takes a unit out of service that is in no table. What replaces its contents must be safe
    /// before the mark hides them.
    pub(super) fn retire(&mut self, unit: u16) -> Result<(), BlockError> {
        self.mtd.sync().map_err(|e| self.fault(e))?;
        self.units.retire(unit);
        self.mtd
            .mark_bad(Block(unit.into()))
            .map_err(|e| self.fault(e))
    }

    /// Erases a unit behind everything issued so far and marks it as erased (Linux's
    /// `NFTL_formatblock`); false if it was retired.
    pub(super) fn erase(&mut self, unit: u16, cause: Cause) -> Result<bool, BlockError> {
        let known = self.units.unit(unit).erases;
        let erases = self
            .read_oob(unit, 1, cause)?
            .and_then(|oob| oob.erases())
            .unwrap_or(known);
        if !self.bug(SeededBug::EraseUnfenced) {
            self.fence();
        }
        self.tally.of(cause).erases += 1;
        let erased = match self.mtd.erase(Block(unit.into())) {
            Ok(()) => !self.options.verify_free || self.is_blank(unit, cause)?,
            Err(error @ MtdError::EraseFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                false
            }
            Err(error) => return Err(self.fault(error)),
        };
        // The count wraps as Linux's does: zero is never written.
        let erases = erases.checked_add(1).unwrap_or(1);
        *self.units.unit_mut(unit) = Unit {
            erases,
            traits: Traits::default(),
            ..Unit::default()
        };
        self.erases_until_levelling = self.erases_until_levelling.saturating_sub(1);
        if erased && self.program(unit, 1, &[], Oob::ERASED.with_erases(erases), cause)? {
            return Ok(true);
        }
        self.retire(unit).map(|()| false)
    }

    /// Whether every page of a unit reads as erased, data and OOB one after the other, as Linux
    /// reads them (`check_free_sectors`).
    fn is_blank(&mut self, unit: u16, cause: Cause) -> Result<bool, BlockError> {
        let mut scratch = core::mem::take(&mut self.scratch);
        let blank = (0..self.pages).try_fold(true, |blank, sector| {
            Ok(blank
                && self.read_data(unit, sector, &mut scratch, cause)?
                && scratch.iter().all(|&b| b == 0xff)
                && self.read_oob(unit, sector, cause)? == Some(Oob::ERASED))
        });
        self.scratch = scratch;
        blank
    }
}
