//! Log blocks: data in block-mapped blocks, updates in a few page-mapped ones. BAST, SAST and FAST.
//!
//! *Promises* what [`BlockDevice`] promises, over any [`Mtd`] that corrects errors: without error
//! correction a torn page cannot be recognized. A page that decays beyond correction reads as lost;
//! found so only by a later attach, it counts as never written, since nothing tells it from a torn
//! one.
//!
//! *How.* Each logical block has a data block, in which every page has its place. A page is written
//! in place once; its later versions go to log blocks, which merges turn into data blocks again
//! (see `merge`). Who may use which log block is all that tells the schemes apart: `group` is BAST
//! and SAST, `fast` is FAST. Every page carries a tag (see `format`) with its name and a sequence
//! number; the newest tag wins, whatever block it is in. So no map is ever written: a log block in
//! order becomes a data block without any flash operation. A discard is written like a page,
//! without data, and copied like one.
//!
//! *Power loss.* Three rules carry the whole argument:
//! 1. A block is erased, and a block is first programmed, only behind everything issued before. So
//!    what replaces a block is durable before it goes, and no more than one block is ever in use
//!    beyond those counted.
//! 2. The target of a full merge is void until its last page, which says so, is there. So repeated
//!    cuts do not pile up half-merged blocks: until then all sources exist.
//! 3. A block found on the medium is not filled further: its next page may look erased and not be.
//!    Updates of its pages go to a log instead, until it is merged.
//!
//! *Wear.* Free blocks are taken least worn first; data at rest are moved to worn ones (see
//! `wear`).
//!
//! *Memory.* 4 bytes and 2 bits a logical page, 16 bytes a logical block, about 40 bytes a block, 4
//! bytes a page of log blocks.

mod attach;
mod blocks;
mod fast;
mod format;
mod group;
mod logs;
mod maps;
mod merge;
mod options;
mod shared;
mod wear;

pub use options::{
    FirstWrite, LogBlockOptions, LogVictim, Mismatch, OwnerMerge, PageOrder, Pending, Scheme,
    SeededBug,
};

pub use crate::extent::SECTOR;

use crate::extent::Paged;
use crate::{Cause, Ftl, Tally};
use alloc::{boxed::Box, vec};
use blocks::Use;
use fast::FastLogs;
use format::Kind;
use group::GroupLogs;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_sim::Place;
use shared::{Core, Payload};

/// Who may use which log block.
#[derive(Debug)]
enum Policy {
    Group(GroupLogs),
    Fast(FastLogs),
}

/// A log-block translation layer.
#[derive(Debug)]
pub struct LogBlockFtl<M> {
    core: Core<M>,
    policy: Policy,
    geometry: BlockGeometry,
    sectors_per_page: u32,
    scratch: Box<[u8]>,
}

impl<M: Mtd> LogBlockFtl<M> {
    fn new(core: Core<M>) -> Self {
        let logical = core.maps.logical_blocks();
        let policy = Self::policy(&core.options, logical);
        let page = core.mtd.geometry().page;
        let sectors = u64::from(core.maps.logical_pages()) * u64::from(page / SECTOR);
        Self {
            policy,
            geometry: BlockGeometry {
                sector: SECTOR,
                sectors,
                page,
            },
            sectors_per_page: page / SECTOR,
            scratch: vec![0; page as usize].into(),
            core,
        }
    }

    fn policy(options: &LogBlockOptions, logical: u32) -> Policy {
        let seed = options.seed;
        match options.scheme {
            Scheme::Bast { victim } => Policy::Group(GroupLogs::new(logical, 1, 1, victim, seed)),
            Scheme::Sast {
                blocks,
                logs,
                victim,
            } => Policy::Group(GroupLogs::new(logical, blocks, logs, victim, seed)),
            Scheme::Fast {
                mismatch,
                pending,
                owner,
            } => Policy::Fast(FastLogs::new(mismatch, pending, owner)),
        }
    }

    /// Gives the flash back, without any further write.
    pub fn into_medium(self) -> M {
        self.core.mtd
    }

    /// Returns the logical blocks that it offers.
    pub fn logical_blocks(&self) -> u32 {
        self.core.maps.logical_blocks()
    }

    /// Log blocks in use.
    pub fn logs_in_use(&self) -> u32 {
        self.core.logs.in_use()
    }

    /// A new version of a logical page.
    #[inline]
    fn put(&mut self, lpn: u32, payload: Payload<'_>) -> Result<(), BlockError> {
        match &mut self.policy {
            Policy::Group(logs) => logs.write(&mut self.core, lpn, payload)?,
            Policy::Fast(logs) => logs.write(&mut self.core, lpn, payload)?,
        }
        self.core.repair()?;
        self.core.level()
    }
}

