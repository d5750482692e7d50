//! A write cache in front of a translation layer: what is written is in its memory at once, and
//! reaches the flash when it is evicted.
//!
//! *Promises* what [`BlockDevice`] promises, over any [`Ftl`] that promises it and any memory whose
//! sectors are written whole and are durable on return ([`Nvram`](nandlab_block::Nvram), lent as
//! `&mut` or owned). A page that was written survives a power cut without a flush, old or new as a
//! whole; after a cut [`attach`](WriteCache::attach) finds everything in the memory, whatever
//! policy was used before and is from now on. A memory without a battery needs
//! [`flush_through`](CacheOptions::flush_through), and zeros after each cut. Then only a flush
//! makes a page durable.
//!
//! *In terms of* [`Ftl`] and [`BlockDevice`]. *Knows nothing of* flash, or who wrote what. The
//! memory remembers the disk's shape, no more: it is up to the caller to bring the memory and the
//! flash together that belong together.
//!
//! *How.* The unit is the page of the layer below. A write of a part reads the rest from below at
//! once, so that a cached page is always whole; a rest that is lost is the host's error there and
//! then, and a cached page can always be written back. A new version goes to a free slot, its tag
//! makes it count, and then the slot of the old version is free (see `format`). Policies choose
//! what leaves a full cache ([`CachePolicy`]). Discards of uncached pages go to the layer below,
//! and so do remaps, once nothing that they concern is cached.
//!
//! | module | its one idea |
//! |---|---|
//! | `options` | choices, counts, errors |
//! | `format`, `store` | the bytes in the memory; slots and tags |
//! | `slots` | which page is where |
//! | `evict` | free space: writing back, padding, letting go |
//! | `policy`, `groups`, `by_count` | what policies are asked; dirty pages by logical block |
//! | `bplru`, `fab`, `lb_clock` | the policies |
//!
//! *Power loss.* Three rules carry the whole argument:
//! 1. A version has its tag before the tag of an older version goes, and its data before its tag.
//!    So at every moment the highest tag of a page names a whole version, the newest but perhaps
//!    the one under way.
//! 2. A tag goes for good only when the layer below has made its page durable. So what was written
//!    back and is still lost by the cut is still here, and is written back again.
//! 3. A cached page is discarded by a tag that says so, which follows rule 2 like any other.
//!
//! A flush needs no flash operation, unless uncached pages were discarded since the last one.
//!
//! *Errors.* A write back that fails leaves the page in the cache, and fails the request that
//! needed the space; what was acknowledged stays readable. A memory that refuses is not trusted
//! again: everything fails from then on.
//!
//! *Time.* None: what the memory takes is for the caller to charge. *Memory.* About 100 bytes a
//! slot, one page and one sector of the memory; a hit allocates nothing.

mod bplru;
mod by_count;
mod choose;
mod evict;
mod fab;
mod format;
mod groups;
mod lb_clock;
mod options;
mod policy;
mod slots;
mod store;

pub use options::{CacheCounts, CacheError, CacheOptions, CachePolicy};

use crate::extent::parts;
use crate::fault::Health;
use crate::{Ftl, Tally};
use alloc::{boxed::Box, vec};
use format::Layout;
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use nandlab_mtd::Block;
use policy::Policy;
use slots::{Slot, Slots, State};
use store::Store;

/// A translation layer with a non-volatile write cache in front.
#[derive(Debug)]
pub struct WriteCache<F, N> {
    below: F,
    store: Store<N>,
    slots: Slots,
    policy: Box<dyn Policy>,
    options: CacheOptions,
    sector: u32,
    sectors_per_page: u32,
    /// Pages that may be dirty between two requests; the other slots wait for the layer below to
    /// become durable.
    capacity: u32,
    scratch: Box<[u8]>,
    /// Pages were discarded below that no tag remembers.
    discarded_below: bool,
    counts: CacheCounts,
    health: Health,
}

