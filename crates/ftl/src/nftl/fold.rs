//! Folds: a chain becomes one unit again.
//!
//! | fold | when | copies | erases |
//! |---|---|---|---|
//! | in place | every sector that has contents lies in the last unit, or is free there; no fold into it has begun before | those not in the last unit | all units but the last |
//! | elsewhere | otherwise | every sector that has contents, to a free unit | all units |
//!
//! With [`Ordering::Guarded`] what the last unit's first page holds must be elsewhere too, since
//! the page is programmed again: unless it is in the unit before, a free unit is prepared as the
//! next of the chain, with a copy. A third page that holds a sector has got the fold mark with it;
//! Linux alone looks for the mark, after a cut.
//!
//! Copies go through the host, as in Linux, since each needs OOB bytes of its own.

use super::Nftl;
use super::flash::Source;
use super::format::{MOST_SECTORS, Oob, Status};
use super::options::{ChainVictim, Ordering, SeededBug};
use super::state::{Newest, Prepared, Target};
use super::units::Guard;
use crate::Cause;
use nandlab_block::BlockError;
use nandlab_mtd::Mtd;

/// The state of every sector of a chain.
#[derive(Debug)]
pub(super) struct Survey {
    pub newest: [Newest; MOST_SECTORS as usize],
    last: u16,
    last_oob: [Oob; MOST_SECTORS as usize],
    /// Whether any sector but the first was written in the last unit.
    pub touched: bool,
}

impl Survey {
    /// Sectors whose newest version is in `unit`.
    pub fn live(&self, unit: u16) -> u64 {
        (0..).zip(&self.newest).fold(0, |set, (k, &newest)| {
            set | u64::from(newest == Newest::At(unit)) << k
        })
    }

    fn mapped(&self) -> u64 {
        (0..).zip(&self.newest).fold(0, |set, (k, newest)| {
            set | u64::from(matches!(newest, Newest::At(_))) << k
        })
    }
}

impl<M: Mtd> Nftl<M> {
    /// Reads the OOB of every sector of every unit of a chain. What cannot be read is lost; while
    /// `attaching` it is taken for torn.
    pub(super) fn survey(
        &mut self,
        chain: u16,
        cause: Cause,
        attaching: bool,
    ) -> Result<Survey, BlockError> {
        let blank = [Oob::ERASED; MOST_SECTORS as usize];
        let mut survey = Survey {
            newest: [Newest::Nothing; MOST_SECTORS as usize],
            last: u16::MAX,
            last_oob: blank,
            touched: false,
        };
        let mut free_found = 0u64;
        let mut next = self.units.head(chain);
        while let Some(unit) = next {
            survey.last = unit;
            survey.touched = false;
            for sector in 0..self.pages {
                let oob = self.read_oob(unit, sector, cause)?;
                let newest = &mut survey.newest[sector as usize];
                let seen = &mut survey.last_oob[sector as usize];
                *seen = Oob::ERASED.with_status(Status::Ignore);
                let void = &mut self.units.unit_mut(unit).void;
                if oob.is_none() && attaching {
                    *void |= 1 << sector;
                }
                if *void >> sector & 1 != 0 {
                    survey.touched |= sector > 0;
                    continue;
                }
                let newer = free_found >> sector & 1 == 0;
                let status = oob.map_or(Status::Lost, |oob| oob.status());
                *seen = oob.unwrap_or(*seen);
                survey.touched |= sector > 0 && status != Status::Free;
                match status {
                    Status::Free => free_found |= 1 << sector,
                    Status::Used if newer => *newest = Newest::At(unit),
                    Status::Deleted if newer => *newest = Newest::Nothing,
                    Status::Lost if newer => *newest = Newest::Lost,
                    _ => {}
                }
            }
            next = self.units.next(unit);
        }
        Ok(survey)
    }

    /// Folds a chain until there is a free unit to spare.
    pub(super) fn make_room(&mut self) -> Result<(), BlockError> {
        let victim = match self.options.victim {
            ChainVictim::Longest => self.units.longest(),
            ChainVictim::MinCopy => self.cheapest(),
        };
        self.fold(
            victim.ok_or(self.health.worn_out())?,
            Target::Last,
            Cause::Fold,
        )?;
        self.level()
    }

