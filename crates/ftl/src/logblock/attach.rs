//! Formatting a medium, and coming back from it.

use super::blocks::Use;
use super::format::{Anchor, BlockHeader, Kind, MAX_PAGES, Role, Tag, VERSION};
use super::logs::NO_LPN;
use super::shared::{Core, Programmed, RESERVE};
use super::{LogBlockFtl, LogBlockOptions, Policy, SECTOR, Scheme, SeededBug};
use crate::tag::{BASE_UNIT, TAG, Tail};
use crate::{AttachError, Cause};
use alloc::{vec, vec::Vec};
use nandlab_mtd::{Block, Geometry, Mtd, MtdError, Page};

/// Most log blocks of a group: each group has space for that many.
const MOST_GROUP_LOGS: u32 = 64;
/// Copies of the anchor page.
const ANCHORS: u32 = 2;

enum Found {
    Erased,
    Tag(Tag),
    Unreadable,
}

/// One block as its tags tell it.
#[derive(Clone, Copy, Debug)]
struct Survey {
    block: u32,
    header: Option<BlockHeader>,
    /// The logical block whose pages these are, each in its place.
    lbn: Option<u32>,
    /// Pages up to the last that is not erased.
    used: u32,
    /// A full merge that was cut short.
    void: bool,
}

/// The newest version of a logical page: its sequence number, its flash page, and whether it is a
/// discard.
#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    sequence: u64,
    page: u32,
    zero: bool,
}

impl Newest {
    fn is_none(&self) -> bool {
        self.sequence == 0
    }
}

impl LogBlockOptions {
    /// What the anchor says of a medium of `logical_blocks`.
    fn anchor(&self, g: &Geometry, logical_blocks: u32) -> Anchor {
        let (scheme, group_blocks, group_logs) = match self.scheme {
            Scheme::Bast { .. } => (0, 1, 1),
            Scheme::Sast { blocks, logs, .. } => (0, blocks, logs),
            Scheme::Fast { .. } => (1, 0, 0),
        };
        Anchor {
            scheme,
            page: g.page,
            pages_per_block: g.pages_per_block,
            blocks: g.blocks,
            logical_blocks,
            group_blocks,
            group_logs,
        }
    }

    fn check(&self, g: &Geometry) -> Result<(), AttachError> {
        let refuse = |what, found, expected| {
            Err(AttachError::Mismatch {
                what,
                found,
                expected,
            })
        };
        if g.page < SECTOR {
            return refuse("bytes of a page", g.page, SECTOR);
        }
        if g.oob < TAG as u32 {
            return refuse("user bytes of a page's OOB", g.oob, TAG as u32);
        }
        match self.scheme {
            Scheme::Sast { blocks: 0, .. } => refuse("logical blocks of a group", 0, 1),
            Scheme::Sast { logs: 0, .. } => refuse("log blocks of a group", 0, 1),
            Scheme::Sast { logs, .. } if logs > MOST_GROUP_LOGS => {
                refuse("log blocks of a group", logs, MOST_GROUP_LOGS)
            }
            _ if self.log_blocks < self.fewest_logs() => {
                refuse("number of log blocks", self.log_blocks, self.fewest_logs())
            }
            _ => Ok(()),
        }
    }
}

fn read_tag(mtd: &mut impl Mtd, page: Page) -> Result<Found, MtdError> {
    let mut bytes = [0; TAG];
    match mtd.read(page, &mut [], &mut bytes) {
        Ok(_) if bytes == [0xff; TAG] => Ok(Found::Erased),
        Ok(_) => Ok(Tag::decode(&bytes).map_or(Found::Unreadable, Found::Tag)),
        Err(MtdError::Uncorrectable(_)) => Ok(Found::Unreadable),
        Err(error) => Err(error),
    }
}

