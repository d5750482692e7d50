//! Access to a chain of units: where the newest version of a sector is, and where the next one
//! goes.

use super::Nftl;
use super::flash::Source;
use super::format::{Oob, Status};
use super::options::{Ordering, SeededBug};
use super::state::{Newest, Payload, Prepared, Target};
use super::units::Guard;
use crate::Cause;
use crate::fault::MARKED;
use nandlab_block::BlockError;
use nandlab_mtd::{Mtd, MtdError};

/// What a walk along a chain found of one sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub newest: Newest,
    /// If that is lost: the unit that says so, and how.
    pub lost: (u16, &'static str),
    /// The first unit in which the sector is free, and its OOB.
    free: Option<(u16, Oob)>,
    /// The last unit, if none of them is free.
    last: Option<u16>,
}

/// A unit that is being added to a chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    chain: u16,
    unit: u16,
    /// The last unit so far, and the OOB of its first page.
    former: Option<(u16, Oob)>,
    /// The status of a copy of that page.
    status: Status,
    /// The OOB of the new unit's first page.
    name: Oob,
}

impl<M: Mtd> Nftl<M> {
    /// Reads the OOB of one sector in one unit of the chain after another, up to a free one:
    /// nothing newer follows that.
    #[inline]
    pub(super) fn walk(&mut self, chain: u16, sector: u32) -> Result<Walk, BlockError> {
        let mut walk = Walk {
            newest: Newest::Nothing,
            lost: (0, ""),
            free: None,
            last: None,
        };
        let mut next = self.units.head(chain);
        while let Some(unit) = next {
            let oob = self.read_oob(unit, sector, Cause::Host)?;
            walk.last = Some(unit);
            next = self.units.next(unit);
            if self.units.unit(unit).void >> sector & 1 != 0 {
                continue;
            }
            let Some(oob) = oob else {
                walk.newest = Newest::Lost;
                walk.lost = (unit, "uncorrectable");
                continue;
            };
            match oob.status() {
                Status::Free => {
                    walk.free = Some((unit, oob));
                    return Ok(walk);
                }
                Status::Used => walk.newest = Newest::At(unit),
                Status::Deleted => walk.newest = Newest::Nothing,
                Status::Lost => {
                    walk.newest = Newest::Lost;
                    walk.lost = (unit, MARKED);
                }
                Status::Ignore => {}
            }
        }
        Ok(walk)
    }

    /// Writes a new version of a sector.
    #[inline]
    pub(super) fn put(
        &mut self,
        chain: u16,
        sector: u32,
        payload: Payload<'_>,
    ) -> Result<(), BlockError> {
        let mut is_folded = false;
        loop {
            if self
                .units
                .chain(chain)
                .any(|u| self.units.unit(u).traits.has(Guard::Failing))
            {
                self.fold(chain, Target::Fresh, Cause::Repair)?;
            }
            let walk = self.walk(chain, sector)?;
            if matches!(payload, Payload::Discard) && walk.newest == Newest::Nothing {
                return Ok(());
            }
            let written = match walk.free {
                Some((unit, oob)) if self.may_fill(unit, sector) => {
                    let written = self.program_payload((chain, unit, sector), payload, oob)?;
                    written.then_some(unit)
                }
                Some(_) => {
                    self.fold(chain, Target::Fresh, Cause::Repair)?;
                    None
                }
                None => {
                    let was_linkable = walk.last.filter(|&last| self.is_linkable(last));
                    let written = self.extend(chain, walk.last, sector, payload)?;
                    if let Some(last) = was_linkable.filter(|&last| !self.is_linkable(last)) {
                        if is_folded {
                            return Err(self.unlinkable((chain, sector), last));
                        }
                        is_folded = true;
                    }
                    written
                }
            };
            if let Some(unit) = written {
                self.units.place_newest(
                    chain,
                    sector,
                    matches!(payload, Payload::Data(_)).then_some(unit),
                );
                return Ok(());
            }
        }
    }

    fn is_linkable(&self, unit: u16) -> bool {
        !self.units.unit(unit).traits.has(Guard::Unlinkable)
    }

    /// The first page of a chain's last unit cannot be read, although the chain was just folded.
    #[cold]
    fn unlinkable(&self, (chain, sector): (u16, u32), last: u16) -> BlockError {
        let lba = u64::from(chain) * u64::from(self.pages) + u64::from(sector);
        let error = MtdError::Uncorrectable(self.page(last, 0));
        self.health.lost_to(lba, error, self.mtd.geometry())
    }

    /// Whether a sector that reads as free may be programmed.
    fn may_fill(&self, unit: u16, sector: u32) -> bool {
        let beside_name = sector == 0 && self.options.ordering == Ordering::Guarded;
        !beside_name && !self.units.unit(unit).traits.is_closed()
    }

