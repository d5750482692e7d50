//! An SLC cache: blocks of multi-level cells in SLC mode take what the host writes, and the layer
//! folds them into the other blocks later. Makers say SLC cache, TurboWrite or nCache. UFS says
//! WriteBooster buffer, and folding or flushing for the move out of it.
//!
//! *How.* The cache has blocks of its own, a number that does not change between attaches. The
//! host's pages go to its open blocks, one for each die and plane, while it has free blocks. A fold
//! takes the filled block that is oldest. It copies the valid pages to the open blocks of the
//! host's last stream. Folds run while the host is idle, or when the cache is full and
//! [`SlcOverflow::Fold`] says so. A filled block without valid pages needs no copies.
//!
//! *On flash* a page in the cache is a page as any other; the header of its block says that the
//! block is in SLC mode, and so how many pages it has. An attach needs nothing else.
//!
//! *Power loss.* The four rules of the layer cover the cache. A fold is collection from another kind
//! of block. The block goes back to the cache when the programs of its pages elsewhere have begun,
//! and those of map pages with earlier discards. Its next erase waits for all of that. A cut within
//! a fold leaves pages in both places, and the sequence numbers say which is newer.

use super::collect::Evacuation;
use super::frontier::Stream;
use super::{Collection, PageFtl, PageOptions, SeededBug};
use crate::{AttachError, Cause};
use nandlab_block::BlockError;
use nandlab_mtd::{Issued, Mtd};

/// Where the host's pages go when the SLC cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlcOverflow {
    /// Past the cache, to multi-level blocks. The cache stays full until the host is idle.
    #[default]
    Direct,
    /// To the cache, which a fold makes space in.
    Fold,
}

/// The state of an SLC cache, besides its blocks.
#[derive(Debug)]
pub(super) struct SlcCache {
    /// Pages of a block in SLC mode.
    pub pages: u32,
    /// The stream of its open blocks.
    pub stream: Stream,
    /// Where pages go that go past it.
    pub direct: Stream,
    /// The block that a fold is emptying.
    folding: Option<u32>,
    /// Pages that go past it before the next try.
    pass: u32,
}

impl SlcCache {
    /// The cache that the options ask for, on flash with so many pages in a block in SLC mode.
    pub fn new(options: &PageOptions, pages: Option<u32>) -> Option<Self> {
        let pages = pages.filter(|_| options.slc_cache_blocks > 0)?;
        Some(Self {
            pages,
            // Behind the host's own streams.
            stream: Stream::Host(options.streams.max(1)),
            direct: Stream::Host(0),
            folding: None,
            pass: 0,
        })
    }
}

/// Refuses a cache on flash without an SLC mode.
pub(super) fn check_mode(options: &PageOptions, mtd: &impl Mtd) -> Result<(), AttachError> {
    match mtd.slc_pages() {
        None if options.slc_cache_blocks > 0 => Err(AttachError::NoSlcMode),
        _ => Ok(()),
    }
}

impl<M: Mtd> PageFtl<M> {
    /// Does the work before a page of the host, with collection in steps or an SLC cache.
    #[cold]
    pub(super) fn before_write(&mut self) -> Result<(), BlockError> {
        if self.options.collection == Collection::Steps {
            self.collect_step()?;
        }
        self.choose_stream()
    }

    /// Chooses where the next page of the host goes: to the SLC cache while it has space.
    pub(super) fn choose_stream(&mut self) -> Result<(), BlockError> {
        let Some(slc) = &mut self.slc else {
            return Ok(());
        };
        let cache = slc.stream;
        let direct = slc.direct;
        if slc.pass > 0 {
            slc.pass -= 1;
        } else if self.slc_has_space(cache)? {
            self.stream = cache;
            self.tally.slc_cache.buffered += 1;
            return Ok(());
        }
        self.stream = direct;
        self.tally.slc_cache.direct += 1;
        Ok(())
    }

    /// Makes one of the cache's open blocks take the next page, if that is possible.
    fn slc_has_space(&mut self, cache: Stream) -> Result<bool, BlockError> {
        if self.options.slc_overflow == SlcOverflow::Fold
            && self.options.collection == Collection::Steps
        {
            self.fold_ahead(cache)?;
        }
        if self.lane_is_ready(cache) {
            return Ok(true);
        }
        self.grow_slc();
        loop {
            if self.open_slc_lanes(cache)? {
                return Ok(true);
            }
            if !self.reclaim()? {
                break;
            }
        }
        if let Some(slc) = &mut self.slc {
            slc.pass = slc.pages;
        }
        Ok(false)
    }

