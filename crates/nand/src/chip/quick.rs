//! The fast path: programs and copies on a chip on which nothing out of the ordinary is to be
//! looked at. Whatever is not plain goes the whole way, so that this is never more than a shorter
//! road to the same place.

use super::Chip;
use super::recent::Recent;
use crate::PageOrder;
use crate::contents::PageData;
use crate::oob::SHORT;
use nandlab_mtd::{Block, Move, Page};
use nandlab_sim::Nanos;

impl Chip {
    /// Whether nothing can fail, nothing is logged and no page is out of the ordinary, so that the
    /// rules below are all there is.
    pub(crate) fn update_plain(&mut self) {
        self.plain = !self.faults.fails
            && !self.faults.flips
            && !self.several_programs
            && !self.any_slc
            && !self.oplog.is_on()
            && self.cells.all_ordinary()
            && self.oob.is_compact()
            && self.spec.rules.order == PageOrder::Ascending
            && !matches!(self.data, PageData::Stored(_));
    }

    /// Whether a program may take the fast path, by the rules of the data sheet.
    #[inline]
    pub(super) fn may_program(&self, block: Block, index: u32) -> bool {
        block.0 < self.spec.geometry.blocks
            && !self.cells.bad.has(block.0)
            && index >= self.cells.blocks[block.0 as usize].next
    }

    /// Copies a run of up to 64 pages of one block, ascending within 64, to consecutive pages of
    /// another, where nothing stands in the way; false if something may, and nothing was done.
    pub(super) fn copy_run(&mut self, moves: &[Move], heads: &mut [u8], tails: &[u8]) -> bool {
        let (Some(first), true) = (moves.first().copied(), self.plain && moves.len() <= 64) else {
            return false;
        };
        let n = moves.len() as u32;
        let (source, source_index) = self.per_block.split(first.from.0);
        let (target, index) = self.per_block.split(first.to.0);
        let source = Block(source);
        let target = Block(target);
        let pages = self.spec.geometry.pages_per_block;
        if source.0 >= self.spec.geometry.blocks
            || index + n > pages
            || !self.may_program(target, index)
        {
            return false;
        }
        self.oob.prefetch(first.from);
        let mut mask = 0u64;
        let mut is_run = true;
        for (to, m) in (first.to.0..).zip(moves) {
            let offset = m.from.0.wrapping_sub(first.from.0);
            is_run &= (offset < 64) & (m.to.0 == to);
            mask |= 1u64.wrapping_shl(offset);
        }
        if !is_run {
            return false;
        }
        if source_index + mask.ilog2() >= pages
            || source == target
            || !self.cells.are_programmed(first.from, mask)
        {
            return false;
        }
        if self.rail.steps_left() < u64::from(n)
            || !self
                .oob
                .copy_short(target, (moves, heads, tails), index == 0)
        {
            return false;
        }
        self.rail.take(u64::from(n));
        let now = self.clock.now();
        self.recent.push(Recent::copy(
            moves[n as usize - 1].from,
            moves[n as usize - 1].to,
        ));
        if self.calendar.is_joined() {
            for (i, m) in (0..).zip(moves.iter()) {
                self.calendar.copy(
                    (source, source_index + (m.from.0 - first.from.0)),
                    (target, index + i),
                    now,
                );
            }
        } else {
            self.calendar.copy_run(source, target, u64::from(n), now);
        }
        self.counts.copies += u64::from(n);
        self.data.share_run(moves);
        self.cells.program_run(target, index, first.to, n, now);
        true
    }

    /// State and OOB of a programmed page; leaves the fast path if the block's OOB bytes do not
    /// agree.
    #[inline]
    pub(super) fn finish_short(
        &mut self,
        page: Page,
        block: Block,
        index: u32,
        prefix: u64,
        common: u64,
        now: Nanos,
    ) {
        let first = self.cells.program(block, index, page, now);
        if !self.oob.program_short(block, page, prefix, common, first) {
            let mut oob = [0; SHORT];
            oob[..8].copy_from_slice(&prefix.to_le_bytes());
            oob[7..].copy_from_slice(&common.to_le_bytes());
            self.oob.program(block, index, page, &oob, first);
            self.update_plain();
        }
    }
}