impl<F: Ftl, N: BlockDevice> WriteCache<F, N> {
    /// Empties the memory, whatever it holds, and starts afresh.
    pub fn format(below: F, memory: N, options: CacheOptions) -> Result<Self, CacheError> {
        options.check()?;
        let layout = Layout::new(below.geometry(), memory.geometry(), options.bytes)?;
        let store = Store::new(memory, layout)
            .format()
            .map_err(CacheError::Nvram)?;
        Ok(Self::new(below, store, options))
    }

    /// Takes up what the memory holds for this disk. A memory of zeros is formatted.
    pub fn attach(below: F, mut memory: N, options: CacheOptions) -> Result<Self, CacheError> {
        options.check()?;
        let wanted = Layout::new(below.geometry(), memory.geometry(), options.bytes)?;
        let header = store::read_header(&mut memory)?;
        let Some(found) = wanted.found(&header, memory.geometry().bytes())? else {
            return Self::format(below, memory, options);
        };
        let mut cache = Self::new(below, Store::new(memory, found), options);
        cache.recover()?;
        if found == wanted {
            return Ok(cache);
        }
        cache.drain().map_err(CacheError::Below)?;
        let (below, memory) = cache.into_parts();
        Self::format(below, memory, options)
    }

    fn new(below: F, store: Store<N>, options: CacheOptions) -> Self {
        let layout = *store.layout();
        let geometry = *below.geometry();
        let pages = layout.disk_pages();
        Self {
            slots: Slots::new(layout.slots),
            policy: options
                .policy
                .build(pages, options.block_pages.min(pages), layout.slots),
            capacity: layout.slots - evict::spare_slots(layout.slots),
            sector: geometry.sector,
            sectors_per_page: layout.page / geometry.sector,
            scratch: vec![0; layout.page as usize].into(),
            discarded_below: false,
            counts: CacheCounts::default(),
            health: Health::new("write cache"),
            below,
            store,
            options,
        }
    }

    /// Everything with a tag is dirty, in the order of the slots: what was recent is not
    /// remembered. An older version is let go.
    fn recover(&mut self) -> Result<(), CacheError> {
        let mut tags = self.store.tags()?;
        tags.sort_unstable_by_key(|&(slot, tag)| (tag.page, tag.sequence, slot));
        self.clear_old(&tags)?;
        // Of each page the last one is the newest.
        tags.reverse();
        tags.dedup_by_key(|&mut (_, tag)| tag.page);
        tags.sort_unstable_by_key(|&(slot, _)| slot);
        for (slot, tag) in tags {
            self.slots.fill(slot, tag.page, tag.discarded);
            self.policy.written(tag.page, true);
        }
        Ok(())
    }

    /// Clears all but the newest of several slots for one page.
    fn clear_old(&mut self, tags: &[(u32, format::Tag)]) -> Result<(), CacheError> {
        for pair in tags
            .windows(2)
            .filter(|pair| pair[0].1.page == pair[1].1.page)
        {
            if pair[0].1.sequence == pair[1].1.sequence {
                let offset = self.store.layout().tag(pair[1].0);
                return Err(CacheError::Damaged {
                    offset,
                    what: "two tags name one page with one sequence number",
                });
            }
            self.store.clear(pair[0].0).map_err(CacheError::Nvram)?;
        }
        Ok(())
    }

    /// The layer below and the memory, as they are.
    pub fn into_parts(self) -> (F, N) {
        (self.below, self.store.into_memory())
    }

    /// The layer below, to be looked at.
    pub fn below(&self) -> &F {
        &self.below
    }

    /// What the cache did since it was attached.
    pub fn counts(&self) -> &CacheCounts {
        &self.counts
    }

    /// Pages whose newest version is in the memory alone.
    pub fn dirty_pages(&self) -> u32 {
        self.slots.dirty()
    }

