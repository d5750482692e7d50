//! Writing a fastmap, and the pools (`ubi_update_fastmap`, `ubi_refill_pools`).

use super::Pools;
use crate::Ubi;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::format::{
    Compat, FM_DATA_VOLUME, FM_MAX_START, FM_SB_VOLUME, Fastmap, FmVolume, Pool, VidHeader,
    VolumeKind, fastmap_bytes,
};
use crate::options::SeededBug;
use crate::volume::Volume;
use crate::wear::State;
use alloc::vec::Vec;
use nandlab_mtd::Mtd;

/// Times that a pool is filled for one block before giving up.
const ATTEMPTS: u32 = 10;

impl<M: Mtd> Ubi<M> {
    fn pools(&mut self) -> Result<&mut Pools, UbiError> {
        match &mut self.kept {
            Kept::Fastmap(pools) => Ok(pools),
            Kept::Scan | Kept::Log(_) => Err(UbiError::Internal("a fastmap where there is none")),
        }
    }

    /// The next block of the pool, after a new map if it is used up.
    pub(crate) fn get_pool_peb(&mut self) -> Result<u32, UbiError> {
        for _ in 0..ATTEMPTS {
            match self.pools()?.next.pop_front() {
                None => self.write_fastmap()?,
                Some(peb) if self.make_sure(peb)? => {
                    self.wear.set(peb, State::Protected);
                    return Ok(peb);
                }
                Some(_) => {}
            }
        }
        Err(UbiError::NoSpace {
            needed: 1,
            available: 0,
        })
    }

    /// A block whose contents move so that anchors wear evenly (`find_anchor_wl_entry`,
    /// drivers/mtd/ubi/fastmap-wl.c).
    pub(crate) fn anchor_to_free(&self) -> Option<u32> {
        let Kept::Fastmap(pools) = &self.kept else {
            return None;
        };
        pools
            .wanted
            .filter(|&peb| self.wear.state(peb) == State::Used)
    }

    /// Whether a move needs a new map first, which would have a block for it.
    pub(crate) fn fastmap_due(&self, pools: &Pools) -> bool {
        let has_space = self.wear.free_count() > Pools::blocks_needed(&self.flash.shape) + 1;
        let wanted = || {
            self.anchor_to_free().is_some()
                || self.wear.to_scrub().is_some()
                || self
                    .wear
                    .worn()
                    .is_some_and(|to| self.wear.to_level(self.wear.ec(to)).is_some())
        };
        pools.targets.is_empty() && has_space && wanted()
    }

    /// Fills the pools, and writes a map of everything else. Durable on return: from then on blocks
    /// of the new pools may be written. Where there is no space for a map, the old one is erased.
    pub(crate) fn write_fastmap(&mut self) -> Result<(), UbiError> {
        self.writable()?;
        let needed = Pools::blocks_needed(&self.flash.shape);
        let unused: Vec<u32> = {
            let pools = self.pools()?;
            pools
                .next
                .drain(..)
                .chain(pools.targets.drain(..))
                .collect()
        };
        unused
            .into_iter()
            .for_each(|peb| self.wear.set(peb, State::Free));
        while self.wear.free_count() < needed + 2 && self.wear.erases_due() > 0 {
            self.erase_one()?;
        }
        let old = core::mem::take(&mut self.pools()?.blocks);
        let new = self.choose_blocks(needed, old.first().map(|&(peb, _)| peb))?;
        // The next anchor is a free block, or this one again.
        let next = self
            .wear
            .below(FM_MAX_START)
            .or(new.first().map(|&(peb, _)| peb));
        self.pools()?.wanted =
            next.and_then(|peb| self.wear.used_below(FM_MAX_START, self.wear.ec(peb)));
        self.fill_pools()?;
        for &(peb, _) in &old {
            if !new.iter().any(|&(block, _)| block == peb)
                && !matches!(self.wear.state(peb), State::Free | State::Bad)
            {
                self.wear.queue(peb, false);
            }
        }
        if !new.is_empty() && self.put_fastmap(&new)? {
            self.pools()?.blocks = new;
            self.sync()?;
            // No map but this one: were it erased before an older one, that would count.
            return match old.first() {
                _ if self.options.seeded_bug == Some(SeededBug::KeepOldMaps) => Ok(()),
                Some(&(peb, _)) if self.wear.state(peb) == State::Queued => self.forget_now(peb),
                _ => Ok(()),
            };
        }
        // No map: the old one must be gone before a block outside of its pools is written.
        for &(peb, _) in new.iter().chain(old.first()) {
            if self.wear.state(peb) == State::Held {
                self.wear.queue(peb, false);
            }
            if self.wear.state(peb) == State::Queued {
                self.forget_now(peb)?;
            }
        }
        self.sync()
    }

