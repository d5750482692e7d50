//! Remaps: logical pages move, flash pages stay where they are.
//!
//! A remap is one record on flash (see `format`), written through the map's stream. Its last page
//! commits it: that page is fenced behind everything issued before, the other pages and the data
//! that the record names among them. Nothing is moved between the moment at which the last page's
//! entries are looked up and its program; what collection moved while the pages before it were
//! written is named again.
//!
//! Records wait for the map pages of their logical pages, oldest first. How many pages of them may
//! wait is limited, so that collection keeps its space: beyond that the map pages that the oldest
//! waits for are written before their turn.

use super::format::{LOST, PageId, Pair, RecordPart, encode_record, pairs_per_page};
use super::frontier::{Slot, Stream};
use super::pairs::{RemapError, whole_pages};
use super::records::Record;
use super::{PageFtl, RemapRecords, SeededBug};
use crate::Cause;
use alloc::vec::Vec;
use nandlab_block::{BlockError, Remap};
use nandlab_mtd::{Mtd, MtdError};

/// Pages of records that wait at most, however large the spare space is: they are kept in memory.
const WAITING_MAX: u32 = 1024;

impl<M: Mtd> PageFtl<M> {
    /// Says why [`remap`](nandlab_block::BlockDevice::remap) would refuse these pairs; its own
    /// answer has no space for the reason.
    pub fn check_remap(&self, pairs: &[Remap]) -> Result<(), RemapError> {
        self.remap_pairs(pairs).map(|_| ())
    }

    pub(super) fn remap_pairs(&self, pairs: &[Remap]) -> Result<Vec<Pair>, RemapError> {
        if !self.stale_tags.offered() {
            return Err(RemapError::ArrayTooLarge(self.mtd.geometry().pages()));
        }
        let pages = whole_pages(&self.geometry, self.sectors_per_page, pairs)?;
        let most = (self.record_pages_max() * self.pairs_per_page()) as usize;
        if pages.len() > most {
            Err(RemapError::TooMany {
                found: pages.len(),
                most,
            })
        } else {
            Ok(pages)
        }
    }

    fn pairs_per_page(&self) -> u32 {
        pairs_per_page(self.mtd.geometry().page)
    }

    /// Pages of records that may wait for map pages: half a block, which collection can spare, and
    /// an eighth of what is not needed.
    fn record_pages_max(&self) -> u32 {
        let pages = self.mtd.geometry().pages_per_block;
        let not_needed = self
            .blocks
            .good()
            .saturating_sub(self.blocks_needed())
            .saturating_mul(pages);
        ((pages / 2).max(1) + not_needed / 8).min(WAITING_MAX)
    }

    /// Remaps whole pages. With records on flash: all or none, durably.
    pub(super) fn remap_pages(&mut self, mut pairs: Vec<Pair>) -> Result<(), BlockError> {
        if pairs.is_empty() {
            return Ok(());
        }
        for pair in &pairs {
            self.look_up(pair.from)?;
            self.look_up(pair.to)?;
        }
        if self.options.remap_records == RemapRecords::InMemory {
            self.remap_in_memory(&mut pairs);
        } else {
            self.remap_on_flash(&mut pairs)?;
        }
        // Map pages that had to leave again before their change.
        self.write_waiting(u32::MAX)?;
        Ok(())
    }

    fn remap_on_flash(&mut self, pairs: &mut [Pair]) -> Result<(), BlockError> {
        if self.mapping.due <= 0 {
            self.write_next_map()?;
        }
        self.make_record_room((pairs.len() as u32).div_ceil(self.pairs_per_page()))?;
        self.write_record(pairs)?;
        pairs.iter().for_each(|pair| self.hand_over(pair));
        if self.options.seeded_bug == Some(SeededBug::RecordDropped) {
            self.give_up_record();
        }
        if self.options.seeded_bug == Some(SeededBug::RemapWithoutSync) {
            return Ok(());
        }
        self.mtd.sync().map_err(|e| self.fault(e))
    }

    fn remap_in_memory(&mut self, pairs: &mut [Pair]) {
        pairs
            .iter_mut()
            .for_each(|pair| pair.entry = self.map[pair.from as usize]);
        pairs.iter().for_each(|pair| self.hand_over(pair));
    }

    /// The map after one pair of a record.
    fn hand_over(&mut self, pair: &Pair) {
        let old = core::mem::replace(&mut self.map[pair.to as usize], pair.entry);
        if old != 0 && old != LOST {
            self.blocks.invalidate(old - 1);
        }
        self.map[pair.from as usize] = 0;
        self.entry_changed(pair.from);
        self.entry_changed(pair.to);
        if pair.entry != 0 && pair.entry != LOST {
            self.stale_tags.set(pair.entry - 1, pair.to);
        }
    }

