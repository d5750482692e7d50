//! The volume as sectors: device, metadata memory and cache behind one face.
//!
//! *Promises.* Metadata is read from the cache, then the memory, then the device, and written to
//! the memory where there is one. Contents of files go to the device, in requests as long as their
//! sectors are neighbours. Nothing is written by itself: [`write_contents`](Store::write_contents),
//! [`write_metadata`](Store::write_metadata) and [`barrier`](Store::barrier) are the whole of it.
//! *Knows nothing of* tables, names or files.

use crate::{
    FatError,
    cache::{Cache, Owner},
    format::{Layout, SLOT, Slot},
    nvram::Nvram,
};
use alloc::{vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba, padded, runs};
use nandlab_vfs::{Ino, Time};

/// The longest request, in bytes.
const REQUEST_MAX: usize = 128 * 1024;

/// The volume as sectors.
#[derive(Debug)]
pub(crate) struct Store<D, N> {
    pub layout: Layout,
    device: D,
    nvram: Option<Nvram<N>>,
    pub cache: Cache,
    /// The time of the call under way.
    pub now: Time,
    /// Something was written that no flush has followed.
    unflushed: bool,
    /// Device sectors in one of the volume.
    ratio: u64,
    /// Whether the volume's mark "in use" is ours to set and to clear.
    mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It is clean as far as the medium says.
    Clean,
    /// We have marked it.
    Ours,
    /// It was marked before: whatever happened then, only a check may clear it.
    Old,
}

impl<D: BlockDevice, N: BlockDevice> Store<D, N> {
    /// Opens a volume; `cache` is in bytes.
    pub fn open(mut device: D, nvram: Option<N>, cache: u64) -> Result<Self, FatError> {
        let boot = read_boot(&mut device)?;
        let layout = Layout::parse(&boot)?;
        let unit = device.geometry().sector;
        if !layout.sector.is_multiple_of(unit) {
            return Err(FatError::Sectors {
                volume: layout.sector,
                device: unit,
            });
        }
        let ratio = u64::from(layout.sector / unit);
        let sectors = device.geometry().sectors;
        if u64::from(layout.sectors) * ratio > sectors {
            let found = u64::from(layout.sectors);
            return Err(FatError::Boot {
                offset: 19,
                field: "sectors",
                found,
                expected: "no more than the device has",
            });
        }
        let mark = if boot[layout.state_offset()] & 1 != 0 {
            Mark::Old
        } else {
            Mark::Clean
        };
        let nvram = nvram
            .map(|memory| Nvram::open(memory, &layout))
            .transpose()?;
        let cache = Cache::new((cache / u64::from(layout.sector)) as usize);
        Ok(Self {
            layout,
            device,
            nvram,
            cache,
            now: Time::default(),
            unflushed: false,
            ratio,
            mark,
        })
    }

    pub fn sector(&self) -> usize {
        self.layout.sector as usize
    }

    /// Bytes that the device writes whole.
    pub fn atom(&self) -> u64 {
        u64::from(self.layout.sector) / self.ratio
    }

    fn lba(&self, sector: u32) -> Lba {
        Lba(u64::from(sector) * self.ratio)
    }

    /// The metadata in a sector.
    pub fn metadata(&mut self, sector: u32) -> Result<&[u8], FatError> {
        self.fetch(sector)?;
        Ok(self.cache.get(sector).unwrap_or_default())
    }

    /// The same, to be changed; it becomes dirty.
    pub fn metadata_mut(&mut self, sector: u32) -> Result<&mut [u8], FatError> {
        self.fetch(sector)?;
        let now = self.now;
        Ok(self
            .cache
            .edit(sector, Owner::Metadata, now, |_| ())
            .unwrap_or_default())
    }

    fn fetch(&mut self, sector: u32) -> Result<(), FatError> {
        if self.cache.get(sector).is_none() {
            let mut data = vec![0; self.sector()];
            if !matches!(
                self.nvram
                    .as_mut()
                    .map(|nvram| nvram.get(sector, &mut data))
                    .transpose()?,
                Some(true)
            ) {
                self.device.read(self.lba(sector), &mut data)?;
            }
            self.cache.keep(sector, data.into());
        }
        Ok(())
    }

