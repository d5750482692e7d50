//! The volume as blocks: device, journal and cache behind one face.
//!
//! *Promises.* Nothing is written by itself: [`write`](Store::write) and
//! [`barrier`](Store::barrier) are the whole of it. Every change of metadata goes through
//! [`edit`](Store::edit) or [`fresh`](Store::fresh), every block given back through
//! [`release`](Store::release), so that a journal learns of all of them. *Knows nothing of* inodes,
//! names or bitmaps.

use crate::{
    ExtError, Work,
    cache::{Cache, Class, Owner},
    disk::Disk,
    format::{Layout, SUPER_AT, SUPER_BYTES, le32, put32, sb},
    sum::{self, Sum},
};
use alloc::{boxed::Box, collections::BTreeSet, vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba, padded, runs};
use nandlab_vfs::Time;

/// The longest request, in bytes.
const REQUEST_MAX: usize = 128 * 1024;

/// The volume as blocks.
#[derive(Debug)]
pub(crate) struct Store<D> {
    pub layout: Layout,
    pub disk: Disk<D>,
    pub cache: Cache,
    /// Blocks given back since the last commit of which the journal has copies.
    pub revoked: BTreeSet<u32>,
    /// The time of the call under way.
    pub now: Time,
    /// When the first change was made that no commit has taken.
    pub changed_since: Option<Time>,
    /// Something was written that no flush has followed.
    unflushed: bool,
    pub work: Work,
    /// Reads of the device verify checksums.
    pub verify: bool,
    /// Device sectors in a block.
    ratio: u64,
    /// Memory for one block, whatever it holds.
    spare: Vec<u8>,
}

impl<D: BlockDevice> Store<D> {
    /// Opens a volume; `cache` is in bytes.
    pub fn open(mut disk: Disk<D>, cache: u64) -> Result<Self, ExtError> {
        let device = disk.device_mut();
        let layout = Layout::parse(&read_super(device)?)?;
        let unit = device.geometry().sector;
        let sectors = device.geometry().sectors;
        if !layout.block.is_multiple_of(unit) {
            return Err(ExtError::Sectors {
                block: layout.block,
                sector: unit,
            });
        }
        let ratio = u64::from(layout.block / unit);
        if u64::from(layout.blocks) * ratio > sectors {
            return Err(ExtError::Super {
                offset: 4,
                field: "blocks",
                found: layout.blocks,
                expected: "no more than the device has",
            });
        }
        let cache = Cache::new((cache / u64::from(layout.block)) as usize);
        let revoked = BTreeSet::new();
        Ok(Self {
            layout,
            disk,
            cache,
            revoked,
            now: Time::default(),
            changed_since: None,
            unflushed: false,
            work: Work::default(),
            verify: true,
            ratio,
            spare: Vec::new(),
        })
    }

    fn lba(&self, block: u32) -> Lba {
        Lba(u64::from(block) * self.ratio)
    }

    fn load(&mut self, block: u32) -> Result<(), ExtError> {
        if !self.cache.has(block) {
            let mut data = vec![0; self.layout.size()];
            self.disk
                .read(block, self.ratio, self.layout.size(), &mut data)?;
            self.cache.keep(block, data.into());
        }
        Ok(())
    }

    /// A block of metadata; its number was checked when it was read from the medium.
    pub fn block(&mut self, block: u32) -> Result<&[u8], ExtError> {
        self.load(block)?;
        Ok(self.cache.get(block).unwrap_or_default())
    }

    /// The same for a block with a checksum in it; a read of the device verifies it.
    pub fn block_of(&mut self, block: u32, sum: Option<Sum>) -> Result<&[u8], ExtError> {
        let Some(sum) = sum.filter(|_| self.verify && !self.cache.has(block)) else {
            return self.block(block);
        };
        self.load(block)?;
        self.verify_sum(block, sum)?;
        self.block(block)
    }

    /// Verifies the checksum in a block.
    pub fn verify_sum(&mut self, block: u32, sum: Sum) -> Result<(), ExtError> {
        let layout = self.layout;
        let bytes = self.block(block)?;
        let what = sum.name();
        let Some((at, expected)) = sum.of(&layout, block, bytes) else {
            return Err(ExtError::Block {
                block,
                offset: 0,
                field: "space for the checksum",
                found: 0,
                expected: "4 bytes behind the last entry",
            });
        };
        let found = le32(bytes, at);
        match found == expected {
            true => Ok(()),
            false => Err(ExtError::Checksum {
                block,
                offset: at as u32,
                what,
                found,
                expected,
            }),
        }
    }

