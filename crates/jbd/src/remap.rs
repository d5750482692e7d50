//! Bringing committed blocks home without writing them again: the journal's half of JFTL (Lim,
//! Choi, Park, "Journal Remap-Based FTL", section 3.1), and the same later, at a checkpoint.
//!
//! *Promises.* Recovery never looks for a copy that a remap took out of the log. The list of pairs
//! ends with one more, which puts the commit block in the place of the transaction's first block in
//! the log. To any reader of the format, Linux included, the transaction then is an empty one. The
//! device remaps all pairs or none, so a cut finds the whole transaction or none of it. See
//! `docs/formats/jbd.md`. *Knows nothing of* the device's own map.

use crate::{Checkpoint, Journal, JournalError, transaction::Committing};
use alloc::vec::Vec;
use nandlab_block::{BlockDevice, BlockError};

impl<D: BlockDevice> Journal<D> {
    /// Remaps the blocks of a transaction whose commit block is durable, the only one in the log
    /// that is not empty; false if the device refuses, and then it has to be checkpointed.
    pub(crate) fn remap_home(&mut self, done: &Committing) -> Result<bool, JournalError> {
        let copied = self.copy_escaped(done)?;
        let commit = self.ring.before(self.ring.head());
        let map = self.blocks.map();
        let whole = (map.home(commit), map.home(done.start));
        let homes = done
            .logged
            .iter()
            .filter(|logged| !logged.escaped)
            .map(|logged| (map.home(logged.log), logged.home));
        let moves: Vec<(u64, u64)> = homes.chain([whole]).collect();
        if !self.offers(&moves)? {
            self.refused()?;
            return Ok(false);
        }
        self.tally.remapped += moves.len() as u64 - 1;
        self.tally.checkpointed += copied;
        self.ring.rewind(self.ring.next(done.start));
        Ok(true)
    }

    /// Writes home the blocks whose copies are not the blocks; gives how many.
    fn copy_escaped(&mut self, done: &Committing) -> Result<u64, JournalError> {
        let mut copied = 0;
        for logged in done.logged.iter().filter(|logged| logged.escaped) {
            let data = done
                .blocks
                .get(&logged.home)
                .ok_or(JournalError::Internal("a logged block is nowhere"))?;
            self.blocks.write(logged.home, data)?;
            copied += 1;
        }
        if copied > 0 {
            // Their copies are out of reach when the others are remapped.
            self.blocks.flush()?;
        }
        Ok(copied)
    }

    /// Remaps home what committed transactions still have in the log, at least `most` blocks of it,
    /// as many transactions at once as the device takes; gives how many blocks, fewer if it takes
    /// no more.
    pub(crate) fn remap_finished(&mut self, most: usize) -> Result<usize, JournalError> {
        let mut remapped = 0;
        let mut count = self.finished.len();
        while count > 0 && remapped < most {
            match self.remap_oldest(count)? {
                0 => count /= 2,
                blocks => (remapped, count) = (remapped + blocks, count.min(self.finished.len())),
            }
        }
        if remapped < most
            && self
                .finished
                .iter()
                .any(|finished| !finished.blocks.is_empty())
        {
            self.refused()?;
        }
        Ok(remapped)
    }

    /// The same for so many of the oldest. With their blocks goes a superblock in which they are
    /// out of the log: it waits in the block behind the log's head, which is always free.
    fn remap_oldest(&mut self, count: usize) -> Result<usize, JournalError> {
        let map = self.blocks.map().clone();
        let mut moves = Vec::new();
        let mut copied = 0;
        for finished in self.finished.iter().take(count) {
            for logged in finished
                .logged
                .iter()
                .filter(|logged| finished.blocks.contains(&logged.home))
            {
                if logged.escaped {
                    let dirty = self
                        .dirty
                        .get(&logged.home)
                        .ok_or(JournalError::Internal("a dirty block is nowhere"))?;
                    self.blocks.write(logged.home, &dirty.data)?;
                    copied += 1;
                } else {
                    moves.push((map.home(logged.log), logged.home));
                }
            }
        }
        if moves.is_empty() {
            return Ok(0);
        }
        let (tid, start) = self.tail_behind(count);
        let remapped = moves.len();
        let spare = self.ring.head();
        let mut sb = self.sb.clone();
        sb.set_log(start, tid);
        self.blocks.write_log(spare, sb.bytes())?;
        self.barrier()?;
        moves.push((map.home(spare), map.home(0)));
        if !self.offers(&moves)? {
            return Ok(0);
        }
        (self.sb, self.sb_changed, self.tail) = (sb, false, tid);
        for block in self
            .finished
            .drain(..count)
            .flat_map(|finished| finished.blocks)
        {
            if let Some(dirty) = self.dirty.remove(&block) {
                self.clean.insert(block, dirty.data);
            }
        }
        self.ring.release_before(start);
        self.tally.remapped += remapped as u64;
        self.tally.checkpointed += copied;
        self.tally.superblocks += 1;
        Ok(remapped + copied as usize)
    }

    fn offers(&mut self, moves: &[(u64, u64)]) -> Result<bool, JournalError> {
        match self.blocks.remap(moves.iter().copied()) {
            Ok(()) => Ok(true),
            Err(BlockError::Unsupported) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells a transaction that is too large for the device from a device that cannot remap blocks:
    /// by two blocks of the log that hold nothing.
    fn refused(&mut self) -> Result<(), JournalError> {
        let head = self.ring.head();
        let next = self.ring.next(head);
        let works = self.ring.free() > 1
            && self.offers(&[(self.blocks.map().home(head), self.blocks.map().home(next))])?;
        if !works {
            self.options.checkpoint = Checkpoint::Copy;
        }
        Ok(())
    }
}