    /// The chain of two units or more that needs the fewest copies, the first of several.
    fn cheapest(&self) -> Option<u16> {
        (0..self.units.chains())
            .filter(|&chain| self.units.length(chain) >= 2)
            .min_by_key(|&chain| self.copies(chain))
    }

    /// Copies that folding a chain takes, as far as it is known without reading it.
    fn copies(&self, chain: u16) -> u32 {
        let mut live = 0u64;
        let mut in_last = 0;
        for unit in self.units.chain(chain) {
            let unit = self.units.unit(unit);
            live |= unit.live;
            in_last = if unit.traits.is_closed() {
                0
            } else {
                unit.live
            };
        }
        (live & !in_last).count_ones()
    }

    /// Makes one unit of a chain.
    pub(super) fn fold(
        &mut self,
        chain: u16,
        target: Target,
        cause: Cause,
    ) -> Result<(), BlockError> {
        if let Some(prepared) = self.prepared.take() {
            self.release(prepared.unit, Cause::Fold)?;
        }
        loop {
            let survey = self.survey(chain, cause, false)?;
            let in_place = target == Target::Last && self.fits_last(chain, &survey);
            let unit = match target {
                _ if in_place => survey.last,
                Target::MostWorn => self.open(Source::MostWorn)?.ok_or(self.health.worn_out())?,
                Target::Last | Target::Fresh => self
                    .open(Source::Allocation)?
                    .ok_or(self.health.worn_out())?,
            };
            let prepared = if in_place {
                self.prepare(chain, unit, cause)?
            } else {
                None
            };
            if self.fill(chain, unit, &survey, cause)? {
                self.prepared = prepared;
                let merges = &mut self.tally.merges;
                *(if in_place {
                    &mut merges.folds_in_place
                } else {
                    &mut merges.folds_elsewhere
                }) += 1;
                return self.adopt_fold(chain, unit, survey.mapped(), cause);
            }
            match prepared {
                // What the failed unit's first page held is there.
                Some(prepared) => self.append_backed(chain, prepared.unit, prepared.status),
                // Everything in a fresh unit is still where it came from.
                None if !in_place => self.retire(unit)?,
                None => {}
            }
        }
    }

    /// Makes a copy of what the first page of a chain's last unit holds, where it is nowhere else.
    fn prepare(
        &mut self,
        chain: u16,
        last: u16,
        cause: Cause,
    ) -> Result<Option<Prepared>, BlockError> {
        let backed = self.units.unit(last).traits.has(Guard::Backed);
        if self.options.ordering == Ordering::Linux || backed || self.bug(SeededBug::FoldUnprepared)
        {
            return Ok(None);
        }
        loop {
            let unit = self
                .open(Source::Allocation)?
                .ok_or(self.health.worn_out())?;
            let mut scratch = core::mem::take(&mut self.scratch);
            let copied = self
                .read_first(last, &mut scratch, cause)
                .and_then(|found| {
                    // What has decayed meanwhile is lost: the copy says so if the page becomes
                    // unreadable for good.
                    let status = found.map_or(Status::Lost, |(_, status)| status);
                    let name = Oob::ERASED
                        .with_name(chain, true)
                        .with_before(last)
                        .with_status(status);
                    let data = if status == Status::Used {
                        &scratch[..]
                    } else {
                        &[]
                    };
                    Ok(self.program(unit, 0, data, name, cause)?.then_some(status))
                });
            self.scratch = scratch;
            match copied? {
                Some(status) => {
                    return Ok(Some(Prepared {
                        chain,
                        last,
                        unit,
                        status,
                    }));
                }
                None => self.retire(unit)?,
            }
        }
    }

    /// The chain is from now on one unit; the others go.
    fn adopt_fold(
        &mut self,
        chain: u16,
        unit: u16,
        live: u64,
        cause: Cause,
    ) -> Result<(), BlockError> {
        let mut next = self.units.replace(chain, unit);
        self.units.unit_mut(unit).live = live;
        while let Some(old) = next.filter(|&old| old != unit) {
            next = self.units.leave(old);
            self.release(old, cause)?;
        }
        Ok(())
    }

