//! Background work: erases, moves for wear and against bit flips. One step a call, so that the
//! owner of the device decides when.
//!
//! *Power loss.* A move writes a whole copy with a checksum before the old block is queued for an
//! erase; a cut leaves one or both, and the attach can tell.

use crate::Ubi;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use crate::format::{EC_MAX, Parsed, VidHeader, VolumeKind, crc, data_length};
use crate::wear::State;
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError};

/// A step of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// An erase of a block in the background.
    Erase,
    /// A move for wear.
    Level,
    /// A move away from bit flips.
    Scrub,
    /// What the memory of the scan needs.
    Remember,
}

impl<M: Mtd> Ubi<M> {
    /// Which step of work is next: an erase, else a move, else what the memory needs.
    pub fn due(&self) -> Option<Task> {
        if self.read_only.is_some() {
            return None;
        }
        if self.wear.erases_due() > 0 {
            return Some(Task::Erase);
        }
        match self.next_move() {
            Some((from, _)) if self.wear.state(from) == State::Scrub => Some(Task::Scrub),
            Some(_) => Some(Task::Level),
            None => self.memory_due().then_some(Task::Remember),
        }
    }

    /// Does the next step. Gives whether there was one.
    pub fn work(&mut self) -> Result<bool, UbiError> {
        let Some(task) = self.due() else {
            return Ok(false);
        };
        match task {
            Task::Erase => self.erase_one()?,
            Task::Level | Task::Scrub => {
                if let Some((from, to)) = self.next_move() {
                    self.move_contents(from, to)?;
                }
            }
            Task::Remember => self.memory_work()?,
        }
        Ok(true)
    }

    /// Does all erases that are due.
    pub fn flush_erases(&mut self) -> Result<(), UbiError> {
        while self.wear.erases_due() > 0 {
            self.erase_one()?;
        }
        Ok(())
    }

    /// A fresh block for a logical one.
    pub(crate) fn get_peb(&mut self) -> Result<u32, UbiError> {
        if let Kept::Fastmap(_) = self.kept {
            return self.get_pool_peb();
        }
        self.get_free(|wear| wear.middling())
    }

    /// A free block of the caller's choice, after as many erases as it takes to have one. It is
    /// protected then.
    pub(crate) fn get_free(
        &mut self,
        choose: impl Fn(&crate::wear::Wear) -> Option<u32>,
    ) -> Result<u32, UbiError> {
        loop {
            self.wake_free()?;
            if let Some(peb) = choose(&self.wear) {
                self.wear.set(peb, State::Protected);
                if self.make_sure(peb)? {
                    return Ok(peb);
                }
                continue;
            }
            if self.wear.erases_due() == 0 {
                if self.wake_next()? {
                    continue;
                }
                return Err(UbiError::NoSpace {
                    needed: 1,
                    available: 0,
                });
            }
            self.erase_one()?;
        }
    }

    pub(crate) fn erase_one(&mut self) -> Result<(), UbiError> {
        self.writable()?;
        let Some(job) = self.wear.next_erase() else {
            return Ok(());
        };
        match self.erase_block(job.peb, job.torture) {
            Ok(ec) => {
                self.wear.erased(job.peb, ec);
                self.remember(job.peb, None)
            }
            Err(UbiError::Mtd(error)) if is_wear(&error) => self.retire(job.peb),
            Err(error) => Err(error),
        }
    }

    /// Erases a block and writes its new counter, which it gives.
    pub(crate) fn erase_block(&mut self, peb: u32, torture: bool) -> Result<u32, UbiError> {
        let erased = self.erase_and_count(peb, torture);
        erased.map_err(|error| {
            if is_wear(&error) {
                error.into()
            } else {
                self.stop(error)
            }
        })
    }

    fn erase_and_count(&mut self, peb: u32, torture: bool) -> Result<u32, MtdError> {
        let tortured = if torture { self.flash.torture(peb)? } else { 0 };
        self.flash.erase(peb)?;
        let ec = self.wear.ec(peb).saturating_add(tortured + 1).min(EC_MAX);
        self.flash.write_ec(peb, ec)?;
        Ok(ec)
    }

    /// Erases a queued block out of turn: it holds no logical one.
    pub(crate) fn forget_now(&mut self, peb: u32) -> Result<(), UbiError> {
        self.wear.unqueue(peb);
        match self.erase_block(peb, false) {
            Ok(ec) => {
                self.wear.erased(peb, ec);
                Ok(())
            }
            Err(UbiError::Mtd(error)) if is_wear(&error) => self.retire(peb),
            Err(error) => Err(error),
        }
    }