    /// Fills a whole sector of metadata with zeros.
    pub fn zero_metadata(&mut self, sector: u32) {
        let data = vec![0; self.sector()].into();
        let now = self.now;
        self.cache.replace(sector, Owner::Metadata, now, data);
    }

    /// The directory slot at a byte of the volume.
    pub fn slot(&mut self, place: u64) -> Result<Slot, FatError> {
        let (sector, at) = self.split(place);
        let bytes = self.metadata(sector)?;
        Ok(core::array::from_fn(|i| bytes[at + i]))
    }

    /// Replaces the directory slot at a byte of the volume.
    pub fn put_slot(&mut self, place: u64, slot: &Slot) -> Result<(), FatError> {
        let (sector, at) = self.split(place);
        self.metadata_mut(sector)?[at..at + SLOT].copy_from_slice(slot);
        Ok(())
    }

    /// A byte of the volume as sector and byte in it.
    pub fn split(&self, place: u64) -> (u32, usize) {
        (
            (place / u64::from(self.layout.sector)) as u32,
            (place % u64::from(self.layout.sector)) as usize,
        )
    }

    /// Reads contents of files, whole sectors from `first` on, and keeps them if they may be needed
    /// again.
    pub fn read_contents(
        &mut self,
        first: u32,
        buf: &mut [u8],
        keep: bool,
    ) -> Result<(), FatError> {
        let size = self.sector();
        let ratio = self.ratio;
        let device = &mut self.device;
        let read = |first, part: &mut [u8]| device.read(Lba(u64::from(first) * ratio), part);
        Ok(self.cache.read_through(first, size, buf, keep, read)?)
    }

    /// Contents of sectors that hold nothing yet, on the device at once; the rest of the last
    /// sector is zeros.
    pub fn write_fresh(&mut self, first: u32, data: &[u8]) -> Result<(), FatError> {
        self.mark_in_use()?;
        self.cache
            .forget_run(first, data.len().div_ceil(self.sector()) as u32);
        self.unflushed = true;
        let mut last = Vec::new();
        for (sector, image) in padded(first, data, self.sector(), &mut last) {
            self.device.write(self.lba(sector), image)?;
        }
        Ok(())
    }

    /// Changes part of a sector of a file. The rest keeps its bytes, or becomes zeros if the sector
    /// is `fresh`.
    pub fn change_contents(
        &mut self,
        file: Ino,
        sector: u32,
        at: usize,
        data: &[u8],
        fresh: bool,
    ) -> Result<(), FatError> {
        let owner = Owner::File(file);
        let now = self.now;
        let size = self.sector();
        if data.len() < size && !fresh {
            self.load_contents(sector)?;
        }
        let held = match fresh {
            true => None,
            false => self.cache.edit(sector, owner, now, |_| ()),
        };
        match held {
            Some(held) => held[at..at + data.len()].copy_from_slice(data),
            None => {
                let mut whole = vec![0; size];
                whole[at..at + data.len()].copy_from_slice(data);
                self.cache.replace(sector, owner, now, whole.into());
            }
        }
        Ok(())
    }

    fn load_contents(&mut self, sector: u32) -> Result<(), FatError> {
        if self.cache.get(sector).is_none() {
            let mut whole = vec![0; self.sector()];
            self.device.read(self.lba(sector), &mut whole)?;
            self.cache.keep(sector, whole.into());
        }
        Ok(())
    }

    /// Writes dirty contents of files to the device; `sectors` in order.
    pub fn write_contents(&mut self, sectors: &[u32]) -> Result<(), FatError> {
        if sectors.is_empty() {
            return Ok(());
        }
        self.mark_in_use()?;
        let most = REQUEST_MAX / self.sector();
        let mut data = Vec::new();
        for run in runs(sectors, most) {
            self.cache.gather(run, &mut data);
            self.unflushed = true;
            self.device.write(self.lba(run[0]), &data)?;
            run.iter().for_each(|sector| self.cache.mark_clean(*sector));
        }
        Ok(())
    }

