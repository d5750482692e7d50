//! Copies paired over the planes of a die: pages of a victim go to one page index on every plane,
//! and one program takes them.
//!
//! *How.* The lanes of a die take one page each, row by row, so that they stay at one index. A
//! failed program or an odd page leaves a lane behind; that lane takes pages alone until it is
//! level. If the pool is so small that lanes are shared, the pages go there, unpaired.
//!
//! *Power loss.* A cut within a joined program tears each of its pages in its own way. Each page has
//! its own tag, and its victim stays until all of them are durable, so nothing depends on the
//! others.

use super::{Frontier, Lane, Stream};
use crate::Cause;
use crate::page::collect::STRIPE;
use crate::page::format::SPAN;
use crate::page::{PageFtl, SeededBug};
use crate::tag::Batch;
use nandlab_block::BlockError;
use nandlab_mtd::{Mtd, MtdError, Page};

/// Lanes of one die that stand at one page index.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// The first lane of the die.
    first: usize,
    /// One bit a lane of the die.
    lanes: u32,
    /// Pages that each of them can take.
    rows: u32,
    /// Whether all lanes of the die are there.
    whole: bool,
}

impl Level {
    /// One page for one lane, if a lane has too few sequence numbers left for a row.
    fn or_single(self) -> Self {
        match self.rows {
            0 => Self {
                lanes: self.lanes & self.lanes.wrapping_neg(),
                rows: 1,
                whole: false,
                ..self
            },
            _ => self,
        }
    }

    fn lanes(self) -> impl Iterator<Item = usize> + Clone {
        let first = self.first;
        (0..u32::BITS as usize)
            .filter(move |lane| self.lanes >> lane & 1 != 0)
            .map(move |lane| first + lane)
    }
}

impl Frontier {
    /// The lanes of the die at `first` that stand lowest; none if no lane is open.
    fn level(&self, first: usize, planes: usize, sequence: u64) -> Option<Level> {
        let die = &self.lanes[first..(first + planes).min(self.lanes.len())];
        let usable = |lane: &&Lane| lane.open && lane.tail.age(sequence) < SPAN;
        let lowest = die.iter().filter(usable).map(|lane| lane.next).min()?;
        let mut level = Level {
            first,
            lanes: 0,
            rows: u32::MAX,
            whole: true,
        };
        for (at, lane) in die.iter().enumerate() {
            if !usable(&lane) {
                level.whole = false;
                continue;
            }
            let until = if lane.next == lowest {
                level.lanes |= 1 << at;
                lane.end
            } else {
                level.whole = false;
                lane.next
            };
            // Each page of the batch takes a sequence number, whichever lane it goes to.
            let numbers = (SPAN - lane.tail.age(sequence)) / planes as u64;
            level.rows = level.rows.min(until - lowest).min(numbers as u32);
        }
        Some(level.or_single())
    }
}

impl<M: Mtd> PageFtl<M> {
    /// Planes that take copies together; one without the option.
    pub(in crate::page) fn planes_together(&self) -> u32 {
        if self.options.multi_plane_copies {
            self.mtd.geometry().planes
        } else {
            1
        }
    }

    /// Lanes of a stream that collection or folds fill together.
    pub(in crate::page) fn filled_together(&self, stream: Stream) -> u32 {
        match stream {
            Stream::Host(_) if self.slc.is_none() => 1,
            _ => self.planes_together(),
        }
    }

    /// Moves valid pages out of a victim until `budget` is spent, paired over planes; gives what is
    /// left of it.
    pub(in crate::page) fn move_paired(
        &mut self,
        (block, stream, cause): (u32, Stream, Cause),
        mut budget: u32,
    ) -> Result<u32, BlockError> {
        while budget != 0 && self.named_pages(block).next().is_some() {
            budget -= self.move_level(block, stream, cause, budget)?;
        }
        while budget != 0 {
            let Some(page) = self.valid_pages_of(block).next() else {
                break;
            };
            self.move_renamed(page, stream, cause)?;
            self.moved_away(page);
            budget -= 1;
        }
        Ok(budget)
    }

