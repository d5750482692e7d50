//! Freeing space: victims are emptied, worn and failing blocks too.

use super::format::{LOST, Name, SPAN};
use super::frontier::Stream;
use super::{PageFtl, SeededBug};
use crate::Cause;
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Move, Mtd, MtdError, Page};
use nandlab_sim::prefetch;

/// Pages that collection writes to one lane before it turns to the next: their map entries, which
/// lie anywhere, are then changed together, and the processor waits for many of them at once.
const STRIPE: usize = 64;

impl<M: Mtd> PageFtl<M> {
    /// Free blocks below which collection starts: one for each lane that collection or the map may
    /// have to open, and the spare ones.
    pub(super) fn low_water(&self) -> u32 {
        self.frontiers[Stream::Collection.at()].lanes() + 1 + self.options.spare_blocks
    }

    /// Blocks without which the layer cannot go on: everything valid, the open blocks, and space
    /// for collection to work.
    pub(super) fn blocks_needed(&self) -> u32 {
        let pages = u64::from(self.map.len() as u32) + u64::from(self.mapping.count) + 1;
        let open: u32 = self.frontiers.iter().map(|f| f.lanes()).sum();
        pages.div_ceil(u64::from(self.mtd.geometry().pages_per_block)) as u32
            + open
            + self.low_water()
            + 1
    }

    #[inline]
    pub(super) fn short_of_room(&self) -> bool {
        self.blocks.free() <= self.low_water() || !self.urgent.is_empty()
    }

    /// Collects until there is free space again.
    pub(super) fn make_room(&mut self) -> Result<(), BlockError> {
        while self.short_of_room() {
            if self.blocks.good() < self.blocks_needed() {
                return Err(self.health.worn_out());
            }
            let (block, cause) = match self.urgent.pop_front() {
                Some(chosen) => chosen,
                None => (
                    self.blocks
                        .victim(self.options.victim, self.sequence)
                        .ok_or(self.health.worn_out())?,
                    Cause::Collection,
                ),
            };
            // A block may have been chosen twice, or collected since.
            if self.blocks.state(block) == super::blocks::State::Closed {
                self.evacuate(block, cause)?;
            }
            self.level();
        }
        Ok(())
    }

    /// Moves every valid page out of a block and gives it back to the pool, or retires it.
    fn evacuate(&mut self, block: u32, cause: Cause) -> Result<(), BlockError> {
        self.blocks.begin_victim(block);
        self.collecting = true;
        let moved = self.move_out(block, cause);
        let moved = moved.and_then(|()| {
            if self.options.seeded_bug == Some(SeededBug::DiscardForgotten) {
                Ok(())
            } else {
                self.write_forgotten()
            }
        });
        self.collecting = false;
        moved?;
        let pages = self.mtd.geometry().pages_per_block;
        self.stale_tags.forget(block * pages, pages);
        if !self.blocks.release(block, self.mtd.issued()) {
            // Its contents must be safe elsewhere before the mark hides them.
            self.mtd.sync().map_err(|e| self.fault(e))?;
            self.mtd.mark_bad(Block(block)).map_err(|e| self.fault(e))?;
        }
        Ok(())
    }

    fn move_out(&mut self, block: u32, cause: Cause) -> Result<(), BlockError> {
        let stream = self.stream_of(block);
        let first = block * self.mtd.geometry().pages_per_block;
        for word in 0..self.blocks.words() {
            let first = first + word as u32 * 64;
            let mut bits = self.blocks.valid_word(block, word);
            let mut renamed = self.stale_tags.among(first, bits);
            if self.options.seeded_bug == Some(SeededBug::RemapNameKept) {
                renamed = 0;
            }
            bits &= !renamed;
            while bits != 0 {
                self.move_run(first, &mut bits, stream, cause)?;
            }
            while renamed != 0 {
                self.move_renamed(Page(first + renamed.trailing_zeros()), stream, cause)?;
                renamed &= renamed - 1;
            }
        }
        Ok(())
    }

    /// The stream that takes the valid pages of a victim.
    fn stream_of(&self, block: u32) -> Stream {
        match (self.blocks.is_mapping(block), self.options.separate_streams) {
            (true, _) => Stream::Map,
            (false, true) => Stream::Collection,
            (false, false) => Stream::Host(0),
        }
    }

