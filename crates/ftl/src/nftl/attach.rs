//! Coming back from a medium, however it was left.

use super::format::{GOOD, MediaHeader, Place, SECTOR, Status};
use super::make::MEDIA_UNITS;
use super::options::SeededBug;
use super::state::Target;
use super::trace::{Candidate, Found, Tracer};
use super::units::{Guard, Units};
use super::{Nftl, NftlOptions};
use crate::{AttachError, Cause};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// Where the media headers are, and which units may not be used.
#[derive(Debug)]
struct Media {
    header: MediaHeader,
    /// Whether each unit is reserved.
    reserved: Vec<bool>,
    reads: u64,
}

impl MediaHeader {
    /// Virtual units of the disk.
    pub(super) fn chains(&self, pages: u32) -> u16 {
        (self.formatted / (pages * SECTOR)) as u16
    }

    /// Units of the medium, those before the first one included.
    fn units(&self, blocks: u32) -> u32 {
        (u32::from(self.first) + u32::from(self.units)).min(blocks)
    }

    /// Refuses numbers that cannot be, found in a unit.
    fn check(&self, pages: u32, blocks: u32, unit: u32) -> Result<(), AttachError> {
        let most = self
            .units(blocks)
            .saturating_sub(u32::from(self.first) + MEDIA_UNITS);
        let formatted = self.formatted / (pages * SECTOR);
        let refuse = |what, found, expected| {
            Err(AttachError::Mismatch {
                what,
                found,
                expected,
            })
        };
        match self.factor {
            // Zero is taken for what an old formatter should have written.
            0xff | 0 => {}
            factor => return refuse("unit size factor", factor.into(), 0xff),
        }
        if u32::from(self.first) > unit {
            return refuse(
                "number of the first unit (at most that of its header)",
                self.first.into(),
                unit,
            );
        }
        if formatted == 0 || formatted > most {
            return refuse(
                "number of virtual units (formatted size over unit size)",
                formatted,
                most,
            );
        }
        Ok(())
    }
}

