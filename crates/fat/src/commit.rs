//! Writing dirty data to the medium, in the order that the [crate](crate#power-loss) promises.

use crate::{
    Fat, FatError, SeededBug,
    cache::Owner,
    format::{Info, UNKNOWN},
    table::{Phase, copies},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Ino, Sync, Time};

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// Brings an inode's slot up to date, in memory.
    pub(crate) fn put_node(&mut self, ino: Ino) -> Result<(), FatError> {
        let Some(node) = self.nodes.get(ino) else {
            return Ok(());
        };
        if let Some(place) = node.place.filter(|_| node.pending.since.is_some()) {
            let mut slot = self.store.slot(place)?;
            node.put(
                &mut slot,
                self.store.layout.bits,
                self.options.utc_offset_minutes,
            );
            self.store.put_slot(place, &slot)?;
        }
        self.nodes.mark_clean(ino);
        Ok(())
    }

    /// Lets the slot say no more than the file now has; what it has more may not be written yet.
    pub(crate) fn put_shrunk(&mut self, ino: Ino) -> Result<(), FatError> {
        let Some((place, size)) = self
            .nodes
            .get(ino)
            .and_then(|node| Some((node.place?, node.size)))
        else {
            return Ok(());
        };
        let mut slot = self.store.slot(place)?;
        if crate::format::slot_size(&slot) > size {
            crate::format::put32(&mut slot, 28, size);
        }
        if size == 0 {
            crate::format::put_slot_start(&mut slot, self.store.layout.bits, 0);
        }
        self.store.put_slot(place, &slot)
    }

    /// Makes one inode durable, with all metadata.
    pub(crate) fn sync_inode(&mut self, ino: Ino, what: Sync) -> Result<(), FatError> {
        let contents = self.store.cache.of(Owner::File(ino));
        let is_late = self.has_bug(SeededBug::ContentsLate);
        if !is_late {
            self.store.write_contents(&contents)?;
        }
        if self
            .nodes
            .get(ino)
            .is_some_and(|node| node.pending.data || what == Sync::All)
        {
            self.put_node(ino)?;
        }
        self.commit()?;
        if is_late {
            self.store.write_contents(&contents)?;
            self.store.barrier()?;
        }
        Ok(())
    }

    pub(crate) fn sync_all(&mut self) -> Result<(), FatError> {
        let contents = self.store.cache.oldest_contents(usize::MAX, Time::MAX);
        self.store.write_contents(&contents)?;
        self.put_all()?;
        self.put_info()?;
        self.commit()
    }

    /// Brings the slots of all inodes up to date whose contents do not wait.
    fn put_all(&mut self) -> Result<(), FatError> {
        let pending: Vec<Ino> = self.nodes.pending().iter().copied().collect();
        for ino in pending {
            if self.store.cache.of(Owner::File(ino)).is_empty() {
                self.put_node(ino)?;
                self.nodes.drop_unused(ino);
            }
        }
        Ok(())
    }

    /// Brings the hints of FAT32 up to date, in memory.
    fn put_info(&mut self) -> Result<(), FatError> {
        let Some(sector) = self.store.layout.info else {
            return Ok(());
        };
        let Some(before) = Info::parse(self.store.metadata(sector)?) else {
            return Ok(());
        };
        let now = Info {
            free: self.table.free_hint().unwrap_or(UNKNOWN),
            last: self.table.last(),
        };
        if now != before {
            now.put(self.store.metadata_mut(sector)?);
        }
        Ok(())
    }

    /// Brings all dirty metadata to the medium; everything written is durable afterwards.
    pub(crate) fn commit(&mut self) -> Result<(), FatError> {
        let layout = self.store.layout;
        let dirty = self.store.cache.of(Owner::Metadata);
        let tables = layout.fat_start..layout.root_start;
        let others = dirty
            .iter()
            .copied()
            .filter(|sector| !tables.contains(sector));
        let new = |sector: &u32| {
            layout
                .sector_cluster(*sector)
                .is_some_and(|cluster| self.table.is_new(cluster))
        };
        let (new, old): (Vec<u32>, Vec<u32>) = others.partition(new);
        if self.has_bug(SeededBug::DirectoriesFirst) {
            self.write_directories(&old)?;
            self.step()?;
        }
        if self.has_bug(SeededBug::TableAtOnce) {
            self.write_table(Phase::Free)?;
            self.step()?;
        }
        self.write_table(Phase::New)?;
        self.write_directories(&new)?;
        self.step()?;
        self.write_table(Phase::Link)?;
        self.step()?;
        self.write_directories(&old)?;
        self.step()?;
        self.write_table(Phase::Cut)?;
        self.step()?;
        let freed = self.freed_sectors();
        freed
            .iter()
            .try_for_each(|(sector, count)| self.store.forget_freed(*sector, *count))?;
        self.write_table(Phase::Free)?;
        if !self.has_bug(SeededBug::CommitUnflushed) {
            self.store.barrier()?;
        }
        dirty
            .iter()
            .for_each(|sector| self.store.cache.mark_clean(*sector));
        self.removed.clear();
        self.table.committed();
        if self.options.discard {
            freed
                .iter()
                .try_for_each(|(sector, count)| self.store.discard(*sector, *count))?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), FatError> {
        if self.options.barriers && !self.has_bug(SeededBug::CommitUnflushed) {
            self.store.barrier()
        } else {
            Ok(())
        }
    }

    fn write_table(&mut self, phase: Phase) -> Result<(), FatError> {
        for (sector, image) in self.table.images(&mut self.store, phase)? {
            for copy in copies(&self.store.layout, sector) {
                self.store.write_metadata(copy, &image)?;
            }
        }
        Ok(())
    }

    fn write_directories(&mut self, sectors: &[u32]) -> Result<(), FatError> {
        for sector in sectors {
            let image = self.store.metadata(*sector)?.to_vec();
            self.store.write_metadata(*sector, &image)?;
        }
        Ok(())
    }

    /// The sectors of clusters that this commit frees, in runs.
    fn freed_sectors(&self) -> Vec<(u32, u32)> {
        let layout = self.store.layout;
        let mut clusters = self.table.freed().iter().copied().peekable();
        let mut runs = Vec::new();
        while let Some(first) = clusters.next() {
            let mut count = 1;
            while clusters.next_if_eq(&(first + count)).is_some() {
                count += 1;
            }
            runs.push((layout.cluster_sector(first), count * layout.cluster_sectors));
        }
        runs
    }

    /// Dirty bytes, an inode newer than its slot counted as a sector.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        (self.store.cache.dirty_count() + self.nodes.pending().len()) as u64
            * self.store.sector() as u64
    }

    /// Writes the oldest dirty data; returns by how many bytes the dirty data shrank.
    pub(crate) fn write_oldest(&mut self, bytes: u64, until: Time) -> Result<u64, FatError> {
        let before = self.dirty_bytes();
        let sectors = bytes
            .div_ceil(self.store.sector() as u64)
            .min(usize::MAX as u64) as usize;
        let contents = self.store.cache.oldest_contents(sectors, until);
        self.store.write_contents(&contents)?;
        let overdue = |since: Option<Time>| since.is_some_and(|since| since <= until);
        if before - self.dirty_bytes() < bytes
            || overdue(self.store.cache.since())
            || overdue(self.nodes.since())
        {
            self.put_all()?;
            self.commit()?;
        }
        Ok(before - self.dirty_bytes())
    }
}
