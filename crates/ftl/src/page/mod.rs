//! Page mapping: any logical page on any flash page.
//!
//! *Promises* what [`BlockDevice`] promises, over any [`Mtd`] that corrects errors: without error
//! correction a torn page cannot be recognized.
//!
//! *How.* Writes go to the open blocks of a stream (of the host one or more, by its hints;
//! collection; map), one per die and plane, in turn. Every page carries a tag (see `format`) with
//! its logical page and a sequence number; the newest tag wins. So that an attach need not read
//! every tag, the map itself is written page by page, in turn, as the device works: a map page of
//! sequence number *s* stands for every tag older than *s* in its range.
//!
//! *Power loss.* Three rules carry the whole argument:
//! 1. An erase comes when a block opens, not when it empties, and waits for everything that came
//!    before the block was empty. So a newer version is durable before the older one goes.
//! 2. A map page is fenced behind everything issued before it. So it never names a page that a cut
//!    could tear.
//! 3. A block is freed only after the map pages of discarded (and lost) pages are issued. So what
//!    was forgotten stays forgotten, even when the newest version that said so is gone.
//! 4. The last page of a remap record is fenced like a map page, and the record stays until the map
//!    pages of both sides of all its pairs are issued. So a remap is there as a whole or not at
//!    all, whatever is written, moved or discarded afterwards.
//!
//! *Remaps* ([`BlockDevice::remap`]) work on whole logical pages; [`PageFtl::check_remap`] says
//! what is refused, and why. A flash page that was given away keeps its old tag until
//! collection moves it; the map says that it does (see `stale_tags`).
//!
//! A block that was open at a cut is never filled further: its next page may look erased and not
//! be.
//!
//! *A map cache* ([`PageOptions::map_cache`]) bounds the map pages in memory; the others come
//! from flash on demand (see `demand`). A map page whose entries have changed goes to flash before
//! it leaves memory.
//!
//! *An SLC cache* ([`PageOptions::slc_cache_blocks`]) takes what the host writes into blocks in SLC
//! mode, and folds them into the others later (see `slc`).
//!
//! *Memory.* 4 bytes a logical page (the map), one bit a flash page (validity), about 45 bytes a
//! block; with the first remap 4 bytes a flash page, and 12 for each pair of the records that wait
//! for map pages.

mod attach;
mod blocks;
mod buffer;
mod collect;
mod demand;
mod format;
mod frontier;
mod mapping;
mod pairs;
mod records;
mod remap;
mod replay;
mod slc;
mod stale_tags;
mod survey;

pub use pairs::RemapError;
pub use slc::SlcOverflow;

pub use crate::extent::SECTOR;

use crate::extent::Paged;
use crate::fault::Health;
use crate::tag::Batch;
use crate::{Ftl, Tally, Victim};
use alloc::{boxed::Box, collections::VecDeque, vec, vec::Vec};

use blocks::BlockTable;
use collect::Evacuation;
use demand::Demand;
use format::LOST;
use frontier::{Frontier, Stream};
use mapping::Mapping;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_mtd::{Block, Mtd, MtdError, Page};
use nandlab_sim::{Place, prefetch, with_defaults};
use records::Records;
use slc::SlcCache;
use stale_tags::StaleTags;

/// The layer's name in errors.
const NAME: &str = "page mapping";
/// Announced pages whose map entries are on their way from memory.
const EXPECTED: usize = 4;

/// How collection shares time with the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collection {
    /// A victim is emptied at once when the pool runs low. The request that opens a block waits.
    #[default]
    Whole,
    /// Each page that the host writes moves a few pages of a victim, as many as keep pace. The
    /// pool begins to be refilled earlier, by as many blocks as the host has open.
    Steps,
}

/// Where a remap is kept until the map pages of both sides are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemapRecords {
    /// In a record on flash: a remap survives a power cut.
    #[default]
    OnFlash,
    /// In memory only: a power cut may undo a remap and lose the data of both sides. It costs no
    /// program. For experiments.
    InMemory,
}

