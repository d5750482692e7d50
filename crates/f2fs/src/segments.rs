//! The segments of the main area in memory: which blocks are valid, which must not be written yet,
//! who may be cleaned.
//!
//! *Promises.* A block that the last checkpoint or a roll-forward may still need is never given
//! out: not before the next checkpoint. *Knows nothing of* where the table lies on the medium, nor
//! of what the blocks hold.

use crate::{
    F2fsError, Layout,
    format::{SEGMENT, bit, set_bit},
    summary::SitEntry,
};
use alloc::{collections::BTreeSet, vec, vec::Vec};

const MAP: usize = SEGMENT as usize;

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub entry: SitEntry,
    /// Blocks valid at the last checkpoint or given out since.
    held: [u8; 64],
    held_count: u16,
    /// Neither clean nor waiting to be: a log's, or with blocks that were valid.
    pub used: bool,
}

impl Segment {
    /// The first block from `from` on that threaded logging may write.
    pub fn hole(&self, from: usize) -> Option<usize> {
        (from..MAP).find(|at| !bit(&self.entry.map, *at) && !bit(&self.held, *at))
    }

    pub fn is_valid(&self, at: usize) -> bool {
        bit(&self.entry.map, at)
    }
}

#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) all: Vec<Segment>,
    pub(crate) per_sec: u32,
    /// Used segments of each section.
    pub(crate) used: Vec<u32>,
    pub free_segments: u32,
    pub free_sections: u32,
    /// Segments that differ from the table on the medium.
    pub changed: BTreeSet<u32>,
    /// Blocks that only the next checkpoint sets free.
    pub stale: u64,
    /// Segments without a valid block, which the next checkpoint makes clean.
    pub emptied: u32,
    /// Sections that cleaning in the background has taken on: their blocks are dirty, to be written
    /// elsewhere.
    pub chosen: BTreeSet<u32>,
}

impl Segments {
    pub fn new(layout: &Layout, entries: Vec<SitEntry>, logs: impl Iterator<Item = u32>) -> Self {
        let mut segments = Self {
            all: entries.into_iter().map(blank).collect(),
            per_sec: layout.segs_per_sec,
            used: vec![0; layout.sections() as usize],
            free_segments: 0,
            free_sections: 0,
            changed: BTreeSet::new(),
            stale: 0,
            emptied: 0,
            chosen: BTreeSet::new(),
        };
        for log in logs {
            segments.all[log as usize].used = true;
        }
        for number in 0..segments.all.len() as u32 {
            match segments.all[number as usize].used {
                true => segments.used[(number / layout.segs_per_sec) as usize] += 1,
                false => segments.free_segments += 1,
            }
        }
        segments.free_sections = segments.used.iter().filter(|used| **used == 0).count() as u32;
        segments
    }

    fn section(&self, segment: u32) -> usize {
        (segment / self.per_sec) as usize
    }

    pub fn get(&self, segment: u32) -> &Segment {
        &self.all[segment as usize]
    }

    pub fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// A log of this type moves to this segment.
    pub fn take_for(&mut self, segment: u32, kind: usize) {
        self.take(segment);
        let section = segment / self.per_sec;
        self.chosen.remove(&section);
        self.all[segment as usize].entry.kind = kind as u8;
        self.changed.insert(segment);
    }

    /// A segment is clean no more.
    pub fn take(&mut self, segment: u32) {
        let section = self.section(segment);
        if !core::mem::replace(&mut self.all[segment as usize].used, true) {
            self.free_segments -= 1;
            self.free_sections -= u32::from(self.used[section] == 0);
            self.used[section] += 1;
        }
    }

    fn give(&mut self, segment: u32) {
        let section = self.section(segment);
        if core::mem::replace(&mut self.all[segment as usize].used, false) {
            self.free_segments += 1;
            self.used[section] -= 1;
            if self.used[section] == 0 {
                self.free_sections += 1;
                self.chosen.remove(&(section as u32));
            }
        }
    }

    /// A block becomes valid, of this type of segment.
    pub fn mark(
        &mut self,
        (number, at): (u32, usize),
        kind: usize,
        mtime: u64,
    ) -> Result<(), F2fsError> {
        self.take(number);
        let segment = &mut self.all[number as usize];
        if bit(&segment.entry.map, at) {
            let expected = "a block that is not valid";
            return Err(F2fsError::Block {
                block: number,
                offset: at as u32,
                field: "block of a segment",
                found: at as u64,
                expected,
            });
        }
        let was_emptied = segment.entry.valid == 0 && segment.held_count > 0;
        self.emptied -= u32::from(was_emptied);
        segment.entry.mtime = match (segment.entry.mtime, u64::from(segment.entry.valid)) {
            (0, _) => mtime,
            (before, valid) => before.saturating_mul(valid).saturating_add(mtime) / (valid + 1),
        };
        segment.entry.kind = kind as u8;
        segment.entry.valid += 1;
        set_bit(&mut segment.entry.map, at, true);
        match bit(&segment.held, at) {
            true => self.stale = self.stale.saturating_sub(1),
            false => {
                set_bit(&mut segment.held, at, true);
                segment.held_count += 1;
            }
        }
        self.changed.insert(number);
        Ok(())
    }

