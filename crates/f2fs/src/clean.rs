//! Cleaning: valid blocks leave a section so that a checkpoint can set it free (publication,
//! section 2.5; `fs/f2fs/gc.c`).
//!
//! *Promises.* Only what the summary, the node address table and the node agree on is moved. In the
//! background blocks only begin to wait; their files' next write-back moves them. *Knows nothing
//! of* what the blocks hold.

use crate::{
    F2fs, F2fsError,
    checkpoint::later,
    format::{footer, is_placed, le32, log, node_offset},
    map::first_index,
    summary::Owner,
    victim::Candidate,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::Time;

/// Sections that one call cleans at most.
const ROUNDS: u32 = 8;
/// Blocks given out between two attempts when the last one found nothing worth moving.
const STALL: u64 = 512;

impl<D: BlockDevice> F2fs<D> {
    /// Whether clean sections are fewer than those that are reserved and those that what waits will
    /// take (`has_not_enough_free_secs`).
    fn is_short(&self) -> bool {
        u64::from(self.segments.free_sections)
            <= self.sections_owed() + u64::from(self.reserved_sections())
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

    /// One section's valid blocks begin to wait.
    pub(crate) fn clean_background(&mut self) -> Result<(), F2fsError> {
        self.cleaned_last = Some(self.now);
        if let Some(Candidate { section, .. }) = self.segments.victim_background(
            self.options.background,
            &self.log_segments(),
            self.mtime(),
        ) {
            self.counts.moved_background += self.clean(section, false)?;
            self.counts.cleaned_background += 1;
            self.segments.chosen.insert(section);
            let now = self.now;
            self.changed_since.get_or_insert(now);
        }
        Ok(())
    }

    pub(crate) fn cleaning_due(&self) -> Option<Time> {
        if self.options.cleaning_interval == 0 || !self.segments.has_victims(&self.log_segments()) {
            return None;
        }
        let since = self.cleaned_last.or(self.first_time)?;
        Some(later(since, self.options.cleaning_interval))
    }

    /// Moves what a section holds; gives how many blocks.
    fn clean(&mut self, section: u32, at_once: bool) -> Result<u64, F2fsError> {
        let mut count = 0;
        for segment in section * self.layout.segs_per_sec..(section + 1) * self.layout.segs_per_sec
        {
            if self.segments.get(segment).entry.valid == 0 {
                continue;
            }
            let (owners, nodes) = (
                self.owners_of(segment)?,
                usize::from(self.segments.get(segment).entry.kind) >= log::DATA,
            );
            for (at, owner) in owners.iter().enumerate() {
                if self.segments.get(segment).is_valid(at) {
                    let addr = self.layout.start(segment) + at as u32;
                    let moved = if nodes {
                        self.move_node(owner.nid, addr, at_once)
                    } else {
                        self.move_data(*owner, addr, at_once)
                    };
                    match moved {
                        Ok(()) => count += 1,
                        // A summary that is wrong is for a check to tell; the block stays where it
                        // is.
                        Err(F2fsError::Node { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(count)
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
        let (ino, offset) = (le32(bytes, footer::INO), node_offset(bytes));
        let shape = self.shape(ino)?;
        let Some(first) = first_index(offset, shape.slots) else {
            return Ok(None);
        };
        let count = if offset == 0 {
            shape.slots
        } else {
            crate::format::NODE_SLOTS
        };
        if u32::from(owner.slot) >= count {
            return Ok(None);
        }
        let index = first + u32::from(owner.slot);
        let slot = self.slot(ino, index, false)?;
        Ok(slot
            .filter(|slot| slot.addr == addr && slot.nid == owner.nid)
            .map(|_| (ino, index)))
    }
}