    /// Whether a chain can be folded into its last unit.
    fn fits_last(&self, chain: u16, survey: &Survey) -> bool {
        let traits = self.units.unit(survey.last).traits;
        // Guarded: the unit was found, so the fold was not finished.
        let marked = self.options.ordering == Ordering::Linux && survey.last_oob[2].has_fold_mark();
        let fits = |(newest, oob): (&Newest, &Oob)| match newest {
            Newest::Nothing => true,
            Newest::At(unit) => *unit == survey.last || oob.status() == Status::Free,
            Newest::Lost => oob.status() == Status::Free,
        };
        let sectors = survey
            .newest
            .iter()
            .zip(&survey.last_oob)
            .take(self.pages as usize);
        self.units.length(chain) >= 2 && !traits.is_closed() && !marked && { sectors }.all(fits)
    }

    /// Completes a unit with the newest version of every sector, then names it the only one of its
    /// chain; false if a program failed.
    fn fill(
        &mut self,
        chain: u16,
        unit: u16,
        survey: &Survey,
        cause: Cause,
    ) -> Result<bool, BlockError> {
        let in_place = unit == survey.last;
        let guarded = self.options.ordering == Ordering::Guarded;
        let (mut first, third) = if in_place {
            (survey.last_oob[0], survey.last_oob[2])
        } else {
            (Oob::ERASED, Oob::ERASED)
        };
        let marks = in_place && (!guarded || third.status() == Status::Free);
        if marks && !self.program_again(unit, 2, third.with_fold_mark(), cause)? {
            return Ok(false);
        }
        for sector in u32::from(guarded)..self.pages {
            let oob = match (in_place, sector) {
                (true, 2) if marks => third.with_fold_mark(),
                (true, _) => survey.last_oob[sector as usize],
                (false, _) => self.fresh_oob(unit, sector),
            };
            match self.carry(survey, unit, sector, oob, cause)? {
                Some(now) if sector == 0 => first = now,
                Some(_) => {}
                None => return Ok(false),
            }
        }
        let name = first.with_name(chain, false);
        if guarded
            && !matches!(survey.newest[0], Newest::Nothing)
            && survey.newest[0] != Newest::At(unit)
        {
            return Ok(self.carry(survey, unit, 0, name, cause)?.is_some());
        }
        // Guarded, a free first sector could not be written later without endangering the name.
        let closes = guarded && name.status() == Status::Free;
        self.fence();
        self.program_again(
            unit,
            0,
            if closes {
                name.with_status(Status::Deleted)
            } else {
                name
            },
            cause,
        )
    }

    /// Copies the newest version of a sector to a unit, unless it is there or there is none; `oob`
    /// is what the sector's OOB holds or is to hold besides. Gives what it holds now; none if the
    /// program failed.
    fn carry(
        &mut self,
        survey: &Survey,
        unit: u16,
        sector: u32,
        oob: Oob,
        cause: Cause,
    ) -> Result<Option<Oob>, BlockError> {
        let from = match survey.newest[sector as usize] {
            Newest::Nothing => return Ok(Some(oob)),
            Newest::At(from) if from == unit => return Ok(Some(oob)),
            Newest::At(from) => Some(from),
            Newest::Lost => None,
        };
        let mut scratch = core::mem::take(&mut self.scratch);
        let readable = from.map_or(Ok(false), |from| {
            self.read_data(from, sector, &mut scratch, cause)
        });
        let programmed = readable.and_then(|readable| {
            if sector == 0 {
                self.fence();
            }
            let (data, status) = if readable {
                (&scratch[..], Status::Used)
            } else {
                (&[][..], Status::Lost)
            };
            let oob = oob.with_status(status);
            Ok(self.program(unit, sector, data, oob, cause)?.then_some(oob))
        });
        self.scratch = scratch;
        programmed
    }

    /// Static wear levelling, looked at now and then: the chain of the least worn unit moves to the
    /// most worn free one once the spread is too wide.
    fn level(&mut self) -> Result<(), BlockError> {
        let threshold = self.options.wear_threshold;
        let free = self.units.free() + u32::from(self.prepared.is_some());
        if threshold == 0 || self.erases_until_levelling > 0 || free < self.units.low_water() {
            return Ok(());
        }
        let Some((chain, spread)) = self.units.coldest() else {
            return Ok(());
        };
        // Once the spread is wide, one chain after another; else not before a good part of the
        // units has been erased again.
        self.erases_until_levelling = if spread > threshold {
            8
        } else {
            u32::from(self.units.count()) / 4 + 1
        };
        if spread > threshold {
            self.fold(chain, Target::MostWorn, Cause::Wear)
        } else {
            Ok(())
        }
    }
}
