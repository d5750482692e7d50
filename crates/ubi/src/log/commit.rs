//! Commits: what is known of all blocks, in two copies, and a fresh log. Here the order, and the
//! full commit; the incremental one is in `parts`.

use super::chain::{Chain, ZONE};
use super::format::{Entry, Role, Super, encode_commit};
use super::leaves::blocks_per_leaf;
use super::superblock::Pair;
use super::{Log, Supers, Tree, VOLUMES, commit_blocks, tree};
use crate::attach::Found;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::format::{Compat, VidHeader};
use crate::options::SeededBug;
use crate::wear::State;
use crate::{Commit, Superblock, Ubi};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use nandlab_mtd::Mtd;

/// Commits that are tried, each in other blocks.
const ATTEMPTS: u32 = 4;

/// What a commit is to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// All of it, in fresh blocks.
    pub whole: bool,
    /// Fresh blocks of each copy.
    pub blocks: u32,
}

/// Where a commit is once it is written.
pub(super) struct Written {
    pub present: Vec<u32>,
    pub index: u32,
}

impl<M: Mtd> Ubi<M> {
    /// Writes a commit and begins a log. Durable on return.
    pub(crate) fn commit(&mut self) -> Result<(), UbiError> {
        let mut failed = false;
        for _ in 0..ATTEMPTS {
            let plan = self.plan_commit(failed)?;
            let reserved = self.reserve_commit(2 * plan.blocks + self.log_options().blocks)?;
            match self.try_commit(&reserved, plan) {
                Ok(true) => return self.sync(),
                Ok(false) => {
                    self.taint(&reserved, false)?;
                    failed = true;
                }
                // Given up: from now on each attach scans.
                Err(_) if matches!(self.kept, Kept::Scan) => return self.sync(),
                Err(UbiError::Mtd(error)) if is_wear(&error) => {
                    self.taint(&reserved, true)?;
                    failed = true;
                }
                Err(error) => return Err(error),
            }
        }
        self.read_only = Some("no commit could be written");
        Err(UbiError::ReadOnly("no commit could be written"))
    }

    /// Queues the blocks of a commit that failed.
    fn taint(&mut self, reserved: &[u32], worn: bool) -> Result<(), UbiError> {
        self.log()?.tainted.extend(reserved);
        reserved.iter().for_each(|&peb| self.wear.queue(peb, worn));
        Ok(())
    }

    fn plan_commit(&mut self, failed: bool) -> Result<Plan, UbiError> {
        if self.log()?.tree.is_some() {
            return self.plan_parts(failed);
        }
        Ok(Plan {
            whole: true,
            blocks: commit_blocks(&self.flash.shape),
        })
    }

    /// Blocks for both copies and the log.
    fn reserve_commit(&mut self, count: u32) -> Result<Vec<u32>, UbiError> {
        let reserve = match &self.log()?.supers {
            Supers::Pair(_) => None,
            Supers::Chain(chain) => Some(chain.zone_reserve()),
        };
        let mut reserved = Vec::new();
        let log = self.log_options().blocks;
        for left in (1..=count).rev() {
            // A copy may stay for long, which a block of the zone must not: there the log goes.
            let reserve = reserve.filter(|_| left <= log);
            let peb = self.get_free(|wear| {
                reserve.map_or_else(|| wear.middling(), |reserve| wear.least(reserve))
            })?;
            self.wear.set(peb, State::Held);
            reserved.push(peb);
        }
        Ok(reserved)
    }

    /// False: it does not fit its blocks.
    fn try_commit(&mut self, reserved: &[u32], plan: Plan) -> Result<bool, UbiError> {
        let sqnum = self.sqnum;
        let image_seq = self.flash.image_seq;
        let without_future = self.options.seeded_bug == Some(SeededBug::NoFuture);
        let log = self.log()?;
        if log.current.number > 0 && !without_future {
            log.current.future = [&log.tainted, reserved].concat();
            log.current.sqnum = sqnum;
            self.put_super()?;
        }
        let (copies, fresh) = reserved.split_at(2 * plan.blocks as usize);
        let log = self.log()?;
        let number = log.current.commit + 1;
        let dropped = if plan.whole {
            &log.current.present[..]
        } else {
            &[]
        };
        let old: Vec<u32> = dropped.iter().chain(&log.current.log).copied().collect();
        let written = match log.tree {
            None => Some(self.put_full(number, copies, reserved, &old)?),
            Some(_) => self.put_parts(number, copies, plan, reserved, &old)?,
        };
        let Some(written) = written else {
            return Ok(false);
        };
        fresh
            .iter()
            .try_for_each(|&peb| self.put_memory(peb, VOLUMES[2], &[]))?;
        let sqnum = self.sqnum;
        let log = self.log()?;
        let before = log.current.clone();
        log.current.commit = number;
        (log.current.present, log.current.index) = (written.present, written.index);
        (log.current.log, log.current.future) = (fresh.into(), Vec::new());
        (log.current.sqnum, log.current.image_seq) = (sqnum, image_seq);
        if let Err(error) = self.put_super() {
            if let Kept::Log(log) = &mut self.kept {
                let Super {
                    number,
                    blocks,
                    ecs,
                    spare,
                    ..
                } = core::mem::take(&mut log.current);
                log.current = Super {
                    number,
                    blocks,
                    ecs,
                    spare,
                    ..before
                };
            }
            return Err(error);
        }
        // Blocks of the commit before serve on, so that losing this entry must not bring that
        // commit back without its log.
        if self.log()?.tree.is_some() && matches!(self.log()?.supers, Supers::Pair(_)) {
            self.put_super()?;
        }
        let log = self.log()?;
        (log.position, log.hurt) = (Some(0), false);
        log.pending.clear();
        log.tainted.clear();
        old.into_iter().for_each(|peb| self.wear.queue(peb, false));
        Ok(true)
    }

