//! Formatting a medium, and coming back from it.

use super::demand::check_size;
use super::format::{Header, LOST, MAX_PAGES, SLC_VERSION, VERSION, decode_map, entries_per_page};
use super::replay::read_records;
use super::slc::check_mode;
use super::survey::{Found, Reader, Survey, find_map_pages};
use super::{PageFtl, PageOptions, SeededBug};
use crate::tag::BASE_UNIT;
use crate::{AttachError, Cause, CauseCounts};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Issued, Mtd, MtdError, Page};

/// The newest header page: the map page of the highest index that reads as one.
fn find_header<M: Mtd>(
    reader: &mut Reader<'_, M>,
    maps: &[(u32, u64, Page)],
) -> Result<(Header, u32, u16), AttachError> {
    let g = reader.mtd.geometry().clone();
    let mut buffer = vec![0; g.page as usize];
    for &(index, _, page) in maps.iter().rev() {
        if !reader.map_page(page, &mut buffer)? {
            continue;
        }
        let Some((version, _, entries)) = decode_map(&buffer, index) else {
            continue;
        };
        if !(1..=SLC_VERSION).contains(&version) {
            return Err(AttachError::Mismatch {
                what: "format version",
                found: version.into(),
                expected: SLC_VERSION.into(),
            });
        }
        let Some(header) = Header::decode(entries) else {
            continue;
        };
        if header.logical_pages.div_ceil(entries_per_page(g.page)) != index {
            continue;
        }
        let rules = [
            ("page size", header.page, g.page),
            ("pages per block", header.pages_per_block, g.pages_per_block),
            ("number of blocks", header.blocks, g.blocks),
        ];
        if let Some(&(what, found, expected)) = rules.iter().find(|r| r.1 != r.2) {
            return Err(AttachError::Mismatch {
                what,
                found,
                expected,
            });
        }
        return Ok((header, index, version));
    }
    let lost = |page| {
        let fault = MtdError::Uncorrectable(page).fault(&g);
        AttachError::Unreadable(fault.in_layer(super::NAME))
    };
    Err(reader.unreadable.map_or(AttachError::NotFormatted, lost))
}

impl<M: Mtd> PageFtl<M> {
    /// Erases the whole medium and starts afresh. Erase counts found on it are kept.
    pub fn format(mut mtd: M, options: PageOptions) -> Result<Self, AttachError> {
        let g = mtd.geometry().clone();
        check_size(&options, &g)?;
        check_mode(&options, &mtd)?;
        let mut reader = Reader {
            mtd: &mut mtd,
            counts: CauseCounts::default(),
            unreadable: None,
        };
        let mut good = Vec::new();
        for block in 0..g.blocks {
            if reader.mtd.is_bad(Block(block))? {
                continue;
            }
            let worn = match reader.tag(g.page_at(Block(block), 0))? {
                Found::Tag(tag) => tag.block.erases,
                _ => 0,
            };
            match reader.mtd.erase(Block(block)) {
                Ok(()) => good.push((block, worn + 1)),
                Err(MtdError::EraseFailed(_)) => reader.mtd.mark_bad(Block(block))?,
                Err(error) => return Err(error.into()),
            }
        }
        mtd.sync()?;
        let multi_level = (good.len() as u64).saturating_sub(options.slc_cache_blocks.into());
        let pages = multi_level * u64::from(g.pages_per_block);
        let logical = ((pages as f64 / (1.0 + options.over_provisioning)) as u64)
            .min(u64::from(MAX_PAGES)) as u32;
        let mut ftl = Self::new(mtd, options, logical);
        ftl.blocks.release_all(&good);
        ftl.blocks.fill_buffer(ftl.options.slc_cache_blocks);
        if (good.len() as u32) < ftl.blocks_needed() || logical == 0 {
            return Err(AttachError::TooSmall(
                good.len() as u32,
                logical,
                ftl.blocks_needed(),
            ));
        }
        ftl.sequence = BASE_UNIT;
        if ftl.slc.is_some() {
            ftl.mapping.version = SLC_VERSION;
        }
        ftl.write_map(ftl.mapping.count)?;
        ftl.mtd.sync()?;
        Ok(ftl)
    }