    /// A block is bad from now on, and a spare one takes its place.
    pub(crate) fn retire(&mut self, peb: u32) -> Result<(), UbiError> {
        if self.spare > 0 {
            self.spare -= 1;
        } else if self.available > 0 {
            self.available -= 1;
        } else {
            self.read_only = Some("no spare erase block is left for one that failed");
            return Err(UbiError::ReadOnly(
                "no spare erase block is left for one that failed",
            ));
        }
        self.flash.mark_bad(peb).map_err(|error| self.stop(error))?;
        self.wear.set(peb, State::Bad);
        self.bad += 1;
        self.remember(peb, None)
    }

    /// Erases a free block that is about to be used, if it may have torn pages; false: it is bad.
    pub(crate) fn make_sure(&mut self, peb: u32) -> Result<bool, UbiError> {
        if !self.wear.is_doubtful(peb) {
            return Ok(true);
        }
        match self.erase_block(peb, false) {
            Ok(ec) => {
                self.wear.sure(peb, ec);
                Ok(true)
            }
            Err(UbiError::Mtd(error)) if is_wear(&error) => self.retire(peb).map(|()| false),
            Err(error) => Err(error),
        }
    }

    /// What moves next, and where to.
    fn next_move(&self) -> Option<(u32, u32)> {
        let to = match &self.kept {
            Kept::Fastmap(pools) => pools.next_target()?,
            Kept::Scan | Kept::Log(_) => self.wear.worn()?,
        };
        let from = self
            .wear
            .to_scrub()
            .or_else(|| self.wear.to_level(self.wear.ec(to)))
            .or_else(|| self.anchor_to_free())?;
        Some((from, to))
    }

    /// The header that a block has, if it is sound.
    pub(crate) fn vid_of(&mut self, peb: u32) -> Result<Option<VidHeader>, UbiError> {
        if let Kept::Log(log) = &self.kept {
            return Ok(log.vid(peb));
        }
        Ok(match self.flash.read_vid(peb)?.0 {
            Parsed::Good(vid) => Some(vid),
            _ => None,
        })
    }

    /// Moves what a block holds (`wear_leveling_worker` and `ubi_eba_copy_leb`).
    pub(crate) fn move_contents(&mut self, from: u32, to: u32) -> Result<(), UbiError> {
        let Some((vid, data)) = self.load_contents(from)? else {
            return self.give_up(from);
        };
        self.take_target(to);
        if !self.make_sure(to)? {
            return Ok(());
        }
        match self.fill(to, vid, 0, &data) {
            Ok(()) => {}
            Err(UbiError::Mtd(error)) if is_wear(&error) => {
                self.wear.queue(to, true);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.set_place(vid.volume, vid.lnum, Some(to))?;
        self.wear.set(to, State::Used);
        self.wear.queue(from, false);
        self.moves += 1;
        Ok(())
    }

    /// What a block holds, with the header that a copy of it gets; none if no logical block is
    /// there, or cannot be read.
    fn load_contents(&mut self, peb: u32) -> Result<Option<(VidHeader, Vec<u8>)>, UbiError> {
        let Some(vid) = self.vid_of(peb)? else {
            return Ok(None);
        };
        if !self.volumes.contains_key(&vid.volume)
            || self.mapping(vid.volume, vid.lnum)? != Some(peb)
        {
            return Ok(None);
        }
        let dynamic = vid.kind == VolumeKind::Dynamic;
        let whole = self.find(vid.volume)?.leb_bytes(self.flash.shape.leb_bytes);
        let length = if dynamic { whole } else { vid.data_size } as usize;
        let unit = self.flash.shape.page as usize;
        let mut data = vec![0xFF; length.next_multiple_of(unit)];
        if self.flash.read_data(peb, 0, &mut data[..length])?.damaged {
            return Ok(None);
        }
        if dynamic {
            let used = data_length(&data, unit);
            // What was changed whole stays a whole change, even to erased bytes; a change that was
            // cut off before its first page was none.
            let changed = used == 0
                && vid.copy
                && data
                    .get(..vid.data_size as usize)
                    .is_some_and(|all| crc(all) == vid.data_crc);
            data.truncate(if changed { unit } else { used });
        }
        let size = data.len().min(length);
        let data_crc = if size > 0 { crc(&data[..size]) } else { 0 };
        Ok(Some((
            VidHeader {
                copy: size > 0,
                data_size: size as u32,
                data_crc,
                ..vid
            },
            data,
        )))
    }

    fn take_target(&mut self, peb: u32) {
        if let Kept::Fastmap(pools) = &mut self.kept {
            pools.take_target();
        }
        self.wear.set(peb, State::Held);
    }

    /// A block's contents cannot be moved: it stays where it is. Too many of them, and nothing is
    /// written any more.
    fn give_up(&mut self, peb: u32) -> Result<(), UbiError> {
        // A mapping that proved wrong has queued the block already.
        if self.wear.state(peb) == State::Queued {
            return Ok(());
        }
        self.wear.set(peb, State::Stuck);
        self.erroneous += 1;
        if self.erroneous > (self.flash.shape.pebs / 10).max(16) {
            self.read_only = Some("too many erase blocks cannot be read");
        }
        Ok(())
    }
}
