//! Merges: how the pages of a log become data blocks again.
//!
//! | merge | when | copies | erases |
//! |---|---|---|---|
//! | switch | the log holds all pages of one logical block, in order | 0 | 1: the old data block |
//! | partial | it holds the first n pages in order | the pages behind them | 1: the old data block |
//! | full | otherwise | every page, to a fresh block | 1 for each logical block, and 1 for the log |

use super::SeededBug;
use super::blocks::Use;
use super::format::{Kind, Role, flags};
use super::logs::NO_LPN;
use super::shared::{Core, Payload, Programmed};
use crate::Cause;
use core::ops::Range;
use nandlab_block::BlockError;
use nandlab_mtd::{Mtd, MtdError, Page};

/// A page that the host is writing, to be written into a merge: its offset and its contents.
pub(super) type PendingPage<'a> = Option<(u32, Payload<'a>)>;

impl<M: Mtd> Core<M> {
    /// Empties a log block the cheapest way, and takes it out of use.
    pub fn merge_log(&mut self, slot: u32) -> Result<(), BlockError> {
        let log = *self.logs.get(slot);
        if log.live == 0 && self.options.skip_stale {
            return self.release_log(slot, Cause::Collection);
        }
        if self.is_ordered(slot) {
            if log.next == self.maps.pages {
                return self.switch_merge(slot);
            }
            if self.takes_more(slot) && self.partial_merge(slot, None)? {
                return Ok(());
            }
        }
        self.begin_visit();
        let mut index = 0;
        while let Some(lbn) = self.next_named(slot, &mut index) {
            self.full_merge(lbn, None, Cause::FullMerge)?;
        }
        self.release_log(slot, Cause::FullMerge)
    }

    /// A log block is about to be emptied.
    pub fn begin_visit(&mut self) {
        self.visit = self.visit.wrapping_add(1);
        if self.visit == 0 {
            self.merged_in.fill(0);
            self.visit = 1;
        }
    }

    /// The next logical block to be merged out of a log, from page `index` on; each but once in a
    /// visit.
    pub fn next_named(&mut self, slot: u32, index: &mut u32) -> Option<u32> {
        let log = *self.logs.get(slot);
        while *index < log.next {
            let i = *index;
            let lpn = self.logs.lpn(slot, *index);
            *index += 1;
            if lpn == NO_LPN {
                continue;
            }
            let lbn = self.maps.split(lpn).0;
            let stale = self.maps.log(lpn) != Some(log.block * self.maps.pages + i);
            if self.merged_in[lbn as usize] == self.visit || (stale && self.options.skip_stale) {
                continue;
            }
            self.merged_in[lbn as usize] = self.visit;
            return Some(lbn);
        }
        None
    }

    /// Whether a log may become a data block: in order from the first page on, and nothing in it is
    /// older than what its logical block has in place.
    pub fn is_ordered(&self, slot: u32) -> bool {
        let log = self.logs.get(slot);
        if self.bug(SeededBug::SwitchUnordered) && log.next == self.maps.pages && log.live > 0 {
            return true;
        }
        log.next > 0
            && log.in_order
            && (0..log.next).all(|i| self.maps.log(self.logs.lpn(slot, i)).is_some())
    }

    /// A full log in order becomes the data block.
    fn switch_merge(&mut self, slot: u32) -> Result<(), BlockError> {
        self.tally.merges.switch += 1;
        let pages = self.maps.pages;
        self.adopt_log(slot, pages, Cause::SwitchMerge)
    }

    /// Completes a log that is in order so far and makes it the data block; false if a program
    /// failed, and nothing else changed.
    pub fn partial_merge(
        &mut self,
        slot: u32,
        pending: PendingPage<'_>,
    ) -> Result<bool, BlockError> {
        let log = *self.logs.get(slot);
        let lbn = self.maps.split(self.logs.lpn(slot, 0)).0;
        let end = self.find_sources(lbn, pending).max(log.next);
        if !self.fill_block(log.block, lbn, log.next..end, pending, Cause::PartialMerge)? {
            self.logs.get_mut(slot).open = false;
            return Ok(false);
        }
        self.place_newest(lbn, log.next..end, pending);
        self.tally.merges.partial += 1;
        self.adopt_log(slot, end, Cause::PartialMerge)?;
        Ok(true)
    }

    /// The log becomes the data block of the logical block that it names; the old one goes.
    fn adopt_log(&mut self, slot: u32, programmed: u32, cause: Cause) -> Result<(), BlockError> {
        let log = *self.logs.get(slot);
        let lbn = self.maps.split(self.logs.lpn(slot, 0)).0;
        let first = lbn * self.maps.pages;
        self.place_log(&log, first);
        self.logs.remove(slot);
        self.blocks.set(log.block, Use::Data { lbn });
        let fill = if log.open {
            self.fill_after(programmed)
        } else {
            self.maps.pages
        };
        match self.maps.set_data(lbn, Some(log.block), fill) {
            Some(old) => self.release_block(old, cause),
            None => Ok(()),
        }
    }

    fn place_log(&mut self, log: &super::logs::Log, first: u32) {
        for (i, lpn) in (first..first + log.next).enumerate() {
            // A version in another log is newer still, and stays there.
            if self.maps.log(lpn) == Some(log.block * self.maps.pages + i as u32) {
                self.maps.set_log(lpn, None);
            }
            self.maps.set_placed(lpn, true);
        }
    }

