//! What all schemes share: the maps, the blocks, and the few ways in which a page is written and a
//! block is opened or given back.

use super::blocks::{BlockTable, Use};
use super::format::{BlockHeader, Kind, Role, SPAN, flags};
use super::logs::{Logs, NO_LPN};
use super::maps::Maps;
use super::{FirstWrite, LogBlockOptions, PageOrder, SeededBug};
use crate::fault::Health;
use crate::tag::{self, BASE_UNIT, Batch};
use crate::{Cause, Tally};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockError;
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// Blocks besides data and log blocks: the anchor, the target of a merge, and two for targets that
/// fail.
pub(super) const RESERVE: u32 = 4;

/// A new version of a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Data(&'a [u8]),
    /// Zeros from now on; the page has no data.
    Discard,
}

/// What became of a page that was to be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Programmed {
    Done,
    /// The block must not be written any more.
    Failed,
}

#[derive(Debug)]
pub(super) struct Core<M> {
    pub mtd: M,
    pub options: LogBlockOptions,
    pub maps: Maps,
    pub blocks: BlockTable,
    pub logs: Logs,
    /// Of the next page programmed.
    pub sequence: u64,
    pub tally: Tally,
    /// Of the merge under way: the flash page plus one of the newest version of each page; 0 none.
    pub sources: Vec<u32>,
    /// Of merges, kept for its allocation.
    pub moves: Batch,
    /// The visit in which each logical block was last merged, so that one is not merged twice.
    pub merged_in: Vec<u32>,
    pub visit: u32,
    /// Logical blocks whose data block failed.
    repairs: Vec<u32>,
    /// Before wear is looked at again.
    pub erases_until_levelling: u32,
    pub health: Health,
}

impl<M: Mtd> Core<M> {
    pub fn new(mtd: M, options: LogBlockOptions, logical_blocks: u32) -> Self {
        let pages = mtd.geometry().pages_per_block;
        let blocks = mtd.geometry().blocks;
        Self {
            maps: Maps::new(logical_blocks, pages),
            blocks: BlockTable::new(blocks),
            logs: Logs::new(pages),
            sequence: BASE_UNIT,
            tally: Tally::default(),
            sources: vec![0; pages as usize],
            moves: Batch::with_capacity(pages as usize),
            merged_in: vec![0; logical_blocks as usize],
            visit: 0,
            repairs: Vec::new(),
            erases_until_levelling: blocks / 4 + 1,
            health: Health::new("log-block mapping"),
            options,
            mtd,
        }
    }

    /// An error of the flash as the host sees it.
    pub fn fault(&mut self, error: MtdError) -> BlockError {
        self.health.fault(error, self.mtd.geometry())
    }

    pub fn bug(&self, bug: SeededBug) -> bool {
        self.options.seeded_bug == Some(bug)
    }

    /// Log blocks that may be in use.
    pub fn log_limit(&self) -> Result<u32, BlockError> {
        let space = self
            .blocks
            .good()
            .saturating_sub(self.maps.logical_blocks() + RESERVE);
        let limit = space.min(self.options.log_blocks);
        if limit < self.options.fewest_logs() {
            Err(self.health.worn_out())
        } else {
            Ok(limit)
        }
    }

    /// The lowest page that may still be programmed in place, after `programmed` pages.
    pub fn fill_after(&self, programmed: u32) -> u32 {
        match self.options.page_order {
            PageOrder::Any => 0,
            PageOrder::Ascending => programmed,
        }
    }

    #[inline]
    fn spans(&self, block: u32) -> bool {
        self.blocks.tails[block as usize].age(self.sequence) < SPAN
    }

    /// Programs a page for the host, with the next sequence number.
    #[inline]
    pub fn program(
        &mut self,
        page: u32,
        lpn: u32,
        payload: Payload<'_>,
        last: bool,
    ) -> Result<Programmed, BlockError> {
        let (kind, data) = match payload {
            Payload::Data(data) => (Kind::Data, data),
            Payload::Discard => (Kind::Discarded, &[][..]),
        };
        self.program_kind(page, kind, lpn, data, last, Cause::Host)
    }