    /// A block as it will be once the commit is there: reserved ones are memory, those of the old
    /// one are not.
    pub(super) fn entry_then(&self, peb: u32, reserved: &[u32], old: &[u32]) -> Entry {
        let entry = self.entry(peb);
        let role = if reserved.contains(&peb) {
            Role::Memory
        } else if old.contains(&peb) {
            Role::Dirty
        } else {
            return entry;
        };
        Entry {
            role,
            ec: entry.ec,
            vid: VidHeader::default(),
        }
    }

    fn put_full(
        &mut self,
        number: u64,
        copies: &[u32],
        reserved: &[u32],
        old: &[u32],
    ) -> Result<Written, UbiError> {
        let entries: Vec<Entry> = (0..self.wear.pebs())
            .map(|peb| self.entry_then(peb, reserved, old))
            .collect();
        let bytes = encode_commit(number, &entries, self.log_options().compress);
        let shape = self.flash.shape;
        let mut padded = bytes;
        padded.resize(padded.len().next_multiple_of(shape.page as usize), 0);
        for copy in copies.chunks(copies.len().div_ceil(2).max(1)) {
            let mut parts = padded.chunks(shape.leb_bytes as usize);
            for &peb in copy {
                self.put_memory(peb, VOLUMES[1], parts.next().unwrap_or(&[]))?;
            }
        }
        Ok(Written {
            present: copies.into(),
            index: 0,
        })
    }

    /// A block of UBIL's own.
    pub(super) fn put_memory(
        &mut self,
        peb: u32,
        volume: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let vid = VidHeader {
            volume,
            lnum: peb,
            compat: Compat::Delete.code(),
            sqnum: self.next_sqnum(),
            ..VidHeader::default()
        };
        let ec = self.wear.ec(peb);
        let written = self
            .flash
            .write_vid(peb, &vid, ec)
            .and_then(|()| self.flash.write_data(peb, 0, data));
        written.map_err(|error| {
            if is_wear(&error) {
                error.into()
            } else {
                self.stop(error)
            }
        })
    }

    /// Something of the memory was hard to read: it moves.
    pub(crate) fn recommit_if_hurt(&mut self) -> Result<(), UbiError> {
        match &self.kept {
            Kept::Log(log) if log.hurt => self.commit(),
            _ => Ok(()),
        }
    }

    /// Gives a scanned device a log.
    pub(crate) fn begin_log(&mut self, found: &Found) -> Result<(), UbiError> {
        let options = self.log_options();
        let supers = match options.superblock {
            Superblock::Pair => Supers::Pair(Pair::new(
                1,
                [self.vacate_end(false)?, self.vacate_end(true)?],
            )),
            Superblock::Chain => {
                self.vacate_zone()?;
                Supers::Chain(Chain::default())
            }
        };
        let mut log = Log::new(self.wear.pebs(), supers);
        (log.current.superblock, log.current.commits) = (options.superblock, options.commit);
        let lebs = found
            .volumes
            .values()
            .flat_map(|volume| volume.lebs.values());
        let known: BTreeMap<u32, VidHeader> =
            lebs.filter_map(|leb| Some((leb.peb, leb.vid?))).collect();
        let mapped: Vec<u32> = self
            .volumes
            .values()
            .flat_map(|volume| volume.map.iter().flatten())
            .copied()
            .collect();
        for peb in mapped {
            let vid = match known.get(&peb) {
                Some(vid) => Some(*vid),
                // Moved out of the way of a super block.
                None => self.vid_of(peb)?,
            };
            log.headers[peb as usize] =
                Some(vid.ok_or(UbiError::Internal("a mapped block without header"))?);
        }
        log.preserved = found
            .corrupted
            .iter()
            .chain(&found.alien)
            .map(|loose| loose.peb)
            .collect();
        if options.commit == Commit::Incremental {
            log.tree = Some(Tree::awake(
                &self.flash.shape,
                tree::lines(&self.volumes, self.flash.shape.leb_bytes),
            ));
            self.wear
                .track(blocks_per_leaf(self.flash.shape.page), BTreeSet::new());
        }
        self.kept = Kept::Log(Box::new(log));
        self.commit()
    }

    /// Blocks that only the memory may have.
    pub(crate) fn zone(&self) -> u32 {
        let chained = match &self.kept {
            Kept::Log(log) => matches!(log.supers, Supers::Chain(_)),
            Kept::Scan | Kept::Fastmap(_) => {
                matches!(self.options.memory, crate::Memory::Log(options) if options.superblock == Superblock::Chain)
            }
        };
        if chained {
            ZONE.min(self.flash.shape.pebs)
        } else {
            0
        }
    }
}