impl<M: Mtd> Paged for LogBlockFtl<M> {
    #[inline]
    fn sectors_per_page(&self) -> u32 {
        self.sectors_per_page
    }

    #[inline]
    fn scratch(&mut self) -> &mut Box<[u8]> {
        &mut self.scratch
    }

    #[inline]
    fn is_mapped(&mut self, lpn: u32) -> Result<bool, BlockError> {
        Ok(self.core.maps.present(lpn))
    }

    fn read_page(&mut self, lpn: u32, buf: &mut [u8]) -> Result<(), BlockError> {
        let core = &mut self.core;
        let Some(page) = core.maps.newest(lpn).filter(|_| core.maps.present(lpn)) else {
            buf.fill(0);
            return Ok(());
        };
        core.tally.of(Cause::Host).reads += 1;
        let lba = u64::from(lpn) * u64::from(self.sectors_per_page);
        let mut name = [0; 4];
        match core.mtd.read(Page(page), buf, &mut name) {
            Ok(_) if Kind::of(u32::from_le_bytes(name)) == Kind::Lost => {
                let block = core.mtd.geometry().block_of(Page(page)).0;
                Err(core.health.lost_before(lba, Place::Page { page, block }))
            }
            Ok(_) => Ok(()),
            Err(error @ MtdError::Uncorrectable(_)) => {
                Err(core.health.lost_to(lba, error, core.mtd.geometry()))
            }
            Err(error) => Err(core.fault(error)),
        }
    }

    #[inline]
    fn write_page(&mut self, lpn: u32, data: &[u8]) -> Result<(), BlockError> {
        self.put(lpn, Payload::Data(data))?;
        self.core.tally.host_pages += 1;
        Ok(())
    }

    fn discard_page(&mut self, lpn: u32) -> Result<(), BlockError> {
        self.put(lpn, Payload::Discard)
    }
}

impl<M: Mtd> BlockDevice for LogBlockFtl<M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn expect(&mut self, lba: Lba) {
        self.core
            .maps
            .prefetch((lba.0 >> self.sectors_per_page.trailing_zeros()) as u32);
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.core.health.check()?;
        let count = self.geometry.check(lba, buf.len())?;
        self.read_extent(lba, count, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.core.health.check()?;
        let count = self.geometry.check(lba, data.len())?;
        self.write_extent(lba, count, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.core.health.check()?;
        if self.core.bug(SeededBug::FlushWithoutSync) {
            return Ok(());
        }
        self.core.mtd.sync().map_err(|e| self.core.fault(e))
    }

    /// Costs a program without data for each page that is not zero already.
    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.core.health.check()?;
        self.geometry.check_sectors(lba, sectors)?;
        self.discard_extent(lba, sectors)
    }
}

impl<M: Mtd> Ftl for LogBlockFtl<M> {
    type Medium = M;

    fn medium(&self) -> &M {
        &self.core.mtd
    }

    fn tally(&self) -> &Tally {
        &self.core.tally
    }

    fn valid_pages(&self, block: Block) -> u32 {
        match self.core.blocks.of(block.0) {
            Use::Data { lbn } => self.core.maps.in_place(lbn),
            Use::Log { slot } => self.core.logs.get(slot).live,
            Use::Free { .. } | Use::Held | Use::Bad => 0,
        }
    }

    /// Makes everything durable; there is nothing to write that would make an attach quicker.
    fn detach(&mut self) -> Result<(), BlockError> {
        self.flush()
    }

    fn into_medium(self: Box<Self>) -> M {
        (*self).into_medium()
    }
}
/// Reads a page's data as the anchor, which says what the medium was formatted for. All blocks that
/// hold no data may be log blocks.
pub(crate) fn anchor_of(data: &[u8]) -> Option<crate::media::Medium> {
    let (version, anchor) = format::Anchor::decode(data)?;
    let mut options = match (anchor.scheme, anchor.group_blocks, anchor.group_logs) {
        (0, 1, 1) => LogBlockOptions::bast(),
        (0, blocks @ 1.., logs @ 1..=64) => LogBlockOptions::sast(blocks, logs),
        (1, ..) => LogBlockOptions::fast(),
        _ => return None,
    };
    options.log_blocks = anchor
        .blocks
        .checked_sub(anchor.logical_blocks)?
        .clamp(options.fewest_logs(), 1 << 16);
    (version == format::VERSION).then_some(crate::media::Medium {
        layer: crate::media::Layer::LogBlock(options),
        page: anchor.page,
        pages_per_block: anchor.pages_per_block,
        blocks: anchor.blocks,
    })
}