    /// Programs a page of any kind. A failure is noted with its block.
    #[inline]
    pub fn program_kind(
        &mut self,
        page: u32,
        kind: Kind,
        lpn: u32,
        data: &[u8],
        last: bool,
        cause: Cause,
    ) -> Result<Programmed, BlockError> {
        let block = self.maps.split(page).0;
        let id = tag::id(kind as u32, lpn);
        let tag = self.blocks.tails[block as usize].tag(id, self.sequence, flags(last));
        self.sequence += 1;
        match self.mtd.program(Page(page), data, &tag) {
            Ok(()) => {
                self.tally.count_program(cause, !data.is_empty());
                Ok(Programmed::Done)
            }
            Err(error @ MtdError::ProgramFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                self.blocks.set_failing(block);
                Ok(Programmed::Failed)
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Takes the least worn free block, or the most worn for data at rest, and gives it a new
    /// header. Its first program is fenced behind everything issued so far: once that is on the
    /// medium, so is what went before, erases included.
    pub fn open_block(&mut self, role: Role, at_rest: bool) -> Result<u32, BlockError> {
        let block = loop {
            let (block, clean) = self.blocks.take(at_rest).ok_or(self.health.worn_out())?;
            if clean || self.erase(block, Cause::Attach)? {
                break block;
            }
        };
        self.sequence = self.sequence.next_multiple_of(BASE_UNIT);
        let header = BlockHeader {
            base: self.sequence,
            erases: self.blocks.erases[block as usize],
            role,
        };
        self.blocks.tails[block as usize] = header.tail();
        let issued = self.mtd.issued();
        self.mtd.fence(issued);
        Ok(block)
    }

    /// A block whose pages are all replaced is erased and goes to the pool, or out of service.
    pub fn release_block(&mut self, block: u32, cause: Cause) -> Result<(), BlockError> {
        self.blocks.set(block, Use::Held);
        if self.blocks.is_failing(block) {
            // What replaces its contents must be safe before the mark hides them.
            self.mtd.sync().map_err(|e| self.fault(e))?;
            return self.retire(block);
        }
        if self.erase(block, cause)? {
            self.blocks.release(block, true);
        }
        Ok(())
    }

    /// Takes a block that holds nothing of use out of service.
    pub fn retire(&mut self, block: u32) -> Result<(), BlockError> {
        self.blocks.retire(block);
        self.mtd.mark_bad(Block(block)).map_err(|e| self.fault(e))
    }

    /// Erases a block behind everything issued so far; false if it failed and was retired.
    fn erase(&mut self, block: u32, cause: Cause) -> Result<bool, BlockError> {
        if !self.bug(SeededBug::EraseUnfenced) {
            let issued = self.mtd.issued();
            self.mtd.fence(issued);
        }
        self.tally.of(cause).erases += 1;
        self.erases_until_levelling = self.erases_until_levelling.saturating_sub(1);
        match self.mtd.erase(Block(block)) {
            Ok(()) => {
                self.blocks.erases[block as usize] += 1;
                Ok(true)
            }
            Err(error @ MtdError::EraseFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                self.retire(block).map(|()| false)
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// The newest version of a logical page is on `page` of a log, or (none) no longer in a log.
    #[inline]
    pub fn point_to_log(&mut self, lpn: u32, page: Option<u32>) {
        if let Some(old) = self.maps.set_log(lpn, page)
            && let Use::Log { slot } = self.blocks.of(self.maps.split(old).0)
        {
            self.logs.get_mut(slot).live -= 1;
        }
    }

    /// Writes a page that was never written in its place in the data block, where rules and options
    /// allow it; true if that was done.
    #[inline]
    pub fn write_in_place(&mut self, lpn: u32, payload: Payload<'_>) -> Result<bool, BlockError> {
        let (lbn, off) = self.maps.split(lpn);
        let allowed = match self.options.first_write {
            FirstWrite::InPlace => true,
            FirstWrite::InPlaceUnlessLogged => self.maps.logged(lbn) == 0,
            FirstWrite::Logged => false,
        };
        if !allowed || self.maps.placed(lpn) || off < self.maps.fill(lbn) {
            return Ok(false);
        }
        let block = match self.maps.data(lbn) {
            Some(block) if !self.spans(block) => return Ok(false),
            Some(block) => block,
            None => {
                let block = self.open_block(Role::Data, false)?;
                self.blocks.set(block, Use::Data { lbn });
                self.maps.set_data(lbn, Some(block), 0);
                block
            }
        };
        if self.program(block * self.maps.pages + off, lpn, payload, false)? == Programmed::Failed {
            self.maps.set_fill(lbn, self.maps.pages);
            self.repairs.push(lbn);
            return Ok(false);
        }
        self.point_to_log(lpn, None);
        self.maps.set_placed(lpn, true);
        self.maps
            .set_present(lpn, matches!(payload, Payload::Data(_)));
        self.maps.set_fill(lbn, self.fill_after(off + 1));
        Ok(true)
    }

    /// Opens a log block; gives its slot.
    pub fn open_log(&mut self, role: Role) -> Result<u32, BlockError> {
        let block = self.open_block(role, false)?;
        let slot = self.logs.add(block);
        self.blocks.set(block, Use::Log { slot });
        Ok(slot)
    }

    /// Writes a page to the end of a log; false if the log takes no more.
    #[inline]
    pub fn append(
        &mut self,
        slot: u32,
        lpn: u32,
        payload: Payload<'_>,
    ) -> Result<bool, BlockError> {
        let log = *self.logs.get(slot);
        if !self.takes_more(slot) {
            return Ok(false);
        }
        let page = log.block * self.maps.pages + log.next;
        if self.program(page, lpn, payload, false)? == Programmed::Failed {
            self.logs.push(slot, NO_LPN, 0);
            self.logs.get_mut(slot).open = false;
            return Ok(false);
        }
        self.logs.push(slot, lpn, self.maps.split(lpn).1);
        self.logs.get_mut(slot).live += 1;
        self.point_to_log(lpn, Some(page));
        self.maps
            .set_present(lpn, matches!(payload, Payload::Data(_)));
        Ok(true)
    }

    /// Whether a log has space that may be written.
    #[inline]
    pub fn takes_more(&self, slot: u32) -> bool {
        let log = self.logs.get(slot);
        log.open && log.next < self.maps.pages && self.spans(log.block)
    }

    /// A log without any newest version is erased.
    pub fn release_log(&mut self, slot: u32, cause: Cause) -> Result<(), BlockError> {
        let log = *self.logs.get(slot);
        debug_assert_eq!(log.live, 0);
        self.logs.remove(slot);
        self.release_block(log.block, cause)
    }

    /// Moves logical blocks off data blocks that failed.
    #[inline]
    pub fn repair(&mut self) -> Result<(), BlockError> {
        while let Some(lbn) = self.repairs.pop() {
            if self
                .maps
                .data(lbn)
                .is_some_and(|block| self.blocks.is_failing(block))
            {
                self.full_merge(lbn, None, Cause::Repair)?;
            }
        }
        Ok(())
    }
}
