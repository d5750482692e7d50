//! Linux's `mtdblock`: sectors at fixed places on the flash, behind a write-back cache of one erase
//! block.
//!
//! *How.* A write loads its erase block into the cache, unless it is there; a write to another
//! block, or a flush, writes the cache back: erase, then program every page. The cache is empty
//! afterwards, so that each write behind a flush reads its block again. Even a write of a whole
//! block goes through the cache, since Linux passes sectors down one by one. Facts: Linux 2.6 to 6,
//! `drivers/mtd/mtdblock.c` and `mtd_blkdevs.c`, read for facts alone.
//!
//! *Format.* None: sector `n` is at byte `512 n`, as Linux has it. Beyond Linux, the first user OOB
//! byte of each page written is 0x00, or 0x0F where what the page held before could not be read; so
//! erased pages can read as zeros and lost ones say so. A page without that byte is taken for what
//! it holds, unless that is all ones: then it reads as zeros.
//!
//! *Power loss.* **Not** what [`BlockDevice`] promises, because the scheme cannot: a cut between
//! the erase and the last program loses sectors of that one block, flushed ones included. All other
//! blocks hold what they held at the last flush or got since.
//!
//! *Failures.* A block whose erase or program fails is tried again twice; then it is marked bad and
//! its sectors are lost, as are those of blocks found bad: fixed places know no spare blocks. Nor
//! is there wear levelling.

pub use crate::extent::SECTOR;

use crate::extent::parts;
use crate::fault::{Health, MARKED};
use crate::{AttachError, Cause, Ftl, Tally};
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_sim::{MediumFault, Place};

const WRITTEN: u8 = 0x00;
const LOST: u8 = 0x0f;
const ERASED: u8 = 0xff;
/// What is wrong with the pages of a bad block.
const BAD: &str = "in a block marked bad";
/// Attempts to write a block.
const ATTEMPTS: u32 = 3;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Readable,
    /// The content is lost to this error.
    Lost(&'static str),
}

/// The erase block in memory.
#[derive(Debug)]
struct Cache {
    /// Which; none if the cache is empty. It is dirty then.
    block: Option<u32>,
    data: Box<[u8]>,
    pages: Vec<Content>,
    /// Pages that the host has written since the block was loaded.
    written: Vec<bool>,
}

/// A rule left out on purpose, to prove that tests bite. Never set outside tests and
/// demonstrations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Drop the cache when another block is written.
    ForgetCache,
    /// Program the cache without an erase before.
    NoErase,
}

/// The block device of Linux's `mtdblock` driver.
#[derive(Debug)]
pub struct MtdBlock<M> {
    mtd: M,
    geometry: BlockGeometry,
    page_bytes: usize,
    pages: u32,
    sectors_per_page: u32,
    cache: Cache,
    bad: Vec<bool>,
    scratch: Box<[u8]>,
    tally: Tally,
    health: Health,
    seeded_bug: Option<SeededBug>,
}

impl<M: Mtd> MtdBlock<M> {
    /// Erases every good block.
    pub fn format(mut mtd: M) -> Result<Self, AttachError> {
        for block in (0..mtd.geometry().blocks).map(Block) {
            if mtd.is_bad(block)? {
                continue;
            }
            match mtd.erase(block) {
                Ok(()) => {}
                Err(MtdError::EraseFailed(_)) => mtd.mark_bad(block)?,
                Err(error) => return Err(error.into()),
            }
        }
        mtd.sync()?;
        Self::attach(mtd)
    }

