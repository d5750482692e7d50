//! FAST: one log block for sequential writes, the others for any page.
//!
//! A write to offset 0 takes the sequential log block over; the next pages of its logical block
//! follow it there. All other writes go to the newest random log block; when all are full, the
//! oldest is reclaimed: every logical block with pages in it is merged.

use super::format::Role;
use super::options::{Mismatch, OwnerMerge, Pending};
use super::shared::{Core, Payload};
use crate::Cause;
use alloc::collections::VecDeque;
use nandlab_block::BlockError;
use nandlab_mtd::Mtd;

#[derive(Debug)]
pub(super) struct FastLogs {
    mismatch: Mismatch,
    pending: Pending,
    owner: OwnerMerge,
    /// The slot of the sequential log block.
    sequential: Option<u32>,
    /// The slots of the random ones, oldest first.
    random: VecDeque<u32>,
}

/// What the sequential log block could do for a write.
enum Sequel {
    Written,
    /// The write has to be looked at anew.
    Again,
    /// It is for the random log blocks.
    NotHere,
}

impl FastLogs {
    pub fn new(mismatch: Mismatch, pending: Pending, owner: OwnerMerge) -> Self {
        Self {
            mismatch,
            pending,
            owner,
            sequential: None,
            random: VecDeque::new(),
        }
    }

    /// Writes a logical page.
    #[inline]
    pub fn write<M: Mtd>(
        &mut self,
        core: &mut Core<M>,
        lpn: u32,
        payload: Payload<'_>,
    ) -> Result<(), BlockError> {
        let (lbn, off) = core.maps.split(lpn);
        loop {
            if core.write_in_place(lpn, payload)? {
                return Ok(());
            }
            let sequel = match self.sequential {
                _ if off == 0 => self.begin(core, lpn, payload)?,
                Some(slot) if self.owns(core, slot, lbn) => self.go_on(core, slot, lpn, payload)?,
                _ => Sequel::NotHere,
            };
            match sequel {
                Sequel::Written => return Ok(()),
                Sequel::Again => continue,
                Sequel::NotHere => {}
            }
            if let Some(&slot) = self.random.back()
                && core.append(slot, lpn, payload)?
            {
                return if core.options.eager {
                    self.reclaim_full(core)
                } else {
                    Ok(())
                };
            }
            if self.random.len() as u32 + 1 >= core.log_limit()? {
                self.reclaim(core)?;
            } else {
                self.random.push_back(core.open_log(Role::Random)?);
            }
        }
    }

    /// Takes a log over that is in use; they come oldest first. Only the newest of the sequential
    /// ones can be it.
    pub fn adopt(&mut self, slot: u32, role: Role) {
        if role == Role::Random {
            self.random.push_back(slot);
        } else if let Some(older) = self.sequential.replace(slot) {
            self.random.push_front(older);
        }
    }

    fn owns<M: Mtd>(&self, core: &Core<M>, slot: u32, lbn: u32) -> bool {
        core.logs
            .any_lpn(slot)
            .is_some_and(|lpn| core.maps.split(lpn).0 == lbn)
    }

    /// A write to offset 0: the sequential log block starts anew.
    fn begin<M: Mtd>(
        &mut self,
        core: &mut Core<M>,
        lpn: u32,
        payload: Payload<'_>,
    ) -> Result<Sequel, BlockError> {
        if self.sequential.is_some() {
            self.finish(core)?;
            return Ok(Sequel::Again);
        }
        while core.logs.in_use() >= core.log_limit()? {
            self.reclaim(core)?;
        }
        let slot = core.open_log(Role::Log)?;
        self.sequential = Some(slot);
        self.append(core, slot, lpn, payload)
    }

