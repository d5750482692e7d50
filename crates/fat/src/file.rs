//! Chains of clusters, and the contents of files in them.

use crate::{Fat, FatError, cache::Owner, table::Link};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, Ino};

/// The longest file: its length has 32 bits.
pub(crate) const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Bytes that are read or filled at once.
const STEP: usize = 64 * 1024;

impl<D: BlockDevice, N: BlockDevice> Fat<D, N> {
    /// The cluster at a place of an inode's chain, and how many neighbours follow it there as far
    /// as known; none beyond the end.
    pub(crate) fn cluster_at(
        &mut self,
        ino: Ino,
        index: u32,
    ) -> Result<Option<(u32, u32)>, FatError> {
        let layout = self.store.layout;
        loop {
            let node = self.nodes.get(ino).ok_or(Errno::Stale)?;
            if index < node.chain.len() {
                return Ok(node.chain.at(index));
            }
            let start = node.start;
            let last = node.chain.last();
            let wrong = |cluster, found, expected| FatError::Chain {
                start,
                cluster,
                found,
                expected,
            };
            let next = match last {
                _ if node.chain.len() > layout.clusters => {
                    return Err(wrong(last.unwrap_or(0), start, "an end of the chain"));
                }
                None if start == 0 && !node.directory => return Ok(None),
                None if !layout.is_cluster(start) => {
                    return Err(wrong(0, start, "a first cluster"));
                }
                None => start,
                Some(last) => match self.table.get(&mut self.store, last)? {
                    Link::Next(next) => next,
                    Link::End => return Ok(None),
                    _ => {
                        return Err(wrong(
                            last,
                            self.table.value(&mut self.store, last)?,
                            "a next cluster or the end",
                        ));
                    }
                },
            };
            if let Some(node) = self.nodes.get_mut(ino) {
                node.chain.push(next);
            }
        }
    }

    /// Takes a free cluster; if those that are free wait for a commit, there is one.
    pub(crate) fn allocate(&mut self) -> Result<u32, FatError> {
        match self.table.allocate(&mut self.store) {
            Err(FatError::Call(Errno::NoSpace)) if self.table.is_releasing() => {
                self.commit()?;
                self.table.allocate(&mut self.store)
            }
            outcome => outcome,
        }
    }

    /// Makes a cluster the last of an inode's chain, which was walked to its end.
    pub(crate) fn append(&mut self, ino: Ino, cluster: u32) -> Result<(), FatError> {
        let last = self.nodes.get(ino).ok_or(Errno::Stale)?.chain.last();
        if last.is_some_and(|last| self.table.is_cut(&self.store.layout, last)) {
            // A chain goes on elsewhere before a longer slot, but ends only behind a shorter one.
            self.commit()?;
        }
        let node = self.nodes.get_mut(ino).ok_or(Errno::Stale)?;
        let directory = node.directory;
        node.chain.push(cluster);
        match last {
            Some(last) => self.table.append(&mut self.store, last, cluster, directory),
            None => {
                node.start = cluster;
                let now = self.store.now;
                self.nodes.touch(ino, true, now);
                Ok(())
            }
        }
    }

