//! The file allocation table: which cluster follows which, which are free.
//!
//! *Promises.* The table in memory is the truth; what is not yet on the medium is known entry by
//! entry, together with what the medium says. From that the images of each [`Phase`] of a commit
//! are made, so that on the medium a cluster is never free and in use at once. A cluster that was
//! freed is given out again only after the commit that made its freedom durable. *Knows nothing of*
//! directories and contents.
//!
//! **Allocation** is next-fit as in Linux: from the cluster after the one allocated last.

use crate::{
    FatError,
    format::{Bits, Layout},
    store::Store,
};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, btree_map},
    vec::Vec,
};
use nandlab_block::BlockDevice;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Free,
    Next(u32),
    End,
    Bad,
    /// An entry that no chain may hold.
    Wrong,
}

/// The order in which entries reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Clusters that were free get their chain; nothing on the medium leads to them yet. So do
    /// links to them that arrive in the same sector.
    New,
    /// Ends of chains that go on now.
    Link,
    /// Chains that end or go on elsewhere now; directories no longer need what is cut off.
    Cut,
    /// Entries that are free now.
    Free,
}

/// A sector of the table and what it shall hold.
type Image = (u32, Box<[u8]>);

/// The table's state in memory.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Entries that differ from the medium, with what the medium says.
    changed: BTreeMap<u32, u32>,
    /// Entries that are free, but not yet on the medium.
    freed: BTreeSet<u32>,
    /// Ends of chains whose continuation must be on the medium first.
    late: BTreeSet<u32>,
    /// A chain of new clusters lies in several sectors, so that no link to it may arrive early.
    scattered: bool,
    /// The cluster that was allocated last.
    last: u32,
    /// Free clusters as far as known, and whether they were counted.
    free: Option<u32>,
    counted: bool,
    /// See [`SeededBug::ReuseEarly`](crate::SeededBug::ReuseEarly).
    pub reuses_early: bool,
}

impl Table {
    /// `free` and `last` are hints.
    pub fn new(layout: &Layout, free: Option<u32>, last: Option<u32>) -> Self {
        let last = last.filter(|last| layout.is_cluster(*last)).unwrap_or(2);
        let free = free.filter(|free| *free <= layout.clusters);
        Self {
            changed: BTreeMap::new(),
            freed: BTreeSet::new(),
            late: BTreeSet::new(),
            scattered: false,
            last,
            free,
            counted: false,
            reuses_early: false,
        }
    }

    pub fn last(&self) -> u32 {
        self.last
    }

    /// Free clusters, if known.
    pub fn free_hint(&self) -> Option<u32> {
        self.free
    }

    /// Whether clusters wait to be given out again.
    pub fn is_releasing(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Whether the medium says that the cluster is free, though it is in use.
    pub fn is_new(&self, cluster: u32) -> bool {
        self.changed.get(&cluster) == Some(&0)
    }

    /// Whether on the medium the chain goes on behind the cluster, though otherwise or not at all
    /// here.
    pub fn is_cut(&self, layout: &Layout, cluster: u32) -> bool {
        self.changed
            .get(&cluster)
            .is_some_and(|medium| matches!(link(layout, *medium), Link::Next(_)))
    }

    pub fn get<D: BlockDevice, N: BlockDevice>(
        &self,
        store: &mut Store<D, N>,
        cluster: u32,
    ) -> Result<Link, FatError> {
        let raw = raw(store, cluster)?;
        Ok(link(&store.layout, raw))
    }

    /// The entry as it stands, for messages and comparisons.
    pub fn value<D: BlockDevice, N: BlockDevice>(
        &self,
        store: &mut Store<D, N>,
        cluster: u32,
    ) -> Result<u32, FatError> {
        raw(store, cluster)
    }

    fn set<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
        cluster: u32,
        value: u32,
    ) -> Result<(), FatError> {
        let before = raw(store, cluster)?;
        self.count_change(before, value);
        let medium = *self.changed.entry(cluster).or_insert(before);
        if medium == value {
            self.changed.remove(&cluster);
            self.late.remove(&cluster);
        }
        if value == 0 && medium != 0 {
            self.freed.insert(cluster)
        } else {
            self.freed.remove(&cluster)
        };
        let place = place(&store.layout, cluster);
        for at in place.bytes() {
            let (sector, within) = table_byte(&store.layout, at);
            let bytes = store.metadata_mut(sector)?;
            place.poke(bytes, at - within as u64, value);
        }
        Ok(())
    }

    /// Counts a cluster that becomes free or taken.
    fn count_change(&mut self, before: u32, value: u32) {
        if let (Some(free), true) = (&mut self.free, (before == 0) != (value == 0)) {
            *free = if value == 0 {
                *free + 1
            } else {
                free.saturating_sub(1)
            };
        }
    }

