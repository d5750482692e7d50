//! Where writes go: the open blocks of each stream, and the one way a page is programmed.

mod paired;
mod slc;

use super::blocks::State;
use super::format::{BlockHeader, PageId, SPAN};
use super::{Collection, PageFtl, SeededBug};
use crate::Cause;
use crate::tag::{BASE_UNIT, Tail};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// Data of one temperature shares blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Collection,
    Map,
    /// What the host writes, by the stream that it named.
    Host(u8),
}

impl Stream {
    /// Its place among the frontiers.
    #[inline]
    pub fn at(self) -> usize {
        match self {
            Self::Collection => 0,
            Self::Map => 1,
            Self::Host(stream) => 2 + usize::from(stream),
        }
    }
}

/// A block that takes pages.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    block: u32,
    next: u32,
    /// Pages of the block that are filled before it is closed; 0: no block was opened yet.
    end: u32,
    open: bool,
    tail: Tail,
}

/// The open blocks of a stream, one per die and plane, written in turn.
#[derive(Debug)]
pub(super) struct Frontier {
    lanes: Vec<Lane>,
    turn: usize,
    at_rest: bool,
}

impl Frontier {
    /// `at_rest`: prefers worn blocks, for data that will not be rewritten soon.
    pub fn new(lanes: usize, at_rest: bool) -> Self {
        Self {
            lanes: vec![Lane::default(); lanes],
            turn: 0,
            at_rest,
        }
    }

    pub fn lanes(&self) -> u32 {
        self.lanes.len() as u32
    }
}

/// The next page of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub page: Page,
    pub tail: Tail,
    /// Pages left in its block, this one included.
    pub free_pages: u32,
}

impl<M: Mtd> PageFtl<M> {
    /// The page that the stream's next program goes to, on an open block.
    #[inline]
    pub(super) fn slot(&mut self, stream: Stream) -> Result<Slot, BlockError> {
        loop {
            let frontier = &self.frontiers[stream.at()];
            let lane = &frontier.lanes[frontier.turn];
            if lane.open && lane.tail.age(self.sequence) < SPAN {
                let pages = self.mtd.geometry().pages_per_block;
                return Ok(Slot {
                    page: Page(lane.block * pages + lane.next),
                    tail: lane.tail,
                    free_pages: lane.end - lane.next,
                });
            }
            self.open(stream)?;
        }
    }

    /// The slot, and `run` - 1 pages behind it, have been programmed: they are valid, the next
    /// lane's turn comes, a full block is closed.
    #[inline]
    pub(super) fn advance(&mut self, stream: Stream, page: Page, run: u32) {
        self.sequence += u64::from(run);
        self.mapping.due -= i64::from(run);
        self.blocks.set_valid_run(page.0, run);
        let frontier = &mut self.frontiers[stream.at()];
        let turn = frontier.turn;
        frontier.turn = if turn + 1 == frontier.lanes.len() {
            0
        } else {
            turn + 1
        };
        let lane = &mut frontier.lanes[turn];
        lane.next += run;
        if lane.next == lane.end {
            self.close(stream, turn);
        }
    }

    /// The lane's block is full.
    #[cold]
    fn close(&mut self, stream: Stream, turn: usize) {
        let lane = &mut self.frontiers[stream.at()].lanes[turn];
        lane.open = false;
        self.blocks.close(lane.block, self.sequence);
    }