    /// Writes map pages until a record of so many pages may wait.
    fn make_record_room(&mut self, pages: u32) -> Result<(), BlockError> {
        self.retire_records();
        while self.records.pages() + pages > self.record_pages_max() {
            let Some(range) = self
                .records
                .waits_for(&self.mapping.written, self.mapping.per_page)
            else {
                break;
            };
            self.write_map(range)?;
            self.retire_records();
        }
        Ok(())
    }

    /// Lets go of records that the map pages stand for.
    pub(super) fn retire_records(&mut self) {
        while let Some(record) = self
            .records
            .retire(&self.mapping.written, self.mapping.per_page)
        {
            self.invalidate_record(&record);
        }
    }

    fn give_up_record(&mut self) {
        if let Some(record) = self.records.abort() {
            self.invalidate_record(&record);
        }
    }

    fn invalidate_record(&mut self, record: &Record) {
        record
            .pages
            .iter()
            .for_each(|page| self.blocks.invalidate(page.location - 1));
    }

    fn write_record(&mut self, pairs: &mut [Pair]) -> Result<(), BlockError> {
        let number = self.sequence;
        self.records.push(Record::new(number, None, Vec::new()));
        let written = self.write_parts(number, pairs);
        if written.is_err() {
            self.give_up_record();
        }
        written
    }

    /// Writes the pages of a record. The order of `pairs` changes.
    fn write_parts(&mut self, number: u64, pairs: &mut [Pair]) -> Result<(), BlockError> {
        let per_page = self.pairs_per_page() as usize;
        let mut done = 0;
        let mut part = 0;
        let mut commit_failed = false;
        loop {
            let slot = self.record_slot(commit_failed)?;
            if pairs.len() - done <= per_page {
                done = self.still_named(pairs, done);
            }
            let end = (done + per_page).min(pairs.len());
            let last = end == pairs.len();
            pairs[done..end]
                .iter_mut()
                .for_each(|pair| pair.entry = self.map[pair.from as usize]);
            let place = RecordPart {
                number,
                part,
                sequence: last.then_some(self.sequence),
            };
            match self.program_part(slot, place, &pairs[done..end]) {
                Ok(()) => {
                    self.records
                        .append(slot.page.0, &pairs[done..end], place.sequence);
                    if last {
                        return Ok(());
                    }
                    (done, part) = (end, part + 1);
                }
                Err(MtdError::ProgramFailed(_)) => {
                    self.abandon(Stream::Map, slot.page);
                    commit_failed = last;
                }
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    /// The slot of the next page of a record. A last page whose program failed may be there for all
    /// that: until it is there in good order nothing may be moved that it names, so its second try
    /// takes a block that collection keeps for itself.
    fn record_slot(&mut self, without_collection: bool) -> Result<Slot, BlockError> {
        self.collecting = without_collection;
        let slot = self.slot(Stream::Map);
        self.collecting = false;
        slot
    }

    /// Of the first `done` pairs, those whose entries are no longer what the record says go behind
    /// the others; gives the number of the others.
    fn still_named(&self, pairs: &mut [Pair], mut done: usize) -> usize {
        let mut i = 0;
        while i < done {
            if self.map[pairs[i].from as usize] == pairs[i].entry {
                i += 1;
            } else {
                done -= 1;
                pairs.swap(i, done);
            }
        }
        done
    }

    fn program_part(
        &mut self,
        slot: Slot,
        place: RecordPart,
        pairs: &[Pair],
    ) -> Result<(), MtdError> {
        encode_record(&mut self.mapping.buffer, place, pairs);
        if place.sequence.is_some() && self.options.seeded_bug != Some(SeededBug::RemapUnfenced) {
            let issued = self.mtd.issued();
            self.mtd.fence(issued);
        }
        self.mtd.program(
            slot.page,
            &self.mapping.buffer,
            &slot
                .tail
                .tag(PageId::Record(place.part).encode(), self.sequence, 0),
        )?;
        self.advance(Stream::Map, slot.page, 1);
        self.tally.of(Cause::Mapping).programs += 1;
        Ok(())
    }

    /// A page of a record cannot be read where it is: collection writes it again from memory.
    pub(super) fn rewrite_part(&mut self, record: usize, part: usize) -> Result<(), BlockError> {
        loop {
            let slot = self.slot(Stream::Map)?;
            let record = self.records.get(record);
            let last = part + 1 == record.pages.len();
            let place = RecordPart {
                number: record.number,
                part: part as u32,
                sequence: record.sequence.filter(|_| last),
            };
            let from = record.pages[part].location - 1;
            let pairs = record.pages[part].pairs.clone();
            match self.program_part(slot, place, &pairs) {
                Ok(()) => {
                    self.move_part(from, slot.page.0);
                    return Ok(());
                }
                Err(MtdError::ProgramFailed(_)) => self.abandon(Stream::Map, slot.page),
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    fn move_part(&mut self, from: u32, to: u32) {
        self.blocks.invalidate(from);
        if let Some(location) = self.records.location_mut(from) {
            *location = to + 1;
        }
    }
}
