//! Fast commits: blocks behind the log that stand for a transaction until it commits
//! (`fs/jbd2/journal.c`).
//!
//! *Promises.* All blocks of a fast commit but the last are durable before it writes the last, and
//! that when the call returns. *Knows nothing of* what the blocks hold: the file system does.

use crate::{Journal, JournalError, SeededBug, Tid};
use nandlab_block::BlockDevice;

/// Where the next fast commit would lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPlace {
    /// The transaction for which it stands.
    pub tid: Tid,
    /// Blocks that other fast commits of this transaction take.
    pub used: u32,
    /// Free blocks.
    pub left: u32,
}

impl<D: BlockDevice> Journal<D> {
    /// The space for another fast commit. None before the first transaction of a mount, while a
    /// transaction is running, and where the journal has no space for fast commits.
    pub fn fast_place(&self) -> Option<FastPlace> {
        let busy = self.running.is_some() || self.committing.is_some() || self.fast.is_some();
        let area = self.sb.fast_area()?;
        (!busy && !self.sb_changed && self.sb.start() != 0).then(|| FastPlace {
            tid: self.next,
            used: self.fast_used,
            // Linux's recovery reads on until a block ends the fast commits: the last one does.
            left: (area.len() as u32 - 1).saturating_sub(self.fast_used),
        })
    }

    /// Makes a fast commit durable; `bytes` are whole blocks. All earlier writes are durable before
    /// it counts.
    ///
    /// Fails with [`TooLarge`](JournalError::TooLarge) if [`fast_place`](Self::fast_place) has no
    /// space for it, and writes nothing then.
    pub fn fast_commit(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.check_power()?;
        let most = self.fast_place().map_or(0, |place| place.left);
        let size = self.block_size() as usize;
        let credits = bytes.len().div_ceil(size) as u32;
        if credits == 0 || credits > most || !bytes.len().is_multiple_of(size) {
            return Err(JournalError::TooLarge { credits, most });
        }
        let outcome = self.write_fast(bytes, credits);
        self.or_abort(outcome)
    }

    fn write_fast(&mut self, bytes: &[u8], count: u32) -> Result<(), JournalError> {
        let start = self.sb.fast_area().map_or(0, |area| area.start) + self.fast_used;
        let blocks = bytes.chunks_exact(self.block_size() as usize);
        for (log, block) in (start..).zip(blocks) {
            if log + 1 == start + count {
                self.barrier_unless(SeededBug::FastUnfenced)?;
            }
            self.blocks.write_log(log, block)?;
        }
        self.fast_used += count;
        self.tally.control += u64::from(count);
        Ok(self.barrier_unless(SeededBug::FastUnflushed)?)
    }
}
