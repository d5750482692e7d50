//! Freeing space: victims are emptied, worn and failing blocks too.

use super::blocks::State;
use super::demand::RESERVE;
use super::format::{LOST, PageId, SPAN};
use super::frontier::Stream;
use super::{Collection, PageFtl, SeededBug};
use crate::Cause;
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Move, Mtd, MtdError, Page};
use nandlab_sim::prefetch;

/// Pages that collection writes to one lane before it turns to the next: their map entries, which
/// lie anywhere, are then changed together, and the processor waits for many of them at once.
pub(super) const STRIPE: usize = 64;

/// The most pages that a step of collection moves before a page of the host.
const MOST_PACE: u32 = 16;

/// A victim that is being emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evacuation {
    pub block: u32,
    pub cause: Cause,
    /// Pages moved before each page of the host, with collection in steps.
    pub pace: u32,
}

impl<M: Mtd> PageFtl<M> {
    /// Free blocks at which the host has to wait for collection. In one go, collection may open a
    /// block for each of its lanes, and the map one; the spare ones come on top. In steps, one for
    /// collection is enough (see `share_lane`), and the spare ones are those that the host may
    /// take meanwhile.
    pub(super) fn low_water(&self) -> u32 {
        let blocks = match self.options.collection {
            Collection::Whole => {
                self.frontiers[Stream::Collection.at()].lanes() + 1 + self.options.spare_blocks
            }
            Collection::Steps => 1 + self.planes_together(),
        };
        blocks + self.map_reserve()
    }

    /// Free blocks for the map pages that a victim changes.
    pub(super) fn map_reserve(&self) -> u32 {
        self.demand.as_ref().map_or(0, |_| RESERVE)
    }

    /// Blocks without which the layer cannot go on: everything valid, the open blocks, and space
    /// for collection to work.
    pub(super) fn blocks_needed(&self) -> u32 {
        let pages = u64::from(self.map.len() as u32) + u64::from(self.mapping.count) + 1;
        // The open blocks of an SLC cache are among its own.
        let slc_lanes = self.slc.as_ref().map(|slc| self.lanes_of(slc.stream));
        let lanes: u32 = self.frontiers.iter().map(|f| f.lanes()).sum();
        let open = lanes - slc_lanes.unwrap_or(0) + self.blocks.buffer.size();
        pages.div_ceil(u64::from(self.mtd.geometry().pages_per_block)) as u32
            + open
            + self.low_water()
            + 1
    }

    /// Whether a block may not be opened before collection has freed space. With collection in
    /// steps, urgent victims wait for their turn.
    #[inline]
    pub(super) fn short_of_room(&self) -> bool {
        let urgent = self.options.collection == Collection::Whole && !self.urgent.is_empty();
        urgent || self.blocks.free() <= self.low_water()
    }

    /// Collects until there is free space again.
    pub(super) fn make_room(&mut self) -> Result<(), BlockError> {
        self.drop_collected();
        while self.short_of_room() {
            if self.blocks.good() < self.blocks_needed() {
                return Err(self.health.worn_out());
            }
            let begun = self.victim.take().or_else(|| self.begin_victim());
            let victim = begun.ok_or(self.health.worn_out())?;
            self.empty(victim, u32::MAX)?;
            self.drop_collected();
        }
        Ok(())
    }

    /// Collection in steps: moves a few pages before a page of the host is written, so that the
    /// pool is full again when the host opens its next blocks.
    pub(super) fn collect_step(&mut self) -> Result<(), BlockError> {
        if self.victim.is_none() && self.wants_victim() {
            self.victim = self.begin_victim();
        }
        match self.victim.take() {
            Some(victim) => self.empty(victim, victim.pace),
            None => Ok(()),
        }
    }

    /// Whether collection in steps has something to begin: each stream of the host will need a
    /// block, and its lanes need theirs one after another.
    fn wants_victim(&mut self) -> bool {
        self.drop_collected();
        let streams = u32::from(self.options.streams.max(1));
        let streams = streams * self.filled_together(Stream::Host(0));
        let low = self.blocks.free() <= self.low_water() + streams + self.options.spare_blocks;
        (low || !self.urgent.is_empty()) && self.blocks.good() >= self.blocks_needed()
    }

    /// Drops urgent victims that were chosen twice, or collected since.
    fn drop_collected(&mut self) {
        while let Some(&(block, _)) = self.urgent.front() {
            if self.blocks.state(block) == State::Closed {
                break;
            }
            self.urgent.pop_front();
        }
    }

    /// Takes the next victim off the lists; `None` if no block has anything to give.
    fn begin_victim(&mut self) -> Option<Evacuation> {
        let (block, cause) = self.next_victim()?;
        let pages = self.mtd.geometry().pages_per_block;
        let valid = self.blocks.valid(block);
        let work = valid + self.map_pages_changed(block);
        // The host writes a page for each page that the victim will give back. A block that is
        // levelled or repaired may give back none, and has time.
        let gain = (pages - valid).max(pages.div_ceil(MOST_PACE));
        self.blocks.begin_victim(block);
        Some(Evacuation {
            block,
            cause,
            pace: work
                .div_ceil(gain)
                .max(1)
                .next_multiple_of(self.planes_together()),
        })
    }

