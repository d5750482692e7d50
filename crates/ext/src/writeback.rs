//! When contents wait for their blocks, and when they get them.
//!
//! *Promises.* A write that may wait has its space, so that write-back never lacks any. Write-back
//! takes the blocks of a file in the order of the file, and writes the contents before the call
//! returns. The length on the medium grows with the blocks. *Knows nothing of* how a tree changes.

use crate::{
    Ext, ExtError, Mode, SeededBug,
    cache::Owner,
    delayed::{Space, Waiting},
    inode::Inode,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::Time;

/// Seconds after which contents fall due (Linux's `dirty_expire_centisecs`).
const AGE_MAX: i64 = 30;

/// The beginning of a write: how many bytes go the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The contents wait.
    Later(usize),
    /// The blocks are there, or the call takes them.
    Now(usize),
}

impl<D: BlockDevice> Ext<D> {
    /// True if new contents of an inode may wait.
    fn delays(&self, number: u32, inode: &Inode) -> bool {
        self.options.delayed_allocation
            && matches!(self.options.mode, Mode::Ordered | Mode::Writeback)
            && self.is_journaled()
            && inode.has_extents()
            && !inode.is_inline()
            && !self.options.once
            && !self.logs_contents(inode)
            && !self.delayed.is_replaced(number)
    }

    /// The space that pages of an inode need, if all of them lie in holes that
    /// [`part`](Self::part) accepts.
    fn space_of(&self, inode: &Inode) -> Space {
        let [entries, depth] = [inode.block[0] >> 16, inode.block[1] >> 16];
        let most = inode.block[1] & 0xFFFF;
        Space {
            room: match depth {
                0 => most.saturating_sub(entries),
                _ => 0,
            },
            // A quarter of a node: a split leaves halves.
            each: self.store.layout.pointers() / 12,
        }
    }

    /// Decides about the beginning of a write. Contents wait in a hole of a tree that is only a
    /// root, or behind the last extent: there the number of nodes has a bound.
    pub(crate) fn part(
        &mut self,
        number: u32,
        offset: u64,
        length: usize,
    ) -> Result<Part, ExtError> {
        let inode = self.inode(number)?;
        if !self.delays(number, &inode) {
            return Ok(Part::Now(length));
        }
        let size = self.store.layout.size();
        let (index, at) = self.locate(offset)?;
        let (extent, next) = self.extent_at(number, &inode, index)?;
        let end = extent.map_or(next, |extent| extent.end());
        let blocks = (end - u64::from(index)).min(self.pages_at_once().into()) as usize;
        let rest = length;
        let length = length.min(blocks.saturating_mul(size).saturating_sub(at));
        let space = self.space_of(&inode);
        if extent.is_some_and(|extent| extent.written) {
            if length < rest {
                // The length must not end between the parts.
                let now = self.store.now;
                self.delayed.begin(number, inode.size, space, now);
            }
            return Ok(Part::Now(length));
        }
        let is_flat = inode.block[1] >> 16 == 0;
        if extent.is_some() || !is_flat && next != 1 << 32 {
            // The tree changes, and the bound with it.
            self.write_back_file(number)?;
            return Ok(Part::Now(length));
        }
        let count = (at + length).div_ceil(size) as u32;
        let missing = self.delayed.missing(number, index, count, space);
        if missing > self.blocks_left() && !self.has_bug(SeededBug::DelayedUnreserved) {
            self.write_back_all()?;
            return Ok(Part::Now(length));
        }
        Ok(Part::Later(length))
    }

    /// Pages that one part of a write may add.
    fn pages_at_once(&self) -> u32 {
        let most = self.options.dirty_bytes_max / u64::from(self.store.layout.block);
        most.clamp(1, 1 << 20) as u32
    }

