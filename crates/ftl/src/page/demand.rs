//! A map that comes from flash page by page on demand: DFTL (Gupta, Kim and Urgaonkar,
//! ASPLOS 2009).
//!
//! *How.* Memory holds the place of each map page, and the entries of a few of them: the resident
//! ones. A look-up reads its map page first, unless the page is resident. The least recently used
//! page leaves. A page whose entries have changed goes to flash before it leaves, under rule 2.
//!
//! *Collection* never waits for a resident page to leave, or it could wait for itself. It changes
//! entries of map pages that are not resident, and these pages wait. Once the victim is empty, each
//! of them costs one read and one program, however many entries changed. A remap and an
//! attach leave such pages, too.
//!
//! *The date of a map page* bounds the scan of an attach. So the map page whose turn it is gets
//! written even if its copy on flash is up to date: one read and one program an interval.
//!
//! *The table* of all entries stays in the simulator's memory, since a chip may drop contents. The
//! reads and programs are real, and a read must find the table's entries: a difference stops the
//! layer. The table replaces a map page that is unreadable, as in collection.

use super::format::decode_map;
use super::mapping::Mapping;
use super::{NAME, PageFtl, PageOptions, SeededBug};
use crate::{AttachError, Cause};
use alloc::{vec, vec::Vec};
use nandlab_block::{BlockError, Lru};
use nandlab_mtd::{Geometry, Mtd, MtdError, Page};
use nandlab_sim::{MediumFault, Place};

/// The least number of resident pages: a copy from one page to another needs the entries of both.
const PAGES_MIN: u64 = 2;

/// Free blocks that the map pages of one victim may take before any of them comes back.
pub(super) const RESERVE: u32 = 3;

/// The map pages in memory.
#[derive(Debug)]
pub(super) struct Demand {
    resident: Lru<u32, ()>,
    /// The resident page used last: most look-ups ask for it again.
    last: Option<u32>,
    /// Map pages whose copy on flash lacks a change.
    stale: Vec<bool>,
    /// Stale map pages that are not resident. Some have become resident, or up to date, since.
    waiting: Vec<u32>,
}

impl Demand {
    /// A cache of so many bytes, for map pages of `page` bytes.
    pub fn new(bytes: u64, page: u32, mapping: &Mapping) -> Self {
        let pages = (bytes / u64::from(page)).min(mapping.count.into());
        Self {
            resident: Lru::new(pages.max(PAGES_MIN) as usize),
            last: None,
            stale: vec![false; mapping.count as usize],
            waiting: Vec::new(),
        }
    }

    /// Uses a resident page; false if it is not resident.
    fn hit(&mut self, index: u32) -> bool {
        if self.last == Some(index) {
            return true;
        }
        let hit = self.resident.get(index).is_some();
        if hit {
            self.last = Some(index);
        }
        hit
    }

    fn insert(&mut self, index: u32) {
        self.resident.insert(index, ());
        self.last = Some(index);
    }

    fn remove(&mut self, index: u32) {
        self.resident.remove(index);
        self.last = self.last.filter(|last| *last != index);
    }

    /// An entry of the map page has changed.
    pub fn changed(&mut self, index: u32) {
        // A damaged tag may name a page that the disk does not have. The move refuses that page.
        let Some(stale) = self.stale.get_mut(index as usize) else {
            return;
        };
        let known = core::mem::replace(stale, true);
        if !known && !self.resident.contains(index) {
            self.waiting.push(index);
        }
    }

    /// The copy of the map page on flash is up to date.
    pub fn written(&mut self, index: u32) {
        // The header page is no map page.
        if let Some(stale) = self.stale.get_mut(index as usize) {
            *stale = false;
        }
    }

    /// A map page that still waits.
    fn next_waiting(&mut self) -> Option<u32> {
        loop {
            let index = self.waiting.pop()?;
            if self.stale[index as usize] && !self.resident.contains(index) {
                return Some(index);
            }
        }
    }
}

/// Refuses a cache that holds too few map pages.
pub(super) fn check_size(options: &PageOptions, geometry: &Geometry) -> Result<(), AttachError> {
    match options.map_cache {
        Some(bytes) if bytes / u64::from(geometry.page) < PAGES_MIN => {
            Err(AttachError::MapCache(bytes, geometry.page))
        }
        _ => Ok(()),
    }
}

impl<M: Mtd> PageFtl<M> {
    /// The entry of a logical page has changed.
    #[inline]
    pub(super) fn entry_changed(&mut self, lpn: u32) {
        if let Some(demand) = &mut self.demand {
            demand.changed(lpn / self.mapping.per_page);
        }
    }