    /// A write to the owner of the sequential log block, not at offset 0.
    fn go_on<M: Mtd>(
        &mut self,
        core: &mut Core<M>,
        slot: u32,
        lpn: u32,
        payload: Payload<'_>,
    ) -> Result<Sequel, BlockError> {
        let (lbn, off) = core.maps.split(lpn);
        let next = core.logs.get(slot).next;
        if next == core.maps.pages {
            self.finish(core)?;
            return Ok(Sequel::Again);
        }
        if off == next
            && let Sequel::Written = self.append(core, slot, lpn, payload)?
        {
            return Ok(Sequel::Written);
        }
        match (self.mismatch, self.pending) {
            (Mismatch::Random, _) => return Ok(Sequel::NotHere),
            (Mismatch::Merge, Pending::Logged) => {
                self.finish(core)?;
                return Ok(Sequel::Again);
            }
            (Mismatch::Merge, Pending::Merged) => {}
        }
        let pending = Some((off, payload));
        let ahead = off >= next && core.is_ordered(slot) && core.takes_more(slot);
        if !(ahead && core.partial_merge(slot, pending)?) {
            core.full_merge(lbn, pending, Cause::FullMerge)?;
            core.release_log(slot, Cause::FullMerge)?;
        }
        self.sequential = None;
        Ok(Sequel::Written)
    }

    fn append<M: Mtd>(
        &mut self,
        core: &mut Core<M>,
        slot: u32,
        lpn: u32,
        payload: Payload<'_>,
    ) -> Result<Sequel, BlockError> {
        if !core.append(slot, lpn, payload)? {
            return Ok(Sequel::Again);
        }
        if core.options.eager && core.logs.get(slot).next == core.maps.pages {
            self.finish(core)?;
        }
        Ok(Sequel::Written)
    }

    /// Merges the sequential log block.
    fn finish<M: Mtd>(&mut self, core: &mut Core<M>) -> Result<(), BlockError> {
        if let Some(slot) = self.sequential {
            core.merge_log(slot)?;
            self.sequential = None;
        }
        Ok(())
    }

    /// Reclaims the oldest random log block.
    fn reclaim<M: Mtd>(&mut self, core: &mut Core<M>) -> Result<(), BlockError> {
        let Some(&victim) = self.random.front() else {
            return Err(core.health.worn_out());
        };
        core.begin_visit();
        let mut index = 0;
        while let Some(lbn) = core.next_named(victim, &mut index) {
            match self.sequential {
                Some(slot) if self.owns(core, slot, lbn) => self.merge_owner(core, slot, lbn)?,
                _ => core.full_merge(lbn, None, Cause::FullMerge)?,
            }
        }
        core.release_log(victim, Cause::FullMerge)?;
        self.random.pop_front();
        Ok(())
    }

    /// Merges the owner of the sequential log block, which goes with it.
    fn merge_owner<M: Mtd>(
        &mut self,
        core: &mut Core<M>,
        slot: u32,
        lbn: u32,
    ) -> Result<(), BlockError> {
        let log = *core.logs.get(slot);
        // Pages of the log that are newer elsewhere would stay there, and the block being reclaimed
        // could not go.
        let current = log.live == log.next && core.is_ordered(slot);
        let whole = log.next == core.maps.pages;
        if self.owner == OwnerMerge::Partial && current && whole {
            core.merge_log(slot)?;
        } else if !(self.owner == OwnerMerge::Partial
            && current
            && core.takes_more(slot)
            && core.partial_merge(slot, None)?)
        {
            core.full_merge(lbn, None, Cause::FullMerge)?;
            core.release_log(slot, Cause::FullMerge)?;
        }
        self.sequential = None;
        Ok(())
    }

    /// The eager rule: the random log blocks are never all full.
    fn reclaim_full<M: Mtd>(&mut self, core: &mut Core<M>) -> Result<(), BlockError> {
        let full = self
            .random
            .back()
            .is_some_and(|&slot| !core.takes_more(slot));
        if full && self.random.len() as u32 + 1 >= core.log_limit()? {
            self.reclaim(core)
        } else {
            Ok(())
        }
    }
}
