//! Contents: read, written, cut, in blocks of their own or in the inode.
//!
//! *Promises.* A dirty block has been paid for; what lies behind a file's end reads as zeros
//! when the file grows. *Knows nothing of* names.

use crate::{
    F2fs, F2fsError,
    disk::zeros,
    format::{BLOCK, NULL, SEGMENT, inode, is_placed, le64, put64},
    mount::InPlace,
    node::{kind, touch},
    summary::Owner,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType};

/// Why a block of contents is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It has waited long enough.
    WriteBack,
    /// An fsync that prefers the place that a block has.
    Fsync,
    /// Its section is to become clean.
    Cleaning,
}

impl<D: BlockDevice> F2fs<D> {
    /// Whether contents lie in the inode.
    pub(crate) fn is_inline(&mut self, ino: u32) -> Result<bool, F2fsError> {
        Ok(self.inode(ino)?[inode::INLINE] & inode::INLINE_DATA != 0)
    }

    pub(crate) fn size(&mut self, ino: u32) -> Result<u64, F2fsError> {
        Ok(le64(self.inode(ino)?, inode::SIZE))
    }

    /// Fetches a block of a file; false for a hole.
    pub(crate) fn load_page(&mut self, ino: u32, index: u32) -> Result<bool, F2fsError> {
        if self.pages.has((ino, index)) {
            return Ok(true);
        }
        let Some(slot) = self
            .slot(ino, index, false)?
            .filter(|slot| is_placed(slot.addr))
        else {
            return Ok(false);
        };
        if self.layout.place(slot.addr).is_none() {
            let expected = "a block of the main area";
            return Err(F2fsError::Node {
                nid: slot.nid,
                field: "address of contents",
                found: slot.addr.into(),
                expected,
            });
        }
        let block = self.disk.read(slot.addr)?;
        self.pages.keep((ino, index), block);
        Ok(true)
    }

    /// A block of a file; none for a hole.
    pub(crate) fn page(&mut self, ino: u32, index: u32) -> Result<Option<&[u8]>, F2fsError> {
        Ok(if self.load_page(ino, index)? {
            self.pages.get((ino, index))
        } else {
            None
        })
    }

    /// A block of a file to be changed; a hole becomes zeros.
    pub(crate) fn page_mut(&mut self, ino: u32, index: u32) -> Result<&mut [u8], F2fsError> {
        self.reserve_slot(ino, index)?;
        let now = self.time();
        if !self.load_page(ino, index)? {
            self.pages.put((ino, index), zeros(), now);
        }
        self.pages.edit((ino, index), now).ok_or(F2fsError::Failed)
    }

    /// Writes a dirty block: to a new place, or where that is wanted and nothing forbids it to
    /// the place it has.
    pub(crate) fn write_page(&mut self, ino: u32, index: u32, why: Why) -> Result<(), F2fsError> {
        let Some(slot) = self
            .slot(ino, index, false)?
            .filter(|slot| slot.addr != NULL)
        else {
            return Err(F2fsError::Failed);
        };
        let cleaning = why == Why::Cleaning || self.pages.is_light((ino, index));
        let bytes = self.inode(ino)?;
        let directory = kind(bytes) == Some(FileType::Directory);
        let advise = bytes[inode::ADVISE];
        let log = self.data_log(
            directory && !cleaning,
            cleaning || advise & inode::ADVISE_COLD != 0,
            advise & inode::ADVISE_HOT != 0,
        );
        if !directory && !cleaning && is_placed(slot.addr) && self.stays(why) {
            let Self { pages, disk, .. } = self;
            disk.write_log(
                log,
                slot.addr,
                pages.get((ino, index)).ok_or(F2fsError::Failed)?,
            )?;
            self.counts.in_place += 1;
            self.pages.mark_clean((ino, index));
            return Ok(());
        }
        let version = self.nat_entry(slot.nid)?.version;
        let addr = self.allocate(
            log,
            Owner {
                nid: slot.nid,
                version,
                slot: slot.number,
            },
        )?;
        let Self { pages, disk, .. } = self;
        disk.write_log(log, addr, pages.get((ino, index)).ok_or(F2fsError::Failed)?)?;
        self.set_addr(&slot, addr)?;
        if is_placed(slot.addr) {
            self.release(slot.addr)?;
        }
        self.pages.mark_clean((ino, index));
        Ok(())
    }

