//! The map on flash: one map page after another, in turn, and those of forgotten pages before
//! anything depends on them.

use super::format::{self, Header, PageId, VERSION, encode_map, entries_per_page, set_version};
use super::frontier::Stream;
use super::{PageFtl, SeededBug};
use crate::Cause;
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_block::BlockError;
use nandlab_mtd::{Geometry, Mtd, MtdError};

#[derive(Debug)]
pub(super) struct Mapping {
    /// Logical pages that a map page covers.
    pub per_page: u32,
    /// Map pages; the header page comes after them.
    pub count: u32,
    /// Flash page plus one of each map page and of the header page; 0: never written.
    pub locations: Vec<u32>,
    /// The sequence number that each of them speaks of.
    pub written: Vec<u64>,
    /// The version of the header page.
    pub version: u16,
    /// The map page to be written next.
    cursor: u32,
    interval: u32,
    /// Programs until the next map page is due.
    pub due: i64,
    /// Map pages whose range has lost an entry since they were written.
    forgotten: Vec<u32>,
    is_forgotten: Vec<bool>,
    /// As many as may wait: collection writes them with the space it has.
    forgotten_max: usize,
    /// A page of the map's stream on its way to flash, or one that collection carries: never from
    /// one slot to the next.
    pub buffer: Box<[u8]>,
}

impl Mapping {
    pub fn new(logical_pages: u32, geometry: &Geometry, interval: u32) -> Self {
        let per_page = entries_per_page(geometry.page);
        let count = logical_pages.div_ceil(per_page);
        Self {
            per_page,
            count,
            locations: vec![0; count as usize + 1],
            written: vec![0; count as usize + 1],
            version: VERSION,
            cursor: 0,
            interval: interval.max(1),
            due: i64::from(interval.max(1)),
            forgotten: Vec::new(),
            is_forgotten: vec![false; count as usize + 1],
            forgotten_max: (geometry.pages_per_block as usize / 2).max(1),
            buffer: vec![0; geometry.page as usize].into(),
        }
    }

    /// The entry of a logical page went; true if so many map pages wait that they should be
    /// written.
    pub fn forget(&mut self, lpn: u32) -> bool {
        let index = lpn / self.per_page;
        if !core::mem::replace(&mut self.is_forgotten[index as usize], true) {
            self.forgotten.push(index);
        }
        self.forgotten.len() >= self.forgotten_max
    }
}

impl<M: Mtd> PageFtl<M> {
    /// What the header page says.
    pub(super) fn header(&self) -> Header {
        let g = self.mtd.geometry();
        Header {
            page: g.page,
            pages_per_block: g.pages_per_block,
            blocks: g.blocks,
            logical_pages: self.map.len() as u32,
        }
    }

    /// Writes the map page whose turn it is.
    #[cold]
    pub(super) fn write_next_map(&mut self) -> Result<(), BlockError> {
        self.mapping.due = i64::from(self.mapping.interval);
        let index = self.mapping.cursor;
        self.mapping.cursor = if index + 1 >= self.mapping.count {
            0
        } else {
            index + 1
        };
        self.write_map(index)?;
        self.retire_records();
        Ok(())
    }

    /// Writes the map pages of everything forgotten since they were last written.
    pub(super) fn write_forgotten(&mut self) -> Result<(), BlockError> {
        self.write_some_forgotten(u32::MAX)?;
        Ok(())
    }

    /// The same, until `budget` pages are written; gives what is left of it.
    pub(super) fn write_some_forgotten(&mut self, mut budget: u32) -> Result<u32, BlockError> {
        while let Some(&index) = self.mapping.forgotten.last() {
            if !self.mapping.is_forgotten[index as usize] {
                self.mapping.forgotten.pop();
                continue;
            }
            if budget == 0 {
                break;
            }
            // The list keeps it until then: its slot may need collection, which must write it
            // before a block goes.
            self.write_map(index)?;
            budget -= 1;
        }
        Ok(budget)
    }

    /// Writes every map page.
    pub(super) fn write_whole_map(&mut self) -> Result<(), BlockError> {
        (0..self.mapping.count).try_for_each(|index| self.write_map(index))
    }

    /// Writes one map page, or the header page. The slot comes first: freeing space for it changes
    /// the map.
    pub(super) fn write_map(&mut self, index: u32) -> Result<(), BlockError> {
        loop {
            let slot = self.slot(Stream::Map)?;
            self.read_before_write(index)?;
            self.encode_map(index);
            if self.options.seeded_bug != Some(SeededBug::MapUnfenced) {
                let issued = self.mtd.issued();
                self.mtd.fence(issued);
            }
            match self.mtd.program(
                slot.page,
                &self.mapping.buffer,
                &slot.tail.tag(PageId::Map(index).encode(), self.sequence, 0),
            ) {
                Ok(()) => {
                    self.mapping.written[index as usize] = self.sequence;
                    self.advance(Stream::Map, slot.page, 1);
                    self.tally.of(Cause::Mapping).programs += 1;
                    let old = core::mem::replace(
                        &mut self.mapping.locations[index as usize],
                        slot.page.0 + 1,
                    );
                    if old != 0 {
                        self.blocks.invalidate(old - 1);
                    }
                    self.mapping.is_forgotten[index as usize] = false;
                    self.map_written(index);
                    return Ok(());
                }
                Err(MtdError::ProgramFailed(_)) => self.abandon(Stream::Map, slot.page),
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    fn encode_map(&mut self, index: u32) {
        if index == self.mapping.count {
            let header = self.header().encode();
            encode_map(
                &mut self.mapping.buffer,
                index,
                self.sequence,
                header.into_iter(),
            );
            set_version(&mut self.mapping.buffer, self.mapping.version);
            return;
        }
        let mut buffer = core::mem::take(&mut self.mapping.buffer);
        format::encode_map(&mut buffer, index, self.sequence, self.entries(index));
        self.mapping.buffer = buffer;
    }

    /// The entries of a map page in the form that flash holds.
    pub(super) fn entries(&self, index: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        let start = (index * self.mapping.per_page) as usize;
        let end = (start + self.mapping.per_page as usize).min(self.map.len());
        let entries = self.map[start..end].iter();
        entries.map(|&entry| self.stale_tags.flag(entry))
    }
}
