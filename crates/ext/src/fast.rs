//! Finds the fast commits in the journal that count, and reads their tags in order.
//!
//! *Promises.* The tail of a fast commit that counts has the checksum of all its tags, and the
//! number of the transaction that the log lacks. All before it count, too. So a cut within one ends
//! the list. A tag that makes no sense in a fast commit that counts is an error with its
//! place. *Knows nothing of* what tags change.

use crate::{
    Ext, ExtError, SeededBug,
    fast_format::{HEAD, Raw, Tag, raw},
};
use alloc::vec;
use core::ops::Range;
use nandlab_block::BlockDevice;
use nandlab_jbd::{JournalError, crc32c};

/// The fast commits of a transaction.
pub(crate) struct FastLog {
    /// Their blocks of the journal.
    area: Range<u32>,
    tid: u32,
    /// Tags up to the last tail that counts.
    pub tags: u32,
}

/// Where a tag lies on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    block: u32,
    offset: u32,
}

impl Spot {
    pub fn wrong(self, field: &'static str, found: u64, expected: &'static str) -> ExtError {
        let Self { block, offset } = self;
        ExtError::Block {
            block,
            offset,
            field,
            found,
            expected,
        }
    }
}

impl<D: BlockDevice> Ext<D> {
    /// The fast commits that wait for a replay; none where none counts.
    pub(crate) fn fast_log(&mut self) -> Result<Option<FastLog>, ExtError> {
        let waiting = self.store.disk.journal().and_then(|j| j.fast_commits());
        let Some((area, tid)) = waiting else {
            return Ok(None);
        };
        let mut log = FastLog {
            area,
            tid: tid.0,
            tags: u32::MAX,
        };
        log.tags = self.count_tags(&log)?;
        Ok((log.tags > 0).then_some(log))
    }

    /// Tags up to the last tail that counts.
    fn count_tags(&mut self, log: &FastLog) -> Result<u32, ExtError> {
        let trusting = self.has_bug(SeededBug::FastTailIgnored);
        let mut met = 0;
        let mut counting = 0;
        let mut sum = 0;
        self.each_raw(log, |_, _, raw, bytes| {
            met += 1;
            let tag = Tag::parse(raw).ok();
            // A tail holds the checksum behind its number.
            let end = match tag {
                Some(Tag::Tail { .. }) => raw.at + HEAD + 4,
                _ => raw.end(),
            };
            sum = crc32c(sum, &bytes[raw.at..end]);
            match tag {
                Some(Tag::Tail { tid, sum: found }) if tid == log.tid && found == sum => {
                    (counting, sum) = (met, 0);
                }
                Some(Tag::Tail { .. }) => return Ok(false),
                Some(Tag::Head { tid, .. }) if tid != log.tid => return Ok(false),
                None if raw.kind == 0 => return Ok(false),
                _ if trusting => counting = met,
                _ => {}
            }
            Ok(true)
        })?;
        Ok(counting)
    }

    /// Shows all tags that count, in order.
    pub(crate) fn each_tag(
        &mut self,
        log: &FastLog,
        mut each: impl FnMut(&mut Self, Spot, Tag<'_>) -> Result<(), ExtError>,
    ) -> Result<(), ExtError> {
        let mut left = log.tags;
        self.each_raw(log, |ext, spot, raw, _| {
            let tag = Tag::parse(raw)
                .map_err(|(field, found, expected)| spot.wrong(field, found, expected))?;
            each(ext, spot, tag)?;
            left -= 1;
            Ok(left > 0)
        })
    }

    /// Shows tags as they lie, until `each` says no or one does not fit its block.
    fn each_raw(
        &mut self,
        log: &FastLog,
        mut each: impl FnMut(&mut Self, Spot, Raw<'_>, &[u8]) -> Result<bool, ExtError>,
    ) -> Result<(), ExtError> {
        let mut bytes = vec![0; self.store.layout.size()];
        for index in log.area.clone() {
            let block = self.read_fast(index, &mut bytes)?;
            let mut at = 0;
            while at + HEAD <= bytes.len() {
                let offset = at as u32;
                let Some(raw) = raw(&bytes, at) else {
                    return Ok(());
                };
                if !each(self, Spot { block, offset }, raw, &bytes)? {
                    return Ok(());
                }
                at = raw.end();
            }
        }
        Ok(())
    }

    /// Reads a block of the journal; returns where it lies.
    fn read_fast(&mut self, index: u32, bytes: &mut [u8]) -> Result<u32, ExtError> {
        let journal = self.store.disk.journal_mut();
        let journal = journal.ok_or(JournalError::Internal("fast commits without a journal"))?;
        Ok(journal.read_log(index, bytes)? as u32)
    }
}