    /// Programs one page of host data. Failed programs retire their block and go elsewhere.
    #[inline]
    pub(super) fn append(&mut self, lpn: u32, data: &[u8]) -> Result<u32, BlockError> {
        let mut stream = self.stream;
        loop {
            let slot = self.slot(stream)?;
            match self.mtd.program(
                slot.page,
                data,
                &slot.tail.tag(PageId::Data(lpn).encode(), self.sequence, 0),
            ) {
                Ok(()) => {
                    self.advance(stream, slot.page, 1);
                    self.tally.of(Cause::Host).programs += 1;
                    return Ok(slot.page.0);
                }
                Err(MtdError::ProgramFailed(_)) => {
                    self.abandon(stream, slot.page);
                    self.choose_stream()?;
                    stream = self.stream;
                }
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    /// A program failed in the block of `page`: it is emptied and retired.
    pub(super) fn abandon(&mut self, stream: Stream, page: Page) {
        let failed = MtdError::ProgramFailed(page);
        self.health.failed(failed, self.mtd.geometry());
        let (block, _) = self.blocks.split(page.0);
        for lane in self.frontiers[stream.at()]
            .lanes
            .iter_mut()
            .filter(|l| l.open && l.block == block)
        {
            lane.open = false;
            self.blocks.close(block, self.sequence);
        }
        self.sequence += 1;
        self.blocks.set_failing(block);
        self.blocks.buffer.hurry(block);
        self.urgent.push_back((block, Cause::Repair));
    }

    /// Opens a block for the stream's current lane, or frees space so that the next call can.
    #[cold]
    fn open(&mut self, stream: Stream) -> Result<(), BlockError> {
        if !self.collecting && self.short_of_room() {
            // Collection may open this very lane; the caller looks again.
            return self.make_room();
        }
        if self.collecting && self.share_lane(stream) {
            return Ok(());
        }
        let frontier = &mut self.frontiers[stream.at()];
        let turn = frontier.turn;
        let at_rest = frontier.at_rest;
        let lane = &mut frontier.lanes[turn];
        if core::mem::take(&mut lane.open) {
            // The block has no sequence numbers left for its remaining pages.
            let block = lane.block;
            self.blocks.close(block, self.sequence);
        }
        // Neighbouring lanes are the planes of one die, so that their programs run as one.
        let g = self.mtd.geometry();
        let die = turn as u32 / g.planes;
        let plane = turn as u32 % g.planes;
        let unit = die + g.dies * plane;
        let block = loop {
            let Some((block, state)) = self.blocks.take(unit, at_rest) else {
                return Err(self.health.worn_out());
            };
            if state == State::Clean || self.erase(block)? {
                break block;
            }
        };
        self.blocks.open(block, stream == Stream::Map);
        self.sequence = self.sequence.next_multiple_of(BASE_UNIT);
        let header = BlockHeader {
            base: self.sequence,
            erases: self.blocks.erases[block as usize],
            slc: false,
        };
        let end = self.fill(stream, turn);
        self.frontiers[stream.at()].lanes[turn] = Lane {
            block,
            next: 0,
            end,
            open: true,
            tail: header.tail(),
        };
        Ok(())
    }

    /// Gives the turn to a lane of the stream that has free pages, if the pool has no more blocks
    /// than the map may need.
    fn share_lane(&mut self, stream: Stream) -> bool {
        let for_map = 1 + self.map_reserve();
        if self.options.collection == Collection::Whole || self.blocks.free() > for_map {
            return false;
        }
        let sequence = self.sequence;
        let frontier = &mut self.frontiers[stream.at()];
        let has_room = |lane: &Lane| lane.open && lane.tail.age(sequence) < SPAN;
        let Some(turn) = frontier.lanes.iter().position(has_room) else {
            return false;
        };
        frontier.turn = turn;
        true
    }

    /// How many pages of its next block a lane fills. With collection in steps the first blocks of
    /// a stream are closed one after another, so that its lanes never need blocks all at once.
    fn fill(&self, stream: Stream, turn: usize) -> u32 {
        let pages = self.mtd.geometry().pages_per_block;
        let lanes = &self.frontiers[stream.at()].lanes;
        if self.options.collection == Collection::Whole || lanes[turn].end != 0 {
            return pages;
        }
        // Lanes that are filled together are closed together.
        let together = self.filled_together(stream).min(lanes.len() as u32);
        let place = turn as u32 / together + 1;
        (pages * place).div_ceil(lanes.len() as u32 / together)
    }

    /// Erases a block taken from the pool; false if it failed and was retired.
    fn erase(&mut self, block: u32) -> Result<bool, BlockError> {
        if self.options.seeded_bug != Some(SeededBug::EraseUnfenced) {
            self.mtd.fence(self.blocks.erase_after(block));
        }
        self.tally.of(Cause::Collection).erases += 1;
        self.erases_until_levelling = self.erases_until_levelling.saturating_sub(1);
        let erased = self.mtd.erase(Block(block));
        self.after_erase(block, erased)
    }

    /// Counts an erase, or retires the block if it failed (false).
    fn after_erase(
        &mut self,
        block: u32,
        erased: Result<(), MtdError>,
    ) -> Result<bool, BlockError> {
        match erased {
            Ok(()) => {
                self.blocks.erases[block as usize] += 1;
                Ok(true)
            }
            Err(error @ MtdError::EraseFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                self.blocks.retire(block);
                self.mtd.mark_bad(Block(block)).map_err(|e| self.fault(e))?;
                Ok(false)
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Goes on filling a block found on the medium: what must not be done (see
    /// [`SeededBug::ReuseOpenBlock`]).
    pub(super) fn resume_lane(&mut self, block: u32, next: u32, header: BlockHeader) {
        self.frontiers[Stream::Host(0).at()].lanes[0] = Lane {
            block,
            next,
            end: self.mtd.geometry().pages_per_block,
            open: true,
            tail: header.tail(),
        };
    }
}