with_defaults! {
    /// Choices of the page-mapped layer; all but the first may change from one attach to the next.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PageOptions {
        /// Spare space as a share of the logical space: physical pages over logical pages, less
        /// one. Used when formatting.
        pub over_provisioning: f64 = 0.07,
        /// Which block to collect.
        pub victim: Victim = Victim::Greedy,
        /// Whether a victim is emptied at once or in steps.
        pub collection: Collection = Collection::Whole,
        /// Collect into blocks of their own rather than among the host's data.
        pub separate_streams: bool = true,
        /// Collection copies to all planes of a die at one page index, so that one program takes
        /// several copies.
        pub multi_plane_copies: bool = false,
        /// Streams of host data, 1 to 255, each with open blocks of its own: what the host says
        /// lives equally long shares blocks.
        pub streams: u8 = 1,
        /// Free blocks that collection keeps, besides those it needs to work.
        pub spare_blocks: u32 = 1,
        /// Page programs between two map pages: fewer make a quicker attach after a cut, and more
        /// programs.
        pub map_interval: u32 = 128,
        /// Bytes of memory for map pages, at least two of them; the others stay on flash. None: the
        /// whole map is in memory.
        pub map_cache: Option<u64> = None,
        /// Blocks of the SLC cache, on flash with an SLC mode: they take what the host writes, and
        /// are folded into the others later. 0: none. Used when formatting; an attach takes as many
        /// of them as the flash can spare.
        pub slc_cache_blocks: u32 = 0,
        /// Where the host's pages go when the SLC cache is full.
        pub slc_overflow: SlcOverflow = SlcOverflow::Direct,
        /// The spread of erase counts at which data at rest is moved off little-worn blocks; 0
        /// never.
        pub wear_threshold: u32 = 100,
        /// Corrected bits in a read that make the block be rewritten; 0 never.
        pub scrub_bits: u16 = 0,
        /// Where remaps are kept.
        pub remap_records: RemapRecords = RemapRecords::OnFlash,
        /// Deliberate faults, for proving that the crash explorer finds them.
        #[doc(hidden)]
        pub seeded_bug: Option<SeededBug> = None,
    }
}

/// A rule left out on purpose, to prove that crash tests bite. Never set outside tests and
/// demonstrations.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// Rule 1: erase without the fence.
    EraseUnfenced,
    /// Rule 2: map pages without the fence.
    MapUnfenced,
    /// Rule 3: free blocks while discards are not yet on flash.
    DiscardForgotten,
    /// Flush without waiting for the medium.
    FlushWithoutSync,
    /// Fill a block further that was open at the cut.
    ReuseOpenBlock,
    /// Take the last tag read, not the newest.
    IgnoreSequence,
    /// Rule 4: the last page of a record without the fence.
    RemapUnfenced,
    /// Rule 4: believe a record without its last page.
    RemapInPieces,
    /// Rule 4: let go of a record at once, whatever the map pages say.
    RecordDropped,
    /// Let collection copy a page that was given away, with its stale tag.
    RemapNameKept,
    /// Records beat tags, even newer ones.
    RecordsLast,
    /// Remap without waiting for the medium.
    RemapWithoutSync,
    /// Let a changed map page leave memory unwritten.
    EvictUnwritten,
    /// Rule 1: erase a folded block before its pages are durable elsewhere.
    FoldUnfenced,
    /// Rule 3: fold a block while discards are not yet on flash.
    FoldForgets,
}

/// The page-mapped translation layer.
#[derive(Debug)]
pub struct PageFtl<M> {
    mtd: M,
    options: PageOptions,
    geometry: BlockGeometry,
    sectors_per_page: u32,
    page_bytes: usize,
    /// Flash page plus one of each logical page; 0 unmapped, [`LOST`] lost.
    map: Vec<u32>,
    blocks: BlockTable,
    /// One frontier a stream, indexed by [`Stream::at`].
    frontiers: Vec<Frontier>,
    /// Where the host writes.
    stream: Stream,
    mapping: Mapping,
    /// The map pages in memory, unless all are.
    demand: Option<Demand>,
    slc: Option<SlcCache>,
    /// Collection in steps, or an SLC cache, has something to do before the host writes a page.
    paced: bool,
    stale_tags: StaleTags,
    records: Records,
    /// Of the next page programmed.
    sequence: u64,
    /// Blocks to be emptied before any victim of choice.
    urgent: VecDeque<(u32, crate::Cause)>,
    /// What collection in steps has begun to empty.
    victim: Option<Evacuation>,
    /// Collection is under way: it must not wait for itself.
    collecting: bool,
    erases_until_levelling: u32,
    tally: Tally,
    scratch: Box<[u8]>,
    /// Of collection, kept for its allocation.
    moves: Batch,
    /// Pages that collection has moved and the map does not follow yet: only within `move_out`.
    moved: Batch,
    /// The logical pages announced last, in turn, and the place of the next one.
    expected: [u32; EXPECTED],
    announced: usize,
    health: Health,
}