    /// Keeps pace with the host: folds a page for each that it writes once few blocks are free.
    fn fold_ahead(&mut self, cache: Stream) -> Result<(), BlockError> {
        let lanes = self.lanes_of(cache);
        let folding = self.slc.as_ref().is_some_and(|slc| slc.folding.is_some());
        if folding || self.blocks.buffer.free() < lanes as usize {
            self.fold(self.planes_together())?;
        }
        Ok(())
    }

    /// Makes a block of the cache free; false if none can be.
    fn reclaim(&mut self) -> Result<bool, BlockError> {
        let empty = self
            .blocks
            .buffer
            .filled()
            .find(|&block| self.blocks.valid(block) == 0);
        if let Some(block) = empty {
            self.blocks.buffer.hurry(block);
            if let Some(block) = self.blocks.begin_fold() {
                self.fold_block(block, u32::MAX)?;
            }
            return Ok(true);
        }
        match self.options.slc_overflow {
            SlcOverflow::Direct => Ok(false),
            SlcOverflow::Fold => self.fold_whole(),
        }
    }

    /// Folds a whole block, a few pages to each lane in turn, so that all dies work. Gives whether
    /// there was one.
    fn fold_whole(&mut self) -> Result<bool, BlockError> {
        let together = self.planes_together();
        while self.fold(together)? {
            if self.slc.as_ref().is_none_or(|slc| slc.folding.is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Folds while the host has nothing to do: a page to each lane, so that all dies work. Gives
    /// whether there was anything to do.
    #[cold]
    pub(super) fn fold_idle(&mut self) -> Result<bool, BlockError> {
        let Some(slc) = &mut self.slc else {
            return Ok(false);
        };
        // There may be space afterwards.
        slc.pass = 0;
        let lanes = self.lanes_of(self.fold_stream());
        let together = self.planes_together();
        for _ in 0..lanes.div_ceil(together) {
            if self.options.collection == Collection::Steps {
                (0..together).try_for_each(|_| self.collect_step())?;
            }
            if !self.fold(together)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stream that takes folded pages: they have outlived others.
    pub(super) fn fold_stream(&self) -> Stream {
        Stream::Host(self.options.streams.max(1) - 1)
    }

    /// Moves at most `budget` pages out of the block in the fold, or of the next one. Gives
    /// whether there is such a block.
    fn fold(&mut self, budget: u32) -> Result<bool, BlockError> {
        let Some(slc) = &mut self.slc else {
            return Ok(false);
        };
        let begun = slc.folding;
        let Some(block) = begun.or_else(|| self.blocks.begin_fold()) else {
            return Ok(false);
        };
        slc.folding = Some(block);
        self.fold_block(block, budget)?;
        Ok(true)
    }

    fn fold_block(&mut self, block: u32, budget: u32) -> Result<(), BlockError> {
        let left = self.move_out(Evacuation::fold(block), budget)?;
        let mut left = self.write_waiting(left)?;
        if self.options.seeded_bug != Some(SeededBug::FoldForgets) {
            left = self.write_discards(left)?;
        }
        if left > 0 {
            self.finish_fold(block)?;
        }
        while self.mapping.due <= 0 {
            self.write_next_map()?;
        }
        Ok(())
    }

    /// The folded block is empty.
    fn finish_fold(&mut self, block: u32) -> Result<(), BlockError> {
        if let Some(slc) = &mut self.slc {
            slc.folding = slc.folding.filter(|&folding| folding != block);
        }
        self.finish(block)?;
        if self.options.seeded_bug == Some(SeededBug::FoldUnfenced) {
            self.blocks.set_erase_after(block, Issued(0));
        }
        Ok(())
    }

    /// True if the cache lacks a block that the pool can spare. After an attach that may be so for
    /// a while: blocks that were open at cuts wait for collection.
    pub(super) fn may_grow_slc(&self) -> bool {
        let size = self.blocks.buffer.size();
        self.blocks.free() > self.low_water() + 1
            && size < self.options.slc_cache_blocks
            && self.blocks.good() > self.blocks_needed()
    }

    /// Gives the cache the blocks that it lacks, as far as the pool can spare them.
    pub(super) fn grow_slc(&mut self) {
        while self.may_grow_slc() {
            self.blocks.fill_buffer(self.blocks.buffer.size() + 1);
        }
    }

    /// Blocks that the cache may have, of so many in service.
    pub(super) fn slc_blocks_allowed(&self, good: u32) -> u32 {
        let spare = good.saturating_sub(self.blocks_needed());
        self.options.slc_cache_blocks.min(spare)
    }
}

impl Evacuation {
    fn fold(block: u32) -> Self {
        Self {
            block,
            cause: Cause::Fold,
            pace: 0,
        }
    }
}