    /// Whether contents are overwritten where they lie (`check_inplace_update_policy`).
    fn stays(&self, why: Why) -> bool {
        let valid = self.checkpoint.valid_blocks;
        let user = self.checkpoint.user_blocks;
        // A volume that is a log only has no such writes, in Linux too.
        self.options.threaded
            && match self.options.in_place {
                InPlace::Never => false,
                InPlace::Above(percent) => valid * 100 > user * u64::from(percent),
                InPlace::Fsync(_) => why == Why::Fsync,
            }
    }

    /// Writes a file's dirty data for an fsync, `lean` if that is for contents only.
    pub(crate) fn write_pages_of(&mut self, ino: u32, lean: bool) -> Result<(), F2fsError> {
        let dirty = self.pages.dirty((ino, 0)..=(ino, u32::MAX));
        let few = match self.options.in_place {
            InPlace::Fsync(most) => lean || dirty.len() <= most as usize,
            _ => false,
        };
        let why = if few { Why::Fsync } else { Why::WriteBack };
        dirty
            .iter()
            .try_for_each(|(ino, index)| self.write_page(*ino, *index, why))
    }

    /// Writes all dirty contents; of directories only if not `everything`.
    pub(crate) fn write_all_pages(&mut self, everything: bool) -> Result<(), F2fsError> {
        for (ino, index) in self.pages.all_dirty() {
            if everything || self.is_dir(ino)? {
                self.write_page(ino, index, Why::WriteBack)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read_file(
        &mut self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, F2fsError> {
        self.cleaner.asked_untimed = true;
        self.check_readable(ino)?;
        let size = self.size(ino)?;
        let len = size.saturating_sub(offset).min(buf.len() as u64) as usize;
        if self.is_inline(ino)? {
            let at = self.shape(ino)?.inline_at() + offset.min(size) as usize;
            buf[..len].copy_from_slice(&self.inode(ino)?[at..at + len]);
            return Ok(len);
        }
        let mut done = 0;
        while done < len {
            let index = (offset + done as u64) / BLOCK as u64;
            let at = (offset + done as u64) as usize % BLOCK;
            let part = &mut buf[done..len.min(done + BLOCK - at)];
            let Ok(index) = u32::try_from(index) else {
                return Err(Errno::FileTooBig.into());
            };
            if self.options.read_only && at == 0 {
                done += self.read_through(ino, index, &mut buf[done..len])?;
                continue;
            }
            match self.page(ino, index) {
                Ok(Some(page)) => part.copy_from_slice(&page[at..at + part.len()]),
                // Nothing can be written that far out, a length may be anything.
                Ok(None) | Err(F2fsError::Call(Errno::FileTooBig)) => part.fill(0),
                Err(error) => return Err(error),
            }
            done += part.len();
        }
        Ok(len)
    }

    /// Where a block of a file lies that is not in memory; none for a hole.
    fn addr(&mut self, ino: u32, index: u32) -> Result<Option<u32>, F2fsError> {
        match self.slot(ino, index, false) {
            Ok(slot) => Ok(slot
                .map(|slot| slot.addr)
                .filter(|addr| is_placed(*addr) && self.layout.place(*addr).is_some())),
            Err(error) => Err(error),
        }
    }

    /// Reads blocks that lie one behind the other, from `index` on, and keeps none of them: who
    /// only reads, reads once. What is in memory, damaged or a hole is one block.
    fn read_through(&mut self, ino: u32, index: u32, buf: &mut [u8]) -> Result<usize, F2fsError> {
        let first = if self.pages.has((ino, index)) {
            None
        } else {
            self.addr(ino, index).unwrap_or(None)
        };
        let Some(first) = first else {
            let len = BLOCK.min(buf.len());
            let part = &mut buf[..len];
            match self.page(ino, index) {
                Ok(Some(page)) => part.copy_from_slice(&page[..part.len()]),
                Ok(None) | Err(F2fsError::Call(Errno::FileTooBig)) => part.fill(0),
                Err(error) => return Err(error),
            }
            return Ok(len);
        };
        let len = buf.len();
        if len < BLOCK {
            buf.copy_from_slice(&self.disk.read(first)?[..len]);
            return Ok(len);
        }
        let mut count = 1;
        while let Some(next) = index
            .checked_add(count)
            .filter(|_| (count as usize) < len / BLOCK)
        {
            if self.pages.has((ino, next))
                || !self
                    .addr(ino, next)
                    .is_ok_and(|addr| addr == Some(first + count))
            {
                break;
            }
            count += 1;
        }
        let bytes = count as usize * BLOCK;
        self.disk.read_run(first, &mut buf[..bytes])?;
        Ok(bytes)
    }

    /// Where from a byte on a file has blocks.
    pub(crate) fn next_data(&mut self, ino: u32, offset: u64) -> Result<u64, F2fsError> {
        let size = self.size(ino)?;
        let blocks = u32::try_from(size.div_ceil(BLOCK as u64)).unwrap_or(u32::MAX);
        match u32::try_from(offset / BLOCK as u64) {
            _ if self.is_inline(ino)? => Ok(offset),
            // Nothing can be written that far out.
            Err(_) => Ok(offset.max(size)),
            Ok(index) => match self.next_block(ino, index, blocks)? {
                next if next >= blocks => Ok(offset.max(size)),
                next => Ok(offset.max(u64::from(next) * BLOCK as u64)),
            },
        }
    }

    /// Writes at `offset`; returns how much fitted.
    pub(crate) fn write_file(
        &mut self,
        ino: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, F2fsError> {
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(Errno::FileTooBig)?;
        if self.is_inline(ino)? {
            let shape = self.shape(ino)?;
            if end <= shape.inline_max() as u64 {
                let at = shape.inline_at() + offset as usize;
                let now = self.now;
                let bytes = self.node_mut(ino)?;
                bytes[at..at + data.len()].copy_from_slice(data);
                bytes[inode::INLINE] |= inode::DATA_EXIST;
                put64(bytes, inode::SIZE, le64(bytes, inode::SIZE).max(end));
                touch(bytes, now);
                return Ok(data.len());
            }
            self.move_out(ino)?;
        }
        if offset > self.size(ino)? {
            self.clear_tail(ino)?;
        }
        let mut done = 0;
        while done < data.len() {
            let place = offset + done as u64;
            let left = data.len() - done;
            let at = place as usize % BLOCK;
            let len = left.min(BLOCK - at);
            match self.write_part(ino, place / BLOCK as u64, at, &data[done..done + len]) {
                Ok(()) => done += len,
                Err(F2fsError::Call(Errno::NoSpace | Errno::FileTooBig)) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_part(
        &mut self,
        ino: u32,
        index: u64,
        at: usize,
        data: &[u8],
    ) -> Result<(), F2fsError> {
        self.balance()?;
        let index = u32::try_from(index).map_err(|_| Errno::FileTooBig)?;
        if data.len() == BLOCK && !self.pages.has((ino, index)) {
            // Nothing of what was there is needed.
            self.reserve_slot(ino, index)?;
            let now = self.time();
            self.pages.put((ino, index), data.into(), now);
        } else {
            self.page_mut(ino, index)?[at..at + data.len()].copy_from_slice(data);
        }
        let end = u64::from(index) * BLOCK as u64 + (at + data.len()) as u64;
        self.note_write(ino, end)
    }

    /// Updates length and times after a write that ends there.
    fn note_write(&mut self, ino: u32, end: u64) -> Result<(), F2fsError> {
        let now = self.now;
        let bytes = if end > self.size(ino)? {
            self.node_mut(ino)?
        } else {
            self.node_mut_lightly(ino)?
        };
        put64(bytes, inode::SIZE, le64(bytes, inode::SIZE).max(end));
        touch(bytes, now);
        Ok(())
    }

    /// Contents leave the inode for a block of their own. The block goes at once: a checkpoint
    /// takes the inode without them, and leaves dirty blocks in memory.
    pub(crate) fn move_out(&mut self, ino: u32) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let size = self.size(ino)? as usize;
        let at = shape.inline_at();
        let end = shape.inline_at() + shape.inline_max();
        let contents = self.inode(ino)?[at..at + size].to_vec();
        if size > 0 {
            self.reserve(1)?;
            self.unreserve(1);
        }
        let bytes = self.node_mut(ino)?;
        bytes[inode::INLINE] &= !(inode::INLINE_DATA | inode::DATA_EXIST);
        bytes[at - 4..end].fill(0);
        if size > 0 {
            self.page_mut(ino, 0)?[..size].copy_from_slice(&contents);
            self.write_page(ino, 0, Why::WriteBack)?;
        }
        Ok(())
    }

    pub(crate) fn resize(&mut self, ino: u32, size: u64) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let before = self.size(ino)?;
        if size > u64::from(u32::MAX) * BLOCK as u64
            || size.div_ceil(BLOCK as u64) > self.blocks_max(ino)?
        {
            return Err(Errno::FileTooBig.into());
        }
        if self.is_inline(ino)? {
            if size <= shape.inline_max() as u64 {
                let bytes = self.node_mut(ino)?;
                bytes[shape.inline_at() + size as usize..shape.inline_at() + shape.inline_max()]
                    .fill(0);
                if size == 0 {
                    bytes[inode::INLINE] &= !inode::DATA_EXIST;
                }
                put64(bytes, inode::SIZE, size);
                return Ok(());
            }
            self.move_out(ino)?;
        }
        if size < before {
            self.cut(ino, size.div_ceil(BLOCK as u64) as u32)?;
            let index = (size / BLOCK as u64) as u32;
            let at = size as usize % BLOCK;
            if at > 0 && self.load_page(ino, index)? {
                self.page_mut(ino, index)?[at..].fill(0);
            }
        } else if size > before {
            self.clear_tail(ino)?;
        }
        put64(self.node_mut(ino)?, inode::SIZE, size);
        Ok(())
    }

    /// What lies behind a file's end in its last block becomes zeros: an append in place of which a
    /// power cut left only the contents.
    fn clear_tail(&mut self, ino: u32) -> Result<(), F2fsError> {
        let size = self.size(ino)?;
        let index = size / BLOCK as u64;
        let at = size as usize % BLOCK;
        let Ok(index) = u32::try_from(index) else {
            return Ok(());
        };
        if at > 0
            && self
                .page(ino, index)?
                .is_some_and(|page| page[at..].iter().any(|byte| *byte != 0))
        {
            self.page_mut(ino, index)?[at..].fill(0);
        }
        Ok(())
    }

    /// The longest that a file can be, in blocks.
    fn blocks_max(&mut self, ino: u32) -> Result<u64, F2fsError> {
        const N: u64 = crate::format::NODE_SLOTS as u64;
        Ok(u64::from(self.shape(ino)?.slots) + 2 * N + 2 * N * N + N * N * N)
    }

    /// Moves a block of contents as cleaning does: into memory, and at once to the log of cold data
    /// if `now`.
    pub(crate) fn move_page(
        &mut self,
        ino: u32,
        index: u32,
        at_once: bool,
    ) -> Result<(), F2fsError> {
        if !self.load_page(ino, index)? {
            return Ok(());
        }
        let now = self.time();
        self.pages
            .edit_lightly((ino, index), now)
            .ok_or(F2fsError::Failed)?;
        if at_once {
            self.write_page(ino, index, Why::Cleaning)
        } else {
            Ok(())
        }
    }

    /// A hole where an empty block of a directory was.
    pub(crate) fn punch(&mut self, ino: u32, index: u32) -> Result<(), F2fsError> {
        self.pages.forget((ino, index));
        match self.slot(ino, index, false)? {
            Some(slot) => self.clear_slot(&slot),
            None => Ok(()),
        }
    }

    /// Before something changes: dirty data is written, space is made, a checkpoint is taken, each
    /// when it is time.
    pub(crate) fn balance(&mut self) -> Result<(), F2fsError> {
        let dirty_max = (self.options.dirty_bytes_max / BLOCK as u64).max(16) as usize;
        let total = u64::from(self.layout.segments_main) * u64::from(SEGMENT);
        let space = total.saturating_sub(self.checkpoint.valid_blocks);
        let owed = (self.pages.count() + self.nodes.count()) as u64;
        if self.nodes.count() > dirty_max.max(64)
            || self.segments.stale + 2 * owed + 256 > space / 2 && self.segments.stale + owed > 256
        {
            self.write_all_pages(true)?;
            self.take_checkpoint(false)?;
        } else if self.pages.count() > dirty_max {
            self.write_oldest_pages(dirty_max / 2)?;
        }
        self.reclaim_emptied()?;
        self.clean_foreground()
    }

    /// Writes the oldest dirty pages until so many are left.
    fn write_oldest_pages(&mut self, left: usize) -> Result<(), F2fsError> {
        while self.pages.count() > left {
            let Some((_, (ino, index))) = self.pages.oldest() else {
                break;
            };
            self.write_page(ino, index, Why::WriteBack)?;
        }
        Ok(())
    }
}
