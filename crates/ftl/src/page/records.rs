//! The remap records that are still needed, from the oldest on.
//!
//! A record is needed until the map pages of all its logical pages, on both sides, have been
//! written after it. Its pages are kept here with what they say, so that one that decays can be
//! written again.

use super::format::Pair;
use alloc::{collections::VecDeque, vec::Vec};

/// A page of a record.
#[derive(Debug)]
pub(super) struct RecordPage {
    /// Flash page plus one.
    pub location: u32,
    pub pairs: Vec<Pair>,
}

/// A record: under way while it has no sequence number.
#[derive(Debug)]
pub(super) struct Record {
    pub number: u64,
    pub sequence: Option<u64>,
    pub pages: Vec<RecordPage>,
    /// Map pages that may be older than the record; found when it is first asked for.
    ranges: Option<Vec<u32>>,
}

impl Record {
    pub fn new(number: u64, sequence: Option<u64>, pages: Vec<RecordPage>) -> Self {
        Self {
            number,
            sequence,
            pages,
            ranges: None,
        }
    }

    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.pages.iter().flat_map(|page| &page.pairs)
    }

    /// A map page that was not written since the record; `written` are the sequence numbers of the
    /// map pages, of `per_page` logical pages each.
    fn older_range(&mut self, written: &[u64], per_page: u32) -> Option<u32> {
        let sequence = self.sequence?;
        let mut ranges = self.ranges.take().unwrap_or_else(|| {
            let mut ranges: Vec<u32> = self
                .pairs()
                .flat_map(|pair| [pair.from / per_page, pair.to / per_page])
                .collect();
            ranges.sort_unstable();
            ranges.dedup();
            ranges
        });
        while ranges
            .last()
            .is_some_and(|&range| written[range as usize] > sequence)
        {
            ranges.pop();
        }
        let older = ranges.last().copied();
        self.ranges = Some(ranges);
        older
    }
}

#[derive(Debug, Default)]
pub(super) struct Records {
    live: VecDeque<Record>,
    pages: u32,
}

impl Records {
    /// Flash pages of all records.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    pub fn push(&mut self, record: Record) {
        self.pages += record.pages.len() as u32;
        self.live.push_back(record);
    }

    /// One page more of the newest record; the last one gives it its sequence number.
    pub fn append(&mut self, page: u32, pairs: &[Pair], sequence: Option<u64>) {
        if let Some(record) = self.live.back_mut() {
            record.pages.push(RecordPage {
                location: page + 1,
                pairs: pairs.to_vec(),
            });
            record.sequence = sequence;
            self.pages += 1;
        }
    }

    /// Gives up the newest record.
    pub fn abort(&mut self) -> Option<Record> {
        let record = self.live.pop_back()?;
        self.pages -= record.pages.len() as u32;
        Some(record)
    }

    /// The map page that the oldest record still waits for.
    pub fn waits_for(&mut self, written: &[u64], per_page: u32) -> Option<u32> {
        self.live.front_mut()?.older_range(written, per_page)
    }

    /// Lets go of the oldest record, if it is not needed any more.
    pub fn retire(&mut self, written: &[u64], per_page: u32) -> Option<Record> {
        let oldest = self.live.front_mut()?;
        if oldest.sequence.is_none() || oldest.older_range(written, per_page).is_some() {
            return None;
        }
        self.pages -= oldest.pages.len() as u32;
        self.live.pop_front()
    }

    /// The record and the part of it that a flash page holds.
    pub fn find(&self, page: u32) -> Option<(usize, usize)> {
        let part_of = |record: &Record| record.pages.iter().position(|p| p.location == page + 1);
        self.live
            .iter()
            .enumerate()
            .find_map(|(i, record)| Some((i, part_of(record)?)))
    }

    pub fn get(&self, record: usize) -> &Record {
        &self.live[record]
    }

    /// Where the part of a record on this flash page is said to be, plus one.
    pub fn location_mut(&mut self, page: u32) -> Option<&mut u32> {
        let (record, part) = self.find(page)?;
        Some(&mut self.live[record].pages[part].location)
    }

    /// Where all parts are, plus one.
    pub fn locations(&self) -> impl Iterator<Item = u32> {
        self.live
            .iter()
            .flat_map(|record| record.pages.iter().map(|page| page.location))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_record_is_kept_until_all_map_pages_of_both_sides_are_newer() {
        let pair = |from, to| Pair { from, to, entry: 1 };
        let mut records = Records::default();
        records.push(Record::new(50, None, vec![]));
        records.append(7, &[pair(3, 25)], None);
        assert!(
            records.retire(&[99; 5], 10).is_none(),
            "not while it is under way"
        );
        records.append(8, &[pair(12, 41)], Some(60));
        records.push(Record::new(
            61,
            Some(61),
            vec![RecordPage {
                location: 10,
                pairs: vec![pair(0, 1)],
            }],
        ));
        assert_eq!(
            (
                records.pages(),
                records.find(9),
                records.find(8),
                records.find(6)
            ),
            (3, Some((1, 0)), Some((0, 1)), None)
        );
        let mut written = [60; 5];
        for range in [4, 2, 1, 0] {
            assert_eq!(records.waits_for(&written, 10), Some(range));
            assert!(records.retire(&written, 10).is_none());
            written[range as usize] = 61;
        }
        assert_eq!(
            records.retire(&written, 10).map(|record| record.number),
            Some(50)
        );
        assert!(
            records.retire(&written, 10).is_none(),
            "the second one is as new as the map pages"
        );
        written[0] = 62;
        assert_eq!(
            (
                records.retire(&written, 10).map(|r| r.number),
                records.pages()
            ),
            (Some(61), 0)
        );
    }
}