    /// Moves the first pages of `bits`, counted from `first`, as far as the current lane takes
    /// them, and clears their bits.
    fn move_run(
        &mut self,
        first: u32,
        bits: &mut u64,
        stream: Stream,
        cause: Cause,
    ) -> Result<(), BlockError> {
        let slot = self.slot(stream)?;
        let left = (SPAN - slot.tail.age(self.sequence))
            .min(u64::from(slot.room))
            .min(STRIPE as u64) as u32;
        let mut moves = core::mem::take(&mut self.moves);
        moves.clear();
        let mut rest = *bits;
        for i in 0..left.min(bits.count_ones()) {
            let from = Page(first + rest.trailing_zeros());
            rest &= rest - 1;
            let tail = slot.tail.at(self.sequence + u64::from(i), 0);
            moves.push(from, Page(slot.page.0 + i), tail);
        }
        let (done, result) = moves.copy(&mut self.mtd);
        for _ in 0..done {
            *bits &= *bits - 1;
        }
        if done > 0 {
            self.advance(stream, slot.page, done as u32);
            self.tally.of(cause).copies += done as u64;
            self.repoint(moves.done(done))?;
        }
        self.moves = moves;
        match result {
            Ok(()) => Ok(()),
            Err(MtdError::ProgramFailed(_)) => {
                self.abandon(stream, slot.page);
                Ok(())
            }
            Err(MtdError::Uncorrectable(from)) => {
                *bits &= *bits - 1;
                self.lose(from.0)
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Moves a page whose tag names another logical page: the data goes through the host and gets
    /// the tag of its owner.
    #[cold]
    fn move_renamed(&mut self, page: Page, stream: Stream, cause: Cause) -> Result<(), BlockError> {
        let Some(lpn) = self.stale_tags.owner(page.0) else {
            return Err(self
                .health
                .broken("a page that was given away has no owner"));
        };
        loop {
            let slot = self.slot(stream)?;
            self.tally.of(cause).reads += 1;
            match self.mtd.read(page, &mut self.mapping.buffer, &mut []) {
                Ok(_) => {}
                Err(MtdError::Uncorrectable(_)) => return self.lose(page.0),
                Err(error) => return Err(self.fault(error)),
            }
            match self.mtd.program(
                slot.page,
                &self.mapping.buffer,
                &slot.tail.tag(Name::Data(lpn).encode(), self.sequence, 0),
            ) {
                Ok(()) => {
                    self.advance(stream, slot.page, 1);
                    self.tally.of(cause).programs += 1;
                    self.map[lpn as usize] = slot.page.0 + 1;
                    return Ok(());
                }
                Err(MtdError::ProgramFailed(_)) => self.abandon(stream, slot.page),
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    /// The map follows the pages that were moved. The victim's own bits are cleared all at once
    /// when it is released.
    fn repoint(
        &mut self,
        moved: impl Iterator<Item = (Move, u32)> + Clone,
    ) -> Result<(), BlockError> {
        for (_, name) in moved.clone() {
            prefetch(&self.map, name as usize);
        }
        for (m, name) in moved {
            let entry = match Name::decode(name) {
                Some(Name::Data(lpn)) => self
                    .map
                    .get_mut(self.stale_tags.carry(m.from.0, m.to.0).unwrap_or(lpn) as usize),
                Some(Name::Map(index)) => self.mapping.locations.get_mut(index as usize),
                Some(Name::Record(_)) => self.records.location_mut(m.from.0),
                None => None,
            };
            match entry {
                Some(entry) if *entry == m.from.0 + 1 => *entry = m.to.0 + 1,
                _ => {
                    return Err(self
                        .health
                        .broken("the tag of a valid page names another page"));
                }
            }
        }
        Ok(())
    }

    /// A page of a victim cannot be read. Pages of the map and of records are written again from
    /// memory; data is lost, and says so when it is read.
    #[cold]
    fn lose(&mut self, page: u32) -> Result<(), BlockError> {
        if let Some(index) = self.mapping.locations.iter().position(|&l| l == page + 1) {
            return self.write_map(index as u32);
        }
        if let Some((record, part)) = self.records.find(page) {
            return self.rewrite_part(record, part);
        }
        let Some(lpn) = self.map.iter().position(|&e| e == page + 1) else {
            return Err(self.health.broken("a valid page belongs to nobody"));
        };
        self.map[lpn] = LOST;
        self.mapping.forget(lpn as u32);
        Ok(())
    }

    /// A page needed much correction: its block is rewritten before it needs too much.
    pub(super) fn scrub(&mut self, page: Page) {
        let (block, _) = self.blocks.split(page.0);
        if self.blocks.state(block) == super::blocks::State::Closed
            && !self.urgent.contains(&(block, Cause::Repair))
        {
            self.urgent.push_back((block, Cause::Repair));
        }
    }

    /// Static wear levelling, looked at now and then: data at rest leaves the least worn block once
    /// the spread is too wide.
    fn level(&mut self) {
        if self.erases_until_levelling > 0 || self.options.wear_threshold == 0 {
            return;
        }
        let Some((coldest, most)) = self.blocks.wear_extremes() else {
            return;
        };
        let spread = most - self.blocks.erases[coldest as usize];
        // Once the spread is wide, one block after another; else not before a good part of the
        // array has been erased again.
        self.erases_until_levelling = if spread > self.options.wear_threshold {
            8
        } else {
            self.blocks.good() / 4 + 1
        };
        if spread > self.options.wear_threshold {
            self.urgent.push_back((coldest, Cause::Wear));
        }
    }
}