    fn next_victim(&mut self) -> Option<(u32, Cause)> {
        // A victim of data costs map pages. If the pool may not last for them, the blocks of the
        // map pages that they have replaced refill it first.
        if self.blocks.free() <= self.map_reserve()
            && self.demand.is_some()
            && let Some(block) = self.blocks.emptiest_mapping()
        {
            return Some((block, Cause::Collection));
        }
        self.urgent.pop_front().or_else(|| {
            let rule = self.options.victim;
            let paired = (self.options.multi_plane_copies)
                .then(|| self.blocks.victim_of_scarcest(rule, self.sequence));
            let victim = paired
                .flatten()
                .or_else(|| self.blocks.victim(rule, self.sequence));
            victim.map(|block| (block, Cause::Collection))
        })
    }

    /// The most map pages that wait for a program once the block is empty.
    fn map_pages_changed(&self, block: u32) -> u32 {
        if self.demand.is_none() || self.blocks.is_mapping(block) {
            return 0;
        }
        self.blocks.valid(block).min(self.mapping.count)
    }

    /// Moves at most `budget` valid pages out of a victim. An empty victim goes back to the pool,
    /// or is retired.
    fn empty(&mut self, victim: Evacuation, budget: u32) -> Result<(), BlockError> {
        self.collecting = true;
        let moved = self.move_out(victim, budget);
        let moved = moved.and_then(|left| self.write_waiting(left));
        let moved = moved.and_then(|left| self.write_discards(left));
        self.collecting = false;
        if moved? == 0 {
            self.victim = Some(victim);
            return Ok(());
        }
        self.finish(victim.block)?;
        self.level();
        Ok(())
    }

    /// Writes what was discarded, with what is left of the budget: it has to be on flash before
    /// the victim may go.
    pub(super) fn write_discards(&mut self, budget: u32) -> Result<u32, BlockError> {
        if self.options.seeded_bug == Some(SeededBug::DiscardForgotten) {
            return Ok(budget);
        }
        self.write_some_forgotten(budget)
    }

    /// The victim is empty.
    pub(super) fn finish(&mut self, block: u32) -> Result<(), BlockError> {
        let pages = self.mtd.geometry().pages_per_block;
        self.stale_tags.forget(block * pages, pages);
        if !self.blocks.release(block, self.mtd.issued()) {
            // Its contents must be safe elsewhere before the mark hides them.
            self.mtd.sync().map_err(|e| self.fault(e))?;
            self.mtd.mark_bad(Block(block)).map_err(|e| self.fault(e))?;
        }
        Ok(())
    }

    /// Moves valid pages out of a victim until `budget` is spent; gives what is left of it.
    pub(super) fn move_out(&mut self, victim: Evacuation, budget: u32) -> Result<u32, BlockError> {
        let moved = self.move_words(victim, budget);
        let repointed = self.repoint_moved();
        moved.and_then(|left| repointed.map(|()| left))
    }

    /// The same, but the map does not follow the last pages yet.
    fn move_words(&mut self, victim: Evacuation, mut budget: u32) -> Result<u32, BlockError> {
        let Evacuation { block, cause, .. } = victim;
        let stream = self.stream_of(block);
        if self.options.multi_plane_copies && stream != Stream::Map {
            return self.move_paired((block, stream, cause), budget);
        }
        let first = block * self.mtd.geometry().pages_per_block;
        for word in 0..self.blocks.words() {
            let first = first + word as u32 * 64;
            let bits = self.blocks.valid_word(block, word);
            let mut renamed = self.stale_tags.among(first, bits);
            if self.options.seeded_bug == Some(SeededBug::RemapNameKept) {
                renamed = 0;
            }
            let mut named = bits & !renamed;
            while named != 0 && budget != 0 {
                budget -= self.move_run(first, &mut named, stream, cause, budget)?;
            }
            if renamed != 0 {
                // The map changes in the order of the moves.
                self.repoint_moved()?;
            }
            while renamed != 0 && budget != 0 {
                self.move_renamed(Page(first + renamed.trailing_zeros()), stream, cause)?;
                renamed &= renamed - 1;
                budget -= 1;
            }
            self.blocks.keep(block, word, named | renamed);
        }
        Ok(budget)
    }

    /// The stream that takes the valid pages of a victim.
    fn stream_of(&self, block: u32) -> Stream {
        if self.blocks.buffer.owns(block) {
            return self.fold_stream();
        }
        match (self.blocks.is_mapping(block), self.options.separate_streams) {
            (true, _) => Stream::Map,
            (false, true) => Stream::Collection,
            (false, false) => Stream::Host(0),
        }
    }

