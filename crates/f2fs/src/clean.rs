//! Cleaning: valid blocks leave a section so that a checkpoint can set it free (paper, section 2.5;
//! `fs/f2fs/gc.c`).
//!
//! *Promises.* Only what the summary, the node address table and the node agree on is moved. In the
//! background blocks only begin to wait; their files' next write-back moves them. *Knows nothing
//! of* what the blocks hold.

use crate::{
    F2fs, F2fsError,
    checkpoint::later,
    format::{SEGMENT, footer, is_placed, le32, log, node_offset},
    map::first_index,
    summary::Owner,
    victim::Candidate,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::Time;

/// Where more than so many percent of all segments only wait for a checkpoint to become clean, one
/// is taken (`excess_prefree_segs`).
const EMPTIED_PERCENT: u32 = 5;
/// At most so many wait (`DEF_MAX_RECLAIM_PREFREE_SEGMENTS`).
const EMPTIED_MAX: u32 = 4096;
/// Sections that one call cleans at most.
const ROUNDS: u32 = 8;
/// Blocks given out between two attempts when the last one found nothing worth moving.
const STALL: u64 = 512;

/// Sleeps of the background cleaner where it found no victim.
const SLEEP_WITHOUT_VICTIM: u64 = 5;
/// It hurries where more than so many percent of the users' blocks are not valid, and free ones are
/// fewer than so many percent of those.
const MUCH_PERCENT: u64 = 40;

/// The background cleaner between two looks at the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaner {
    wakes: Option<Time>,
    /// The sleep between two passes, in nanoseconds.
    sleep: u64,
    /// When the last request was made.
    pub asked: Option<Time>,
    /// A request was made that did not tell its time.
    pub asked_untimed: bool,
}

impl Cleaner {
    /// With this longest sleep.
    pub fn new(longest: u64) -> Self {
        Self {
            wakes: None,
            sleep: longest / 2,
            asked: None,
            asked_untimed: false,
        }
    }

    /// As `increase_sleep_time`: by a shortest sleep.
    fn sleep_more(&mut self, longest: u64) {
        if self.sleep <= longest {
            self.sleep = (self.sleep + longest / 2).min(longest);
        }
    }

    /// Shortens the sleep as Linux's `decrease_sleep_time` does.
    fn sleep_less(&mut self, longest: u64) {
        self.sleep = if self.sleep > longest {
            longest
        } else {
            self.sleep.saturating_sub(longest / 2).max(longest / 2)
        };
    }
}

impl<D: BlockDevice> F2fs<D> {
    /// Whether clean sections are fewer than those that are reserved and those that dirty data will
    /// take (`has_not_enough_free_secs`).
    fn is_short(&self) -> bool {
        u64::from(self.segments.free_sections)
            <= self.sections_owed() + u64::from(self.reserved_sections())
    }

    /// Takes a checkpoint where it makes many segments clean. Linux's flusher does so, within
    /// seconds of the write; here the next call does.
    pub(crate) fn reclaim_emptied(&mut self) -> Result<(), F2fsError> {
        let most = self.segments.len() * EMPTIED_PERCENT / 100;
        if self.segments.emptied <= most.min(EMPTIED_MAX) {
            return Ok(());
        }
        self.take_checkpoint(false)
    }

    /// Cleans until enough sections are clean, or nothing is worth it.
    pub(crate) fn clean_foreground(&mut self) -> Result<(), F2fsError> {
        if !self.is_short() || self.stalled.is_some_and(|at| self.given_out < at + STALL) {
            return Ok(());
        }
        self.stalled = None;
        if self.segments.stale > 0 {
            self.take_checkpoint(false)?;
        }
        for _ in 0..ROUNDS {
            if !self.is_short() {
                return Ok(());
            }
            let full = self.segments.section_blocks();
            let chosen =
                self.segments
                    .victim(self.options.foreground, &self.log_segments(), self.mtime());
            let Some(Candidate { section, valid, .. }) = chosen else {
                break;
            };
            // Moving nearly all of a section for nearly nothing: threaded logging does better.
            if valid > full - full / 8 && self.options.threaded {
                break;
            }
            self.segments.chosen.remove(&section);
            self.counts.moved += self.clean(section, true)?;
            self.counts.cleaned += 1;
            self.take_checkpoint(false)?;
        }
        if self.is_short()
            && (self.options.threaded || 2 * self.segments.free_sections > self.reserved_sections())
        {
            self.stalled = Some(self.given_out);
        }
        Ok(())
    }

    /// When the background cleaner wakes next; never where there is nothing to choose.
    pub(crate) fn cleaning_due(&self) -> Option<Time> {
        if self.options.cleaning_interval == 0 || !self.segments.has_victims(&self.log_segments()) {
            return None;
        }
        let first = || {
            self.first_time
                .map(|first| later(first, self.cleaner.sleep))
        };
        self.cleaner.wakes.or_else(first)
    }

    /// The background cleaner wakes (`gc_thread_func`): it cleans a section if the volume is idle.
    pub(crate) fn wake_cleaner(&mut self) -> Result<(), F2fsError> {
        let longest = self.options.cleaning_interval;
        let cleans = self.is_idle();
        if cleans && self.has_much_to_clean() {
            self.cleaner.sleep_less(longest);
        } else {
            self.cleaner.sleep_more(longest);
        }
        if cleans && !self.clean_background()? {
            self.cleaner.sleep = longest.saturating_mul(SLEEP_WITHOUT_VICTIM);
        }
        self.cleaner.wakes = Some(later(self.now, self.cleaner.sleep));
        Ok(())
    }

