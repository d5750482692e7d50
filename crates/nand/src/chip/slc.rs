//! Blocks in SLC mode: erases into it, and what it changes for programs and for times.

use super::Chip;
use super::recent::Recent;
use crate::cells::Odd;
use crate::log::LoggedKind;
use nandlab_mtd::{Block, MtdError, Page};

impl Chip {
    fn is_slc(&self, block: Block) -> bool {
        self.cells.blocks[block.0 as usize].slc
    }

    /// The next operation reads `from`, and programs `to`.
    #[inline]
    pub(super) fn enter_modes(&mut self, from: Block, to: Block) {
        if self.any_slc {
            self.calendar.enter(self.is_slc(from), self.is_slc(to));
        }
    }

    /// The modes of a move: SLC or not of its source, and of its target.
    pub(super) fn modes(&self, from: Block, to: Block) -> [bool; 2] {
        [self.is_slc(from), self.is_slc(to)]
    }

    /// A block in SLC mode has fewer pages.
    #[inline]
    pub(super) fn check_mode(&self, page: Page, block: Block, index: u32) -> Result<(), MtdError> {
        if self.any_slc && self.is_slc(block) && Some(index) >= self.spec.slc_pages() {
            return Err(MtdError::Illegal(
                page,
                "program of a page that a block in SLC mode does not have",
            ));
        }
        Ok(())
    }

    /// Erases a block, into SLC mode or not.
    pub(super) fn erase_into(&mut self, block: Block, slc: bool) -> Result<(), MtdError> {
        self.rail.step()?;
        let first = Page(block.0.saturating_mul(self.spec.geometry.pages_per_block));
        if block.0 >= self.spec.geometry.blocks {
            return Err(MtdError::OutOfRange(first));
        }
        if self.cells.bad.has(block.0) {
            return Err(MtdError::BadBlock(block));
        }
        if slc && self.spec.slc_pages().is_none() {
            return Err(MtdError::Illegal(first, "this chip has no SLC mode"));
        }
        self.recent.push(Recent::new(Recent::ERASE, block.0));
        self.any_slc |= slc;
        if self.any_slc {
            self.calendar.enter(slc, slc);
        }
        let window = self.calendar.erase(block, self.clock.now());
        self.oplog.push(window, || match slc {
            true => LoggedKind::EraseSlc(block),
            false => LoggedKind::Erase(block),
        });
        self.counts.erases += 1;
        self.slc_erases += u64::from(slc);
        let used = self.cells.blocks[block.0 as usize].next;
        let fails = self.faults.fails
            && self
                .faults
                .erase_fails(block, &self.cells.blocks[block.0 as usize]);
        self.cells.erase(block, slc);
        self.oob.erase(block, used);
        self.data.forget(first, used).map_err(MtdError::Backing)?;
        if slc || !self.plain {
            self.update_plain();
        }
        if !self.carried.is_empty() {
            (first.0..first.0 + used).for_each(|p| {
                self.carried.remove(&p);
            });
        }
        if fails {
            self.counts.failures += 1;
            (first.0..first.0 + self.spec.geometry.pages_per_block)
                .for_each(|p| self.cells.set_odd(Page(p), Odd::Unreadable));
            self.plain = false;
            return Err(MtdError::EraseFailed(block));
        }
        Ok(())
    }
}