    /// Moves the first pages of `bits`, counted from `first`, as far as the current lane and
    /// `budget` take them, and clears their bits. Gives the number of pages moved.
    fn move_run(
        &mut self,
        first: u32,
        bits: &mut u64,
        stream: Stream,
        cause: Cause,
        budget: u32,
    ) -> Result<u32, BlockError> {
        let slot = self.slot(stream)?;
        let left = (SPAN - slot.tail.age(self.sequence))
            .min(u64::from(slot.free_pages))
            .min(u64::from(budget).min(STRIPE as u64)) as u32;
        let mut moves = core::mem::take(&mut self.moves);
        moves.clear();
        let mut rest = *bits;
        let next = || {
            let from = Page(first + rest.trailing_zeros());
            rest &= rest - 1;
            from
        };
        let count = left.min(bits.count_ones());
        moves.push_run(count, next, slot.page, (slot.tail, self.sequence));
        let (done, result) = moves.copy(&mut self.mtd);
        *bits = if done == count as usize {
            rest
        } else {
            (0..done).fold(*bits, |bits, _| bits & (bits - 1))
        };
        if done > 0 {
            self.advance(stream, slot.page, done as u32);
            self.tally.of(cause).copies += done as u64;
            moves.truncate(done);
            for (_, id) in moves.done(done) {
                prefetch(&self.map, id as usize);
            }
            // The entries of these pages arrive while the chip copies the next ones.
            core::mem::swap(&mut self.moved, &mut moves);
            self.repoint(moves.done(moves.len()))?;
        }
        self.moves = moves;
        match result {
            Ok(()) => {}
            Err(MtdError::ProgramFailed(_)) => self.abandon(stream, slot.page),
            Err(MtdError::Uncorrectable(from)) => {
                *bits &= *bits - 1;
                self.lose(from.0)?;
            }
            Err(error) => return Err(self.fault(error)),
        }
        Ok(done as u32)
    }

    /// Moves a page whose tag names another logical page: the data goes through the host and gets
    /// the tag of its owner.
    #[cold]
    pub(super) fn move_renamed(
        &mut self,
        page: Page,
        stream: Stream,
        cause: Cause,
    ) -> Result<(), BlockError> {
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
                &slot.tail.tag(PageId::Data(lpn).encode(), self.sequence, 0),
            ) {
                Ok(()) => {
                    self.advance(stream, slot.page, 1);
                    self.tally.of(cause).programs += 1;
                    self.map[lpn as usize] = slot.page.0 + 1;
                    self.entry_changed(lpn);
                    return Ok(());
                }
                Err(MtdError::ProgramFailed(_)) => self.abandon(stream, slot.page),
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    /// The map follows the last pages that collection moved.
    fn repoint_moved(&mut self) -> Result<(), BlockError> {
        let mut moved = core::mem::take(&mut self.moved);
        let repointed = self.repoint(moved.done(moved.len()));
        moved.clear();
        self.moved = moved;
        repointed
    }

    /// The map follows pages to their new places.
    pub(super) fn repoint(
        &mut self,
        moved: impl Iterator<Item = (Move, u32)> + Clone,
    ) -> Result<(), BlockError> {
        if self.demand.is_some() {
            self.entries_changed(moved.clone());
        }
        let renamed = self.stale_tags.any();
        for (m, id) in moved {
            let entry = match PageId::decode(id) {
                Some(PageId::Data(lpn)) if !renamed => self.map.get_mut(lpn as usize),
                other => self.location_mut(other, m),
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

    /// The entry of an identity, for a page that moved.
    #[cold]
    fn location_mut(&mut self, id: Option<PageId>, m: Move) -> Option<&mut u32> {
        match id? {
            PageId::Data(lpn) => {
                let owner = self.stale_tags.carry(m.from.0, m.to.0).unwrap_or(lpn);
                self.map.get_mut(owner as usize)
            }
            PageId::Map(index) => self.mapping.locations.get_mut(index as usize),
            PageId::Record(_) => self.records.location_mut(m.from.0),
        }
    }

    fn entries_changed(&mut self, moved: impl Iterator<Item = (Move, u32)>) {
        for (_, id) in moved {
            if let Some(PageId::Data(lpn)) = PageId::decode(id) {
                self.entry_changed(lpn);
            }
        }
    }

    /// A page of a victim cannot be read. Pages of the map and of records are written again from
    /// memory; data is lost, and says so when it is read.
    #[cold]
    pub(super) fn lose(&mut self, page: u32) -> Result<(), BlockError> {
        // A map page from here on says where the pages before this one are.
        self.repoint_moved()?;
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
        self.entry_changed(lpn as u32);
        self.mapping.forget(lpn as u32);
        Ok(())
    }

    /// A page needed much correction: its block is rewritten before it needs too much.
    pub(super) fn scrub(&mut self, page: Page) {
        let (block, _) = self.blocks.split(page.0);
        if self.blocks.state(block) == State::Closed
            && !self.urgent.contains(&(block, Cause::Repair))
        {
            self.urgent.push_back((block, Cause::Repair));
        }
        self.blocks.buffer.hurry(block);
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
