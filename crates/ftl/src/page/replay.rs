//! What happened after the map pages were written, again and in order: data that was programmed,
//! remaps that were committed.

use super::format::{LOST, PageId, Pair, REMAPPED, RecordPart, decode_record};
use super::records::{Record, RecordPage};
use super::survey::{MapPages, Reader, Survey};
use super::{PageFtl, SeededBug};
use crate::{AttachError, Cause, CauseCounts};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Mtd, MtdError, Page};

/// A page of a record that reads as one.
struct Part {
    place: RecordPart,
    /// Sequence number of this copy of it.
    written: u64,
    page: Page,
    pairs: Vec<Pair>,
}

/// Every record that was committed, in the order in which they were.
pub(super) fn read_records<M: Mtd>(
    reader: &mut Reader<'_, M>,
    found: &MapPages,
    logical_pages: u32,
    bug: Option<SeededBug>,
) -> Result<Vec<Record>, MtdError> {
    let mut buffer = vec![0; reader.mtd.geometry().page as usize];
    let limit = reader.mtd.geometry().pages();
    let sound =
        |p: &Pair| p.from.max(p.to) < logical_pages && (p.entry <= limit || p.entry == LOST);
    let mut parts = Vec::new();
    for &(written, page) in &found.records {
        if !reader.map_page(page, &mut buffer)? {
            continue;
        }
        let Some((place, pairs)) = decode_record(&buffer) else {
            continue;
        };
        let pairs: Vec<Pair> = pairs.collect();
        // Nothing is newer than the page that says so, or a record would wait for ever.
        let dated = place.number.max(place.sequence.unwrap_or(0)) <= written;
        if dated && pairs.iter().all(sound) {
            parts.push(Part {
                place,
                written,
                page,
                pairs,
            });
        }
    }
    // Of several copies of a part the newest: the others are tries that failed, or what collection
    // has moved.
    parts.sort_unstable_by_key(|p| (p.place.number, p.place.part, u64::MAX - p.written));
    parts.dedup_by_key(|p| (p.place.number, p.place.part));
    let mut records = Vec::new();
    while let Some(first) = parts.first() {
        let number = first.place.number;
        let rest = parts.split_off(parts.partition_point(|p| p.place.number == number));
        let own = core::mem::replace(&mut parts, rest);
        records.extend(whole(number, own, bug));
    }
    records.sort_unstable_by_key(|r: &Record| r.sequence);
    Ok(records)
}

/// The record that all its parts make; none if one is missing.
fn whole(number: u64, parts: Vec<Part>, bug: Option<SeededBug>) -> Option<Record> {
    let in_pieces = bug == Some(SeededBug::RemapInPieces);
    let numbered = (0..).zip(&parts).all(|(i, part)| part.place.part == i);
    let sequence = parts
        .last()?
        .place
        .sequence
        .or(in_pieces.then_some(number))?;
    if !numbered && !in_pieces {
        return None;
    }
    let page = |part: Part| RecordPage {
        location: part.page.0 + 1,
        pairs: part.pairs,
    };
    Some(Record::new(
        number,
        Some(sequence),
        parts.into_iter().map(page).collect(),
    ))
}

impl<M: Mtd> PageFtl<M> {
    /// Applies tags of data and records that are newer than the map pages of their ranges, in the
    /// order in which they were written.
    pub(super) fn apply_newer(
        &mut self,
        surveys: &[Survey],
        records: Vec<Record>,
    ) -> Result<(), AttachError> {
        let mut newer = self.newer_tags(surveys)?;
        if self.options.seeded_bug != Some(SeededBug::IgnoreSequence) {
            newer.sort_unstable();
        }
        let last = self.options.seeded_bug == Some(SeededBug::RecordsLast);
        let mut records = records.into_iter().peekable();
        for (sequence, lpn, page) in newer {
            while let Some(record) =
                records.next_if(|record| !last && record.sequence < Some(sequence))
            {
                self.apply_record(record);
            }
            self.map[lpn as usize] = page + 1;
            self.entry_changed(lpn);
        }
        records.for_each(|record| self.apply_record(record));
        self.retire_unadopted();
        Ok(())
    }

    /// (sequence number, logical page, flash page) of data that is newer than the map page of its
    /// range.
    fn newer_tags(&mut self, surveys: &[Survey]) -> Result<Vec<(u64, u32, u32)>, AttachError> {
        let oldest = self.mapping.written[..self.mapping.count as usize]
            .iter()
            .copied()
            .min()
            .unwrap_or(0);
        let mut newer = Vec::new();
        for survey in surveys
            .iter()
            .filter(|s| s.mapping == Some(false) && s.newest.is_none_or(|n| n >= oldest))
        {
            let mut reader = Reader {
                mtd: &mut self.mtd,
                counts: CauseCounts::default(),
                unreadable: None,
            };
            let tags = reader.tags(survey)?;
            let counts = reader.counts;
            self.tally.of(Cause::Attach).reads += counts.reads;
            self.tally.of(Cause::Attach).oob_reads += counts.oob_reads;
            for (page, tag) in tags {
                self.sequence = self.sequence.max(tag.sequence + 1);
                if let PageId::Data(lpn) = tag.id
                    && lpn < self.map.len() as u32
                    && tag.sequence >= self.mapping.written[(lpn / self.mapping.per_page) as usize]
                {
                    newer.push((tag.sequence, lpn, page.0));
                }
            }
        }
        let newest_closed = surveys.iter().filter_map(|s| s.newest).max().unwrap_or(0);
        self.sequence = self.sequence.max(newest_closed + 1);
        Ok(newer)
    }

    /// Either side of each pair, unless the map page of its range is newer.
    fn apply_record(&mut self, record: Record) {
        let per_page = self.mapping.per_page;
        let sequence = record.sequence.unwrap_or(0);
        for pair in record.pairs() {
            let newer = |lpn: u32| sequence >= self.mapping.written[(lpn / per_page) as usize];
            let gives = newer(pair.from);
            let takes = newer(pair.to);
            if gives {
                self.map[pair.from as usize] = 0;
                self.entry_changed(pair.from);
            }
            if takes {
                let renamed = if pair.entry == 0 || pair.entry == LOST {
                    0
                } else {
                    REMAPPED
                };
                self.map[pair.to as usize] = pair.entry | renamed;
                self.entry_changed(pair.to);
            }
        }
        self.records.push(record);
    }

    /// Records that the map pages stand for need not be adopted.
    fn retire_unadopted(&mut self) {
        while self
            .records
            .retire(&self.mapping.written, self.mapping.per_page)
            .is_some()
        {}
    }
}