/// Reads the tags of a block, and what they say of it.
fn survey(mtd: &mut impl Mtd, block: u32, tags: &mut Vec<(Page, Tag)>) -> Result<Survey, MtdError> {
    let pages = mtd.geometry().pages_per_block;
    let mut survey = Survey {
        block,
        header: None,
        lbn: None,
        used: 0,
        void: false,
    };
    let mut whole = false;
    let mut readable_end = true;
    tags.clear();
    for i in 0..pages {
        let page = Page(block * pages + i);
        match read_tag(mtd, page)? {
            Found::Erased => continue,
            Found::Unreadable => readable_end = false,
            Found::Tag(tag) => {
                survey.header = Some(tag.block);
                whole |= tag.last;
                readable_end = true;
                tags.push((page, tag));
            }
        }
        survey.used = i + 1;
    }
    if let Some(&(_, first)) = tags.first()
        && tags
            .iter()
            .all(|&(page, tag)| tag.lpn == first.lpn / pages * pages + page.0 % pages)
    {
        survey.lbn = Some(first.lpn / pages);
    }
    // If the last page is there but cannot be read, it may have been whole: then its pages count
    // where nothing else has them, which is nowhere if it was not.
    survey.void = survey.header.is_some_and(|h| h.role == Role::Merged) && !whole && readable_end;
    Ok(survey)
}