    /// A block of metadata that holds a checksum, for a change.
    pub fn edit_of(
        &mut self,
        block: u32,
        class: Class,
        sum: Option<Sum>,
    ) -> Result<&mut [u8], ExtError> {
        self.block_of(block, sum)?;
        self.edit(block, class)?;
        if let Some(mark) = self.cache.mark_mut(block) {
            mark.sum = sum;
        }
        self.edit(block, class)
    }

    /// A block just allocated for metadata that holds a checksum.
    pub fn fresh_of(
        &mut self,
        block: u32,
        class: Class,
        sum: Option<Sum>,
    ) -> Result<&mut [u8], ExtError> {
        self.fresh(block, class)?;
        self.edit_of(block, class, sum)
    }

    /// Brings the checksums in dirty blocks and in the superblock up to date.
    pub fn seal(&mut self) -> Result<(), ExtError> {
        let layout = self.layout;
        for block in self.cache.metadata() {
            let Some(sum) = self.cache.dirty(block).and_then(|(_, mark)| mark.sum) else {
                continue;
            };
            let bytes = self.edit(block, Class::Counts)?;
            if let Some((at, value)) = sum.of(&layout, block, bytes) {
                put32(bytes, at, value);
            }
        }
        self.seal_super()
    }

    /// Brings the checksum of a dirty superblock up to date.
    pub fn seal_super(&mut self) -> Result<(), ExtError> {
        let (block, _) = self.layout.super_place();
        if self.layout.has_sums() && self.cache.dirty(block).is_some() {
            let bytes = self.superblock_mut()?;
            let value = sum::of_super(bytes);
            put32(bytes, sb::CHECKSUM, value);
        }
        Ok(())
    }

    /// The same, to be changed; it becomes dirty.
    pub fn edit(&mut self, block: u32, class: Class) -> Result<&mut [u8], ExtError> {
        self.load(block)?;
        let now = self.now;
        self.changed_since.get_or_insert(now);
        Ok(self
            .cache
            .edit(block, Owner::Meta(class), now)
            .unwrap_or_default())
    }

    /// A block just allocated for metadata: zeros, to be filled.
    pub fn fresh(&mut self, block: u32, class: Class) -> Result<&mut [u8], ExtError> {
        let data = vec![0; self.layout.size()].into();
        let now = self.now;
        self.cache
            .replace(block, Owner::Meta(class), now, data, true);
        self.edit(block, class)
    }

    /// A block was given back: what it holds is void, also in the journal.
    pub fn release(&mut self, block: u32) {
        self.cache.forget(block);
        if self
            .disk
            .journal()
            .is_some_and(|journal| journal.is_logged(block.into()))
        {
            self.revoked.insert(block);
        }
    }

    /// Reads contents of files, whole blocks from `first` on; `keep` them for a later read.
    pub fn read_contents(
        &mut self,
        first: u32,
        buf: &mut [u8],
        keep: bool,
    ) -> Result<(), ExtError> {
        let size = self.layout.size();
        let ratio = self.ratio;
        let disk = &mut self.disk;
        let read = |first, part: &mut [u8]| disk.read(first, ratio, size, part);
        self.cache.read_through(first, size, buf, keep, read)
    }

    /// Contents of blocks that were just taken, on the medium at once; the rest of the last block
    /// is zeros.
    pub fn write_contents(&mut self, first: u32, data: &[u8]) -> Result<(), ExtError> {
        let now = self.now;
        self.changed_since.get_or_insert(now);
        let mut last = core::mem::take(&mut self.spare);
        let mut parts = padded(first, data, self.layout.size(), &mut last);
        let written = parts.try_for_each(|(block, image)| self.write_image(block, image));
        drop(parts);
        self.spare = last;
        written
    }

    /// Reads a part of a block of contents, from byte `at` of it on, and keeps nothing of it.
    pub fn read_part(&mut self, block: u32, at: usize, part: &mut [u8]) -> Result<(), ExtError> {
        let mut whole = core::mem::take(&mut self.spare);
        whole.resize(self.layout.size(), 0);
        let read = self.read_contents(block, &mut whole, false);
        let read = read.map(|()| part.copy_from_slice(&whole[at..at + part.len()]));
        self.spare = whole;
        read
    }