    /// Writes a sector of metadata as it shall be on the medium now.
    pub fn write_metadata(&mut self, sector: u32, image: &[u8]) -> Result<(), FatError> {
        self.mark_in_use()?;
        if let Some(nvram) = &mut self.nvram {
            if !nvram.put(sector, image)? {
                let eldest = nvram.eldest();
                self.evict(&eldest)?;
                return self.write_metadata(sector, image);
            }
            return Ok(());
        }
        self.unflushed = true;
        Ok(self.device.write(self.lba(sector), image)?)
    }

    /// Moves sectors from the memory to the device.
    fn evict(&mut self, sectors: &[u32]) -> Result<(), FatError> {
        let Some(nvram) = &mut self.nvram else {
            return Ok(());
        };
        let mut data = vec![0; self.layout.sector as usize];
        for sector in sectors {
            nvram.get(*sector, &mut data)?;
            self.device
                .write(Lba(u64::from(*sector) * self.ratio), &data)?;
        }
        self.device.flush()?;
        self.unflushed = false;
        sectors.iter().try_for_each(|sector| nvram.release(*sector))
    }

    /// Drops the sectors of unused clusters from memory and cache. The table must not free the
    /// clusters before: a directory that stayed in the memory would overwrite the contents of the
    /// next owner.
    pub fn forget_freed(&mut self, sector: u32, count: u32) -> Result<(), FatError> {
        self.cache.forget_run(sector, count);
        let Some(nvram) = &mut self.nvram else {
            return Ok(());
        };
        (sector..sector + count).try_for_each(|sector| nvram.release(sector))
    }

    /// Tells the device that it need not keep the sectors of free clusters.
    pub fn discard(&mut self, sector: u32, count: u32) -> Result<(), FatError> {
        let sectors = u64::from(count) * self.ratio;
        self.unflushed = true;
        Ok(self.device.discard(self.lba(sector), sectors)?)
    }

    /// Makes what was written durable.
    pub fn barrier(&mut self) -> Result<(), FatError> {
        if self.unflushed {
            self.device.flush()?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Before the first write: the medium says that the volume is in use.
    fn mark_in_use(&mut self) -> Result<(), FatError> {
        if self.mark == Mark::Clean {
            self.mark = Mark::Ours;
            self.set_mark(1)?;
            self.barrier()?;
        }
        Ok(())
    }

    fn set_mark(&mut self, mark: u8) -> Result<(), FatError> {
        let mut boot = vec![0; self.sector()];
        self.device.read(Lba(0), &mut boot)?;
        let at = self.layout.state_offset();
        boot[at] = boot[at] & !1 | mark;
        self.unflushed = true;
        Ok(self.device.write(Lba(0), &boot)?)
    }

    /// The end of the mount, with nothing dirty: brings all metadata to the device and takes the
    /// mark away.
    pub fn close(&mut self) -> Result<(), FatError> {
        if let Some(nvram) = &self.nvram {
            let all: Vec<u32> = nvram.sectors().collect();
            if !all.is_empty() {
                self.mark_in_use()?;
                self.evict(&all)?;
            }
        }
        self.barrier()?;
        if self.mark == Mark::Ours {
            self.set_mark(0)?;
            self.barrier()?;
            self.mark = Mark::Clean;
        }
        Ok(())
    }

    /// Whether the medium says that the volume is in use, or was when the power went.
    pub fn is_marked(&self) -> bool {
        self.mark != Mark::Clean
    }

    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    pub fn into_parts(self) -> (D, Option<N>) {
        (self.device, self.nvram.map(Nvram::into_inner))
    }
}

/// The first 512 bytes or more.
fn read_boot<D: BlockDevice>(device: &mut D) -> Result<Vec<u8>, FatError> {
    let unit = device.geometry().sector as usize;
    let mut boot = vec![0; unit.max(1).next_multiple_of(512).max(unit).min(64 * 1024)];
    if unit > boot.len() || !boot.len().is_multiple_of(unit.max(1)) || unit > 4096 {
        return Err(FatError::Sectors {
            volume: 512,
            device: unit as u32,
        });
    }
    device.read(Lba(0), &mut boot)?;
    if boot[510..512] != crate::format::SIGNATURE {
        let found = u64::from(crate::format::le16(&boot, 510));
        return Err(FatError::Boot {
            offset: 510,
            field: "signature",
            found,
            expected: "0xaa55",
        });
    }
    Ok(boot)
}
