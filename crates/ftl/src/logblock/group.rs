//! BAST and SAST: the logical blocks of a group share the group's log blocks.
//!
//! A group writes to its newest log block. When that is full and the group has as many as it may
//! have, its oldest is merged; when all log blocks are in use elsewhere, the victim group's oldest
//! is. BAST is groups of one block with one log.

use super::format::Role;
use super::options::LogVictim;
use super::shared::{Core, Payload};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockError;
use nandlab_mtd::Mtd;
use nandlab_sim::Lists;
use nandlab_sim::{Divisor, mix};

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct GroupLogs {
    /// Logical blocks of a group.
    blocks: Divisor,
    /// Log blocks that a group may have.
    most: u32,
    victim: LogVictim,
    /// The log slots of each group, oldest first, `most` entries a group.
    slots: Vec<u32>,
    counts: Vec<u32>,
    /// The group of each slot.
    owners: Vec<u32>,
    /// Groups with logs: least recently written first, or by the age of their oldest log.
    queue: Lists,
    seed: u64,
    /// Random victims so far.
    draws: u64,
}

impl GroupLogs {
    pub fn new(logical_blocks: u32, blocks: u32, most: u32, victim: LogVictim, seed: u64) -> Self {
        let groups = logical_blocks.div_ceil(blocks);
        Self {
            blocks: Divisor::new(blocks),
            most,
            victim,
            slots: vec![NONE; (groups * most) as usize],
            counts: vec![0; groups as usize],
            owners: Vec::new(),
            queue: Lists::new(1, groups),
            seed,
            draws: 0,
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
        let group = self.blocks.split(core.maps.split(lpn).0).0;
        loop {
            if core.write_in_place(lpn, payload)? {
                return Ok(());
            }
            if let Some(slot) = self.newest(group)
                && core.append(slot, lpn, payload)?
            {
                if self.victim == LogVictim::LeastRecent {
                    self.queue.push_back(0, group);
                }
                return if core.options.eager {
                    self.merge_full(core, group)
                } else {
                    Ok(())
                };
            }
            self.make_room(core, group)?;
        }
    }

    /// The group's log takes no more: it gets another, or a log block is merged for it. The caller
    /// looks again, since a merge may free space in place.
    fn make_room<M: Mtd>(&mut self, core: &mut Core<M>, group: u32) -> Result<(), BlockError> {
        let limit = core.log_limit()?;
        if self.counts[group as usize] >= self.most {
            return self.merge_oldest(core, group);
        }
        if core.logs.in_use() >= limit {
            let victim = self.victim_group(core).ok_or(core.health.worn_out())?;
            return self.merge_oldest(core, victim);
        }
        let slot = core.open_log(Role::Log)?;
        self.add(slot, group);
        Ok(())
    }

    /// Takes a log over that is in use.
    pub fn adopt<M: Mtd>(&mut self, core: &mut Core<M>, slot: u32) -> Result<(), BlockError> {
        let Some(lpn) = core.logs.any_lpn(slot) else {
            return Err(BlockError::internal(
                "log-block mapping",
                "a log block names no page",
            ));
        };
        let group = self.blocks.split(core.maps.split(lpn).0).0;
        while self.counts[group as usize] >= self.most {
            self.merge_oldest(core, group)?;
        }
        self.add(slot, group);
        Ok(())
    }

    fn add(&mut self, slot: u32, group: u32) {
        let count = &mut self.counts[group as usize];
        self.slots[(group * self.most + *count) as usize] = slot;
        *count += 1;
        self.owners
            .resize(self.owners.len().max(slot as usize + 1), NONE);
        self.owners[slot as usize] = group;
        if *count == 1 || self.victim == LogVictim::LeastRecent {
            self.queue.push_back(0, group);
        }
    }

    fn newest(&self, group: u32) -> Option<u32> {
        let count = self.counts[group as usize];
        (count > 0).then(|| self.slots[(group * self.most + count - 1) as usize])
    }

    fn victim_group<M: Mtd>(&mut self, core: &Core<M>) -> Option<u32> {
        if self.victim != LogVictim::Random {
            return self.queue.front(0);
        }
        let slots = core.logs.slots();
        self.draws += 1;
        let start = (mix(self.seed, self.draws) % u64::from(slots.max(1))) as u32;
        (0..slots)
            .map(|i| self.owners[((start + i) % slots) as usize])
            .find(|&group| group != NONE)
    }

    fn merge_oldest<M: Mtd>(&mut self, core: &mut Core<M>, group: u32) -> Result<(), BlockError> {
        let first = (group * self.most) as usize;
        let count = self.counts[group as usize] as usize;
        let slot = self.slots[first];
        core.merge_log(slot)?;
        self.slots.copy_within(first + 1..first + count, first);
        self.counts[group as usize] -= 1;
        self.owners[slot as usize] = NONE;
        if count == 1 {
            self.queue.remove(group);
        } else if self.victim == LogVictim::Fifo {
            self.queue.push_back(0, group);
        }
        Ok(())
    }

    /// The eager rule: no group keeps all its logs full.
    fn merge_full<M: Mtd>(&mut self, core: &mut Core<M>, group: u32) -> Result<(), BlockError> {
        let full = self
            .newest(group)
            .is_some_and(|slot| !core.takes_more(slot));
        if full && self.counts[group as usize] >= self.most {
            self.merge_oldest(core, group)
        } else {
            Ok(())
        }
    }
}
