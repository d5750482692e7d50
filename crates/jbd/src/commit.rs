//! The way of a transaction into the log, step by step (`fs/jbd/commit.c`).
//!
//! *Promises.* Ordered data first, then revoke records, then copies behind their descriptors, all
//! durable before the commit block is written; that durable before anything is brought home.
//! Between steps the next transaction may run. *Knows nothing of* how blocks come home.

use crate::{
    Checkpoint, Journal, JournalError, SeededBug, State, Tid,
    format::{self, Form, Sums, Tag},
    journal::Dirty,
    transaction::{Committing, Finished, Logged, Running},
};
use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};
use core::ops::Bound::{Excluded, Unbounded};
use nandlab_block::BlockDevice;
use nandlab_sim::Nanos;

/// Blocks of ordered data that one step writes.
const DATA_STEP: usize = 32;

/// The checksum of a block as it will lie in the log, where its first word may be another.
fn sum_of(form: Form, tid: Tid, data: &[u8]) -> u32 {
    if form.sums == Sums::None || !format::is_escaped(data) {
        return form.copy_sum(tid, data);
    }
    let mut copy = data.to_vec();
    format::put(&mut copy, 0, 0);
    form.copy_sum(tid, &copy)
}

impl<D: BlockDevice> Journal<D> {
    /// Commits all that was stopped before. With nothing to commit nothing is written.
    ///
    /// Fails with [`Busy`](JournalError::Busy), having locked the transaction, while handles are
    /// open.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.check_power()?;
        self.finish_commit()?;
        if self.start_commit()? == Some(State::Locked) {
            let handles = self.running.as_ref().map_or(0, |running| running.handles);
            return Err(JournalError::Busy { handles });
        }
        self.finish_commit()
    }

    /// Makes what was done under a handle durable, given what [`stop`](Self::stop) returned:
    /// nothing is left to do if its transaction has committed meanwhile, so that one commit serves
    /// all who wait for it.
    pub fn sync(&mut self, tid: Tid) -> Result<(), JournalError> {
        self.check_power()?;
        match &self.running {
            Some(running) if !tid.is_before(running.tid) => self.commit(),
            _ => self.finish_commit(),
        }
    }

    /// When the running transaction shall be committed, by the caller's clock; none if there is
    /// nothing to commit.
    pub fn due(&self) -> Option<Nanos> {
        let running = self
            .running
            .as_ref()
            .filter(|running| !running.is_empty())?;
        Some(running.started.saturating_add(self.options.commit_interval))
    }

    /// Locks the running transaction; it begins to commit as soon as its handles are stopped and
    /// the one before is done. Gives the state of the oldest unfinished transaction.
    pub fn start_commit(&mut self) -> Result<Option<State>, JournalError> {
        self.check_power()?;
        if let Some(running) = &mut self.running {
            running.locked = true;
        }
        self.switch();
        Ok(self.state())
    }

    /// One more step of the commit under way, of a request or a few; gives the state of the oldest
    /// unfinished transaction then. Once that is [`Finished`](State::Finished) it is durable, and
    /// one more step is left. Does nothing while the transaction is not locked, or handles keep it
    /// waiting.
    pub fn step(&mut self) -> Result<Option<State>, JournalError> {
        self.check_power()?;
        self.switch();
        let Some(state) = self.committing.as_ref().map(|committing| committing.state) else {
            return Ok(self.state());
        };
        let outcome = match state {
            State::Flush => self.write_data(),
            State::Commit => self.write_copies(),
            State::Running | State::Locked | State::Finished => self.bring_home(),
        };
        let outcome = outcome.and_then(|()| Ok(self.blocks.submit()?));
        self.or_abort(outcome)?;
        Ok(self.state())
    }

    /// Steps until nothing is committing.
    pub(crate) fn finish_commit(&mut self) -> Result<(), JournalError> {
        while self.committing.is_some() {
            self.step()?;
        }
        Ok(())
    }

    /// Makes of a locked transaction without handles the committing one.
    fn switch(&mut self) {
        let ready = |running: &mut Running| running.locked && running.handles == 0;
        if self.committing.is_some() {
            return;
        }
        let Some(running) = self.running.take_if(ready) else {
            return;
        };
        if running.is_empty() {
            // No number is left out in the log.
            self.next = running.tid;
            return;
        }
        self.fast = None;
        self.fast_used = 0;
        self.committing = Some(Committing {
            tid: running.tid,
            started: running.started,
            state: State::Flush,
            start: self.ring.head(),
            reserved: self.footprint(running.credits),
            blocks: running.blocks,
            revoked: running.revoked,
            ordered: running.ordered,
            logged: Vec::new(),
        });
    }

    /// Some ordered data; after the last of it the revoke records.
    fn write_data(&mut self) -> Result<(), JournalError> {
        let Some(committing) = &mut self.committing else {
            return Ok(());
        };
        for _ in 0..DATA_STEP {
            let Some((block, data)) = committing.ordered.pop_first() else {
                break;
            };
            self.blocks.write(block, &data)?;
            self.clean.remove(block);
            self.tally.ordered += 1;
        }
        if !committing.ordered.is_empty() {
            return Ok(());
        }
        committing.state = State::Commit;
        if self.sb.start() == 0 {
            // The device still says that there is nothing to recover.
            self.sb.set_log(committing.start, committing.tid);
            self.tail = committing.tid;
            self.sb_changed = true;
        }
        if self.sb_changed {
            self.write_superblock()?;
        }
        self.write_revokes()
    }

    fn write_revokes(&mut self) -> Result<(), JournalError> {
        let Some(committing) = &mut self.committing else {
            return Ok(());
        };
        let form = self.sb.form();
        let mut left = committing.revoked.iter().copied().peekable();
        while left.peek().is_some() {
            let records = left
                .by_ref()
                .take(form.revokes_per_block(self.blocks.size()) as usize);
            form.revokes(&mut self.scratch, committing.tid, records);
            let log = self
                .ring
                .take()
                .ok_or(JournalError::Internal("the log is full amid a commit"))?;
            self.blocks.write_log(log, &self.scratch)?;
            self.tally.control += 1;
        }
        Ok(())
    }

    /// One descriptor and the copies that it describes; after the last of them the commit block.
    fn write_copies(&mut self) -> Result<(), JournalError> {
        let Some(committing) = &mut self.committing else {
            return Ok(());
        };
        let from = committing
            .logged
            .last()
            .map_or(Unbounded, |last| Excluded(last.home));
        let form = self.sb.form();
        let tid = committing.tid;
        let most = form.tags_per_descriptor(self.blocks.size()) as usize;
        let copies = &committing.blocks;
        let group = || copies.range((from, Unbounded)).take(most);
        let count = group().count();
        if count == 0 {
            return self.seal();
        }
        let full = || JournalError::Internal("the log is full amid a commit");
        let descriptor = self.ring.take().ok_or_else(full)?;
        let tag = |(home, data): (&u64, &Arc<[u8]>)| Tag {
            home: *home,
            escaped: format::is_escaped(data),
            sum: sum_of(form, tid, data),
        };
        let tags: Vec<Tag> = group().map(tag).collect();
        form.descriptor(
            &mut self.scratch,
            committing.tid,
            &self.sb.uuid(),
            tags.iter().copied(),
        );
        self.blocks.write_log(descriptor, &self.scratch)?;
        for ((home, data), tag) in group().zip(&tags) {
            let log = self.ring.take().ok_or_else(full)?;
            if tag.escaped {
                self.scratch.copy_from_slice(data);
                format::put(&mut self.scratch, 0, 0);
                self.blocks.write_log(log, &self.scratch)?;
            } else {
                self.blocks.write_log(log, data)?;
            }
            committing.logged.push(Logged {
                home: *home,
                log,
                escaped: tag.escaped,
            });
        }
        self.tally.control += 1;
        self.tally.logged += count as u64;
        Ok(())
    }

    /// The commit block: what comes before it is durable first, and it itself before anything that
    /// follows.
    fn seal(&mut self) -> Result<(), JournalError> {
        self.barrier_unless(SeededBug::CommitUnfenced)?;
        let Some(committing) = &mut self.committing else {
            return Ok(());
        };
        committing.state = State::Finished;
        self.sb.form().commit(&mut self.scratch, committing.tid);
        let log = self
            .ring
            .take()
            .ok_or(JournalError::Internal("the log is full amid a commit"))?;
        self.blocks.write_log(log, &self.scratch)?;
        (self.tally.control, self.tally.commits) = (self.tally.control + 1, self.tally.commits + 1);
        Ok(self.barrier_unless(SeededBug::CommitUnflushed)?)
    }

    /// The end of a commit: its blocks are remapped home, or wait for a checkpoint.
    fn bring_home(&mut self) -> Result<(), JournalError> {
        let Some(committing) = &self.committing else {
            return Ok(());
        };
        let homes: BTreeSet<u64> = committing.blocks.keys().copied().collect();
        let revoked: Vec<u64> = committing.revoked.iter().copied().collect();
        homes
            .iter()
            .chain(&revoked)
            .for_each(|block| self.supersede(*block));
        revoked
            .iter()
            .for_each(|block| drop(self.clean.remove(*block)));
        let remap = self.options.checkpoint == Checkpoint::Remap && !homes.is_empty();
        if remap && !self.finished.is_empty() {
            // Older copies in the log must not outlive this transaction's.
            self.write_home(usize::MAX)?;
            self.move_tail()?;
        }
        let Some(done) = self.committing.take() else {
            return Ok(());
        };
        if remap && self.remap_home(&done)? {
            done.blocks
                .into_iter()
                .for_each(|(block, data)| self.clean.insert(block, data));
            return Ok(());
        }
        self.dirty
            .extend(done.blocks.into_iter().map(|(block, data)| {
                (
                    block,
                    Dirty {
                        tid: done.tid,
                        data,
                    },
                )
            }));
        self.finished.push_back(Finished {
            tid: done.tid,
            started: done.started,
            start: done.start,
            logged: done.logged,
            blocks: homes,
        });
        Ok(())
    }
}
