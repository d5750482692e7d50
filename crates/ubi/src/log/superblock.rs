//! The two super blocks: the first and the last good block, written in turns.

use super::VOLUMES;
use crate::Ubi;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::wear::State;
use alloc::vec::Vec;
use nandlab_mtd::Mtd;

/// Pages that are tried for an entry.
const ATTEMPTS: u32 = 3;

impl<M: Mtd> Ubi<M> {
    /// Writes the next entry, into the block that does not have the newest.
    pub(super) fn put_super(&mut self) -> Result<(), UbiError> {
        let shape = self.flash.shape;
        let which = 1 - self.log()?.newest;
        for _ in 0..ATTEMPTS {
            self.open_super(which)?;
            let block = self.log()?.blocks[which];
            let blocks = self.log()?.blocks.map(|block| block.peb);
            let ecs = blocks.map(|peb| self.wear.ec(peb));
            let log = self.log()?;
            log.current.number += 1;
            (log.current.blocks, log.current.ecs) = (blocks, ecs);
            let entry = log.current.encode(&shape).ok_or(UbiError::Internal("a super block entry longer than a page"))?;
            let at = block.next.unwrap_or(0);
            match self.flash.write_data(block.peb, at, &entry) {
                Ok(()) => {
                    let log = self.log()?;
                    log.blocks[which].next = Some(at + shape.page).filter(|next| *next < shape.leb_bytes);
                    log.newest = which;
                    return Ok(());
                }
                // The page is lost; the next attempt erases the block.
                Err(error) if is_wear(&error) => self.log()?.blocks[which].next = None,
                Err(error) => return Err(self.stop(error)),
            }
        }
        self.lose_super(which)
    }

    /// Makes room for an entry.
    fn open_super(&mut self, which: usize) -> Result<(), UbiError> {
        let block = self.log()?.blocks[which];
        if block.next.is_some() {
            return Ok(());
        }
        let opened = self.erase_block(block.peb, false).and_then(|ec| {
            self.wear.sure(block.peb, ec);
            self.put_memory(block.peb, VOLUMES[0], &[])
        });
        match opened {
            Ok(()) => {
                self.log()?.blocks[which].next = Some(0);
                Ok(())
            }
            Err(UbiError::Mtd(error)) if is_wear(&error) => self.lose_super(which),
            Err(error) => Err(error),
        }
    }

    /// A super block has failed. With headers the log is given up: the other super block goes too, so that the next attach scans, and begins a log at other ends. Without them there
    /// is nothing to go on with but reading.
    fn lose_super(&mut self, which: usize) -> Result<(), UbiError> {
        const WHY: &str = "a super block of the log failed";
        if !self.flash.shape.has_headers() {
            self.read_only = Some(WHY);
            return Err(UbiError::ReadOnly(WHY));
        }
        let log = self.log()?;
        let (lost, other) = (log.blocks[which].peb, log.blocks[1 - which].peb);
        let own: Vec<u32> = [&log.current.present, &log.current.future, &log.current.log].into_iter().flatten().copied().collect();
        self.retire(lost)?;
        self.wear.queue(other, false);
        self.forget_now(other)?;
        self.kept = Kept::Scan;
        for peb in own {
            if self.wear.state(peb) == State::Held {
                self.wear.queue(peb, false);
            }
        }
        Err(UbiError::ReadOnly(WHY))
    }

    /// The first or last good block, emptied and held.
    pub(super) fn vacate_end(&mut self, last: bool) -> Result<u32, UbiError> {
        let good = |peb: &u32| self.wear.state(*peb) != State::Bad;
        let end = if last { (0..self.wear.pebs()).rev().find(good) } else { (0..self.wear.pebs()).find(good) };
        let peb = end.ok_or(UbiError::Internal("no good block"))?;
        if matches!(self.wear.state(peb), State::Used | State::Scrub | State::Protected) {
            self.wear.set(peb, State::Used);
            let to = self.get_free(|wear| wear.worn())?;
            self.move_contents(peb, to)?;
        }
        if self.wear.state(peb) == State::Queued {
            self.forget_now(peb)?;
        }
        if self.wear.state(peb) != State::Free {
            return Err(UbiError::Medium { what: "block for a super block", found: peb.into(), expected: "one that can be emptied" });
        }
        self.wear.set(peb, State::Held);
        // Its first entry begins with an erase.
        Ok(peb)
    }
}