    /// Takes a free cluster, which becomes the end of a chain of its own.
    ///
    /// Fails with [`Errno::NoSpace`](nandlab_vfs::Errno::NoSpace); after a commit there may be
    /// some.
    pub fn allocate<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
    ) -> Result<u32, FatError> {
        let clusters = store.layout.clusters;
        if self.counted && self.free == Some(0) {
            return Err(nandlab_vfs::Errno::NoSpace.into());
        }
        for step in 1..=clusters {
            // Both are below 2^28.
            let cluster = 2 + (self.last - 2 + step) % clusters;
            let is_held = self.freed.contains(&cluster) && !self.reuses_early;
            if raw(store, cluster)? == 0 && !is_held {
                let end = end(&store.layout);
                self.set(store, cluster, end)?;
                self.last = cluster;
                return Ok(cluster);
            }
        }
        if !self.is_releasing() {
            (self.free, self.counted) = (Some(0), true);
        }
        Err(nandlab_vfs::Errno::NoSpace.into())
    }

    /// Makes `next` follow `cluster`. What follows a `guarded` cluster must be on the medium before
    /// the link to it, contents included.
    pub fn append<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
        cluster: u32,
        next: u32,
        guarded: bool,
    ) -> Result<(), FatError> {
        let together = place(&store.layout, cluster)
            .atom(store.atom())
            .is_some_and(|atom| place(&store.layout, next).atom(store.atom()) == Some(atom));
        self.set(store, cluster, next)?;
        self.scattered |= !together;
        if guarded {
            self.late.insert(cluster);
        }
        Ok(())
    }

    /// Makes `cluster` the end of its chain.
    pub fn cut<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
        cluster: u32,
    ) -> Result<(), FatError> {
        let end = end(&store.layout);
        match self.get(store, cluster)? {
            Link::End => Ok(()),
            _ => self.set(store, cluster, end),
        }
    }

    /// Frees a chain and forgets what is cached of its contents. Stops without complaint where the
    /// chain is broken.
    pub fn free_chain<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
        start: u32,
    ) -> Result<(), FatError> {
        let mut at = start;
        while store.layout.is_cluster(at) {
            let link = self.get(store, at)?;
            if matches!(link, Link::Free | Link::Bad) {
                break;
            }
            let sector = store.layout.cluster_sector(at);
            let count = store.layout.cluster_sectors;
            self.set(store, at, 0)?;
            store.cache.forget_run(sector, count);
            match link {
                Link::Next(next) => at = next,
                _ => break,
            }
        }
        Ok(())
    }

    /// Free clusters, counted once.
    pub fn count_free<D: BlockDevice, N: BlockDevice>(
        &mut self,
        store: &mut Store<D, N>,
    ) -> Result<u32, FatError> {
        if let (Some(free), true) = (self.free, self.counted) {
            return Ok(free);
        }
        let mut free = 0;
        for cluster in 2..store.layout.clusters + 2 {
            free += u32::from(raw(store, cluster)? == 0);
        }
        (self.free, self.counted) = (Some(free), true);
        Ok(free)
    }

    fn phase(&self, layout: &Layout, cluster: u32, medium: u32, value: u32) -> Phase {
        match (medium, value) {
            (0, _) => Phase::New,
            (_, 0) => Phase::Free,
            _ if link(layout, medium) != Link::End => Phase::Cut,
            _ if self.scattered || self.late.contains(&cluster) => Phase::Link,
            _ => Phase::New,
        }
    }

    /// The table sectors that a phase writes (of the first copy), as they shall be after it.
    pub fn images<D: BlockDevice, N: BlockDevice>(
        &self,
        store: &mut Store<D, N>,
        phase: Phase,
    ) -> Result<Vec<Image>, FatError> {
        let layout = store.layout;
        let mut phases = Vec::with_capacity(self.changed.len());
        for (cluster, medium) in &self.changed {
            let value = raw(store, *cluster)?;
            phases.push((
                place(&layout, *cluster),
                self.phase(&layout, *cluster, *medium, value),
                *medium,
            ));
        }
        let touched = phases
            .iter()
            .filter(|(_, at, _)| *at == phase)
            .flat_map(|(place, ..)| place.bytes());
        let sectors: BTreeSet<u32> = touched.map(|byte| table_byte(&layout, byte).0).collect();
        let mut images = Vec::new();
        for sector in sectors {
            let mut image: Box<[u8]> = store.metadata(sector)?.into();
            let start = u64::from(sector - first_copy(&layout)) * u64::from(layout.sector);
            for (place, _, medium) in phases.iter().filter(|(_, at, _)| *at > phase) {
                place.poke(&mut image, start, *medium);
            }
            images.push((sector, image));
        }
        Ok(images)
    }

    /// Clusters that are not free on the medium yet, in order.
    pub fn freed(&self) -> &BTreeSet<u32> {
        &self.freed
    }

    /// Everything is on the medium.
    pub fn committed(&mut self) {
        self.changed.clear();
        self.late.clear();
        self.freed.clear();
        self.scattered = false;
    }
}

/// The sectors of a table sector's copies, given its place in the first.
pub(crate) fn copies(layout: &Layout, sector: u32) -> impl Iterator<Item = u32> + use<> {
    let (count, step) = if layout.active.is_some() {
        (1, 0)
    } else {
        (layout.fats, layout.fat_sectors)
    };
    (0..count).map(move |copy| sector + copy * step)
}