    /// Serves a medium as it is.
    pub fn attach(mut mtd: M) -> Result<Self, AttachError> {
        let g = mtd.geometry().clone();
        for (what, found, expected) in [
            ("bytes of a page", g.page, SECTOR),
            ("user bytes of a page's OOB", g.oob, 1),
        ] {
            if found < expected {
                return Err(AttachError::Mismatch {
                    what,
                    found,
                    expected,
                });
            }
        }
        let bad = (0..g.blocks)
            .map(|b| mtd.is_bad(Block(b)))
            .collect::<Result<_, _>>()?;
        let pages = g.pages_per_block as usize;
        let cache = Cache {
            block: None,
            data: vec![0; g.block_bytes() as usize].into(),
            pages: vec![Content::Readable; pages],
            written: vec![false; pages],
        };
        Ok(Self {
            geometry: BlockGeometry {
                sector: SECTOR,
                sectors: g.bytes() / u64::from(SECTOR),
                page: g.block_bytes(),
            },
            page_bytes: g.page as usize,
            pages: g.pages_per_block,
            sectors_per_page: g.page / SECTOR,
            cache,
            bad,
            scratch: vec![0; g.page as usize].into(),
            tally: Tally::default(),
            health: Health::new("mtdblock"),
            seeded_bug: None,
            mtd,
        })
    }

    /// Leaves a rule out.
    #[doc(hidden)]
    pub fn with_bug(mut self, bug: SeededBug) -> Self {
        self.seeded_bug = Some(bug);
        self
    }

    /// Gives the flash back, without any further write: what was not flushed is gone.
    pub fn into_medium(self) -> M {
        self.mtd
    }

    fn fault(&mut self, error: MtdError) -> BlockError {
        self.health.fault(error, self.mtd.geometry())
    }

    fn lost(&self, page: u32, how: &'static str) -> BlockError {
        let block = page / self.pages;
        let place = Place::Page { page, block };
        self.health
            .lost(self.lba(page), MediumFault::new(place, how))
    }

    fn lba(&self, page: u32) -> u64 {
        u64::from(page) * u64::from(self.sectors_per_page)
    }