    fn valid_pages_of(&self, block: u32) -> impl Iterator<Item = Page> + '_ {
        let first = block * self.mtd.geometry().pages_per_block;
        (0..self.blocks.words()).flat_map(move |word| {
            let bits = self.blocks.valid_word(block, word);
            pages_of(first + word as u32 * 64, bits)
        })
    }

    /// The valid pages whose tags name their owners.
    fn named_pages(&self, block: u32) -> impl Iterator<Item = Page> + '_ {
        let all_named = self.options.seeded_bug == Some(SeededBug::RemapNameKept);
        self.valid_pages_of(block)
            .filter(move |page| all_named || self.stale_tags.owner(page.0).is_none())
    }

    /// A page of a victim has moved.
    fn moved_away(&mut self, page: Page) {
        let (block, index) = self.blocks.split(page.0);
        let word = index as usize / 64;
        let left = self.blocks.valid_word(block, word) & !(1 << (index % 64));
        self.blocks.keep(block, word, left);
    }

    /// Moves pages to the lowest lanes of a die, as many as these and `budget` take. Gives the
    /// number of pages moved.
    fn move_level(
        &mut self,
        block: u32,
        stream: Stream,
        cause: Cause,
        budget: u32,
    ) -> Result<u32, BlockError> {
        let level = self.open_level(stream)?;
        let mut moves = core::mem::take(&mut self.moves);
        moves.clear();
        self.fill_level(&mut moves, block, (stream, level), budget);
        let (done, result) = moves.copy_joined(&mut self.mtd);
        for (m, _) in moves.done(done) {
            self.advance_lane(stream, m.to);
            self.moved_away(m.from);
        }
        self.tally.of(cause).copies += done as u64;
        let repointed = self.repoint(moves.done(done));
        self.moves = moves;
        repointed?;
        if level.whole && result.is_ok() {
            self.next_die(stream, level);
        }
        match result {
            Ok(()) => {}
            Err(MtdError::ProgramFailed(page)) => self.abandon(stream, page),
            Err(MtdError::Uncorrectable(from)) => {
                self.lose(from.0)?;
                self.moved_away(from);
            }
            Err(error) => return Err(self.fault(error)),
        }
        Ok(done as u32)
    }

    /// Opens the lanes of the die whose turn it is, and gives the lowest of them. If the pool has
    /// too few blocks for that, gives any one lane.
    fn open_level(&mut self, stream: Stream) -> Result<Level, BlockError> {
        let planes = self.planes_together() as usize;
        loop {
            let turn = self.frontiers[stream.at()].turn;
            let first = turn / planes * planes;
            let all_open = !self.is_scarce_for(stream, first) && self.open_die(stream, first)?;
            let (from, lanes) = if all_open {
                (first, planes)
            } else {
                self.take_any_lane(stream)?;
                (self.frontiers[stream.at()].turn, 1)
            };
            let frontier = &self.frontiers[stream.at()];
            // Opening a block may have collected into these lanes: then none is left open.
            if let Some(level) = frontier.level(from, lanes, self.sequence) {
                return Ok(level);
            }
        }
    }

    /// The lanes of a die: those from `first` on.
    fn die(&self, stream: Stream, first: usize) -> core::ops::Range<usize> {
        let lanes = self.frontiers[stream.at()].lanes.len();
        first..(first + self.planes_together() as usize).min(lanes)
    }

    /// Whether opening all lanes of a die would leave the map without a block.
    fn is_scarce_for(&self, stream: Stream, first: usize) -> bool {
        let lanes = &self.frontiers[stream.at()].lanes[self.die(stream, first)];
        let closed = lanes.iter().filter(|lane| !self.has_room(lane)).count() as u32;
        closed > 0 && self.blocks.free() < closed + 1 + self.map_reserve()
    }

    /// Opens the lanes of a die; false if a scarce pool has given the turn to another lane.
    fn open_die(&mut self, stream: Stream, first: usize) -> Result<bool, BlockError> {
        for turn in self.die(stream, first) {
            self.frontiers[stream.at()].turn = turn;
            self.slot(stream)?;
            if self.frontiers[stream.at()].turn != turn {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the turn to an open lane, or opens one.
    fn take_any_lane(&mut self, stream: Stream) -> Result<(), BlockError> {
        let lanes = &self.frontiers[stream.at()].lanes;
        if let Some(turn) = lanes.iter().position(|lane| self.has_room(lane)) {
            self.frontiers[stream.at()].turn = turn;
        }
        self.slot(stream).map(drop)
    }

    /// Chooses pages of the victim and their places, row by row.
    fn fill_level(
        &self,
        moves: &mut Batch,
        block: u32,
        (stream, level): (Stream, Level),
        budget: u32,
    ) {
        let lanes = &self.frontiers[stream.at()].lanes;
        let pages = self.mtd.geometry().pages_per_block;
        let rows = (0..level.rows).flat_map(|row| level.lanes().map(move |lane| (row, lane)));
        let most = (budget as usize).min(STRIPE);
        for (from, (row, lane)) in self.named_pages(block).zip(rows).take(most) {
            let lane = &lanes[lane];
            let to = Page(lane.block * pages + lane.next + row);
            let number = self.sequence + moves.len() as u64;
            moves.push(from, to, lane.tail.at(number, 0));
        }
    }

    /// The lane of a page has taken it.
    fn advance_lane(&mut self, stream: Stream, page: Page) {
        self.sequence += 1;
        self.mapping.due -= 1;
        self.blocks.set_valid_run(page.0, 1);
        let (block, index) = self.blocks.split(page.0);
        let lanes = &mut self.frontiers[stream.at()].lanes;
        let taken = |lane: &Lane| lane.open && lane.block == block;
        let Some(turn) = lanes.iter().position(taken) else {
            return;
        };
        lanes[turn].next = index + 1;
        if lanes[turn].next == lanes[turn].end {
            self.close(stream, turn);
        }
    }

    /// The next die takes the next pages.
    fn next_die(&mut self, stream: Stream, level: Level) {
        let planes = self.planes_together() as usize;
        let frontier = &mut self.frontiers[stream.at()];
        let next = level.first + planes;
        frontier.turn = if next < frontier.lanes.len() { next } else { 0 };
    }
}

/// The pages that the bits of a word stand for.
fn pages_of(first: u32, bits: u64) -> impl Iterator<Item = Page> {
    let mut rest = bits;
    core::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(Page(first + bit))
    })
}
