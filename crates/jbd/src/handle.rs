//! Changes, in handles: what a file system calls while it works.
//!
//! *Promises.* A handle's changes are all in one transaction. Space for them in the log is found
//! before the handle begins, by committing and checkpointing if need be; none of the other calls
//! writes anything. *Knows nothing of* the log's layout.

use crate::{Handle, Journal, JournalError, Tid, transaction::Running};
use alloc::sync::Arc;
use nandlab_block::BlockDevice;
use nandlab_sim::Nanos;

impl<D: BlockDevice> Journal<D> {
    /// Begins an operation that will change or revoke up to `credits` blocks. It joins the running
    /// transaction, or begins one that is `now` old 0. When the running transaction would become
    /// too large it is committed first; when the log is too full, it is checkpointed.
    ///
    /// Fails with [`Busy`](JournalError::Busy) when that needs other handles stopped, and with
    /// [`TooLarge`](JournalError::TooLarge) when no transaction could hold it.
    pub fn start(&mut self, credits: u32, now: Nanos) -> Result<Handle, JournalError> {
        self.check_power()?;
        let most = self.credits_max();
        if credits > most {
            return Err(JournalError::TooLarge { credits, most });
        }
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.locked || running.credits + credits > most)
        {
            self.commit()?;
        }
        let held = self.running.as_ref().map_or(0, |running| running.credits);
        self.make_room(self.footprint(held + credits))?;
        let next = &mut self.next;
        let running = self.running.get_or_insert_with(|| {
            let tid = *next;
            *next = tid.next();
            Running::new(tid, now)
        });
        running.handles += 1;
        running.credits += credits;
        Ok(Handle {
            tid: running.tid,
            credits,
        })
    }

    /// Adds credits to a handle if its transaction has space for them; whether it had. If not, the
    /// caller brings its changes to a point where a crash may fall and [restarts](Self::restart).
    pub fn extend(&mut self, handle: &mut Handle, credits: u32) -> Result<bool, JournalError> {
        self.check_power()?;
        let most = self.credits_max();
        let held = self.of(handle)?.credits;
        let footprint = self.footprint(held.saturating_add(credits).min(most));
        if held.saturating_add(credits) > most || self.free_blocks() < footprint {
            return Ok(false);
        }
        self.of(handle)?.credits += credits;
        handle.credits += credits;
        Ok(true)
    }

    /// Stops the handle and starts it anew, possibly in a later transaction.
    pub fn restart(
        &mut self,
        handle: Handle,
        credits: u32,
        now: Nanos,
    ) -> Result<Handle, JournalError> {
        self.stop(handle)?;
        self.start(credits, now)
    }

    /// Ends an operation and returns its unused credits. Its changes are visible at once and
    /// durable when its transaction has committed: see [`sync`](Self::sync).
    pub fn stop(&mut self, handle: Handle) -> Result<Tid, JournalError> {
        let running = self.of(&handle)?;
        running.handles -= 1;
        running.credits -= handle.credits;
        Ok(handle.tid)
    }

    /// A block to be changed: its newest version, which belongs to the running transaction from now
    /// on. Older transactions keep theirs. Takes a credit unless the transaction has the block
    /// already.
    pub fn change(&mut self, handle: &mut Handle, block: u64) -> Result<&mut [u8], JournalError> {
        self.check_block(block)?;
        if !self.of(handle)?.blocks.contains_key(&block) {
            self.charge(handle, block)?;
            let data = self.newest(block)?;
            self.join(handle, block, data)?;
        }
        let data = self
            .of(handle)?
            .blocks
            .get_mut(&block)
            .ok_or(JournalError::Internal("a joined block is nowhere"))?;
        Ok(Arc::make_mut(data))
    }

    /// Gives a block new contents, whatever it held. As [`change`](Self::change), but nothing is
    /// read.
    pub fn replace(
        &mut self,
        handle: &mut Handle,
        block: u64,
        data: &[u8],
    ) -> Result<(), JournalError> {
        self.check_block(block)?;
        self.check_length(data)?;
        if !self.of(handle)?.blocks.contains_key(&block) {
            self.charge(handle, block)?;
        }
        self.clean.remove(block);
        self.join(handle, block, data.into())
    }

    /// A block is free again that no transaction before this one has logged: the transaction
    /// forgets it, and the handle gets its credit back. The block may be used for anything at once.
    pub fn forget(&mut self, handle: &mut Handle, block: u64) -> Result<(), JournalError> {
        let running = self.of(handle)?;
        handle.credits += u32::from(running.blocks.remove(&block).is_some());
        running.ordered.remove(&block);
        self.clean.remove(block);
        Ok(())
    }

    /// A block is free again that may be in the log: recovery shall not bring home any version up
    /// to this transaction's, so that the block can hold plain data from the commit of this
    /// transaction on. Changing the block again in this transaction cancels the revoke. Takes a
    /// credit, or the one that the change of the block took.
    pub fn revoke(&mut self, handle: &mut Handle, block: u64) -> Result<(), JournalError> {
        self.check_block(block)?;
        let running = self.of(handle)?;
        if running.blocks.remove(&block).is_none() && !running.revoked.contains(&block) {
            self.charge(handle, block)?;
        }
        let running = self.of(handle)?;
        running.ordered.remove(&block);
        running.revoked.insert(block);
        self.clean.remove(block);
        self.sb_changed |= self.sb.allow_revokes();
        Ok(())
    }

    /// Plain data that shall be on the device before the transaction commits (the mode "ordered").
    /// It waits here; [`get`](Self::get) sees it.
    pub fn ordered(
        &mut self,
        handle: &mut Handle,
        block: u64,
        data: &[u8],
    ) -> Result<(), JournalError> {
        self.check_block(block)?;
        self.check_length(data)?;
        let journaled = self.of(handle)?.blocks.contains_key(&block);
        let committing = self
            .committing
            .as_ref()
            .is_some_and(|committing| committing.blocks.contains_key(&block));
        if journaled || committing || self.dirty.contains_key(&block) {
            return Err(JournalError::Journaled { block });
        }
        self.clean.remove(block);
        self.of(handle)?.ordered.insert(block, data.into());
        Ok(())
    }

    /// The running transaction, if the handle is one of it.
    fn of(&mut self, handle: &Handle) -> Result<&mut Running, JournalError> {
        let running = self.running.as_ref().map(|running| running.tid);
        let stale = JournalError::Stale {
            handle: handle.tid,
            running,
        };
        self.running
            .as_mut()
            .filter(|running| running.tid == handle.tid && running.handles > 0)
            .ok_or(stale)
    }

    /// Takes a credit for a block that the transaction does not have; one that it has revoked has
    /// been paid for.
    fn charge(&mut self, handle: &mut Handle, block: u64) -> Result<(), JournalError> {
        if !self.of(handle)?.revoked.contains(&block) {
            handle.credits = handle
                .credits
                .checked_sub(1)
                .ok_or(JournalError::NoCredit { block })?;
        }
        Ok(())
    }

    fn join(&mut self, handle: &Handle, block: u64, data: Arc<[u8]>) -> Result<(), JournalError> {
        let running = self.of(handle)?;
        running.revoked.remove(&block);
        running.ordered.remove(&block);
        running.blocks.insert(block, data);
        Ok(())
    }

    pub(crate) fn check_length(&self, data: &[u8]) -> Result<(), JournalError> {
        let found = data.len();
        let expected = self.block_size();
        if found == expected as usize {
            Ok(())
        } else {
            Err(JournalError::Length { found, expected })
        }
    }
}
