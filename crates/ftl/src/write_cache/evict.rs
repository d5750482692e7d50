//! Room in the cache: dirty pages are written back, and leave once the layer below has made them
//! durable.

use super::WriteCache;
use super::slots::State;
use crate::Ftl;
use core::ops::Range;
use nandlab_block::{BlockDevice, BlockError};

/// Slots that are never dirty for long: with them the layer below is flushed once for many pages
/// rather than for each. An eighth, but no more than keep the dies of any chip busy meanwhile.
pub(super) fn spare_slots(slots: u32) -> u32 {
    (slots / 8).clamp(1, 64)
}

impl<F: Ftl, N: BlockDevice> WriteCache<F, N> {
    /// Frees space for a new version of a page: a free slot, and one dirty page more if this is not
    /// one.
    pub(super) fn make_room(&mut self, page: u32) -> Result<(), BlockError> {
        // After a cut more may be dirty than should be.
        while self.slots.dirty() + u32::from(!self.slots.is_dirty(page)) > self.capacity {
            let Some(victim) = self.policy.victim() else {
                break;
            };
            self.write_back_all(victim)?;
            self.counts.evictions += 1;
        }
        if self.slots.free().is_none() {
            self.release_written()
        } else {
            Ok(())
        }
    }

    /// Writes everything back and lets go of it.
    pub fn drain(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        while let Some(victim) = self.policy.victim() {
            self.write_back_all(victim)?;
        }
        self.release_written()
    }

    /// Writes the dirty pages of a victim back in the order of their addresses, and the others with
    /// them if the policy pads.
    fn write_back_all(&mut self, victim: Range<u32>) -> Result<(), BlockError> {
        let pads = self.options.policy.pads();
        for page in victim {
            match self.slots.find(page) {
                Some((slot, held)) if held.state == State::Dirty => {
                    self.write_back(slot, page, held.discarded)?
                }
                _ if pads => self.pad(page)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn write_back(&mut self, slot: u32, page: u32, discarded: bool) -> Result<(), BlockError> {
        let lba = self.page_lba(page);
        if discarded {
            self.below.discard(lba, self.sectors_per_page.into())?;
        } else {
            self.store
                .read(slot, 0, &mut self.scratch)
                .map_err(|e| self.fault(e))?;
            self.below.write(lba, &self.scratch)?;
        }
        self.slots.set_written(slot);
        self.policy.cleaned(page);
        self.counts.written_back += 1;
        Ok(())
    }

    /// Writes a clean page again as it is. What is lost is not made up; the block stays without it.
    fn pad(&mut self, page: u32) -> Result<(), BlockError> {
        let lba = self.page_lba(page);
        match self.below.read(lba, &mut self.scratch) {
            Ok(()) => {
                self.counts.padding_reads += 1;
                self.below.write(lba, &self.scratch)
            }
            Err(BlockError::Lost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes everything below durable, and lets go of what was written back.
    pub(super) fn release_written(&mut self) -> Result<(), BlockError> {
        self.counts.flushes_below += 1;
        self.below.flush()?;
        self.discarded_below = false;
        while let Some(slot) = self.slots.written() {
            self.store.clear(slot).map_err(|e| self.fault(e))?;
            self.slots.release(slot);
        }
        Ok(())
    }

    /// The page of a slot may differ from what is below after all.
    pub(super) fn keep(&mut self, slot: u32, page: u32) {
        if self.slots.set_dirty(slot) {
            self.policy.written(page, true);
        }
    }
}