/// Reads a sector; false if it cannot be corrected.
fn read_sector(mtd: &mut impl Mtd, page: u32, buf: &mut [u8]) -> Result<bool, MtdError> {
    match mtd.read(Page(page), buf, &mut []) {
        Ok(_) => Ok(true),
        Err(MtdError::Uncorrectable(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds the media header: the first one on the medium, since only units behind both copies hold
/// data, which may look like one.
fn find_media<M: Mtd>(mtd: &mut M) -> Result<Media, AttachError> {
    let pages = mtd.geometry().pages_per_block;
    let blocks = mtd.geometry().blocks;
    let mut sector = vec![0; SECTOR as usize];
    let mut found: Option<(MediaHeader, u32)> = None;
    let mut copy = None;
    let mut reads = 0;
    for unit in 0..blocks {
        if mtd.is_bad(Block(unit))? {
            continue;
        }
        reads += 1;
        let header = if read_sector(mtd, unit * pages, &mut sector)? {
            MediaHeader::decode(&sector)
        } else {
            None
        };
        match (found, header) {
            (None, None) => {}
            (None, Some(header)) => {
                header.check(pages, blocks, unit)?;
                found = Some((header, unit));
            }
            // The next good unit is the only place of the copy.
            (Some((first, _)), header) => {
                copy = header.filter(|header| *header == first).map(|_| unit);
                break;
            }
        }
    }
    let (header, unit) = found.ok_or(AttachError::NotFormatted)?;
    let reserved = (0..header.units(blocks))
        .map(|u| Ok(u <= unit || Some(u) == copy || mtd.is_bad(Block(u))?));
    let mut media = Media {
        header,
        reserved: reserved.collect::<Result<_, MtdError>>()?,
        reads,
    };
    media.read_table(mtd, [Some(unit), copy])?;
    Ok(media)
}

impl Media {
    /// Reads the bad-unit table, each sector of it from the first copy that has it.
    fn read_table<M: Mtd>(
        &mut self,
        mtd: &mut M,
        copies: [Option<u32>; 2],
    ) -> Result<(), MtdError> {
        let pages = mtd.geometry().pages_per_block;
        let mut sector = vec![0; SECTOR as usize];
        for (index, part) in (1..pages).zip(self.reserved.chunks_mut(SECTOR as usize)) {
            for copy in copies.into_iter().flatten() {
                self.reads += 1;
                if read_sector(mtd, copy * pages + index, &mut sector)? {
                    part.iter_mut()
                        .zip(&sector)
                        .for_each(|(reserved, &byte)| *reserved |= byte != GOOD);
                    break;
                }
            }
        }
        Ok(())
    }
}

impl<M: Mtd> Nftl<M> {
    /// Comes back from a medium that was formatted before, by this layer, by `nftl_format` or by a
    /// DiskOnChip's maker. Reads the OOB of every sector that is in use.
    pub fn attach(mut mtd: M, options: NftlOptions) -> Result<Self, AttachError> {
        let place = Place::of(mtd.geometry())?;
        let media = find_media(&mut mtd)?;
        let pages = mtd.geometry().pages_per_block;
        let good = media.reserved.iter().filter(|&&reserved| !reserved).count() as u32;
        let units = Units::new(
            media.header.chains(pages),
            media.reserved.len() as u16,
            media.header.first,
            good,
        );
        let mut ftl = Self::new(mtd, options, place, units);
        ftl.tally.of(Cause::Attach).reads += media.reads;
        let (found, marked) = ftl.explore(&media.reserved)?;
        let chains = ftl.trace(&found)?;
        let damaged = ftl.adopt(&found, &marked, chains)?;
        ftl.units.seek_last_free();
        for chain in damaged {
            match ftl.fold(chain, Target::Fresh, Cause::Repair) {
                // It is readable as it is, and folded when it is written.
                Ok(()) | Err(BlockError::WornOut(_) | BlockError::ReadOnly(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ftl)
    }

    /// Reads the names and the erase marks of all units that are not reserved.
    fn explore(&mut self, reserved: &[bool]) -> Result<(Vec<Found>, Vec<bool>), BlockError> {
        let mut marked = vec![false; reserved.len()];
        let mut found = vec![Found::Reserved; reserved.len()];
        for unit in (0..self.units.count()).filter(|&u| !reserved[u as usize]) {
            let name = self
                .read_oob(unit, 0, Cause::Attach)?
                .and_then(|oob| oob.name());
            found[unit as usize] = name.map_or(Found::Nameless, Found::Named);
            if let Some(erases) = self
                .read_oob(unit, 1, Cause::Attach)?
                .and_then(|oob| oob.erases())
            {
                self.units.unit_mut(unit).erases = erases;
                marked[unit as usize] = true;
            }
        }
        Ok((found, marked))
    }

    /// The chain of each virtual unit.
    fn trace(&mut self, found: &[Found]) -> Result<Vec<Option<Candidate>>, BlockError> {
        let mut tracer = Tracer::new(found);
        if self.bug(SeededBug::ForgetLostHeaders) {
            tracer = tracer.forgetful();
        }
        let count = self.units.chains();
        let mut chains: Vec<Option<Candidate>> = vec![None; count.into()];
        let mut claims = vec![0u32; count.into()];
        for (unit, chain) in tracer.firsts().filter(|&(_, chain)| chain < count) {
            claims[chain as usize] += 1;
            let Some(candidate) = tracer.follow(unit, chain) else {
                continue;
            };
            let known = &mut chains[chain as usize];
            *known = Some(match known.take() {
                Some(known) => self.choose(known, candidate)?,
                None => candidate,
            });
        }
        for (unit, chain) in tracer.lost_firsts() {
            if chain < count && chains[chain as usize].is_none() {
                chains[chain as usize] = tracer.follow(unit, chain);
            }
        }
        for (chain, claims) in chains.iter_mut().zip(claims) {
            if let Some(chain) = chain {
                chain.damaged |= claims > 1;
            }
        }
        Ok(chains)
    }

    /// Of two chains of one virtual unit the right one. A single unit is what a fold has made of
    /// the other, and complete. Of two single units one is a copy of the other, of which an erase
    /// may have left a part. Two longer ones only come from elsewhere: then it is Linux's rule.
    fn choose(&mut self, known: Candidate, other: Candidate) -> Result<Candidate, BlockError> {
        let a = known.units.len();
        let b = other.units.len();
        let other_wins = match (a, b) {
            (1, 1) => self.used(other.units[0])? >= self.used(known.units[0])?,
            _ if self.bug(SeededBug::KeepLonger) => b >= a,
            (1, _) => false,
            (_, 1) => true,
            _ => b >= a,
        };
        Ok(if other_wins { other } else { known })
    }

    /// Sectors of a unit that have contents.
    fn used(&mut self, unit: u16) -> Result<u32, BlockError> {
        (0..self.pages).try_fold(0, |used, sector| {
            let oob = self.read_oob(unit, sector, Cause::Attach)?;
            Ok(used + u32::from(oob.is_some_and(|oob| oob.status() == Status::Used)))
        })
    }

    /// Takes the units into service; gives the chains that are to be folded.
    fn adopt(
        &mut self,
        found: &[Found],
        marked: &[bool],
        chains: Vec<Option<Candidate>>,
    ) -> Result<Vec<u16>, BlockError> {
        let mut used = vec![false; found.len()];
        let mut damaged = Vec::new();
        for (chain, candidate) in (0..).zip(chains) {
            let Some(candidate) = candidate else { continue };
            let damage =
                candidate.damaged | self.adopt_units(chain, &candidate.units, found, marked);
            for &unit in &candidate.units {
                used[unit as usize] = true;
            }
            if self.adopt_sectors(chain, &candidate.units, damage)? {
                damaged.push(chain);
            }
        }
        for unit in (0..self.units.count())
            .filter(|&u| found[u as usize] != Found::Reserved && !used[u as usize])
        {
            self.adopt_unused(unit, found[unit as usize], marked[unit as usize])?;
        }
        Ok(damaged)
    }

    /// Takes over the units of a chain. Returns whether one is damaged.
    fn adopt_units(&mut self, chain: u16, units: &[u16], found: &[Found], marked: &[bool]) -> bool {
        let mut damage = false;
        for &unit in units {
            self.units.append(chain, unit);
            self.adopt_unit(unit, found[unit as usize]);
            // Linux would not take a unit without an erase mark for one in use.
            damage |= !marked[unit as usize];
        }
        damage
    }

    /// A unit of a chain.
    fn adopt_unit(&mut self, unit: u16, found: Found) {
        if !self.options.trust_free {
            self.units.add(unit, Guard::Found);
        }
        if found == Found::Nameless {
            // Whether it reads as erased or not at all: something was there.
            self.units.unit_mut(unit).void |= 1;
        }
    }

    /// Reads the sectors of a chain; true if it is damaged. A single unit whose name may be the
    /// last thing that was written takes no link: the name may be torn.
    fn adopt_sectors(
        &mut self,
        chain: u16,
        units: &[u16],
        damaged: bool,
    ) -> Result<bool, BlockError> {
        let survey = self.survey(chain, Cause::Attach, true)?;
        for &unit in units {
            self.units.unit_mut(unit).live = survey.live(unit);
        }
        let untouched = !self.options.trust_free && units.len() == 1 && !survey.touched;
        if let (Some(&last), true) = (units.last(), damaged || untouched) {
            self.units.add(last, Guard::Unlinkable);
        }
        Ok(damaged)
    }

    /// A unit of no chain. One that has a name is erased at once, lest it be taken for a part of a
    /// chain later; others when they are needed.
    fn adopt_unused(&mut self, unit: u16, found: Found, marked: bool) -> Result<(), BlockError> {
        if matches!(found, Found::Named(_)) {
            match self.erase(unit, Cause::Attach) {
                Ok(true) => self.units.release(unit),
                Ok(false) | Err(BlockError::ReadOnly(_)) => {}
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        if !self.options.trust_free || !marked || !self.reads_free(unit)? {
            self.units.add(unit, Guard::Found);
        }
        self.units.release(unit);
        Ok(())
    }

    /// Whether the OOB of a unit holds nothing but the erase mark.
    fn reads_free(&mut self, unit: u16) -> Result<bool, BlockError> {
        (0..self.pages).try_fold(true, |free, sector| {
            let expected = self.fresh_oob(unit, sector);
            Ok(free && self.read_oob(unit, sector, Cause::Attach)? == Some(expected))
        })
    }
}