    /// Pages that may be dirty at once.
    pub fn capacity_pages(&self) -> u32 {
        self.capacity
    }

    /// An error of the memory as the host sees it.
    #[cold]
    fn fault(&mut self, error: BlockError) -> BlockError {
        let error = match error {
            BlockError::PowerCut | BlockError::Backing(_) | BlockError::Internal(_) => error,
            _ => BlockError::Internal(error.fault().in_layer("memory of the write cache")),
        };
        self.health.stop(error)
    }

    fn page_lba(&self, page: u32) -> Lba {
        Lba(u64::from(page) * u64::from(self.sectors_per_page))
    }

    fn read_part(&mut self, page: u32, first: u32, part: &mut [u8]) -> Result<(), BlockError> {
        self.counts.page_reads += 1;
        match self.slots.find(page) {
            None => self
                .below
                .read(Lba(self.page_lba(page).0 + u64::from(first)), part),
            Some((slot, held)) => {
                self.counts.read_hits += 1;
                self.read_slot(slot, held, first * self.sector, part)
            }
        }
    }

    fn read_slot(
        &mut self,
        slot: u32,
        held: Slot,
        at: u32,
        part: &mut [u8],
    ) -> Result<(), BlockError> {
        if held.discarded {
            part.fill(0);
            return Ok(());
        }
        self.store.read(slot, at, part).map_err(|e| self.fault(e))
    }

    /// A new version of a page, of which `part` is given, from sector `first` on.
    fn write_part(&mut self, page: u32, first: u32, part: &[u8]) -> Result<(), BlockError> {
        self.make_room(page)?;
        self.counts.page_writes += 1;
        if part.len() == self.scratch.len() {
            return self.put(page, part);
        }
        self.patch(page, first, |old| old.copy_from_slice(part), part.len())
    }

    /// Changes a part of a page in a new version of it. Needs a free slot.
    fn patch(
        &mut self,
        page: u32,
        first: u32,
        change: impl FnOnce(&mut [u8]),
        len: usize,
    ) -> Result<(), BlockError> {
        let mut whole = core::mem::take(&mut self.scratch);
        let at = (first * self.sector) as usize;
        let result = self.fill(page, &mut whole).and_then(|()| {
            change(&mut whole[at..at + len]);
            self.put(page, &whole)
        });
        self.scratch = whole;
        result
    }

    /// Reads the newest version of a page, to change a part of it.
    fn fill(&mut self, page: u32, whole: &mut [u8]) -> Result<(), BlockError> {
        match self.slots.find(page) {
            Some((slot, held)) => self.read_slot(slot, held, 0, whole),
            None => {
                self.counts.fill_reads += 1;
                self.below.read(self.page_lba(page), whole)
            }
        }
    }

    /// Writes a version of a page to a free slot and lets go of the version before.
    fn put(&mut self, page: u32, data: &[u8]) -> Result<(), BlockError> {
        let Some(slot) = self.slots.free() else {
            return Err(BlockError::internal("write cache", "no free slot"));
        };
        self.store
            .write(slot, page, data)
            .map_err(|e| self.fault(e))?;
        let absorbed = self.slots.is_dirty(page);
        self.counts.absorbed += u64::from(absorbed);
        if let Some(old) = self.slots.fill(slot, page, false) {
            self.store.clear(old).map_err(|e| self.fault(e))?;
        }
        self.policy.written(page, !absorbed);
        Ok(())
    }

    /// Discards a whole page: below, and in a tag if it is cached.
    fn discard_page(&mut self, page: u32) -> Result<(), BlockError> {
        let done = self
            .below
            .discard(self.page_lba(page), self.sectors_per_page.into());
        let Some((slot, held)) = self.slots.find(page) else {
            self.discarded_below = true;
            return done;
        };
        if let Err(error) = done {
            // Whether it was done is not known.
            self.keep(slot, page);
            return Err(error);
        }
        self.store.discard(slot, page).map_err(|e| self.fault(e))?;
        self.slots.set_discarded(slot);
        if held.state == State::Dirty {
            self.slots.set_written(slot);
            self.policy.cleaned(page);
        }
        Ok(())
    }
}