    /// Changes part of a block of contents. What is not changed is what it holds, or zeros if it
    /// was just allocated, `fresh`.
    pub fn change_contents(
        &mut self,
        owner: Owner,
        block: u32,
        at: usize,
        data: &[u8],
        fresh: bool,
    ) -> Result<(), ExtError> {
        let now = self.now;
        self.changed_since.get_or_insert(now);
        let size = self.layout.size();
        if data.len() < size && !fresh {
            self.load(block)?;
        }
        // A block that is here keeps its place in memory, beside its neighbours.
        let held = match fresh {
            true => None,
            false => self.cache.edit(block, owner, now),
        };
        match held {
            Some(held) => held[at..at + data.len()].copy_from_slice(data),
            None => {
                let whole = padded_block(size, at, data);
                self.cache.replace(block, owner, now, whole, fresh);
            }
        }
        Ok(())
    }

    /// Contents of a block that was just taken.
    pub fn place_contents(&mut self, owner: Owner, block: u32, data: Box<[u8]>) {
        let now = self.now;
        self.changed_since.get_or_insert(now);
        self.cache.replace(block, owner, now, data, true);
    }

    /// Writes dirty blocks to the device, one request for each run of neighbours, and marks them
    /// clean; `blocks` in order.
    pub fn write(&mut self, blocks: &[u32]) -> Result<(), ExtError> {
        self.work.written += blocks.len() as u64;
        let most = REQUEST_MAX / self.layout.size();
        let mut data = Vec::new();
        for run in runs(blocks, most) {
            self.cache.gather(run, &mut data);
            self.write_image(run[0], &data)?;
            run.iter().for_each(|block| self.cache.mark_clean(*block));
        }
        Ok(())
    }

    /// Writes blocks as they must be on the medium now, whatever is dirty.
    pub fn write_image(&mut self, first: u32, image: &[u8]) -> Result<(), ExtError> {
        self.unflushed = true;
        let lba = self.lba(first);
        Ok(self.disk.device_mut().write(lba, image)?)
    }

    /// Makes what was written durable.
    pub fn barrier(&mut self) -> Result<(), ExtError> {
        if self.unflushed {
            self.disk.device_mut().flush()?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// A journal has written, and waited for the device if `durable`.
    pub fn committed(&mut self, durable: bool) {
        self.unflushed = !durable;
        self.changed_since = None;
    }

    /// The device need not keep what these blocks hold.
    pub fn discard(&mut self, first: u32, count: u32) -> Result<(), ExtError> {
        self.unflushed = true;
        let lba = self.lba(first);
        Ok(self
            .disk
            .device_mut()
            .discard(lba, u64::from(count) * self.ratio)?)
    }

    pub fn superblock(&mut self) -> Result<&[u8], ExtError> {
        let (block, at) = self.layout.super_place();
        Ok(&self.block(block)?[at..at + SUPER_BYTES])
    }

    /// The superblock, to be changed.
    pub fn superblock_mut(&mut self) -> Result<&mut [u8], ExtError> {
        let (block, at) = self.layout.super_place();
        Ok(&mut self.edit(block, Class::Counts)?[at..at + SUPER_BYTES])
    }

    pub fn device_mut(&mut self) -> &mut D {
        self.disk.device_mut()
    }

    pub fn into_device(self) -> D {
        self.disk.into_device()
    }
}

/// A block with `data` at a byte, and zeros.
fn padded_block(size: usize, at: usize, data: &[u8]) -> Box<[u8]> {
    if data.len() == size {
        return data.into();
    }
    let mut whole = vec![0; size];
    whole[at..at + data.len()].copy_from_slice(data);
    whole.into()
}

/// The superblock from a device of whatever sectors.
fn read_super<D: BlockDevice>(device: &mut D) -> Result<Vec<u8>, ExtError> {
    let unit = u64::from(device.geometry().sector);
    if unit == 0 || unit > 4096 || !unit.is_power_of_two() {
        return Err(ExtError::Sectors {
            block: 1024,
            sector: unit as u32,
        });
    }
    let first = SUPER_AT / unit;
    let end = (SUPER_AT + SUPER_BYTES as u64).div_ceil(unit);
    let mut bytes = vec![0; ((end - first) * unit) as usize];
    device.read(Lba(first), &mut bytes)?;
    let at = (SUPER_AT - first * unit) as usize;
    Ok(bytes[at..at + SUPER_BYTES].to_vec())
}
