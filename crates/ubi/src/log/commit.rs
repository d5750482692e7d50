//! Commits: a snapshot in two copies, and a fresh log.

use super::format::{Entry, encode_commit};
use super::{Log, VOLUMES, commit_blocks, empty};
use crate::attach::Found;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::format::{Compat, VidHeader};
use crate::options::SeededBug;
use crate::wear::State;
use crate::{LogOptions, Memory, Ubi};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use nandlab_mtd::Mtd;

/// Commits that are tried, each in other blocks.
const ATTEMPTS: u32 = 4;

impl<M: Mtd> Ubi<M> {
    fn log_options(&self) -> LogOptions {
        match self.options.memory {
            Memory::Log(options) => options,
            Memory::Scan | Memory::Fastmap => LogOptions::default(),
        }
    }

    /// Writes a commit and begins a log. Durable on return.
    pub(crate) fn commit(&mut self) -> Result<(), UbiError> {
        for _ in 0..ATTEMPTS {
            let reserved = self.reserve_commit()?;
            match self.try_commit(&reserved) {
                Ok(()) => return self.sync(),
                // Given up: from now on each attach scans.
                Err(_) if matches!(self.kept, Kept::Scan) => return self.sync(),
                Err(UbiError::Mtd(error)) if is_wear(&error) => reserved.iter().for_each(|&peb| self.wear.queue(peb, true)),
                Err(error) => return Err(error),
            }
        }
        self.read_only = Some("no commit could be written");
        Err(UbiError::ReadOnly("no commit could be written"))
    }

    /// Blocks for both copies and the log.
    fn reserve_commit(&mut self) -> Result<Vec<u32>, UbiError> {
        let count = 2 * commit_blocks(&self.flash.shape) + self.log_options().blocks;
        let mut reserved = Vec::new();
        for _ in 0..count {
            let peb = self.get_free(|wear| wear.middling())?;
            self.wear.set(peb, State::Held);
            reserved.push(peb);
        }
        Ok(reserved)
    }

    fn try_commit(&mut self, reserved: &[u32]) -> Result<(), UbiError> {
        let sqnum = self.sqnum;
        let image_seq = self.flash.image_seq;
        let without_future = self.options.seeded_bug == Some(SeededBug::NoFuture);
        let log = self.log()?;
        let old: Vec<u32> = log.current.present.iter().chain(&log.current.log).copied().collect();
        if log.current.number > 0 && !without_future {
            log.current.future = reserved.into();
            log.current.sqnum = sqnum;
            self.put_super()?;
        }
        let (present, fresh) = reserved.split_at(2 * commit_blocks(&self.flash.shape) as usize);
        let number = self.log()?.current.commit + 1;
        let entries = self.snapshot_entries(reserved)?;
        self.put_copies(present, fresh, &encode_commit(number, &entries, self.log_options().compress))?;
        let sqnum = self.sqnum;
        let log = self.log()?;
        let before = core::mem::take(&mut log.current);
        log.current = super::Super {
            commit: number,
            present: present.into(),
            future: Vec::new(),
            log: fresh.into(),
            sqnum,
            image_seq,
            ..before.clone()
        };
        if let Err(error) = self.put_super() {
            let log = self.log()?;
            log.current = super::Super { number: log.current.number, ..before };
            return Err(error);
        }
        let log = self.log()?;
        (log.position, log.hurt) = (Some(0), false);
        log.pending.clear();
        old.into_iter().for_each(|peb| self.wear.queue(peb, false));
        Ok(())
    }

    /// Every block as it will be once the commit is there: its own blocks are memory, those of the old one are not.
    fn snapshot_entries(&mut self, reserved: &[u32]) -> Result<Vec<Entry>, UbiError> {
        let mut entries: Vec<Entry> = (0..self.wear.pebs()).map(|peb| self.entry(peb)).collect();
        let log = self.log()?;
        for &peb in log.current.present.iter().chain(&log.current.log) {
            entries[peb as usize].role = super::Role::Dirty;
        }
        reserved.iter().for_each(|&peb| entries[peb as usize].role = super::Role::Memory);
        Ok(entries)
    }

    /// Both copies, and headers for the log's blocks.
    fn put_copies(&mut self, present: &[u32], fresh: &[u32], bytes: &[u8]) -> Result<(), UbiError> {
        let shape = self.flash.shape;
        let mut padded = Vec::from(bytes);
        padded.resize(bytes.len().next_multiple_of(shape.page as usize), 0);
        for copy in present.chunks(present.len().div_ceil(2).max(1)) {
            let mut parts = padded.chunks(shape.leb_bytes as usize);
            for &peb in copy {
                self.put_memory(peb, VOLUMES[1], parts.next().unwrap_or(&[]))?;
            }
        }
        fresh.iter().try_for_each(|&peb| self.put_memory(peb, VOLUMES[2], &[]))
    }

    /// A block of UBIL's own.
    pub(super) fn put_memory(&mut self, peb: u32, volume: u32, data: &[u8]) -> Result<(), UbiError> {
        let vid = VidHeader { volume, lnum: peb, compat: Compat::Delete.code(), sqnum: self.next_sqnum(), ..VidHeader::default() };
        let ec = self.wear.ec(peb);
        let written = self.flash.write_vid(peb, &vid, ec).and_then(|()| self.flash.write_data(peb, 0, data));
        written.map_err(|error| if is_wear(&error) { error.into() } else { self.stop(error) })
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
        let first = self.vacate_end(false)?;
        let last = self.vacate_end(true)?;
        let mut log = Log { newest: 1, ..empty(self.wear.pebs(), [first, last]) };
        let lebs = found.volumes.values().flat_map(|volume| volume.lebs.values());
        let known: BTreeMap<u32, VidHeader> = lebs.filter_map(|leb| Some((leb.peb, leb.vid?))).collect();
        let mapped: Vec<u32> = self.volumes.values().flat_map(|volume| volume.map.iter().flatten()).copied().collect();
        for peb in mapped {
            let vid = match known.get(&peb) {
                Some(vid) => Some(*vid),
                // Moved out of the way of a super block.
                None => self.vid_of(peb)?,
            };
            log.headers[peb as usize] = Some(vid.ok_or(UbiError::Internal("a mapped block without header"))?);
        }
        log.preserved = found.corrupted.iter().chain(&found.alien).map(|loose| loose.peb).collect();
        self.kept = Kept::Log(Box::new(log));
        self.commit()
    }
}
