//! Super block entries, and the plain place for them: the first and the last good block, written in
//! turns.

use super::{Supers, VOLUMES};
use crate::Ubi;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::wear::State;
use alloc::vec::Vec;
use nandlab_mtd::Mtd;

/// Pages that are tried for an entry.
pub(super) const ATTEMPTS: u32 = 3;

/// One of the two super blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperBlock {
    pub peb: u32,
    /// The offset of the next entry; none: it must be erased first.
    pub next: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// Which has the newest entry.
    pub newest: usize,
    pub blocks: [SuperBlock; 2],
}

impl Pair {
    /// Neither is known to have space.
    pub fn new(newest: usize, blocks: [u32; 2]) -> Self {
        Self {
            newest,
            blocks: blocks.map(|peb| SuperBlock { peb, next: None }),
        }
    }
}

impl<M: Mtd> Ubi<M> {
    /// Writes the next entry.
    pub(super) fn put_super(&mut self) -> Result<(), UbiError> {
        match self.log()?.supers {
            Supers::Pair(_) => self.put_in_pair(),
            Supers::Chain(_) => self.put_in_chain(),
        }
    }

    fn pair(&mut self) -> Result<&mut Pair, UbiError> {
        match &mut self.log()?.supers {
            Supers::Pair(pair) => Ok(pair),
            Supers::Chain(_) => Err(UbiError::Internal("super blocks where there is a chain")),
        }
    }

    /// Into the block that does not have the newest.
    fn put_in_pair(&mut self) -> Result<(), UbiError> {
        let shape = self.flash.shape;
        let which = 1 - self.pair()?.newest;
        for _ in 0..ATTEMPTS {
            self.open_super(which)?;
            let block = self.pair()?.blocks[which];
            let blocks = self.pair()?.blocks.map(|block| block.peb);
            let entry = self.next_entry(blocks)?;
            let at = block.next.unwrap_or(0);
            match self.flash.write_data(block.peb, at, &entry) {
                Ok(()) => {
                    return self.note_entry(which, at + shape.page);
                }
                // The page is lost; the next attempt erases the block.
                Err(error) if is_wear(&error) => self.pair()?.blocks[which].next = None,
                Err(error) => return Err(self.stop(error)),
            }
        }
        self.lose_super(which)
    }

    fn note_entry(&mut self, which: usize, next: u32) -> Result<(), UbiError> {
        let end = self.flash.shape.leb_bytes;
        let pair = self.pair()?;
        pair.blocks[which].next = Some(next).filter(|next| *next < end);
        pair.newest = which;
        Ok(())
    }

    /// The entry as on flash, numbered, in these super blocks.
    pub(super) fn next_entry(&mut self, blocks: [u32; 2]) -> Result<Vec<u8>, UbiError> {
        let shape = self.flash.shape;
        let ecs = blocks.map(|peb| self.wear.ec(peb));
        let log = self.log()?;
        log.current.number += 1;
        (log.current.blocks, log.current.ecs) = (blocks, ecs);
        log.current
            .encode(&shape)
            .ok_or(UbiError::Internal("a super block entry longer than a page"))
    }

    /// Frees space for an entry.
    fn open_super(&mut self, which: usize) -> Result<(), UbiError> {
        let block = self.pair()?.blocks[which];
        if block.next.is_some() {
            return Ok(());
        }
        match self.open_memory(block.peb) {
            Ok(()) => {
                self.pair()?.blocks[which].next = Some(0);
                Ok(())
            }
            Err(UbiError::Mtd(error)) if is_wear(&error) => self.lose_super(which),
            Err(error) => Err(error),
        }
    }

    /// Erases one of UBIL's own blocks, and writes the header of a super block.
    pub(super) fn open_memory(&mut self, peb: u32) -> Result<(), UbiError> {
        let ec = self.erase_block(peb, false)?;
        self.wear.sure(peb, ec);
        self.put_memory(peb, VOLUMES[0], &[])
    }

    /// A super block has failed: the other super block goes too, so that the next attach scans, and
    /// begins a log at other ends.
    fn lose_super(&mut self, which: usize) -> Result<(), UbiError> {
        let [lost, other] =
            [which, 1 - which].map(|which| self.pair().map(|pair| pair.blocks[which].peb));
        self.end_log(&[lost?], &[other?])
    }

    /// Gives the log up. With headers the blocks that lead to it go, so that the next attach scans.
    /// Without them there is nothing to go on with but reading.
    pub(super) fn end_log(&mut self, failed: &[u32], others: &[u32]) -> Result<(), UbiError> {
        const WHY: &str = "a super block of the log failed";
        let sleeps = self.log()?.tree.as_ref().is_some_and(super::Tree::sleeps);
        if !self.flash.shape.has_headers() {
            self.read_only = Some(WHY);
            return Err(UbiError::ReadOnly(WHY));
        }
        if sleeps {
            self.wake_all()?;
        }
        let log = self.log()?;
        let lists = [
            &log.current.present,
            &log.current.future,
            &log.current.log,
            &log.current.spare,
        ];
        let own: Vec<u32> = lists.into_iter().flatten().copied().collect();
        failed.iter().try_for_each(|&peb| self.retire(peb))?;
        for &peb in others {
            self.wear.queue(peb, false);
            self.forget_now(peb)?;
        }
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
        let end = if last {
            (0..self.wear.pebs()).rev().find(good)
        } else {
            (0..self.wear.pebs()).find(good)
        };
        let peb = end.ok_or(UbiError::Internal("no good block"))?;
        self.vacate(peb)?;
        if self.wear.state(peb) != State::Free {
            return Err(UbiError::Medium {
                what: "block for a super block",
                found: peb.into(),
                expected: "one that can be emptied",
            });
        }
        self.wear.set(peb, State::Held);
        // Its first entry begins with an erase.
        Ok(peb)
    }

    /// Empties a block as far as that is possible.
    pub(super) fn vacate(&mut self, peb: u32) -> Result<(), UbiError> {
        if matches!(
            self.wear.state(peb),
            State::Used | State::Scrub | State::Protected
        ) {
            self.wear.set(peb, State::Used);
            let to = self.get_free(|wear| wear.worn())?;
            self.move_contents(peb, to)?;
        }
        if self.wear.state(peb) == State::Queued {
            self.forget_now(peb)?;
        }
        Ok(())
    }
}