    /// Writes the newest version of every page of a logical block, and the pending page, to a fresh
    /// data block. What its logs hold of it is stale afterwards.
    pub fn full_merge(
        &mut self,
        lbn: u32,
        pending: PendingPage<'_>,
        cause: Cause,
    ) -> Result<(), BlockError> {
        let end = self.find_sources(lbn, pending);
        let target = if end == 0 {
            None
        } else {
            Some(self.fill_fresh(lbn, end, pending, cause)?)
        };
        self.place_newest(lbn, 0..self.maps.pages, pending);
        if cause == Cause::FullMerge {
            self.tally.merges.full += 1;
        }
        let fill = self.fill_after(end);
        if let Some(block) = target {
            self.blocks.set(block, Use::Data { lbn });
        }
        match self.maps.set_data(lbn, target, fill) {
            Some(old) => self.release_block(old, cause),
            None => Ok(()),
        }
    }

    fn fill_fresh(
        &mut self,
        lbn: u32,
        end: u32,
        pending: PendingPage<'_>,
        cause: Cause,
    ) -> Result<u32, BlockError> {
        loop {
            let block = self.open_block(Role::Merged, cause == Cause::Wear)?;
            if self.fill_block(block, lbn, 0..end, pending, cause)? {
                return Ok(block);
            }
            // Everything in it is still where it came from.
            self.retire(block)?;
        }
    }

    /// Finds the newest version of every page of a logical block; gives one more than the last
    /// offset that has one.
    fn find_sources(&mut self, lbn: u32, pending: PendingPage<'_>) -> u32 {
        self.maps.newest_of_block(lbn, &mut self.sources);
        let written = self
            .sources
            .iter()
            .rposition(|&s| s != 0)
            .map_or(0, |off| off as u32 + 1);
        written.max(pending.map_or(0, |(off, _)| off + 1))
    }

    /// The newest versions of some pages of a logical block, as the merge found them, are now in
    /// their places.
    fn place_newest(&mut self, lbn: u32, range: Range<u32>, pending: PendingPage<'_>) {
        for off in range {
            let lpn = lbn * self.maps.pages + off;
            if self.maps.log(lpn).is_some() {
                self.point_to_log(lpn, None);
            }
            self.maps.set_placed(lpn, self.sources[off as usize] != 0);
        }
        if let Some((off, payload)) = pending {
            let lpn = lbn * self.maps.pages + off;
            self.maps.set_placed(lpn, true);
            self.maps
                .set_present(lpn, matches!(payload, Payload::Data(_)));
        }
    }

    /// Writes the newest versions of some pages of a logical block to their places in a block;
    /// false if a program failed. The last page of the range says so.
    fn fill_block(
        &mut self,
        block: u32,
        lbn: u32,
        range: Range<u32>,
        pending: PendingPage<'_>,
        cause: Cause,
    ) -> Result<bool, BlockError> {
        let mut off = range.start;
        while off < range.end {
            let lpn = lbn * self.maps.pages + off;
            if let Some((_, payload)) = pending.filter(|p| p.0 == off) {
                if self.program(
                    block * self.maps.pages + off,
                    lpn,
                    payload,
                    off + 1 == range.end,
                )? == Programmed::Failed
                {
                    return Ok(false);
                }
                off += 1;
            } else if self.sources[off as usize] == 0 {
                off += 1;
            } else {
                let stop = pending
                    .filter(|p| p.0 > off)
                    .map_or(range.end, |p| p.0.min(range.end));
                match self.copy_run(block, lbn, off..stop, range.end, cause)? {
                    Some(copied) => off += copied,
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Copies the pages of a range that lie in one block, as far as they are consecutive in the
    /// target; gives how many, or none if a program failed.
    fn copy_run(
        &mut self,
        block: u32,
        lbn: u32,
        range: Range<u32>,
        end: u32,
        cause: Cause,
    ) -> Result<Option<u32>, BlockError> {
        let pages = self.maps.pages;
        let tail = self.blocks.tails[block as usize];
        let mut moves = core::mem::take(&mut self.moves);
        moves.clear();
        let first = self.maps.split(self.sources[range.start as usize] - 1).0 * pages + 1;
        for off in range.clone() {
            let from = self.sources[off as usize];
            if from == 0 || from.wrapping_sub(first) >= pages {
                break;
            }
            let flags = flags(off + 1 == end);
            let tail = tail.at(self.sequence + moves.len() as u64, flags);
            moves.push(Page(from - 1), Page(block * pages + off), tail);
        }
        let (done, result) = moves.copy(&mut self.mtd);
        self.moves = moves;
        // A page that failed has used up its number too.
        self.sequence += done as u64 + u64::from(result.is_err());
        self.tally.of(cause).copies += done as u64;
        let done = done as u32;
        match result {
            Ok(()) => Ok(Some(done)),
            Err(error @ MtdError::ProgramFailed(_)) => {
                self.health.failed(error, self.mtd.geometry());
                self.blocks.set_failing(block);
                Ok(None)
            }
            Err(MtdError::Uncorrectable(_)) => {
                // The page is lost, and says so from now on.
                let off = range.start + done;
                let programmed = self.program_kind(
                    block * pages + off,
                    Kind::Lost,
                    lbn * pages + off,
                    &[],
                    off + 1 == end,
                    cause,
                )?;
                Ok((programmed == Programmed::Done).then_some(done + 1))
            }
            Err(error) => Err(self.fault(error)),
        }
    }
}