impl<M: Mtd> PageFtl<M> {
    fn new(mtd: M, options: PageOptions, logical_pages: u32) -> Self {
        let g = mtd.geometry().clone();
        let mapping = Mapping::new(logical_pages, &g, options.map_interval);
        let cached = |bytes| Demand::new(bytes, g.page, &mapping);
        let demand = options.map_cache.map(cached);
        let lanes = (g.dies * g.planes) as usize;
        let mut frontiers = vec![Frontier::new(lanes, true), Frontier::new(1, false)];
        frontiers.extend((0..options.streams.max(1)).map(|_| Frontier::new(lanes, false)));
        let slc = SlcCache::new(&options, mtd.slc_pages());
        if slc.is_some() {
            let lanes = lanes.min(options.slc_cache_blocks as usize);
            frontiers.push(Frontier::new(lanes, false));
        }
        Self {
            sectors_per_page: (g.page / SECTOR).max(1),
            page_bytes: g.page as usize,
            geometry: BlockGeometry {
                sector: SECTOR,
                sectors: u64::from(logical_pages) * u64::from(g.page / SECTOR),
                page: g.page,
            },
            map: vec![0; logical_pages as usize],
            blocks: BlockTable::new(&g),
            frontiers,
            stream: Stream::Host(0),
            mapping,
            demand,
            paced: slc.is_some() || options.collection == Collection::Steps,
            slc,
            stale_tags: StaleTags::new(g.pages()),
            records: Records::default(),
            sequence: 0,
            urgent: VecDeque::new(),
            victim: None,
            collecting: false,
            erases_until_levelling: g.blocks / 4 + 1,
            tally: Tally::default(),
            scratch: vec![0; g.page as usize].into(),
            moves: Batch::default(),
            moved: Batch::default(),
            expected: [0; EXPECTED],
            announced: 0,
            health: Health::new(NAME),
            options,
            mtd,
        }
    }

    /// Gives the flash back, without any further write.
    pub fn into_medium(self) -> M {
        self.mtd
    }

    /// Returns the logical pages that it offers.
    pub fn logical_pages(&self) -> u32 {
        self.map.len() as u32
    }

    /// An error of the flash as the host sees it.
    fn fault(&mut self, error: MtdError) -> BlockError {
        self.health.fault(error, self.mtd.geometry())
    }

    /// The newest version of a logical page is now on `page`.
    #[inline]
    fn point_to(&mut self, lpn: u32, page: u32) {
        let old = core::mem::replace(&mut self.map[lpn as usize], page + 1);
        if old != 0 && old != LOST {
            self.blocks.invalidate(old - 1);
        }
    }

    /// Writes a page whose map page is in memory.
    #[inline]
    fn write_mapped(&mut self, lpn: u32, data: &[u8]) -> Result<(), BlockError> {
        let page = self.append(lpn, data)?;
        self.point_to(lpn, page);
        self.tally.host_pages += 1;
        if self.mapping.due <= 0 {
            self.write_next_map()
        } else {
            Ok(())
        }
    }

    /// Writes a page whose map page may be on flash.
    #[cold]
    fn write_demanded(&mut self, lpn: u32, data: &[u8]) -> Result<(), BlockError> {
        self.look_up(lpn)?;
        let written = self.write_mapped(lpn, data);
        // Even after an error: the data may be on flash although a map page failed.
        self.entry_changed(lpn);
        written
    }

    fn lba(&self, lpn: u32) -> u64 {
        u64::from(lpn) * u64::from(self.sectors_per_page)
    }
}