    /// Makes a file's chain `clusters` long if there is so much space; gives its length.
    fn grow(&mut self, ino: Ino, clusters: u32) -> Result<u32, FatError> {
        let Some(last) = clusters.checked_sub(1) else {
            return Ok(0);
        };
        loop {
            match self.cluster_at(ino, last) {
                Ok(Some(_)) => return Ok(clusters),
                Ok(None) => {}
                // Nothing of the file lies there: a cut may have left it so.
                Err(FatError::Chain { cluster, .. }) if self.is_beyond_end(ino) => {
                    self.table.cut(&mut self.store, cluster)?
                }
                Err(error) => return Err(error),
            }
            match self.allocate() {
                Ok(cluster) => self.append(ino, cluster)?,
                Err(FatError::Call(Errno::NoSpace)) => {
                    return Ok(self.nodes.get(ino).map_or(0, |node| node.chain.len()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether all that a file holds lies in what was walked of its chain, which has an end.
    fn is_beyond_end(&self, ino: Ino) -> bool {
        let bytes = u64::from(self.store.layout.cluster_bytes());
        self.nodes.get(ino).is_some_and(|node| {
            let walked = node.chain.len();
            (1..=self.store.layout.clusters).contains(&walked)
                && u64::from(node.size) <= u64::from(walked) * bytes
        })
    }

    /// Frees what lies beyond `clusters` of an inode's chain.
    pub(crate) fn trim(&mut self, ino: Ino, clusters: u32) -> Result<(), FatError> {
        let free = match clusters.checked_sub(1) {
            None => {
                let node = self.nodes.get_mut(ino).ok_or(Errno::Stale)?;
                core::mem::take(&mut node.start)
            }
            Some(last) => {
                let Some((last, _)) = self.cluster_at(ino, last)? else {
                    return Ok(());
                };
                let Link::Next(next) = self.table.get(&mut self.store, last)? else {
                    return Ok(());
                };
                self.table.cut(&mut self.store, last)?;
                next
            }
        };
        if let Some(node) = self.nodes.get_mut(ino) {
            node.chain.truncate(clusters);
        }
        self.table.free_chain(&mut self.store, free)
    }

    pub(crate) fn clusters_for(&self, bytes: u64) -> u32 {
        bytes.div_ceil(u64::from(self.store.layout.cluster_bytes())) as u32
    }

    /// The sector that holds a byte of a file, the byte's place in it, and how many sectors lie in
    /// a row from there as far as known.
    fn sector_at(&mut self, ino: Ino, offset: u64) -> Result<(u32, usize, u32), FatError> {
        let layout = self.store.layout;
        let sector = offset / u64::from(layout.sector);
        let size = u64::from(layout.cluster_sectors);
        let start = self.nodes.get(ino).map_or(0, |node| node.start);
        let missing = FatError::Chain {
            start,
            cluster: 0,
            found: 0,
            expected: "a chain as long as the file",
        };
        let (cluster, count) = self
            .cluster_at(ino, (sector / size) as u32)?
            .ok_or(missing)?;
        let within = (sector % size) as u32;
        let row = u64::from(count) * size - u64::from(within);
        Ok((
            layout.cluster_sector(cluster) + within,
            (offset % u64::from(layout.sector)) as usize,
            row.min(u64::from(u32::MAX)) as u32,
        ))
    }

    /// Reads what a file holds; gives the bytes read.
    pub(crate) fn read_file(
        &mut self,
        ino: Ino,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FatError> {
        let size = u64::from(self.nodes.get(ino).ok_or(Errno::Stale)?.size);
        let count = (buf.len() as u64).min(size.saturating_sub(offset)) as usize;
        if count > 0 {
            // The chain is walked once, so that its rows are known.
            self.cluster_at(ino, self.clusters_for(offset + count as u64) - 1)?;
        }
        let mut done = 0;
        let unit = self.store.sector();
        // What is read once comes past it, but for parts of sectors.
        let step = if self.options.once { unit } else { STEP };
        let mut bounce = alloc::vec![0; step.min((count + 2 * unit).next_multiple_of(unit))];
        while done < count {
            let (first, at, row) = self.sector_at(ino, offset + done as u64)?;
            let whole = ((count - done) / unit).min(row as usize);
            if self.options.once && at == 0 && whole > 0 {
                self.store
                    .read_contents(first, &mut buf[done..done + whole * unit], false)?;
                done += whole * unit;
                continue;
            }
            let sectors = (at + count - done)
                .div_ceil(unit)
                .min(row as usize)
                .min(bounce.len() / unit);
            let part = &mut bounce[..sectors * unit];
            self.store.read_contents(first, part, !self.options.once)?;
            let length = (part.len() - at).min(count - done);
            buf[done..done + length].copy_from_slice(&part[at..at + length]);
            done += length;
        }
        Ok(count)
    }

    /// Writes into a file; gives the bytes written.
    pub(crate) fn write_file(
        &mut self,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, FatError> {
        if offset >= FILE_BYTES_MAX {
            return Err(Errno::FileTooBig.into());
        }
        let end = offset.saturating_add(data.len() as u64).min(FILE_BYTES_MAX);
        let size = u64::from(self.nodes.get(ino).ok_or(Errno::Stale)?.size);
        let space = u64::from(self.grow(ino, self.clusters_for(end))?)
            * u64::from(self.store.layout.cluster_bytes());
        let end = end.min(space);
        if end <= offset {
            self.trim(ino, self.clusters_for(size))?;
            return Err(Errno::NoSpace.into());
        }
        self.extend(ino, offset.min(end))?;
        let count = (end - offset) as usize;
        self.fill(ino, offset, count, Some(data))?;
        let node = self.nodes.get_mut(ino).ok_or(Errno::Stale)?;
        let now = self.store.now;
        node.size = node.size.max(end as u32);
        node.mtime = crate::time::rounded(now, self.options.utc_offset_minutes);
        node.attr |= crate::format::attr::ARCHIVE;
        self.nodes.touch(ino, end > size, now);
        Ok(count)
    }

    /// Makes a file longer, with zeros in clusters that it has.
    fn extend(&mut self, ino: Ino, size: u64) -> Result<(), FatError> {
        let before = u64::from(self.nodes.get(ino).ok_or(Errno::Stale)?.size);
        if size > before {
            // A length of less than 4 GiB fits.
            self.fill(ino, before, (size - before) as usize, None)?;
            let node = self.nodes.get_mut(ino).ok_or(Errno::Stale)?;
            let now = self.store.now;
            node.size = size as u32;
            self.nodes.touch(ino, true, now);
        }
        Ok(())
    }

    /// Puts `count` bytes of the data, or zeros, at `offset`, where there are clusters.
    fn fill(
        &mut self,
        ino: Ino,
        offset: u64,
        count: usize,
        data: Option<&[u8]>,
    ) -> Result<(), FatError> {
        let unit = self.store.sector();
        let size = u64::from(self.nodes.get(ino).map_or(0, |node| node.size));
        let zeros = alloc::vec![0; if data.is_none() { STEP.min(count) } else { 0 }];
        let part = |from: usize, most: usize| {
            let most = most.min(count - from);
            data.map_or_else(
                || &zeros[..most.min(zeros.len())],
                |data| &data[from..from + most],
            )
        };
        let mut done = 0;
        while done < count {
            let (first, at, row) = self.sector_at(ino, offset + done as u64)?;
            // A sector that begins behind the end holds nothing yet.
            let fresh = |done: usize, at: usize| offset + done as u64 - at as u64 >= size;
            if self.options.once && at == 0 && fresh(done, at) {
                let part = part(done, row as usize * unit);
                self.store.write_fresh(first, part)?;
                done += part.len();
                continue;
            }
            let mut at = at;
            for sector in first..first + row {
                let part = part(done, unit - at);
                self.store
                    .change_contents(ino, sector, at, part, fresh(done, at))?;
                (done, at) = (done + part.len(), 0);
                if done == count {
                    break;
                }
            }
            self.relieve()?;
        }
        Ok(())
    }

    /// Writes the older half of the dirty data if it is too much.
    fn relieve(&mut self) -> Result<(), FatError> {
        let unit = self.store.sector() as u64;
        if self.store.cache.dirty_contents() as u64 * unit > self.options.dirty_bytes_max {
            let half = (self.options.dirty_bytes_max / 2 / unit).max(1) as usize;
            let oldest = self
                .store
                .cache
                .oldest_contents(half, nandlab_vfs::Time::MIN);
            self.store.write_contents(&oldest)?;
        }
        Ok(())
    }

    /// Changes a file's length.
    pub(crate) fn resize(&mut self, ino: Ino, size: u64) -> Result<(), FatError> {
        let before = u64::from(self.nodes.get(ino).ok_or(Errno::Stale)?.size);
        if size > before {
            let clusters = self.clusters_for(size);
            if self.grow(ino, clusters)? < clusters {
                self.trim(ino, self.clusters_for(before))?;
                return Err(Errno::NoSpace.into());
            }
            self.extend(ino, size)?;
        } else if size < before {
            let now = self.store.now;
            if let Some(node) = self.nodes.get_mut(ino) {
                node.size = size as u32;
            }
            self.nodes.touch(ino, true, now);
            // The slot must be short before clusters become free.
            self.put_shrunk(ino)?;
            self.trim(ino, self.clusters_for(size))?;
        }
        Ok(())
    }

    /// Forgets a file that has no name and no reference: its contents need not be written, its
    /// clusters are free.
    pub(crate) fn destroy(&mut self, ino: Ino) -> Result<(), FatError> {
        for sector in self.store.cache.of(Owner::File(ino)) {
            self.store.cache.forget(sector);
        }
        self.trim(ino, 0)?;
        self.nodes.drop_unused(ino);
        Ok(())
    }
}