/// The anchor, if the block holds one.
fn read_anchor<M: Mtd>(
    mtd: &mut M,
    tags: &[(Page, Tag)],
) -> Result<Option<(u16, Anchor)>, MtdError> {
    let mut buffer = vec![0; mtd.geometry().page as usize];
    for &(page, _) in tags
        .iter()
        .filter(|(_, tag)| tag.kind == Kind::Anchor && tag.block.role == Role::Anchor)
    {
        match mtd.read(page, &mut buffer, &mut []) {
            Ok(_) => {
                if let Some(anchor) = Anchor::decode(&buffer) {
                    return Ok(Some(anchor));
                }
            }
            Err(MtdError::Uncorrectable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn find_anchor<M: Mtd>(
    mtd: &mut M,
    options: &LogBlockOptions,
) -> Result<(Anchor, u32), AttachError> {
    let g = mtd.geometry().clone();
    let mut tags = Vec::new();
    for block in 0..g.blocks {
        if mtd.is_bad(Block(block))? {
            continue;
        }
        for i in 0..ANCHORS.min(g.pages_per_block) {
            let page = Page(block * g.pages_per_block + i);
            if let Found::Tag(tag) = read_tag(mtd, page)? {
                tags.push((page, tag));
            }
        }
        let Some((version, anchor)) = read_anchor(mtd, &tags)? else {
            tags.clear();
            continue;
        };
        if version != VERSION {
            return Err(AttachError::Mismatch {
                what: "format version",
                found: version.into(),
                expected: VERSION.into(),
            });
        }
        let expected = options.anchor(&g, anchor.logical_blocks);
        let rules = [
            ("page size", anchor.page, expected.page),
            (
                "pages per block",
                anchor.pages_per_block,
                expected.pages_per_block,
            ),
            ("number of blocks", anchor.blocks, expected.blocks),
            (
                "scheme (0: BAST or SAST, 1: FAST)",
                anchor.scheme.into(),
                expected.scheme.into(),
            ),
            (
                "logical blocks of a group",
                anchor.group_blocks,
                expected.group_blocks,
            ),
            (
                "log blocks of a group",
                anchor.group_logs,
                expected.group_logs,
            ),
        ];
        if let Some(&(what, found, expected)) = rules.iter().find(|r| r.1 != r.2) {
            return Err(AttachError::Mismatch {
                what,
                found,
                expected,
            });
        }
        let most = g.blocks.min(MAX_PAGES / g.pages_per_block);
        if anchor.logical_blocks == 0 || anchor.logical_blocks > most {
            return Err(AttachError::Mismatch {
                what: "number of logical blocks",
                found: anchor.logical_blocks,
                expected: most,
            });
        }
        return Ok((anchor, block));
    }
    Err(AttachError::NotFormatted)
}

impl<M: Mtd> LogBlockFtl<M> {
    /// Erases the whole medium and starts afresh. Erase counts found on it are kept.
    pub fn format(mut mtd: M, options: LogBlockOptions) -> Result<Self, AttachError> {
        let g = mtd.geometry().clone();
        options.check(&g)?;
        let mut good = Vec::new();
        for block in 0..g.blocks {
            if mtd.is_bad(Block(block))? {
                continue;
            }
            let worn = match read_tag(&mut mtd, g.page_at(Block(block), 0))? {
                Found::Tag(tag) => tag.block.erases,
                _ => 0,
            };
            match mtd.erase(Block(block)) {
                Ok(()) => good.push((block, worn + 1)),
                Err(MtdError::EraseFailed(_)) => mtd.mark_bad(Block(block))?,
                Err(error) => return Err(error.into()),
            }
        }
        mtd.sync()?;
        let found = good.len() as u32;
        let reserved = options
            .log_blocks
            .saturating_add(options.spare_blocks)
            .saturating_add(RESERVE);
        let logical = found
            .saturating_sub(reserved)
            .min(MAX_PAGES / g.pages_per_block);
        if logical == 0 {
            return Err(AttachError::TooSmall(
                found,
                g.pages_per_block,
                reserved.saturating_add(1),
            ));
        }
        let anchor = options.anchor(&g, logical);
        let mut core = Core::new(mtd, options, logical);
        for (block, erases) in good {
            core.blocks.erases[block as usize] = erases;
            core.blocks.release(block, true);
        }
        core.write_anchor(&anchor)?;
        Ok(Self::new(core))
    }

    /// Comes back from a medium that was formatted before, however it was left. Reads the tag of
    /// every page.
    pub fn attach(mut mtd: M, options: LogBlockOptions) -> Result<Self, AttachError> {
        options.check(mtd.geometry())?;
        let (anchor, anchor_block) = find_anchor(&mut mtd, &options)?;
        let mut core = Core::new(mtd, options, anchor.logical_blocks);
        let (surveys, newest) = core.read_tags()?;
        let chosen = core.choose_data(&surveys, &newest);
        let logs = core.adopt(&surveys, &newest, &chosen, anchor_block)?;
        let mut ftl = Self::new(core);
        for (slot, role) in logs {
            match &mut ftl.policy {
                Policy::Group(policy) => policy.adopt(&mut ftl.core, slot)?,
                Policy::Fast(policy) => policy.adopt(slot, role),
            }
        }
        Ok(ftl)
    }
}

/// What a block holds for the device that is being attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Nothing,
    Log,
    Data(u32),
}

impl<M: Mtd> Core<M> {
    fn write_anchor(&mut self, anchor: &Anchor) -> Result<(), AttachError> {
        let mut page = vec![0; self.mtd.geometry().page as usize];
        anchor.encode(&mut page);
        let copies = ANCHORS.min(self.maps.pages);
        loop {
            let block = self.open_block(Role::Anchor, false)?;
            let mut written = true;
            for i in 0..copies {
                let at = block * self.maps.pages + i;
                let cause = Cause::Mapping;
                written &= self.program_kind(at, Kind::Anchor, 0, &page, false, cause)?
                    == Programmed::Done;
            }
            if written {
                self.mtd.sync()?;
                return Ok(());
            }
            self.retire(block)?;
        }
    }

    /// Reads every tag: the blocks in service, and the newest version of each logical page.
    fn read_tags(&mut self) -> Result<(Vec<Survey>, Vec<Newest>), MtdError> {
        let mut newest = vec![Newest::default(); self.maps.logical_pages() as usize];
        let mut surveys = Vec::new();
        let mut tags = Vec::new();
        for block in 0..self.mtd.geometry().blocks {
            if self.mtd.is_bad(Block(block))? {
                continue;
            }
            let survey = survey(&mut self.mtd, block, &mut tags)?;
            self.tally.of(Cause::Attach).reads += u64::from(self.maps.pages);
            self.tally.of(Cause::Attach).oob_reads += u64::from(self.maps.pages);
            for &(page, tag) in &tags {
                self.sequence = self.sequence.max(tag.sequence + 1);
                let Some(known) = newest.get_mut(tag.lpn as usize) else {
                    continue;
                };
                let newer = tag.sequence > known.sequence
                    || self.options.seeded_bug == Some(SeededBug::IgnoreSequence);
                if tag.kind != Kind::Anchor && !survey.void && newer {
                    *known = Newest {
                        sequence: tag.sequence,
                        page: page.0,
                        zero: tag.kind == Kind::Discarded,
                    };
                }
            }
            surveys.push(survey);
        }
        self.sequence = self.sequence.next_multiple_of(BASE_UNIT);
        Ok((surveys, newest))
    }

    /// What each block is from now on: of the blocks of a logical block that are in order, and hold
    /// a newest version, the oldest is its data block; one that was opened as such before one that
    /// was opened as a log.
    fn choose_data(&self, surveys: &[Survey], newest: &[Newest]) -> Vec<Choice> {
        let mut chosen = vec![Choice::Nothing; self.mtd.geometry().blocks as usize];
        for version in newest.iter().filter(|n| !n.is_none()) {
            chosen[self.maps.split(version.page).0 as usize] = Choice::Log;
        }
        let mut best = vec![None; self.maps.logical_blocks() as usize];
        for survey in surveys
            .iter()
            .filter(|s| chosen[s.block as usize] == Choice::Log)
        {
            let (Some(header), Some(lbn)) = (survey.header, survey.lbn) else {
                continue;
            };
            if header.role != Role::Random {
                let key = (header.role == Role::Log, header.base, survey.block);
                let known = &mut best[lbn as usize];
                if known.is_none_or(|k| key < k) {
                    *known = Some(key);
                }
            }
        }
        for (lbn, (.., block)) in best
            .iter()
            .enumerate()
            .filter_map(|(lbn, k)| k.map(|k| (lbn, k)))
        {
            chosen[block as usize] = Choice::Data(lbn as u32);
        }
        chosen
    }

    /// Takes the blocks into service; gives the logs with the roles they were opened for, oldest
    /// first.
    fn adopt(
        &mut self,
        surveys: &[Survey],
        newest: &[Newest],
        chosen: &[Choice],
        anchor: u32,
    ) -> Result<Vec<(u32, Role)>, AttachError> {
        let known = || surveys.iter().filter_map(|s| s.header);
        let total = known().map(|h| u64::from(h.erases)).sum::<u64>();
        let mean = total.checked_div(known().count() as u64).unwrap_or(0) as u32;
        let mut logs = Vec::new();
        for s in surveys {
            self.blocks.erases[s.block as usize] = s.header.map_or(mean, |h| h.erases);
            match (chosen[s.block as usize], s.header) {
                _ if s.block == anchor => self.blocks.adopt(s.block, Use::Held, Tail::default()),
                (Choice::Data(lbn), Some(header)) => {
                    self.blocks.adopt(s.block, Use::Data { lbn }, header.tail());
                    let reused = self.bug(SeededBug::ReuseOpenBlock);
                    self.maps.set_data(
                        lbn,
                        Some(s.block),
                        if reused {
                            self.fill_after(s.used)
                        } else {
                            self.maps.pages
                        },
                    );
                }
                (Choice::Log, Some(header)) => logs.push((header.base, s.block, header, s.used)),
                _ => self.blocks.release(s.block, false),
            }
        }
        logs.sort_unstable_by_key(|&(base, block, ..)| (base, block));
        let mut slots = Vec::new();
        for (_, block, header, used) in logs {
            slots.push((self.resume_log(block, header, used)?, header.role));
        }
        self.adopt_pages(newest);
        Ok(slots)
    }

    /// Takes a log block over, not to be filled further.
    fn resume_log(&mut self, block: u32, header: BlockHeader, used: u32) -> Result<u32, MtdError> {
        let slot = self.logs.add(block);
        self.blocks.adopt(block, Use::Log { slot }, header.tail());
        for i in 0..used {
            self.tally.count_read(Cause::Attach, false);
            let name = match read_tag(&mut self.mtd, Page(block * self.maps.pages + i))? {
                Found::Tag(tag) if tag.lpn < self.maps.logical_pages() => tag.lpn,
                _ => NO_LPN,
            };
            self.logs.push(slot, name, self.maps.split(name).1);
        }
        self.logs.get_mut(slot).open = self.bug(SeededBug::ReuseOpenBlock);
        Ok(slot)
    }

    /// Points the maps to the newest version of every page.
    fn adopt_pages(&mut self, newest: &[Newest]) {
        for (lpn, version) in (0..).zip(newest).filter(|(_, n)| !n.is_none()) {
            match self.blocks.of(self.maps.split(version.page).0) {
                Use::Log { slot } => {
                    self.logs.get_mut(slot).live += 1;
                    self.maps.set_log(lpn, Some(version.page));
                }
                _ => self.maps.set_placed(lpn, true),
            }
            self.maps.set_present(lpn, !version.zero);
        }
    }
}