    /// A block is not given out before the next checkpoint.
    pub fn hold(&mut self, (number, at): (u32, usize)) {
        self.take(number);
        let segment = &mut self.all[number as usize];
        if !bit(&segment.held, at) {
            let is_first = segment.entry.valid == 0 && segment.held_count == 0;
            self.emptied += u32::from(is_first);
            set_bit(&mut segment.held, at, true);
            segment.held_count += 1;
            self.stale += 1;
        }
    }

    /// A block is valid no more.
    pub fn unmark(&mut self, (number, at): (u32, usize)) -> Result<(), F2fsError> {
        let segment = &mut self.all[number as usize];
        if !bit(&segment.entry.map, at) {
            let expected = "a valid block";
            return Err(F2fsError::Block {
                block: number,
                offset: at as u32,
                field: "block of a segment",
                found: at as u64,
                expected,
            });
        }
        segment.entry.valid -= 1;
        set_bit(&mut segment.entry.map, at, false);
        self.emptied += u32::from(segment.entry.valid == 0);
        self.stale += 1;
        self.changed.insert(number);
        Ok(())
    }

    /// Valid blocks are now those of a checkpoint on the medium: gives the segments that have
    /// become clean.
    pub fn checkpointed(&mut self, logs: &[u32]) -> Vec<u32> {
        self.stale = 0;
        self.emptied = 0;
        let mut freed = Vec::new();
        for number in 0..self.len() {
            let segment = &mut self.all[number as usize];
            if segment.used {
                (segment.held, segment.held_count) = (segment.entry.map, segment.entry.valid);
                if segment.entry.valid == 0 && !logs.contains(&number) {
                    freed.push(number);
                }
            }
        }
        freed.iter().for_each(|number| self.give(*number));
        freed
    }

    /// The segment behind `near` in its section, if it is clean.
    pub fn next_clean(&self, near: u32) -> Option<u32> {
        let next = near + 1;
        (!next.is_multiple_of(self.per_sec) && !self.get(next).used).then_some(next)
    }

    /// A clean segment: in the section of `near` if there is one behind it, otherwise in a clean
    /// section from `hint` on, in a zone without a log if there is one.
    pub fn find_clean(&self, near: u32, hint: u32, zone: u32, logs: &[u32]) -> Option<u32> {
        let end = (near / self.per_sec + 1) * self.per_sec;
        if let Some(next) = (near + 1..end).find(|segment| !self.get(*segment).used) {
            return Some(next);
        }
        let section = self.clean_section(hint, zone, logs);
        section
            .map(|section| section * self.per_sec)
            .or_else(|| (0..self.len()).find(|segment| !self.get(*segment).used))
    }

    /// A clean section from the hint on, in a zone without a log if there is one.
    fn clean_section(&self, hint: u32, zone: u32, logs: &[u32]) -> Option<u32> {
        let sections = self.used.len() as u32;
        let clean = || {
            (0..sections)
                .map(|i| (hint / self.per_sec + i) % sections)
                .filter(|section| self.used[*section as usize] == 0)
        };
        let lonely = |section: &u32| {
            !logs
                .iter()
                .any(|log| log / self.per_sec / zone == section / zone)
        };
        clean().find(lonely).or_else(|| clean().next())
    }

    /// The segment with most space for threaded logging, of this type, that no log has.
    pub fn find_holes(&self, kind: usize, logs: &[u32]) -> Option<u32> {
        let fits = |(number, segment): &(usize, &Segment)| {
            segment.used
                && usize::from(segment.entry.kind) == kind
                && usize::from(segment.held_count) < MAP
                && !logs.contains(&(*number as u32))
        };
        // One with nothing valid is better left to become clean.
        let candidates = self
            .all
            .iter()
            .enumerate()
            .filter(fits)
            .filter(|(_, segment)| segment.entry.valid > 0);
        candidates
            .min_by_key(|(_, segment)| segment.held_count)
            .map(|(number, _)| number as u32)
    }
}

/// A segment as the table has it, in no log.
fn blank(entry: SitEntry) -> Segment {
    Segment {
        held: entry.map,
        held_count: entry.valid,
        used: entry.valid > 0,
        entry,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Eight segments, each a section, none used but the first, which a log has.
    pub(crate) fn segments() -> Segments {
        let layout = Layout {
            segs_per_sec: 1,
            segments_main: 8,
            ..crate::mkfs::test_layout()
        };
        let entries = (0..8)
            .map(|_| SitEntry {
                kind: 0,
                valid: 0,
                map: [0; 64],
                mtime: 0,
            })
            .collect();
        Segments::new(&layout, entries, [0].into_iter())
    }

    #[test]
    fn what_a_roll_forward_may_need_is_not_given_out() {
        let mut segments = segments();
        segments.mark((3, 0), 1, 5).unwrap();
        segments.mark((3, 1), 1, 5).unwrap();
        segments.unmark((3, 0)).unwrap();
        assert_eq!((segments.get(3).hole(0), segments.stale), (Some(2), 1));
        assert!(segments.checkpointed(&[0]).is_empty());
        assert_eq!((segments.get(3).hole(0), segments.stale), (Some(0), 0));
        segments.unmark((3, 1)).unwrap();
        assert_eq!((segments.free_segments, segments.emptied), (6, 1));
        assert_eq!(segments.checkpointed(&[0]), [3]);
        assert_eq!(segments.emptied, 0);
        assert_eq!((segments.free_segments, segments.free_sections), (7, 7));
        assert!(segments.unmark((3, 1)).is_err());
    }
}