    /// Comes back from a medium that was formatted before, however it was left.
    pub fn attach(mut mtd: M, options: PageOptions) -> Result<Self, AttachError> {
        check_size(&options, mtd.geometry())?;
        check_mode(&options, &mtd)?;
        let blocks = mtd.geometry().blocks;
        let mut reader = Reader {
            mtd: &mut mtd,
            counts: CauseCounts::default(),
            unreadable: None,
        };
        let mut surveys = Vec::new();
        for block in 0..blocks {
            if !reader.mtd.is_bad(Block(block))? {
                surveys.push(reader.survey(block)?);
            }
        }
        let pages = find_map_pages(&mut reader, &surveys)?;
        let (header, header_index, version) = find_header(&mut reader, &pages.maps)?;
        let records = read_records(
            &mut reader,
            &pages,
            header.logical_pages,
            options.seeded_bug,
        )?;
        let counts = reader.counts;
        let mut ftl = Self::new(mtd, options, header.logical_pages);
        ftl.mapping.version = version.max(VERSION);
        *ftl.tally.of(Cause::Attach) = counts;
        debug_assert_eq!(ftl.mapping.count, header_index);
        ftl.load_map(&pages.maps)?;
        ftl.sequence = pages
            .records
            .iter()
            .map(|r| r.0 + 1)
            .max()
            .unwrap_or(0)
            .max(ftl.sequence);
        ftl.apply_newer(&surveys, records)?;
        ftl.adopt(&surveys);
        if ftl.blocks.good() < ftl.blocks_needed() {
            return Err(AttachError::TooSmall(
                ftl.blocks.good(),
                header.logical_pages,
                ftl.blocks_needed(),
            ));
        }
        ftl.keep_replayed()?;
        ftl.announce_slc()?;
        Ok(ftl)
    }

    /// Says in the header page that blocks may be in SLC mode, before the first one is.
    fn announce_slc(&mut self) -> Result<(), AttachError> {
        if self.slc.is_none() || self.mapping.version == SLC_VERSION {
            return Ok(());
        }
        self.mapping.version = SLC_VERSION;
        self.write_map(self.mapping.count)?;
        self.mtd.sync()?;
        Ok(())
    }

    /// Loads the newest readable version of every map page. Entries keep their flags until the
    /// blocks are adopted.
    fn load_map(&mut self, maps: &[(u32, u64, Page)]) -> Result<(), AttachError> {
        let mut buffer = vec![0; self.page_bytes];
        let limit = self.mtd.geometry().pages();
        for &(index, sequence, page) in maps {
            self.sequence = self.sequence.max(sequence + 1);
            if index > self.mapping.count || self.mapping.locations[index as usize] != 0 {
                continue;
            }
            let mut reader = Reader {
                mtd: &mut self.mtd,
                counts: CauseCounts::default(),
                unreadable: None,
            };
            let readable = reader.map_page(page, &mut buffer)?;
            self.tally.of(Cause::Attach).reads += 1;
            let Some((_, as_of, entries)) = decode_map(&buffer, index).filter(|_| readable) else {
                continue;
            };
            self.mapping.locations[index as usize] = page.0 + 1;
            self.mapping.written[index as usize] = as_of;
            if index < self.mapping.count {
                let start = (index * self.mapping.per_page) as usize;
                let mut corrupt = false;
                for (to, entry) in self.map[start..].iter_mut().zip(entries) {
                    let (plain, renamed) = self.stale_tags.strip(entry);
                    *to = if plain > limit || renamed && plain == 0 {
                        corrupt |= entry != LOST;
                        LOST
                    } else {
                        entry
                    };
                }
                if corrupt {
                    self.entry_changed(start as u32);
                }
            }
        }
        Ok(())
    }