    /// Makes the map page of a logical page resident.
    pub(super) fn look_up(&mut self, lpn: u32) -> Result<(), BlockError> {
        let index = lpn / self.mapping.per_page;
        let Some(demand) = &mut self.demand else {
            return Ok(());
        };
        if demand.hit(index) {
            self.tally.map_cache.hits += 1;
            return Ok(());
        }
        self.tally.map_cache.misses += 1;
        self.evict()?;
        self.read_map(index)?;
        if let Some(demand) = &mut self.demand {
            demand.insert(index);
        }
        Ok(())
    }

    /// Frees the place of one map page, if no place is free.
    fn evict(&mut self) -> Result<(), BlockError> {
        let Some(demand) = self.demand.as_mut().filter(|d| d.resident.is_full()) else {
            return Ok(());
        };
        let Some(index) = demand.resident.eldest().next() else {
            return Ok(());
        };
        if demand.stale[index as usize] {
            self.write_back(index)?;
        }
        if let Some(demand) = &mut self.demand {
            demand.remove(index);
        }
        Ok(())
    }

    /// Programs a changed map page before it leaves memory.
    fn write_back(&mut self, index: u32) -> Result<(), BlockError> {
        self.tally.map_cache.write_backs += 1;
        if self.options.seeded_bug == Some(SeededBug::EvictUnwritten) {
            self.map_written(index);
            return Ok(());
        }
        self.write_map(index)?;
        self.retire_records();
        Ok(())
    }

    /// A map page is on flash as it is in memory.
    #[inline]
    pub(super) fn map_written(&mut self, index: u32) {
        if let Some(demand) = &mut self.demand {
            demand.written(index);
        }
    }

    fn is_stale(&self, index: u32) -> bool {
        let stale = |demand: &Demand| demand.stale[index as usize];
        self.demand.as_ref().is_some_and(stale)
    }

    /// Reads a map page that is about to change on flash, unless it is in memory.
    #[inline]
    pub(super) fn read_before_write(&mut self, index: u32) -> Result<(), BlockError> {
        match &self.demand {
            Some(demand) if index < self.mapping.count && !demand.resident.contains(index) => {
                self.read_map(index)
            }
            _ => Ok(()),
        }
    }

    /// Reads a map page from flash.
    fn read_map(&mut self, index: u32) -> Result<(), BlockError> {
        let Some(page) = self.mapping.locations[index as usize].checked_sub(1) else {
            return self.check_unwritten(index);
        };
        self.tally.of(Cause::Mapping).reads += 1;
        match self.mtd.read(Page(page), &mut self.mapping.buffer, &mut []) {
            Ok(corrected) => {
                if self.options.scrub_bits > 0 && corrected.bits >= self.options.scrub_bits {
                    self.scrub(Page(page));
                }
                self.check_map(index, page)
            }
            Err(MtdError::Uncorrectable(_)) => {
                self.scrub(Page(page));
                self.entry_changed(index * self.mapping.per_page);
                Ok(())
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// A map page that was never written must have no entries.
    fn check_unwritten(&mut self, index: u32) -> Result<(), BlockError> {
        if self.is_stale(index) || self.entries(index).all(|entry| entry == 0) {
            return Ok(());
        }
        Err(self
            .health
            .broken("a map page with entries was never written"))
    }

    /// The map page in the buffer must hold the table's entries.
    fn check_map(&mut self, index: u32, page: u32) -> Result<(), BlockError> {
        let buffer = &self.mapping.buffer;
        // A chip that drops contents reads as zeros.
        let dropped = buffer.starts_with(&[0; 4]);
        let stale = self.is_stale(index);
        let table = self.entries(index);
        let sound = decode_map(buffer, index).is_some_and(|(.., found)| stale || found.eq(table));
        if dropped || sound {
            return Ok(());
        }
        let (block, _) = self.blocks.split(page);
        let place = Place::Page { page, block };
        let fault = MediumFault::new(place, "the map page differs from the map in memory");
        Err(self.health.stop(BlockError::Internal(fault.in_layer(NAME))))
    }

    /// Writes at most `budget` map pages that wait; gives the rest of the budget.
    pub(super) fn write_waiting(&mut self, mut budget: u32) -> Result<u32, BlockError> {
        while budget != 0 {
            let Some(index) = self.demand.as_mut().and_then(Demand::next_waiting) else {
                break;
            };
            self.write_map(index)?;
            budget -= 1;
        }
        Ok(budget)
    }

    /// Keeps the map pages that an attach has read and changed, and writes those that the cache
    /// cannot hold.
    pub(super) fn keep_replayed(&mut self) -> Result<(), BlockError> {
        while let Some(demand) = &mut self.demand {
            let Some(index) = demand.next_waiting() else {
                break;
            };
            if demand.resident.is_full() {
                self.write_map(index)?;
            } else {
                demand.insert(index);
            }
        }
        Ok(())
    }
}
