//! What a scan of the medium finds: the tags of each block, and the pages of the map's stream.
//!
//! *Knows nothing of* what an attach makes of it.

use super::format::{PageId, Tag};
use crate::CauseCounts;
use crate::tag::TAG;
use alloc::vec::Vec;
use nandlab_mtd::{Block, Mtd, MtdError, Page};

/// One block as its first and last tags tell it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survey {
    pub block: u32,
    pub erases: u32,
    /// The block is in SLC mode.
    pub slc: bool,
    /// Pages that it has in its mode.
    pub pages: u32,
    /// Some(mapping) if it holds anything.
    pub mapping: Option<bool>,
    /// Sequence number of the last page, if that was written: nothing in the block is newer.
    pub newest: Option<u64>,
}

pub(super) enum Found {
    Erased,
    Tag(Tag),
    Unreadable,
}

/// Reads the medium, counting.
pub(super) struct Reader<'a, M> {
    pub mtd: &'a mut M,
    pub counts: CauseCounts,
    /// The first page whose bit errors could not be corrected.
    pub unreadable: Option<Page>,
}

impl<M: Mtd> Reader<'_, M> {
    pub fn tag(&mut self, page: Page) -> Result<Found, MtdError> {
        let mut bytes = [0; TAG];
        self.counts.reads += 1;
        self.counts.oob_reads += 1;
        match self.mtd.read(page, &mut [], &mut bytes) {
            Ok(_) if bytes == [0xff; TAG] => Ok(Found::Erased),
            Ok(_) => Ok(Tag::decode(&bytes).map_or(Found::Unreadable, Found::Tag)),
            Err(MtdError::Uncorrectable(_)) => {
                self.unreadable.get_or_insert(page);
                Ok(Found::Unreadable)
            }
            Err(error) => Err(error),
        }
    }

    pub fn tags(&mut self, survey: &Survey) -> Result<Vec<(Page, Tag)>, MtdError> {
        let g = self.mtd.geometry();
        let pages = (0..survey.pages)
            .map(|i| g.page_at(Block(survey.block), i))
            .collect::<Vec<_>>();
        let mut found = Vec::new();
        for page in pages {
            if let Found::Tag(tag) = self.tag(page)? {
                found.push((page, tag));
            }
        }
        Ok(found)
    }

    /// What a block holds. An erased first page means nothing of use: data goes into blocks from
    /// the first page on, and a block is erased only when nothing in it is needed.
    pub fn survey(&mut self, block: u32) -> Result<Survey, MtdError> {
        let g = self.mtd.geometry();
        let first = g.page_at(Block(block), 0).0;
        let pages = g.pages_per_block;
        let mut survey = Survey {
            block,
            erases: 0,
            slc: false,
            pages,
            mapping: None,
            newest: None,
        };
        for page in first..first + pages {
            match self.tag(Page(page))? {
                Found::Erased => return Ok(survey),
                Found::Unreadable => {}
                Found::Tag(tag) => {
                    survey.erases = tag.block.erases;
                    survey.slc = tag.block.slc;
                    survey.mapping = Some(!matches!(tag.id, PageId::Data(_)));
                    break;
                }
            }
        }
        if survey.slc {
            survey.pages = self.mtd.slc_pages().unwrap_or(pages);
        }
        if survey.mapping.is_some()
            && let Found::Tag(last) = self.tag(Page(first + survey.pages - 1))?
        {
            survey.newest = Some(last.sequence);
        }
        Ok(survey)
    }

    /// Reads a page of the map's stream; false if it cannot be read.
    pub fn map_page(&mut self, page: Page, buffer: &mut [u8]) -> Result<bool, MtdError> {
        self.counts.reads += 1;
        match self.mtd.read(page, buffer, &mut []) {
            Ok(_) => Ok(true),
            Err(MtdError::Uncorrectable(_)) => {
                self.unreadable.get_or_insert(page);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// What blocks of the map's stream hold.
#[derive(Debug, Default)]
pub(super) struct MapPages {
    /// Every map page found: index, sequence number, place; by index and then from the newest on.
    pub maps: Vec<(u32, u64, Page)>,
    /// Every page of a record found: sequence number, place.
    pub records: Vec<(u64, Page)>,
}

pub(super) fn find_map_pages<M: Mtd>(
    reader: &mut Reader<'_, M>,
    surveys: &[Survey],
) -> Result<MapPages, MtdError> {
    let mut found = MapPages::default();
    for survey in surveys.iter().filter(|s| s.mapping == Some(true)) {
        for (page, tag) in reader.tags(survey)? {
            match tag.id {
                PageId::Map(index) => found.maps.push((index, tag.sequence, page)),
                PageId::Record(_) => found.records.push((tag.sequence, page)),
                PageId::Data(_) => {}
            }
        }
    }
    found
        .maps
        .sort_unstable_by_key(|&(index, sequence, _)| (index, u64::MAX - sequence));
    Ok(found)
}