    /// Takes the blocks into service: those with valid pages closed, all others free.
    fn adopt(&mut self, surveys: &[Survey]) {
        let mut serving = vec![None; self.mtd.geometry().blocks as usize];
        surveys
            .iter()
            .for_each(|s| serving[s.block as usize] = s.mapping);
        for lpn in 0..self.map.len() {
            let (entry, renamed) = self.stale_tags.strip(self.map[lpn]);
            if entry == 0 || entry == LOST {
                continue;
            }
            self.map[lpn] = entry;
            let (block, _) = self.blocks.split(entry - 1);
            if serving[block as usize] != Some(false) || self.blocks.is_valid(entry - 1) {
                self.map[lpn] = LOST;
                self.entry_changed(lpn as u32);
            } else {
                self.blocks.set_valid_run(entry - 1, 1);
                if renamed {
                    self.stale_tags.set(entry - 1, lpn as u32);
                }
            }
        }
        for location in self
            .mapping
            .locations
            .iter()
            .copied()
            .filter(|&l| l != 0)
            .chain(self.records.locations())
        {
            self.blocks.set_valid_run(location - 1, 1);
        }
        let known: Vec<u32> = surveys
            .iter()
            .filter(|s| s.mapping.is_some())
            .map(|s| s.erases)
            .collect();
        let mean = known
            .iter()
            .map(|&e| u64::from(e))
            .sum::<u64>()
            .checked_div(known.len() as u64)
            .unwrap_or(0) as u32;
        let slc_blocks = self.slc_blocks_allowed(surveys.len() as u32);
        for survey in surveys {
            let filled = survey.slc && self.blocks.valid(survey.block) > 0;
            if filled && self.blocks.buffer.size() < slc_blocks {
                self.blocks.buffer.join(survey.block);
            }
            self.blocks.erases[survey.block as usize] = if survey.mapping.is_some() {
                survey.erases
            } else {
                mean
            };
            match survey.mapping {
                Some(false)
                    if self.options.seeded_bug == Some(SeededBug::ReuseOpenBlock)
                        && survey.newest.is_none()
                        && !survey.slc
                        && self.reopen(survey) => {}
                Some(mapping) if self.blocks.valid(survey.block) > 0 => self.blocks.adopt(
                    survey.block,
                    mapping,
                    survey.newest.unwrap_or(self.sequence),
                ),
                _ => {
                    self.blocks.release(survey.block, Issued(0));
                }
            }
        }
        // Blocks that were the cache's are worn by erases into SLC mode already.
        for survey in surveys.iter().filter(|survey| survey.slc) {
            if self.may_grow_slc() {
                self.blocks.give_to_buffer(survey.block);
            }
        }
        self.grow_slc();
    }

    /// Goes on filling a half-filled block; true if it can be. See [`SeededBug::ReuseOpenBlock`].
    fn reopen(&mut self, survey: &Survey) -> bool {
        let g = self.mtd.geometry().clone();
        let mut reader = Reader {
            mtd: &mut self.mtd,
            counts: CauseCounts::default(),
            unreadable: None,
        };
        let tags = reader.tags(survey).unwrap_or_default();
        let Some(&(last, tag)) = tags.last() else {
            return false;
        };
        self.blocks.reopen(survey.block);
        self.resume_lane(survey.block, g.index_of(last) + 1, tag.block);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::{BlockDevice as _, Lba};
    use nandlab_nand::{Chip, Reliability};
    use nandlab_testkit::chip;

    #[test]
    fn a_format_keeps_the_erase_counts_that_it_finds() {
        let chip = Chip::new(chip::spec(0, 40, Reliability::default())).unwrap();
        let options = PageOptions {
            over_provisioning: 0.5,
            ..PageOptions::default()
        };
        let mut ftl = PageFtl::format(chip, options.clone()).unwrap();
        let geometry = *ftl.geometry();
        let data = vec![1; geometry.sector as usize];
        for lba in 0..geometry.sectors {
            ftl.write(Lba(lba), &data).unwrap();
        }
        let ftl = PageFtl::format(ftl.into_medium(), options).unwrap();
        // The fresh pages of a block tell nothing, so blocks without data count from one again.
        let twice = ftl.blocks.erases.iter().filter(|erases| **erases == 2);
        assert!(twice.count() > 20, "{:?}", ftl.blocks.erases);
    }
}