    /// Reads a page of the medium; zeros if it is erased.
    fn read_flash(
        &mut self,
        page: u32,
        buf: &mut [u8],
        cause: Cause,
    ) -> Result<Content, BlockError> {
        let mut mark = [0];
        self.tally.of(cause).reads += 1;
        match self.mtd.read(Page(page), buf, &mut mark) {
            Ok(_) if mark == [LOST] => Ok(Content::Lost(MARKED)),
            Ok(_) => {
                if mark == [ERASED] && buf.iter().all(|&b| b == ERASED) {
                    buf.fill(0);
                }
                Ok(Content::Readable)
            }
            Err(MtdError::Uncorrectable(_)) => Ok(Content::Lost("uncorrectable")),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Brings a block into the cache.
    fn load(&mut self, block: u32) -> Result<(), BlockError> {
        if self.cache.block == Some(block) {
            return Ok(());
        }
        if self.bad[block as usize] {
            return Err(self.lost(block * self.pages, BAD));
        }
        self.write_back()?;
        let mut data = core::mem::take(&mut self.cache.data);
        let loaded: Result<(), BlockError> = (0..self.pages)
            .zip(data.chunks_exact_mut(self.page_bytes))
            .try_for_each(|(i, buf)| {
                self.cache.pages[i as usize] =
                    self.read_flash(block * self.pages + i, buf, Cause::Collection)?;
                Ok(())
            });
        self.cache.data = data;
        loaded?;
        self.cache.written.fill(false);
        self.cache.block = Some(block);
        Ok(())
    }

    /// Writes the cached block to the medium and empties the cache.
    fn write_back(&mut self) -> Result<(), BlockError> {
        let Some(block) = self.cache.block else {
            return Ok(());
        };
        if self.seeded_bug == Some(SeededBug::ForgetCache) {
            self.cache.block = None;
            return Ok(());
        }
        let mut attempts = 1;
        let failed = loop {
            match self.rewrite(block) {
                Ok(()) => {
                    self.cache.block = None;
                    return Ok(());
                }
                Err(error @ (MtdError::EraseFailed(_) | MtdError::ProgramFailed(_))) => {
                    if attempts == ATTEMPTS {
                        break error;
                    }
                    attempts += 1;
                }
                Err(error) => return Err(self.fault(error)),
            }
        };
        self.give_up(block, failed)
    }

    /// Loses a block that cannot be written.
    fn give_up(&mut self, block: u32, failed: MtdError) -> Result<(), BlockError> {
        self.cache.block = None;
        self.bad[block as usize] = true;
        self.mtd.mark_bad(Block(block)).map_err(|e| self.fault(e))?;
        let lba = self.lba(block * self.pages);
        Err(self.health.lost_to(lba, failed, self.mtd.geometry()))
    }

    fn rewrite(&mut self, block: u32) -> Result<(), MtdError> {
        if self.seeded_bug != Some(SeededBug::NoErase) {
            self.tally.of(Cause::Collection).erases += 1;
            self.mtd.erase(Block(block))?;
        }
        for (i, data) in (0..self.pages).zip(self.cache.data.chunks_exact(self.page_bytes)) {
            let mark = match self.cache.pages[i as usize] {
                Content::Lost(_) => LOST,
                Content::Readable => WRITTEN,
            };
            self.mtd
                .program(Page(block * self.pages + i), data, &[mark])?;
            let cause = if self.cache.written[i as usize] {
                Cause::Host
            } else {
                Cause::Collection
            };
            self.tally.of(cause).programs += 1;
        }
        Ok(())
    }

    /// Changes sectors of one page; zeros where no data are given.
    fn change(
        &mut self,
        page: u32,
        first: u32,
        n: u32,
        data: Option<&[u8]>,
    ) -> Result<(), BlockError> {
        let block = page / self.pages;
        let index = page % self.pages;
        self.load(block)?;
        let whole = n == self.sectors_per_page;
        if let Content::Lost(how) = self.cache.pages[index as usize]
            && !whole
        {
            return Err(self.lost(page, how));
        }
        let start = index as usize * self.page_bytes + (first * SECTOR) as usize;
        let bytes = &mut self.cache.data[start..start + (n * SECTOR) as usize];
        match data {
            Some(data) => bytes.copy_from_slice(data),
            None => bytes.fill(0),
        }
        self.cache.pages[index as usize] = Content::Readable;
        self.cache.written[index as usize] = true;
        self.tally.host_pages += u64::from(data.is_some());
        Ok(())
    }
}

impl<M: Mtd> BlockDevice for MtdBlock<M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry.check(lba, buf.len())?;
        let mut rest = buf;
        for (page, first, n) in parts(self.sectors_per_page, lba, count) {
            let (part, tail) = rest.split_at_mut((n * SECTOR) as usize);
            rest = tail;
            let block = page / self.pages;
            let index = page % self.pages;
            let at = (first * SECTOR) as usize;
            let content = if self.cache.block == Some(block) {
                let start = index as usize * self.page_bytes + at;
                part.copy_from_slice(&self.cache.data[start..start + part.len()]);
                self.cache.pages[index as usize]
            } else if self.bad[block as usize] {
                Content::Lost(BAD)
            } else {
                let mut scratch = core::mem::take(&mut self.scratch);
                let content = self.read_flash(page, &mut scratch, Cause::Host);
                part.copy_from_slice(&scratch[at..at + part.len()]);
                self.scratch = scratch;
                content?
            };
            if let Content::Lost(how) = content {
                return Err(self.lost(page, how));
            }
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry.check(lba, data.len())?;
        let mut rest = data;
        for (page, first, n) in parts(self.sectors_per_page, lba, count) {
            let (part, tail) = rest.split_at((n * SECTOR) as usize);
            rest = tail;
            self.change(page, first, n, Some(part))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        self.write_back()?;
        self.mtd.sync().map_err(|e| self.fault(e))
    }

    /// Writes zeros: there is nothing that could be forgotten.
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check_sectors(lba, sectors)?;
        for (page, first, n) in parts(self.sectors_per_page, lba, sectors) {
            self.change(page, first, n, None)?;
        }
        Ok(())
    }
}

impl<M: Mtd> Ftl for MtdBlock<M> {
    type Medium = M;

    fn medium(&self) -> &M {
        &self.mtd
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    /// All pages of a good block: each is the only place of its sectors.
    fn valid_pages(&self, block: Block) -> u32 {
        if self.bad[block.0 as usize] {
            0
        } else {
            self.pages
        }
    }

    fn detach(&mut self) -> Result<(), BlockError> {
        self.flush()
    }

    fn into_medium(self: Box<Self>) -> M {
        (*self).into_medium()
    }
}