    /// Writes a sector to a unit that it adds to the chain; gives the unit. None if something else
    /// had to be done first.
    fn extend(
        &mut self,
        chain: u16,
        last: Option<u16>,
        sector: u32,
        payload: Payload<'_>,
    ) -> Result<Option<u16>, BlockError> {
        if last.is_some_and(|last| self.units.unit(last).traits.is_final()) {
            self.fold(chain, Target::Fresh, Cause::Repair)?;
            return Ok(None);
        }
        if let Some(prepared) = self.prepared.take() {
            if prepared.chain == chain && sector != 0 {
                return self.link_prepared(prepared, sector, payload);
            }
            self.release(prepared.unit, Cause::Fold)?;
        }
        if self.units.free() < self.units.low_water() {
            self.make_room()?;
            return Ok(None);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let extended = self.link(chain, last, sector, payload, &mut scratch);
        self.scratch = scratch;
        extended
    }

    /// Reads the first page of the last unit, then names a new unit, links to it and writes the
    /// sector.
    fn link(
        &mut self,
        chain: u16,
        last: Option<u16>,
        sector: u32,
        payload: Payload<'_>,
        scratch: &mut [u8],
    ) -> Result<Option<u16>, BlockError> {
        let copies = self.options.ordering == Ordering::Guarded
            && sector != 0
            && !self.bug(SeededBug::LinkUnguarded);
        let mut former = None;
        let mut status = Status::Deleted;
        if let Some(last) = last {
            let found = if copies {
                self.read_first(last, scratch, Cause::Mapping)?
            } else {
                let oob = self.read_oob(last, 0, Cause::Mapping)?;
                oob.map(|oob| (oob, oob.status()))
            };
            let Some((oob, kept)) = found.filter(|(oob, _)| oob.takes_next()) else {
                // The page has decayed. What it held is lost; a fold says so.
                self.units.add(last, Guard::Unlinkable);
                return Ok(None);
            };
            former = Some((last, oob));
            status = kept;
        }
        let Some(unit) = self.open(Source::Allocation)? else {
            return Ok(None);
        };
        let found = self
            .read_oob(unit, 0, Cause::Mapping)?
            .unwrap_or(Oob::ERASED);
        let link = Link {
            chain,
            unit,
            former,
            status,
            name: found.with_name(chain, last.is_some()),
        };
        match self.options.ordering {
            Ordering::Linux => self.link_as_linux(link, sector, payload),
            Ordering::Guarded => self.link_guarded(link, sector, payload, scratch),
        }
    }

    /// Linux's order: the name, the link to it, the sector.
    fn link_as_linux(
        &mut self,
        link: Link,
        sector: u32,
        payload: Payload<'_>,
    ) -> Result<Option<u16>, BlockError> {
        let Link {
            chain,
            unit,
            former,
            name,
            ..
        } = link;
        if !self.program(unit, 0, &[], name, Cause::Mapping)? {
            self.retire(unit)?;
            return Ok(None);
        }
        self.units.append(chain, unit);
        if let Some((last, oob)) = former
            && !self.program_again(last, 0, oob.with_next(unit), Cause::Mapping)?
        {
            return Ok(None);
        }
        let oob = if sector == 0 {
            name
        } else {
            self.fresh_oob(unit, sector)
        };
        Ok(self
            .program_payload((chain, unit, sector), payload, oob)?
            .then_some(unit))
    }

    /// The same with as many operations, but the name comes with the contents of sector 0, which
    /// the link endangers in the unit before: those of the payload, or of `scratch`.
    fn link_guarded(
        &mut self,
        link: Link,
        sector: u32,
        payload: Payload<'_>,
        scratch: &[u8],
    ) -> Result<Option<u16>, BlockError> {
        let Link {
            chain,
            unit,
            former,
            status,
            name,
        } = link;
        let name = name.with_before(former.map_or(u16::MAX, |(last, _)| last));
        let data = if status == Status::Used { scratch } else { &[] };
        let named = match (sector, self.bug(SeededBug::LinkUnguarded)) {
            (0, _) => self.program_payload((chain, unit, 0), payload, name)?,
            (_, true) => self.program(unit, 0, &[], name, Cause::Mapping)?,
            (_, false) => self.program(unit, 0, data, name.with_status(status), Cause::Mapping)?,
        };
        if !named {
            self.retire(unit)?;
            return Ok(None);
        }
        let mut linked = true;
        if let Some((last, oob)) = former {
            self.fence();
            linked = self.program_again(last, 0, oob.with_next(unit), Cause::Mapping)?;
        }
        if sector != 0 && former.is_some() {
            self.append_backed(chain, unit, status);
        } else {
            self.units.append(chain, unit);
        }
        if !linked || sector == 0 {
            return Ok(linked.then_some(unit));
        }
        let oob = self.fresh_oob(unit, sector);
        Ok(self
            .program_payload((chain, unit, sector), payload, oob)?
            .then_some(unit))
    }

    /// Links the unit that a fold has prepared.
    fn link_prepared(
        &mut self,
        prepared: Prepared,
        sector: u32,
        payload: Payload<'_>,
    ) -> Result<Option<u16>, BlockError> {
        let Prepared {
            chain,
            last,
            unit,
            status,
        } = prepared;
        let found = self.read_oob(last, 0, Cause::Mapping)?;
        let linked = match found.filter(|oob| oob.takes_next()) {
            Some(oob) => {
                self.fence();
                self.program_again(last, 0, oob.with_next(unit), Cause::Mapping)?
            }
            None => {
                self.units.add(last, Guard::Failing);
                false
            }
        };
        self.append_backed(chain, unit, status);
        if !linked {
            return Ok(None);
        }
        let oob = self.fresh_oob(unit, sector);
        Ok(self
            .program_payload((chain, unit, sector), payload, oob)?
            .then_some(unit))
    }

    /// Adds a unit to a chain whose first page holds a copy of what the last one's holds.
    pub(super) fn append_backed(&mut self, chain: u16, unit: u16, status: Status) {
        self.units.append(chain, unit);
        self.units.add(unit, Guard::Backed);
        if status == Status::Used {
            self.units.place_newest(chain, 0, Some(unit));
        }
    }
}