    /// Writes contents that wait, see [`part`](Self::part).
    pub(crate) fn write_later(
        &mut self,
        number: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<(), ExtError> {
        let mut inode = self.inode(number)?;
        if offset > inode.size {
            self.zero_tail(number, &inode)?;
        }
        let size = self.store.layout.size();
        let space = self.space_of(&inode);
        let now = self.store.now;
        self.delayed.begin(number, inode.size, space, now);
        let mut done = 0;
        while done < data.len() {
            let (index, at) = self.locate(offset + done as u64)?;
            let length = (size - at).min(data.len() - done);
            let part = &data[done..done + length];
            self.delayed.write(number, index, size, at, part);
            done += length;
        }
        inode.size = inode.size.max(offset + data.len() as u64);
        inode.touch(now);
        self.note_large(inode.size)?;
        self.put_times(number, &inode)
    }

    /// Gives all contents of a file that wait their blocks, and writes them.
    pub(crate) fn write_back_file(&mut self, number: u32) -> Result<(), ExtError> {
        if !self.delayed.has(number) {
            return Ok(());
        }
        while self.delayed.has(number) {
            let inode = self.inode(number)?;
            let part = self.blocks_at_once(&inode, self.delayed.pages_of(number));
            self.reserve(&inode, part)?;
            self.write_back_part(number, part)?;
        }
        self.reserve_call()
    }

    /// Gives up to `most` pages their blocks, within one transaction.
    fn write_back_part(&mut self, number: u32, most: u32) -> Result<(), ExtError> {
        let mut inode = self.inode(number)?;
        // The blocks come from the reservation, which ends here.
        let Some(mut waiting) = self.delayed.take(number) else {
            return Ok(());
        };
        let outcome = self.map_pages(number, &mut inode, &mut waiting, most);
        if !waiting.is_empty() {
            self.delayed.put(number, waiting);
        }
        self.put_inode(number, &inode)?;
        outcome?;
        let contents = self.store.cache.of(Owner::File(number));
        self.store.write(&contents)
    }

    fn map_pages(
        &mut self,
        number: u32,
        inode: &mut Inode,
        waiting: &mut Waiting,
        most: u32,
    ) -> Result<(), ExtError> {
        let size = u64::from(self.store.layout.block);
        let mut left = most;
        let mut next = (0, 0);
        while let Some((index, count)) = waiting.first_run().filter(|_| left > 0) {
            let goal = if next.0 == index { next.1 } else { 0 };
            let run = self.map_run(number, inode, index, goal, count.min(left))?;
            for step in 0..run.count {
                let page = waiting.take_page(index + step).unwrap_or_default();
                self.store
                    .place_contents(Owner::File(number), run.block + step, page);
            }
            left -= run.count;
            next = (index + run.count, run.block + run.count);
            let end = u64::from(next.0) * size;
            waiting.size_on_disk = waiting.size_on_disk.max(end.min(waiting.size));
        }
        let end = u64::from(next.0);
        if next.0 != 0 && end * size >= inode.size {
            self.nodes.set_goal(number, end, next.1);
        }
        Ok(())
    }

    /// Writes back all files.
    pub(crate) fn write_back_all(&mut self) -> Result<(), ExtError> {
        self.delayed.end_replacements();
        while let Some(number) = self.delayed.any() {
            self.write_back_file(number)?;
        }
        Ok(())
    }

    /// Writes back the oldest files: so many blocks, and all that have waited since `until`.
    /// Returns the number of blocks.
    pub(crate) fn write_back_oldest(
        &mut self,
        blocks: usize,
        until: Time,
    ) -> Result<usize, ExtError> {
        let mut done = 0;
        while let Some((since, number)) = self.delayed.oldest() {
            if done >= blocks && since > until {
                break;
            }
            done += self.delayed.pages_of(number) as usize;
            self.write_back_file(number)?;
        }
        Ok(done)
    }

    /// Writes back the oldest files while too much waits.
    pub(crate) fn relieve_delayed(&mut self) -> Result<(), ExtError> {
        let unit = u64::from(self.store.layout.block);
        while let Some((_, number)) = self.delayed.oldest() {
            let waiting = self.store.cache.dirty_contents() as u64;
            let waiting = waiting + u64::from(self.delayed.pages());
            if waiting * unit <= self.options.dirty_bytes_max {
                break;
            }
            self.write_back_file(number)?;
        }
        Ok(())
    }

    /// When the oldest contents fall due that no commit writes.
    pub(crate) fn write_back_due(&self) -> Option<Time> {
        let waiting = self.delayed.oldest().map(|(since, _)| since);
        let replaced = match self.options.delayed_allocation && self.is_journaled() {
            true if self.store.cache.dirty_contents() > 0 => self.store.cache.contents_since(),
            _ => None,
        };
        let since = waiting.into_iter().chain(replaced).min()?;
        Some(Time {
            secs: since.secs.saturating_add(AGE_MAX),
            ..since
        })
    }

    /// Writes back what has fallen due.
    pub(crate) fn write_back_aged(&mut self, now: Time) -> Result<(), ExtError> {
        let until = Time {
            secs: now.secs.saturating_sub(AGE_MAX),
            ..now
        };
        match self.write_back_due() {
            Some(due) if due <= now => {
                self.write_back_oldest(0, until)?;
                let contents = self.store.cache.oldest_contents(0, until);
                self.store.write(&contents)
            }
            _ => Ok(()),
        }
    }

    /// Before a change of length: drops what lies behind it, and gives the rest its blocks.
    /// Returns the inode with its length so far.
    pub(crate) fn before_resize(&mut self, number: u32, size: u64) -> Result<Inode, ExtError> {
        let inode = self.inode(number)?;
        if size == 0 && inode.size > 0 && self.options.delayed_allocation {
            self.delayed.replace(number);
        }
        if !self.delayed.has(number) {
            return Ok(inode);
        }
        self.delayed.cut(number, size, self.store.layout.block);
        self.write_back_file(number)?;
        Ok(Inode {
            size: inode.size,
            ..self.inode(number)?
        })
    }
}
