//! The open blocks of the SLC cache.

use super::{Lane, Stream};
use crate::Cause;
use crate::page::PageFtl;
use crate::page::format::{BlockHeader, SPAN};
use crate::page::slc::SlcCache;
use crate::tag::BASE_UNIT;
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Mtd};

impl<M: Mtd> PageFtl<M> {
    pub(in crate::page) fn lanes_of(&self, stream: Stream) -> u32 {
        self.frontiers[stream.at()].lanes()
    }

    /// Whether the lane whose turn it is takes the next page without opening a block.
    #[inline]
    pub(in crate::page) fn lane_is_ready(&self, stream: Stream) -> bool {
        let frontier = &self.frontiers[stream.at()];
        self.has_room(&frontier.lanes[frontier.turn])
    }

    pub(super) fn has_room(&self, lane: &Lane) -> bool {
        lane.open && lane.tail.age(self.sequence) < SPAN
    }

    /// Opens free blocks of the cache for its lanes, all at once, so that their erases run side by
    /// side. Gives the turn to a lane with free pages; false if there is none.
    pub(in crate::page) fn open_slc_lanes(&mut self, stream: Stream) -> Result<bool, BlockError> {
        let lanes = self.frontiers[stream.at()].lanes.len();
        let turn = self.frontiers[stream.at()].turn;
        for lane in (turn..lanes).chain(0..turn) {
            if !self.has_room(&self.frontiers[stream.at()].lanes[lane]) {
                self.open_slc_lane(stream, lane)?;
            }
        }
        let frontier = &self.frontiers[stream.at()];
        let mut turns = (turn..lanes).chain(0..turn);
        let ready = turns.find(|&turn| self.has_room(&frontier.lanes[turn]));
        if let Some(turn) = ready {
            self.frontiers[stream.at()].turn = turn;
        }
        Ok(ready.is_some())
    }

    /// Opens a free block for a lane, if there is one.
    fn open_slc_lane(&mut self, stream: Stream, turn: usize) -> Result<(), BlockError> {
        let lane = &mut self.frontiers[stream.at()].lanes[turn];
        if core::mem::take(&mut lane.open) {
            // The block has no sequence numbers left for its remaining pages.
            let block = lane.block;
            self.blocks.close(block, self.sequence);
        }
        let g = self.mtd.geometry();
        let unit = turn as u32 / g.planes + g.dies * (turn as u32 % g.planes);
        while let Some(block) = self.blocks.buffer.take(unit) {
            if self.erase_into_slc(block)? {
                self.start_slc(stream, turn, block);
                break;
            }
        }
        Ok(())
    }

    /// The lane takes an erased block.
    fn start_slc(&mut self, stream: Stream, turn: usize, block: u32) {
        self.blocks.open(block, false);
        self.sequence = self.sequence.next_multiple_of(BASE_UNIT);
        let header = BlockHeader {
            base: self.sequence,
            erases: self.blocks.erases[block as usize],
            slc: true,
        };
        let end = self.slc.as_ref().map_or(0, |slc: &SlcCache| slc.pages);
        self.frontiers[stream.at()].lanes[turn] = Lane {
            block,
            next: 0,
            end,
            open: true,
            tail: header.tail(),
        };
    }

    /// Erases a free block of the cache; false if that failed and the block was retired.
    fn erase_into_slc(&mut self, block: u32) -> Result<bool, BlockError> {
        self.mtd.fence(self.blocks.erase_after(block));
        self.tally.of(Cause::Fold).erases += 1;
        let erased = self.mtd.erase_slc(Block(block));
        self.after_erase(block, erased)
    }
}
