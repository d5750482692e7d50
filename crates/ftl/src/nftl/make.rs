//! Formatting a medium, as `nftl_format` of mtd-utils leaves it.

use super::format::{BAD, GOOD, MediaHeader, Oob, Place, SECTOR};
use super::units::{LINUX_LOW_WATER, STAND_INS, Units};
use super::{Nftl, NftlOptions};
use crate::AttachError;
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// Units that hold the media header.
pub(super) const MEDIA_UNITS: u32 = 2;

/// A medium that is being formatted.
struct Maker<M> {
    mtd: M,
    place: Place,
    pages: u32,
    /// Erases of each good unit.
    erases: Vec<Option<u32>>,
}

impl<M: Mtd> Nftl<M> {
    /// Erases the whole medium and starts afresh. Erase counts found on it are kept.
    pub fn format(mtd: M, options: NftlOptions) -> Result<Self, AttachError> {
        let g = mtd.geometry().clone();
        let place = Place::of(&g)?;
        if options.spare_units < LINUX_LOW_WATER {
            return Err(AttachError::Mismatch {
                what: "number of spare units",
                found: options.spare_units,
                expected: LINUX_LOW_WATER,
            });
        }
        let mut maker = Maker {
            mtd,
            place,
            pages: g.pages_per_block,
            erases: vec![None; g.blocks as usize],
        };
        for unit in 0..g.blocks {
            if !maker.mtd.is_bad(Block(unit))? {
                maker.erase(unit)?;
            }
        }
        let (header, copy) = loop {
            let media = maker.plan(&options)?;
            if maker.write_media(&media)? {
                break media;
            }
        };
        maker.mtd.sync()?;
        let good = maker.erases.iter().flatten().count() as u32 - MEDIA_UNITS;
        let mut units = Units::new(
            header.chains(g.pages_per_block),
            g.blocks as u16,
            header.first,
            good,
        );
        for (unit, erases) in (0..).zip(&maker.erases) {
            let Some(erases) = *erases else { continue };
            units.unit_mut(unit).erases = erases;
            if unit != header.first && unit != copy {
                units.release(unit);
            }
        }
        units.seek_last_free();
        Ok(Self::new(maker.mtd, options, place, units))
    }
}

impl<M: Mtd> Maker<M> {
    fn page(&self, unit: u32, sector: u32) -> Page {
        Page(unit * self.pages + sector)
    }

    fn retire(&mut self, unit: u32) -> Result<(), MtdError> {
        self.erases[unit as usize] = None;
        self.mtd.sync()?;
        self.mtd.mark_bad(Block(unit))
    }

    /// Erases a unit and marks it as erased, or retires it.
    fn erase(&mut self, unit: u32) -> Result<(), MtdError> {
        let mark = self.page(unit, 1);
        let erases = self.next_erases(mark)?;
        let marked = self.mtd.erase(Block(unit)).and_then(|()| {
            let oob = Oob::ERASED.with_erases(erases);
            self.place
                .write(oob, |user| self.mtd.program(mark, &[], user))
        });
        match marked {
            Ok(()) => {
                self.erases[unit as usize] = Some(erases);
                Ok(())
            }
            Err(MtdError::EraseFailed(_) | MtdError::ProgramFailed(_)) => self.retire(unit),
            Err(error) => Err(error),
        }
    }

    fn next_erases(&mut self, mark: Page) -> Result<u32, MtdError> {
        let worn = self
            .place
            .read(|user| self.mtd.read(mark, &mut [], user))?
            .and_then(|oob| oob.erases())
            .unwrap_or(0);
        Ok(worn.checked_add(1).unwrap_or(1))
    }

    /// The media header, and the unit of its copy.
    fn plan(&self, options: &NftlOptions) -> Result<(MediaHeader, u16), AttachError> {
        let mut good = self.good_units();
        let first = good.next();
        let copy = good.next();
        let count = first.into_iter().chain(copy).chain(good).count() as u32;
        let reserved = options.spare_units.saturating_add(MEDIA_UNITS + STAND_INS);
        let (Some(first), Some(copy), true) = (first, copy, count > reserved) else {
            return Err(AttachError::TooSmall(
                count,
                self.pages,
                reserved.saturating_add(1),
            ));
        };
        let formatted = (count - reserved) * self.pages * SECTOR;
        Ok((
            MediaHeader {
                units: self.erases.len() as u16 - first,
                first,
                formatted,
                factor: 0xff,
            },
            copy,
        ))
    }

    fn good_units(&self) -> impl Iterator<Item = u16> {
        (0..)
            .zip(&self.erases)
            .filter(|(_, erases)| erases.is_some())
            .map(|(unit, _)| unit)
    }

    /// Writes both copies of the media header and of the bad-unit table; false if one of their
    /// units failed and was retired.
    fn write_media(&mut self, (header, copy): &(MediaHeader, u16)) -> Result<bool, MtdError> {
        let mut sectors =
            vec![GOOD; SECTOR as usize * (1 + self.erases.len().div_ceil(SECTOR as usize))];
        header.encode(&mut sectors[..SECTOR as usize]);
        for (byte, erases) in sectors[SECTOR as usize..].iter_mut().zip(&self.erases) {
            *byte = if erases.is_some() { GOOD } else { BAD };
        }
        for unit in [u32::from(header.first), u32::from(*copy)] {
            for (sector, data) in (0..).zip(sectors.chunks_exact(SECTOR as usize)) {
                let erases = self.erases[unit as usize].unwrap_or(1);
                let oob = if sector == 1 {
                    Oob::ERASED.with_erases(erases)
                } else {
                    Oob::ERASED
                };
                let page = self.page(unit, sector);
                match self
                    .place
                    .write(oob, |user| self.mtd.program(page, data, user))
                {
                    Ok(()) => {}
                    Err(MtdError::ProgramFailed(_)) => {
                        self.retire(unit)?;
                        // What was written to the other unit names this one.
                        self.erase(u32::from(header.first) + u32::from(*copy) - unit)?;
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }
}