    /// Whether there was no request for long enough. Reads do not tell their time: they count as
    /// made now. An fsync has the time of the write before it.
    fn is_idle(&mut self) -> bool {
        if core::mem::take(&mut self.cleaner.asked_untimed) {
            self.cleaner.asked = Some(self.now);
        }
        let idle = self.options.cleaning_idle;
        self.cleaner
            .asked
            .is_none_or(|asked| later(asked, idle) <= self.now)
    }

    /// Whether much is not valid and little is free (`has_enough_invalid_blocks`).
    fn has_much_to_clean(&self) -> bool {
        let users = self.checkpoint.user_blocks;
        let invalid = users.saturating_sub(self.checkpoint.valid_blocks);
        let free = self.segments.free_segments;
        let free =
            u64::from(free.saturating_sub(self.checkpoint.overprovision)) * u64::from(SEGMENT);
        invalid > users * MUCH_PERCENT / 100 && free < invalid * MUCH_PERCENT / 100
    }

    /// One section's valid blocks begin to wait. Returns whether there was one.
    fn clean_background(&mut self) -> Result<bool, F2fsError> {
        let chosen = self.segments.victim_background(
            self.options.background,
            &self.log_segments(),
            self.mtime(),
        );
        let Some(Candidate { section, .. }) = chosen else {
            return Ok(false);
        };
        self.counts.moved_background += self.clean(section, false)?;
        self.counts.cleaned_background += 1;
        self.segments.chosen.insert(section);
        let now = self.now;
        self.changed_since.get_or_insert(now);
        Ok(true)
    }

    /// Moves what a section holds; gives how many blocks.
    fn clean(&mut self, section: u32, at_once: bool) -> Result<u64, F2fsError> {
        let mut count = 0;
        for segment in section * self.layout.segs_per_sec..(section + 1) * self.layout.segs_per_sec
        {
            if self.segments.get(segment).entry.valid == 0 {
                continue;
            }
            let owners = self.owners_of(segment)?;
            let nodes = usize::from(self.segments.get(segment).entry.kind) >= log::DATA;
            for (at, owner) in owners.iter().enumerate() {
                if self.segments.get(segment).is_valid(at) {
                    let addr = self.layout.start(segment) + at as u32;
                    count += u64::from(self.move_block(*owner, addr, nodes, at_once)?);
                }
            }
        }
        Ok(count)
    }

    /// Moves a valid block. Returns whether it moved.
    fn move_block(
        &mut self,
        owner: Owner,
        addr: u32,
        node: bool,
        at_once: bool,
    ) -> Result<bool, F2fsError> {
        let moved = if node {
            self.move_node(owner.nid, addr, at_once)
        } else {
            self.move_data(owner, addr, at_once)
        };
        match moved {
            Ok(()) => Ok(true),
            // A check reports a wrong summary; the block stays where it is.
            Err(F2fsError::Node { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn move_node(&mut self, nid: u32, addr: u32, at_once: bool) -> Result<(), F2fsError> {
        if self.nat_entry(nid)?.addr != addr {
            return Ok(());
        }
        self.node_mut_lightly(nid)?;
        if at_once {
            self.write_node(nid, 0)
        } else {
            Ok(())
        }
    }

    fn move_data(&mut self, owner: Owner, addr: u32, at_once: bool) -> Result<(), F2fsError> {
        match self.slot_of(owner, addr)? {
            Some((ino, index)) => self.move_page(ino, index, at_once),
            None => Ok(()),
        }
    }

    /// The file and the block of it that a summary says lies at `addr`, if that is so.
    pub(crate) fn slot_of(
        &mut self,
        owner: Owner,
        addr: u32,
    ) -> Result<Option<(u32, u32)>, F2fsError> {
        let entry = self.nat_entry(owner.nid)?;
        if !is_placed(entry.addr) && !self.nodes.has(owner.nid) {
            return Ok(None);
        }
        let bytes = self.node(owner.nid)?;
        let ino = le32(bytes, footer::INO);
        let offset = node_offset(bytes);
        let shape = self.shape(ino)?;
        let Some(first) = first_index(offset, shape.slots) else {
            return Ok(None);
        };
        let count = slots_of(offset, &shape);
        if u32::from(owner.slot) >= count {
            return Ok(None);
        }
        let index = first + u32::from(owner.slot);
        let slot = self.slot(ino, index, false)?;
        let found = slot.is_some_and(|slot| slot.addr == addr && slot.nid == owner.nid);
        Ok(found.then_some((ino, index)))
    }
}

/// The number of block addresses in the node at this offset.
fn slots_of(offset: u32, shape: &crate::node::Shape) -> u32 {
    match offset {
        0 => shape.slots,
        _ => crate::format::NODE_SLOTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cleaner_sleeps_as_linux_does() {
        let mut cleaner = Cleaner::new(60);
        let mut sleeps = [0; 3];
        for sleep in &mut sleeps {
            cleaner.sleep_more(60);
            *sleep = cleaner.sleep;
        }
        assert_eq!(sleeps, [60; 3], "30 s, then 60 s at most");
        cleaner.sleep_less(60);
        cleaner.sleep_less(60);
        assert_eq!(cleaner.sleep, 30);
        // It found no victim.
        cleaner.sleep = 60 * SLEEP_WITHOUT_VICTIM;
        cleaner.sleep_more(60);
        assert_eq!(cleaner.sleep, 300);
        cleaner.sleep_less(60);
        assert_eq!(cleaner.sleep, 60);
    }
}