impl<M: Mtd> Paged for PageFtl<M> {
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
        self.look_up(lpn)?;
        Ok(self.map[lpn as usize] != 0)
    }

    fn read_page(&mut self, lpn: u32, buf: &mut [u8]) -> Result<(), BlockError> {
        if self.demand.is_some() {
            self.look_up(lpn)?;
        }
        let page = match self.map[lpn as usize] {
            0 => {
                buf.fill(0);
                return Ok(());
            }
            LOST => return Err(self.health.lost_before(self.lba(lpn), Place::Whole)),
            entry => Page(entry - 1),
        };
        self.tally.of(crate::Cause::Host).reads += 1;
        match self.mtd.read(page, buf, &mut []) {
            Ok(corrected) => {
                if self.options.scrub_bits > 0 && corrected.bits >= self.options.scrub_bits {
                    self.scrub(page);
                }
                Ok(())
            }
            Err(error @ MtdError::Uncorrectable(_)) => {
                let lba = self.lba(lpn);
                Err(self.health.lost_to(lba, error, self.mtd.geometry()))
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    #[inline]
    fn write_page(&mut self, lpn: u32, data: &[u8]) -> Result<(), BlockError> {
        if self.paced {
            self.before_write()?;
        }
        if self.demand.is_some() {
            self.write_demanded(lpn, data)
        } else {
            self.write_mapped(lpn, data)
        }
    }

    fn discard_page(&mut self, lpn: u32) -> Result<(), BlockError> {
        let old = core::mem::take(&mut self.map[lpn as usize]);
        if old == 0 {
            return Ok(());
        }
        self.entry_changed(lpn);
        if old != LOST {
            self.blocks.invalidate(old - 1);
        }
        if self.mapping.forget(lpn) {
            self.write_forgotten()
        } else {
            Ok(())
        }
    }
}

impl<M: Mtd> BlockDevice for PageFtl<M> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn expect(&mut self, lba: Lba) {
        let lpn = (lba.0 >> self.sectors_per_page.trailing_zeros()) as u32;
        prefetch(&self.map, lpn as usize);
        // The entry asked for a few times ago has arrived by now, and tells what else its request
        // will need.
        let turn = self.announced % EXPECTED;
        let before = core::mem::replace(&mut self.expected[turn], lpn);
        self.announced = turn + 1;
        match self.map.get(before as usize) {
            None | Some(&(0 | LOST)) => {}
            Some(&entry) => self.blocks.prefetch(entry - 1),
        }
    }

    fn stream(&mut self, stream: u8) {
        self.stream = Stream::Host(stream.min(self.options.streams.max(1) - 1));
        if let Some(slc) = &mut self.slc {
            slc.direct = self.stream;
        }
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.health.check()?;
        self.fold_idle()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry.check(lba, buf.len())?;
        self.read_extent(lba, count, buf)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.health.check()?;
        // One whole page, the usual case, without the arithmetic of extents.
        let lpn = lba.0 >> self.sectors_per_page.trailing_zeros();
        if data.len() == self.page_bytes
            && lba.0 & u64::from(self.sectors_per_page - 1) == 0
            && lpn < self.map.len() as u64
        {
            return self.write_page(lpn as u32, data);
        }
        let count = self.geometry.check(lba, data.len())?;
        self.write_extent(lba, count, data)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        self.write_forgotten()?;
        if self.options.seeded_bug == Some(SeededBug::FlushWithoutSync) {
            return Ok(());
        }
        self.mtd.sync().map_err(|e| self.fault(e))
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry.check_sectors(lba, sectors)?;
        self.discard_extent(lba, sectors)
    }

    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.health.check()?;
        let pages = self.remap_pairs(pairs)?;
        self.remap_pages(pages)
    }
}

impl<M: Mtd> Ftl for PageFtl<M> {
    type Medium = M;

    fn medium(&self) -> &M {
        &self.mtd
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn valid_pages(&self, block: Block) -> u32 {
        self.blocks.valid(block.0)
    }

    fn detach(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        self.write_whole_map()?;
        self.retire_records();
        self.mtd.sync().map_err(|e| self.fault(e))
    }

    fn into_medium(self: Box<Self>) -> M {
        (*self).into_medium()
    }
}
/// Reads a page's data as the header page, which says what the medium was formatted for.
pub(crate) fn header_of(data: &[u8]) -> Option<crate::media::Medium> {
    let index = u32::from_le_bytes(*data.get(8..)?.first_chunk()?);
    let (.., entries) = format::decode_map(data, index)?;
    let entries: alloc::vec::Vec<u32> = entries.take(5).collect();
    let header = format::Header::decode(entries.iter().copied())?;
    let is_header = entries.len() == 4
        && header.page as usize == data.len()
        && header
            .logical_pages
            .div_ceil(format::entries_per_page(header.page))
            == index;
    is_header.then_some(crate::media::Medium {
        layer: crate::media::Layer::PageMap,
        page: header.page,
        pages_per_block: header.pages_per_block,
        blocks: header.blocks,
    })
}
