//! The contents of files.
//!
//! *Promises.* What was never written reads as zeros, also where a file was cut short and grew
//! again. A write that finds no space for all of it writes the beginning. *Knows nothing of* names.

use crate::{
    Ext, ExtError,
    cache::Owner,
    format::{put32, ro_compat, sb},
    inode::Inode,
    run::Run,
    writeback::Part,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

/// Bytes that are read at once.
const STEP: usize = 64 * 1024;
/// Runs of nothing that are looked through at once.
const HOLE_STEPS: u32 = 4096;
/// Longer files need a feature of their own.
const SMALL_MAX: u64 = 0x7FFF_FFFF;

impl<D: BlockDevice> Ext<D> {
    /// Reads what an inode's blocks hold; gives the bytes read.
    pub(crate) fn read_file(
        &mut self,
        number: u32,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, ExtError> {
        let inode = self.inode(number)?;
        let size = self.store.layout.size();
        let count = (buf.len() as u64).min(inode.size.saturating_sub(offset)) as usize;
        if inode.is_inline() {
            let bytes = self.inline_bytes(number, &inode)?;
            let bytes = bytes.get(offset as usize..).unwrap_or_default();
            let held = bytes.len().min(count);
            buf[..held].copy_from_slice(&bytes[..held]);
            buf[held..count].fill(0);
            return Ok(count);
        }
        let mut done = 0;
        while done < count {
            let (index, at) = self.locate(offset + done as u64)?;
            if let Some(page) = self.delayed.page(number, index) {
                let length = (size - at).min(count - done);
                buf[done..done + length].copy_from_slice(&page[at..at + length]);
                done += length;
                continue;
            }
            let whole = if at == 0 {
                let gap = self.delayed.gap(number, index) as usize;
                ((count - done) / size).min(STEP / size).min(gap)
            } else {
                0
            };
            let found = self.mapped(number, &inode, index, whole.max(1) as u32)?;
            let length = if whole > 0 {
                (found.run as usize).min(whole) * size
            } else {
                (size - at).min(count - done)
            };
            let part = &mut buf[done..done + length];
            match found.block {
                0 => part.fill(0),
                block if whole > 0 => self.store.read_contents(block, part, !self.options.once)?,
                block if self.options.once => self.store.read_part(block, at, part)?,
                block => part.copy_from_slice(&self.store.block(block)?[at..at + length]),
            }
            done += length;
        }
        Ok(count)
    }

    /// Where from a byte on a file has blocks; so far as a bounded number of steps shows.
    pub(crate) fn next_data(&mut self, number: u32, offset: u64) -> Result<u64, ExtError> {
        let inode = self.inode(number)?;
        let size = self.store.layout.size() as u64;
        let mut at = offset;
        if inode.is_inline() {
            return Ok(offset);
        }
        for _ in 0..HOLE_STEPS {
            if at >= inode.size {
                break;
            }
            let (index, _) = self.locate(at)?;
            let most = (inode.size - at).div_ceil(size).min(u32::MAX.into()) as u32;
            let found = self.mapped(number, &inode, index, most)?;
            let gap = self.delayed.gap(number, index);
            if found.block != 0 || gap == 0 {
                break;
            }
            at = (u64::from(index) + u64::from(found.run.min(gap))) * size;
        }
        Ok(at.max(offset))
    }

    /// Bytes of the longest file that the inode can be.
    fn file_bytes_max(&self, inode: &Inode) -> u64 {
        match inode.has_extents() {
            true => self.store.layout.extent_bytes_max(),
            false => self.store.layout.file_bytes_max(),
        }
    }

    /// A byte of a file as block of it and byte in that.
    pub(crate) fn locate(&self, offset: u64) -> Result<(u32, usize), ExtError> {
        let size = u64::from(self.store.layout.block);
        let index = u32::try_from(offset / size).map_err(|_| Errno::FileTooBig)?;
        Ok((index, (offset % size) as usize))
    }

    /// Writes into a file, one transaction's worth after the other; gives the bytes written.
    pub(crate) fn write_file(
        &mut self,
        number: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, ExtError> {
        self.spill(number)?;
        let inode = self.inode(number)?;
        let most = self.file_bytes_max(&inode);
        if offset >= most {
            return Err(Errno::FileTooBig.into());
        }
        let count = data
            .len()
            .min((most - offset).min(usize::MAX as u64) as usize);
        let size = self.store.layout.size();
        let mut done = 0;
        while done < count {
            let (_, at) = self.locate(offset + done as u64)?;
            let rest = match self.part(number, offset + done as u64, count - done)? {
                Part::Now(length) => length,
                Part::Later(length) => {
                    let data = &data[done..done + length];
                    self.write_later(number, offset + done as u64, data)?;
                    self.relieve_delayed()?;
                    done += length;
                    continue;
                }
            };
            let blocks = (at + rest).div_ceil(size).min(u32::MAX as usize) as u32;
            let part = self.blocks_at_once(&inode, blocks);
            let length = (part as usize)
                .saturating_mul(size)
                .saturating_sub(at)
                .min(rest);
            self.reserve(&inode, part)?;
            let written =
                match self.write_part(number, offset + done as u64, &data[done..done + length]) {
                    Err(ExtError::Call(Errno::NoSpace)) if done > 0 => break,
                    outcome => outcome?,
                };
            done += written;
            if written < length {
                break;
            }
        }
        Ok(done)
    }

    /// Writes what is no more than a transaction takes.
    fn write_part(&mut self, number: u32, offset: u64, data: &[u8]) -> Result<usize, ExtError> {
        let mut inode = self.inode(number)?;
        let size = self.store.layout.size();
        let count = data.len();
        let owner = self.owner(number, &inode);
        if !matches!(owner, Owner::File(_)) {
            self.pending.forbid();
        }
        if offset > inode.size {
            self.zero_tail(number, &inode)?;
        }
        let mut done = 0;
        let mut goal = self.nodes.goal(number, offset / size as u64);
        let once = self.options.once && matches!(owner, Owner::File(_));
        // Neighbours that go to the device together: the first block, how many, where they begin in
        // the data.
        let mut first = 0;
        let mut blocks = 0;
        let mut from = 0;
        let mut run = Run::default();
        while done < count {
            let (index, at) = self.locate(offset + done as u64)?;
            let length = (size - at).min(count - done);
            run = match run.behind() {
                Some(rest) => rest,
                None => {
                    let most = (at + count - done)
                        .div_ceil(size)
                        .min(self.blocks_to_relieve());
                    match self.map_run(number, &mut inode, index, goal, most as u32) {
                        Err(ExtError::Call(Errno::NoSpace)) => break,
                        outcome => outcome?,
                    }
                }
            };
            let Run { block, fresh, .. } = run;
            // What begins behind the end holds nothing yet, whatever an unfinished commit has left
            // there.
            let start = (offset + done as u64) - at as u64;
            if once && fresh && at == 0 {
                if block != first + blocks || from + blocks as usize * size != done {
                    self.store.write_contents(
                        first,
                        &data[from..(from + blocks as usize * size).min(done)],
                    )?;
                    (first, blocks, from) = (block, 0, done);
                }
                (blocks, done, goal) = (blocks + 1, done + length, block + 1);
                continue;
            }
            self.store.change_contents(
                owner,
                block,
                at,
                &data[done..done + length],
                fresh || start >= inode.size,
            )?;
            if offset + (done + length) as u64 > inode.size {
                self.store.cache.freshen(block);
            }
            (done, goal) = (done + length, block + 1);
            self.relieve()?;
        }
        self.store.write_contents(
            first,
            &data[from..(from + blocks as usize * size).min(done)],
        )?;
        if done == 0 {
            return Err(Errno::NoSpace.into());
        }
        let end = offset + done as u64;
        if at_boundary(end, size) {
            self.nodes.set_goal(number, end / size as u64, goal);
        }
        let grown = end > inode.size;
        inode.size = inode.size.max(end);
        inode.touch(self.store.now);
        self.note_large(inode.size)?;
        // Logged contents are durable when their transaction is: an fdatasync waits for that too.
        if grown || self.options.once || !matches!(owner, Owner::File(_)) {
            self.put_inode(number, &inode)?
        } else {
            self.put_times(number, &inode)?
        }
        Ok(done)
    }

    /// Zeros behind the end of a file in its last block, where what was cut off may lie still;
    /// before a longer length they are on the medium.
    pub(crate) fn zero_tail(&mut self, number: u32, inode: &Inode) -> Result<(), ExtError> {
        let (index, at) = self.locate(inode.size)?;
        if at == 0 {
            return Ok(());
        }
        let block = self.mapped(number, inode, index, 1)?.block;
        if block != 0 && self.store.block(block)?[at..].iter().any(|byte| *byte != 0) {
            let zeros = alloc::vec![0; self.store.layout.size() - at];
            let owner = self.owner(number, inode);
            self.store
                .change_contents(owner, block, at, &zeros, false)?;
            self.store.cache.freshen(block);
        }
        Ok(())
    }

    /// The volume says that it has files of 2 GiB or more.
    pub(crate) fn note_large(&mut self, size: u64) -> Result<(), ExtError> {
        if size > SMALL_MAX && self.store.layout.ro_compat & ro_compat::LARGE_FILE == 0 {
            self.pending.forbid();
            self.store.layout.ro_compat |= ro_compat::LARGE_FILE;
            let features = self.store.layout.ro_compat;
            put32(self.store.superblock_mut()?, sb::RO_COMPAT, features);
        }
        Ok(())
    }

    /// Blocks of contents that may become dirty before [`relieve`](Self::relieve) writes some, or
    /// one.
    fn blocks_to_relieve(&self) -> usize {
        let most = self.options.dirty_bytes_max / u64::from(self.store.layout.block);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        most.saturating_sub(self.store.cache.dirty_contents())
            .clamp(1, u32::MAX as usize)
    }

    /// Writes the older half of the dirty data if it is too much.
    fn relieve(&mut self) -> Result<(), ExtError> {
        let unit = u64::from(self.store.layout.block);
        if self.store.cache.dirty_contents() as u64 * unit > self.options.dirty_bytes_max {
            let half = (self.options.dirty_bytes_max / 2 / unit).max(1) as usize;
            let oldest = self
                .store
                .cache
                .oldest_contents(half, nandlab_vfs::Time::MIN);
            self.store.write(&oldest)?;
        }
        Ok(())
    }

    /// Changes a file's length; the caller puts the inode.
    pub(crate) fn resize(
        &mut self,
        number: u32,
        inode: &mut Inode,
        size: u64,
    ) -> Result<(), ExtError> {
        if size > self.file_bytes_max(inode) {
            return Err(Errno::FileTooBig.into());
        }
        if size > inode.size {
            self.zero_tail(number, inode)?;
            self.note_large(size)?;
            inode.size = size;
        } else if size < inode.size {
            inode.size = size;
            let block = u64::from(self.store.layout.block);
            // What is cut off in the last block is zeroed once the length is durable, or with it:
            // before, it may be needed.
            if self.logs_contents(inode) {
                self.zero_tail(number, inode)?;
            } else if !at_boundary(size, block as usize) {
                self.cut.insert(number);
            }
            return self.shrink(
                number,
                inode,
                size.div_ceil(block).min(u32::MAX.into()) as u32,
            );
        }
        Ok(())
    }

    /// Frees the blocks from `index` on; the list of orphans finishes this after a power cut.
    fn shrink(&mut self, number: u32, inode: &mut Inode, index: u32) -> Result<(), ExtError> {
        self.pending.forbid();
        self.nodes.set_goal(number, 0, 0);
        let listed = self.add_orphan(number, inode)?;
        self.put_inode(number, inode)?;
        self.trim(number, inode, index)?;
        if listed {
            self.drop_orphan(number, inode)?;
        }
        Ok(())
    }
}

fn at_boundary(offset: u64, size: usize) -> bool {
    offset.is_multiple_of(size as u64)
}
