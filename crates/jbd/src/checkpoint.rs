//! Bringing committed blocks home by writing them, and moving the log's tail behind them
//! (`fs/jbd/checkpoint.c`).
//!
//! *Promises.* A transaction leaves the log only when all its blocks are durable at home or
//! superseded by later transactions in the log. Its space is used again only when the superblock
//! that says so is durable. Unlike Linux, no commit is forced for a block that the running
//! transaction has changed again: its committed version is still there to be written. *Knows
//! nothing of* how transactions commit.

use crate::{Checkpoint, Journal, JournalError, Tid};
use nandlab_block::BlockDevice;
use nandlab_sim::Nanos;

impl<D: BlockDevice> Journal<D> {
    /// Brings home `most` blocks of the oldest committed transactions, as Linux's write-back does
    /// in its own time; gives how many: more where they are remapped late, all at once. Where they
    /// are written the log's tail stays.
    pub fn write_back(&mut self, most: usize) -> Result<usize, JournalError> {
        self.check_power()?;
        let outcome = self.write_home(most);
        self.or_abort(outcome)
    }

    /// Committed blocks that are not at home.
    pub fn dirty_blocks(&self) -> usize {
        self.dirty.len()
    }

    /// When the oldest transaction began that has blocks which are not at home; none if all are.
    pub fn dirty_since(&self) -> Option<Nanos> {
        self.finished
            .iter()
            .find(|finished| !finished.blocks.is_empty())
            .map(|finished| finished.started)
    }

    /// Whether a committed transaction in the log, or the one that commits now, has a copy of this
    /// block that recovery would bring home: only then does a block that is given back need to be
    /// [revoked](Self::revoke).
    pub fn is_logged(&self, block: u64) -> bool {
        let committing = self
            .committing
            .as_ref()
            .is_some_and(|committing| committing.blocks.contains_key(&block));
        committing
            || self.finished.iter().any(|finished| {
                finished
                    .logged
                    .binary_search_by_key(&block, |logged| logged.home)
                    .is_ok()
            })
    }

    /// Brings everything home that has committed or is committing, and empties the log. The running
    /// transaction is left alone.
    pub fn checkpoint(&mut self) -> Result<(), JournalError> {
        self.check_power()?;
        self.finish_commit()?;
        let outcome = self.write_home(usize::MAX).and_then(|_| self.move_tail());
        self.or_abort(outcome)
    }

    /// Blocks of the log that a new transaction may count on.
    pub(crate) fn free_blocks(&self) -> u32 {
        let promised = self
            .committing
            .as_ref()
            .map_or(0, |committing| committing.reserved);
        let taken = self.committing.as_ref().map_or(0, |committing| {
            self.ring.distance(committing.start, self.ring.head())
        });
        self.ring
            .free()
            .saturating_sub(promised.saturating_sub(taken))
    }

    /// Frees space in the log: takes transactions out of it from the oldest on.
    pub(crate) fn make_room(&mut self, needed: u32) -> Result<(), JournalError> {
        if self.free_blocks() >= needed {
            return Ok(());
        }
        let outcome = self.move_tail();
        self.or_abort(outcome)?;
        while self.free_blocks() < needed {
            if self.finished.is_empty() {
                // What is committing is all that is in the log.
                self.finish_commit()?;
            }
            let oldest = self
                .finished
                .front()
                .map_or(0, |oldest| oldest.blocks.len());
            let outcome = self.write_home(oldest).and_then(|_| self.move_tail());
            self.or_abort(outcome)?;
            if self.finished.is_empty() && self.committing.is_none() && self.free_blocks() < needed
            {
                return Err(JournalError::Internal(
                    "an empty log is too small for a transaction",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn write_home(&mut self, most: usize) -> Result<usize, JournalError> {
        let late = self.options.checkpoint == Checkpoint::RemapLate;
        let remapped = if late { self.remap_finished(most)? } else { 0 };
        let most = most.saturating_sub(remapped);
        let mut written = 0;
        for index in 0..self.finished.len() {
            while let Some(block) = self.finished[index]
                .blocks
                .first()
                .copied()
                .filter(|_| written < most)
            {
                self.write_block_home(index, block)?;
                written += 1;
            }
        }
        self.tally.checkpointed += written as u64;
        self.blocks.submit()?;
        Ok(remapped + written)
    }

    fn write_block_home(&mut self, index: usize, block: u64) -> Result<(), JournalError> {
        let Some(dirty) = self.dirty.remove(&block) else {
            return Err(JournalError::Internal("a dirty block is nowhere"));
        };
        self.blocks.write(block, &dirty.data)?;
        self.unflushed = true;
        self.finished[index].blocks.remove(&block);
        self.clean.insert(block, dirty.data);
        Ok(())
    }

    /// Takes the oldest transactions that need nothing more out of the log.
    pub(crate) fn move_tail(&mut self) -> Result<(), JournalError> {
        while self
            .finished
            .front()
            .is_some_and(|oldest| oldest.blocks.is_empty())
        {
            self.finished.pop_front();
        }
        let (tid, start) = self.tail_behind(0);
        if self.sb.start() == 0 || tid == self.tail {
            return Ok(());
        }
        self.sb.set_log(start, tid);
        self.write_superblock()?;
        self.tail = tid;
        self.ring.release_before(start);
        Ok(())
    }

    /// Where the log begins once so many of the committed transactions are out of it, and with
    /// which transaction.
    pub(crate) fn tail_behind(&self, count: usize) -> (Tid, u32) {
        let oldest = self
            .finished
            .get(count)
            .map(|oldest| (oldest.tid, oldest.start));
        let committing = || {
            self.committing
                .as_ref()
                .map(|committing| (committing.tid, committing.start))
        };
        let running = || {
            self.running
                .as_ref()
                .map_or(self.next, |running| running.tid)
        };
        oldest
            .or_else(committing)
            .unwrap_or_else(|| (running(), self.ring.head()))
    }

    /// A later transaction has a newer version of the block, or has revoked it: nobody needs this
    /// one any more.
    pub(crate) fn supersede(&mut self, block: u64) {
        if let Some(dirty) = self.dirty.remove(&block)
            && let Some(owner) = self
                .finished
                .iter_mut()
                .find(|finished| finished.tid == dirty.tid)
        {
            owner.blocks.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Journal, Map, Options, create};
    use nandlab_block::Ram;

    #[test]
    fn no_more_transactions_go_home_than_space_is_needed_for() {
        let map: Map = (100..140).collect();
        let mut disk = Ram::new(512, 320);
        create(&mut disk, map.clone(), 1024).unwrap();
        let mut journal = Journal::load(disk, map, 1024, Options::default()).unwrap();
        for block in 1..4 {
            let mut handle = journal.start(1, 0).unwrap();
            journal.replace(&mut handle, block, &[7; 1024]).unwrap();
            journal.stop(handle).unwrap();
            journal.commit().unwrap();
        }
        assert_eq!(journal.finished.len(), 3);
        // A descriptor, the block and the commit block of the oldest.
        let needed = journal.free_blocks() + 3;
        journal.make_room(needed).unwrap();
        assert_eq!((journal.free_blocks(), journal.finished.len()), (needed, 2));
    }
}