/// Sets an entry in images of the table's sectors (of the first copy), which are read where they
/// are missing.
pub(crate) fn set_in<D: BlockDevice, N: BlockDevice>(
    store: &mut Store<D, N>,
    images: &mut BTreeMap<u32, Vec<u8>>,
    cluster: u32,
    value: u32,
) -> Result<(), FatError> {
    let layout = store.layout;
    let place = place(&store.layout, cluster);
    for at in [place.bytes().start, place.bytes().end - 1] {
        let (sector, within) = table_byte(&layout, at);
        let image = match images.entry(sector) {
            btree_map::Entry::Occupied(image) => image.into_mut(),
            btree_map::Entry::Vacant(missing) => missing.insert(store.metadata(sector)?.to_vec()),
        };
        place.poke(image, at - within as u64, value);
    }
    Ok(())
}

fn first_copy(layout: &Layout) -> u32 {
    layout.fat_start + layout.active.unwrap_or(0) * layout.fat_sectors
}

/// A byte of the table as sector and byte in it.
fn table_byte(layout: &Layout, at: u64) -> (u32, usize) {
    (
        first_copy(layout) + (at / u64::from(layout.sector)) as u32,
        (at % u64::from(layout.sector)) as usize,
    )
}

/// The value that ends a chain.
pub(crate) fn end(layout: &Layout) -> u32 {
    match layout.bits {
        Bits::Fat12 => 0xFFF,
        Bits::Fat16 => 0xFFFF,
        Bits::Fat32 => 0x0FFF_FFFF,
    }
}

/// The value of entry 0: the media byte, and ones above it.
pub(crate) fn first_entry(layout: &Layout) -> u32 {
    end(layout) & !0xFF | u32::from(layout.media)
}

fn link(layout: &Layout, value: u32) -> Link {
    let end = end(layout);
    match value {
        0 => Link::Free,
        _ if layout.is_cluster(value) => Link::Next(value),
        _ if value >= end - 7 => Link::End,
        _ if value == end - 8 => Link::Bad,
        _ => Link::Wrong,
    }
}

/// Where an entry lies in the table.
#[derive(Clone, Copy, Debug)]
struct Place {
    byte: u64,
    bits: Bits,
    /// The second of two entries of 12 bits that share a byte.
    odd: bool,
}

fn place(layout: &Layout, cluster: u32) -> Place {
    let n = u64::from(cluster);
    let byte = match layout.bits {
        Bits::Fat12 => n + n / 2,
        Bits::Fat16 => n * 2,
        Bits::Fat32 => n * 4,
    };
    Place {
        byte,
        bits: layout.bits,
        odd: n % 2 == 1,
    }
}

impl Place {
    fn bytes(self) -> core::ops::Range<u64> {
        self.byte..self.byte + if self.bits == Bits::Fat32 { 4 } else { 2 }
    }

    /// The piece of `bytes` bytes in which all of it lies, if it lies in one.
    fn atom(self, bytes: u64) -> Option<u64> {
        let first = self.bytes().start / bytes;
        let last = (self.bytes().end - 1) / bytes;
        (first == last).then_some(first)
    }

    fn value(self, bytes: [u8; 4]) -> u32 {
        let word = u32::from_le_bytes(bytes);
        match self.bits {
            Bits::Fat12 if self.odd => word >> 4 & 0xFFF,
            Bits::Fat12 => word & 0xFFF,
            Bits::Fat16 => word,
            Bits::Fat32 => word & 0x0FFF_FFFF,
        }
    }

    /// Puts what lies of the entry in `image`, which begins at the table's byte `start`. The bits
    /// that are not its own stay.
    fn poke(self, image: &mut [u8], start: u64, value: u32) {
        let (bits, mask) = match self.bits {
            Bits::Fat12 if self.odd => (value << 4, 0xFFF0),
            Bits::Fat12 => (value, 0x0FFF),
            Bits::Fat16 => (value, 0xFFFF),
            Bits::Fat32 => (value, 0x0FFF_FFFFu32),
        };
        for ((at, new), own) in self.bytes().zip(bits.to_le_bytes()).zip(mask.to_le_bytes()) {
            let here = at
                .checked_sub(start)
                .and_then(|at| image.get_mut(at as usize));
            if let Some(byte) = here {
                *byte = *byte & !own | new & own;
            }
        }
    }
}

fn raw<D: BlockDevice, N: BlockDevice>(
    store: &mut Store<D, N>,
    cluster: u32,
) -> Result<u32, FatError> {
    let place = place(&store.layout, cluster);
    let (sector, within) = table_byte(&store.layout, place.byte);
    let length = (place.bytes().end - place.byte) as usize;
    let mut entry = [0; 4];
    let bytes = store.metadata(sector)?;
    let here = length.min(bytes.len() - within);
    entry[..here].copy_from_slice(&bytes[within..within + here]);
    if here < length {
        entry[here..length].copy_from_slice(&store.metadata(sector + 1)?[..length - here]);
    }
    Ok(place.value(entry))
}