impl CacheOptions {
    fn check(&self) -> Result<(), CacheError> {
        if self.block_pages == 0 {
            return Err(CacheError::Unsuitable {
                what: "pages of a logical block",
                found: 0,
                expected: "at least 1",
            });
        }
        Ok(())
    }
}

impl<F: Ftl, N: BlockDevice> BlockDevice for WriteCache<F, N> {
    fn geometry(&self) -> &BlockGeometry {
        self.below.geometry()
    }

    fn expect(&mut self, lba: Lba) {
        self.below.expect(lba);
    }

    fn idle(&mut self) -> Result<bool, BlockError> {
        self.below.idle()
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry().check(lba, buf.len())?;
        let mut rest = buf;
        for (page, first, n) in parts(self.sectors_per_page, lba, count) {
            let (part, tail) = rest.split_at_mut((n * self.sector) as usize);
            rest = tail;
            self.read_part(page, first, part)?;
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.health.check()?;
        let count = self.geometry().check(lba, data.len())?;
        let mut rest = data;
        for (page, first, n) in parts(self.sectors_per_page, lba, count) {
            let (part, tail) = rest.split_at((n * self.sector) as usize);
            rest = tail;
            self.write_part(page, first, part)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        self.counts.flushes += 1;
        if self.options.flush_through {
            return self.drain();
        }
        self.store.flush().map_err(|e| self.fault(e))?;
        if self.discarded_below {
            self.release_written()
        } else {
            Ok(())
        }
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.health.check()?;
        self.geometry().check_sectors(lba, sectors)?;
        for (page, first, n) in parts(self.sectors_per_page, lba, sectors) {
            if n == self.sectors_per_page {
                self.discard_page(page)?;
            } else if self.slots.find(page).is_some() {
                self.make_room(page)?;
                self.patch(page, first, |old| old.fill(0), (n * self.sector) as usize)?;
            } else {
                self.discarded_below = true;
                self.below
                    .discard(Lba(self.page_lba(page).0 + u64::from(first)), n.into())?;
            }
        }
        Ok(())
    }

    /// The layer below remaps. If a page of the pairs is cached, everything is written back first:
    /// a tag that stayed would bring its old contents back after a cut.
    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        self.health.check()?;
        let per = u64::from(self.sectors_per_page);
        for lba in pairs.iter().flat_map(|pair| [pair.from, pair.to]) {
            self.geometry().check_sectors(lba, 1)?;
            if self.slots.find((lba.0 / per) as u32).is_some() {
                self.drain()?;
            }
        }
        self.below.remap(pairs)
    }
}

/// The medium and what happened to it are those of the layer below. So the host pages of the tally
/// are the pages that reached that layer; [`WriteCache::counts`] knows what the host wrote.
impl<F: Ftl, N: BlockDevice> Ftl for WriteCache<F, N> {
    type Medium = F::Medium;

    fn medium(&self) -> &F::Medium {
        self.below.medium()
    }

    fn tally(&self) -> &Tally {
        self.below.tally()
    }

    fn write_cache(&self) -> Option<CacheCounts> {
        Some(self.counts)
    }

    fn valid_pages(&self, block: Block) -> u32 {
        self.below.valid_pages(block)
    }

    /// Writes everything back, so that the flash holds the whole disk, and detaches the layer
    /// below.
    fn detach(&mut self) -> Result<(), BlockError> {
        self.health.check()?;
        self.drain()?;
        self.below.detach()
    }

    /// The memory's contents are lost: [`detach`](Ftl::detach) first.
    fn into_medium(self: Box<Self>) -> F::Medium {
        Box::new(self.into_parts().0).into_medium()
    }
}