    /// The anchor and the other blocks, held; none if there are too few. Without a free block for
    /// an anchor the old one serves again.
    fn choose_blocks(
        &mut self,
        needed: u32,
        old_anchor: Option<u32>,
    ) -> Result<Vec<(u32, u32)>, UbiError> {
        let anchor = match (self.wear.below(FM_MAX_START), old_anchor) {
            (Some(peb), _) => peb,
            (None, None) => return Ok(Vec::new()),
            (None, Some(peb)) => {
                self.wear.queue(peb, false);
                self.forget_now(peb)?;
                if self.wear.state(peb) != State::Free {
                    return Ok(Vec::new());
                }
                peb
            }
        };
        if self.wear.free_count() < needed {
            return Ok(Vec::new());
        }
        self.wear.set(anchor, State::Held);
        if !self.make_sure(anchor)? {
            return Ok(Vec::new());
        }
        let mut blocks = alloc::vec![(anchor, self.wear.ec(anchor))];
        while (blocks.len() as u32) < needed {
            let Some(peb) = self.wear.middling() else {
                blocks
                    .into_iter()
                    .for_each(|(peb, _)| self.wear.queue(peb, false));
                return Ok(Vec::new());
            };
            self.wear.set(peb, State::Held);
            if self.make_sure(peb)? {
                blocks.push((peb, self.wear.ec(peb)));
            }
        }
        Ok(blocks)
    }

    /// Takes free blocks for both pools in turns, as long as there are some.
    fn fill_pools(&mut self) -> Result<(), UbiError> {
        loop {
            let pools = self.pools()?;
            let more = pools.next.len() < pools.max;
            let more_targets = pools.targets.len() < pools.max_targets;
            // First, so that what is worn most gets what stays.
            if let Some(peb) = self.wear.worn().filter(|_| more_targets) {
                self.wear.set(peb, State::Held);
                self.pools()?.targets.push_back(peb);
            }
            if let Some(peb) = self.wear.middling().filter(|_| more) {
                self.wear.set(peb, State::Held);
                self.pools()?.next.push_back(peb);
            }
            if self.wear.free_count() == 0 || !(more || more_targets) {
                return Ok(());
            }
        }
    }

    /// Writes the map; false: a block failed.
    fn put_fastmap(&mut self, blocks: &[(u32, u32)]) -> Result<bool, UbiError> {
        let length = fastmap_bytes(self.flash.shape.pebs, self.flash.shape.leb_bytes) as usize;
        let Some(bytes) = self.snapshot()?.encode(blocks, length) else {
            return Ok(false);
        };
        match self.put_bytes(blocks, &bytes) {
            Ok(()) => Ok(true),
            Err(UbiError::Mtd(error)) if is_wear(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn put_bytes(&mut self, blocks: &[(u32, u32)], bytes: &[u8]) -> Result<(), UbiError> {
        for (i, &(peb, _)) in (0..).zip(blocks) {
            let volume = if i == 0 { FM_SB_VOLUME } else { FM_DATA_VOLUME };
            let vid = VidHeader {
                volume,
                lnum: i,
                compat: Compat::Delete.code(),
                ..VidHeader::default()
            };
            self.fill(peb, vid, 0, &[])?;
        }
        for (&(peb, _), data) in blocks
            .iter()
            .zip(bytes.chunks_exact(self.flash.shape.leb_bytes as usize))
        {
            let written = self.flash.write_data(peb, 0, data);
            written.map_err(|error| {
                if is_wear(&error) {
                    error.into()
                } else {
                    self.stop(error)
                }
            })?;
        }
        Ok(())
    }

    /// The state of the device as a map.
    fn snapshot(&mut self) -> Result<Fastmap, UbiError> {
        let wear = &self.wear;
        let list = |state| wear.all(state).collect::<Vec<_>>();
        let (sure, doubtful): (Vec<_>, Vec<_>) = list(State::Free)
            .into_iter()
            .partition(|&(peb, _)| !wear.is_doubtful(peb));
        let free = sure;
        let used = wear
            .all(State::Used)
            .chain(wear.all(State::Protected))
            .collect();
        let scrub = wear
            .all(State::Scrub)
            .chain(wear.all(State::Stuck))
            .collect();
        let erase = wear
            .queued()
            .map(|peb| (peb, wear.ec(peb)))
            .chain(doubtful)
            .collect();
        let volumes = self
            .volumes
            .iter()
            .map(|(&id, volume)| self.fastmap_volume(id, volume))
            .collect();
        let bad = self.bad;
        let pools = self.pools()?;
        let pool = |pebs: &alloc::collections::VecDeque<u32>, max: usize| Pool {
            pebs: pebs.iter().copied().collect(),
            max: max as u16,
        };
        Ok(Fastmap {
            pool: pool(&pools.next, pools.max),
            wl_pool: pool(&pools.targets, pools.max_targets),
            free,
            used,
            scrub,
            erase,
            bad,
            volumes,
        })
    }

    fn fastmap_volume(&self, id: u32, volume: &Volume) -> FmVolume {
        let record = &volume.record;
        let (used_ebs, last_bytes) = match record.kind {
            VolumeKind::Dynamic => (
                record.reserved,
                volume.leb_bytes(self.flash.shape.leb_bytes),
            ),
            VolumeKind::Static => (volume.used_ebs, volume.last_bytes),
        };
        FmVolume {
            id,
            kind: record.kind,
            data_pad: record.data_pad,
            used_ebs,
            last_bytes,
            map: volume.map.clone(),
        }
    }
}
