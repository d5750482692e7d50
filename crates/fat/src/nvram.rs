//! A memory that survives a power cut, in front of the metadata of a volume: whatever sector it
//! holds is newer than the one on flash.
//!
//! *Promises.* A sector is durable when its put returns, and a cut leaves it old or new as a whole.
//! It goes to flash only at its eviction or at the end of the mount. *Needs* a memory whose sectors
//! a write replaces whole, and durably when it returns. *Knows nothing of* their contents.
//!
//! # Layout
//!
//! Numbers are little-endian; S is the memory's sector, B the volume's; `slots` is as many as fit.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `NLFATNV2` |
//! | 8..12 | B |
//! | 12..16 | `slots` |
//! | 16..20 | the volume's number |
//! | 20..24 | sectors of the volume |
//! | 24..28 | CRC-32 of bytes 0..24 |
//! | S.. | a tag of 16 bytes for each slot |
//! | from the next multiple of S | `slots` times B bytes |
//!
//! A tag has the sector in the slot (4 bytes, 0: none), a CRC-32 (4 bytes) and a version (8 bytes).
//! The CRC covers the sector, the version and bytes 16..24 of the header. A tag with another CRC
//! counts as none.
//!
//! **Power loss.** A slot's data precede its tag. A change within one sector of the memory happens
//! in place; any other goes to a free slot, whose tag has a higher version. A tag disappears
//! only when one of a higher version names the sector, when the data are durable on flash, or when
//! nothing leads to the sector's cluster. So at every moment the highest tag of a sector names its
//! newest contents.

use crate::{
    FatError,
    format::{Layout, le32, put32},
};
use alloc::{collections::BTreeSet, vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba, Lru};

const MAGIC: &[u8; 8] = b"NLFATNV2";
const HEADER: usize = 28;
const TAG: u64 = 16;
/// Fewer slots are no use.
const SLOTS_MIN: u32 = 8;

/// The memory, and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Nvram<N> {
    memory: N,
    volume: [u8; 8],
    sector: u64,
    unit: u64,
    slots: u32,
    data_start: u64,
    /// The slot of each sector that is here.
    held: Lru<u32, u32>,
    free: Vec<u32>,
    /// Slots whose tags name older contents of a sector.
    stale: Vec<u32>,
    /// The highest version of a tag.
    version: u64,
}

/// A tag that counts.
#[derive(Clone, Copy, Debug)]
struct Tag {
    sector: u32,
    version: u64,
}

impl<N: BlockDevice> Nvram<N> {
    /// Takes up what the memory holds for this volume, or begins afresh.
    pub fn open(memory: N, layout: &Layout) -> Result<Self, FatError> {
        let sector = u64::from(memory.geometry().sector);
        let unit = u64::from(layout.sector);
        let bytes = memory.geometry().bytes();
        let slots =
            (bytes.saturating_sub(2 * sector) / (unit + TAG)).min(u64::from(u32::MAX / 2)) as u32;
        if sector < HEADER as u64
            || !unit.is_multiple_of(sector)
            || !sector.is_multiple_of(TAG)
            || slots < SLOTS_MIN
        {
            return Err(FatError::SmallNvram {
                bytes,
                sector: sector as u32,
                least: SLOTS_MIN,
                volume: layout.sector,
            });
        }
        let data_start = sector + (u64::from(slots) * TAG).next_multiple_of(sector);
        let mut volume = [0; 8];
        put32(&mut volume, 0, layout.volume_id);
        put32(&mut volume, 4, layout.sectors);
        let mut nvram = Self {
            memory,
            volume,
            sector,
            unit,
            slots,
            data_start,
            held: Lru::new(slots as usize),
            free: (0..slots).rev().collect(),
            stale: Vec::new(),
            version: 0,
        };
        nvram.load()?;
        Ok(nvram)
    }

    fn header(&self) -> Vec<u8> {
        let mut header = vec![0; self.sector as usize];
        header[..8].copy_from_slice(MAGIC);
        put32(&mut header, 8, self.unit as u32);
        put32(&mut header, 12, self.slots);
        header[16..24].copy_from_slice(&self.volume);
        let crc = crc32fast::hash(&header[..24]);
        put32(&mut header, 24, crc);
        header
    }

    fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), FatError> {
        self.memory
            .read(Lba(at / self.sector), buf)
            .map_err(FatError::Nvram)
    }

    fn write(&mut self, at: u64, data: &[u8]) -> Result<(), FatError> {
        self.memory
            .write(Lba(at / self.sector), data)
            .map_err(FatError::Nvram)
    }

    fn tags(&mut self) -> Result<Vec<u8>, FatError> {
        let mut tags = vec![0; (self.data_start - self.sector) as usize];
        self.read(self.sector, &mut tags)?;
        Ok(tags)
    }

    fn load(&mut self) -> Result<(), FatError> {
        let mut header = vec![0; self.sector as usize];
        self.read(0, &mut header)?;
        if header[..HEADER] == self.header()[..HEADER] {
            return self.take_up();
        }
        let valid = header[..8] == *MAGIC && le32(&header, 24) == crc32fast::hash(&header[..24]);
        if valid {
            self.refuse_foreign(&header)?;
        }
        let empty = vec![0; (self.data_start - self.sector) as usize];
        self.write(self.sector, &empty)?;
        let header = self.header();
        self.write(0, &header)
    }

    /// Another volume's sectors must not be lost.
    fn refuse_foreign(&mut self, header: &[u8]) -> Result<(), FatError> {
        let volume: [u8; 8] = core::array::from_fn(|at| header[16 + at]);
        let tags = self.tags()?;
        let sectors: BTreeSet<u32> = tags
            .chunks_exact(TAG as usize)
            .filter_map(|tag| Some(tagged(tag, &volume)?.sector))
            .collect();
        let sectors = sectors.len() as u32;
        if sectors == 0 {
            return Ok(());
        }
        let found = le32(&volume, 0);
        let total = le32(&volume, 4);
        let expected = le32(&self.volume, 0);
        Err(FatError::ForeignNvram {
            found,
            total,
            expected,
            sectors,
        })
    }

    fn take_up(&mut self) -> Result<(), FatError> {
        let tags = self.tags()?;
        let slots = (0..self.slots).zip(tags.chunks_exact(TAG as usize));
        let mut found: Vec<(Tag, u32)> = slots
            .filter_map(|(number, tag)| Some((tagged(tag, &self.volume)?, number)))
            .collect();
        found.sort_by_key(|(tag, _)| tag.version);
        for (tag, number) in &found {
            self.version = tag.version;
            let older = self.held.remove(tag.sector);
            self.stale.extend(older);
            self.held.insert(tag.sector, *number);
        }
        let tagged: BTreeSet<u32> = found.iter().map(|(_, number)| *number).collect();
        self.free.retain(|number| !tagged.contains(number));
        Ok(())
    }

    /// Clears tags that name older contents. They must go before a tag that outshines them.
    fn clear_stale(&mut self) -> Result<(), FatError> {
        while let Some(number) = self.stale.pop() {
            self.clear(number)?;
        }
        Ok(())
    }

    /// Frees a slot.
    fn clear(&mut self, number: u32) -> Result<(), FatError> {
        self.set_tag(number, None)?;
        self.free.push(number);
        Ok(())
    }

    fn place(&self, number: u32) -> u64 {
        self.data_start + u64::from(number) * self.unit
    }

    pub fn sectors(&self) -> impl Iterator<Item = u32> {
        self.held.iter().map(|(sector, _)| sector)
    }

    /// The sector's contents, if they are here.
    pub fn get(&mut self, sector: u32, buf: &mut [u8]) -> Result<bool, FatError> {
        let Some(slot) = self.held.get(sector).copied() else {
            return Ok(false);
        };
        self.read(self.place(slot), buf)?;
        Ok(true)
    }

    /// Stores a sector; false if there is no slot for it, and some must be [evicted](Self::eldest)
    /// first.
    pub fn put(&mut self, sector: u32, data: &[u8]) -> Result<bool, FatError> {
        self.clear_stale()?;
        let old = self.held.get(sector).copied();
        if let Some(slot) = old
            && self.change_in_place(slot, data)?
        {
            return Ok(true);
        }
        let Some(number) = self.free.pop() else {
            return Ok(false);
        };
        self.write(self.place(number), data)?;
        self.version += 1;
        let version = self.version;
        self.set_tag(number, Some(Tag { sector, version }))?;
        if let Some(old) = old {
            self.clear(old)?;
        }
        self.held.insert(sector, number);
        Ok(true)
    }

    /// Makes a change that lies in one sector of the memory; false if it lies in several.
    fn change_in_place(&mut self, number: u32, data: &[u8]) -> Result<bool, FatError> {
        let place = self.place(number);
        let mut held = vec![0; data.len()];
        self.read(place, &mut held)?;
        let line = self.sector as usize;
        let pairs = held.chunks(line).zip(data.chunks(line));
        let places = (place..).step_by(line).zip(pairs);
        let mut changed = places.filter(|(_, (old, new))| old != new);
        let first = changed.next();
        if changed.next().is_some() {
            return Ok(false);
        }
        first.map_or(Ok(()), |(at, (_, new))| self.write(at, new))?;
        Ok(true)
    }

    /// The eighth of all sectors whose last use is the longest ago.
    pub fn eldest(&self) -> Vec<u32> {
        self.held.eldest().take(self.slots as usize / 8).collect()
    }

    /// Lets go of a sector, which is durable on flash or needed no more.
    pub fn release(&mut self, sector: u32) -> Result<(), FatError> {
        self.clear_stale()?;
        match self.held.remove(sector) {
            Some(slot) => self.clear(slot),
            None => Ok(()),
        }
    }

    fn set_tag(&mut self, number: u32, tag: Option<Tag>) -> Result<(), FatError> {
        let at = u64::from(number) * TAG;
        let start = self.sector + at / self.sector * self.sector;
        let mut tags = vec![0; self.sector as usize];
        self.read(start, &mut tags)?;
        let within = (at % self.sector) as usize;
        let bytes = tag.map_or([0; TAG as usize], |tag| tag.bytes(&self.volume));
        tags[within..within + TAG as usize].copy_from_slice(&bytes);
        self.write(start, &tags)
    }

    pub fn into_inner(self) -> N {
        self.memory
    }
}

impl Tag {
    fn bytes(self, volume: &[u8; 8]) -> [u8; TAG as usize] {
        let mut bytes = [0; TAG as usize];
        put32(&mut bytes, 0, self.sector);
        bytes[8..].copy_from_slice(&self.version.to_le_bytes());
        put32(&mut bytes, 4, self.crc(volume));
        bytes
    }

    fn crc(self, volume: &[u8; 8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.sector.to_le_bytes());
        hasher.update(&self.version.to_le_bytes());
        hasher.update(volume);
        hasher.finalize()
    }
}

fn tagged(bytes: &[u8], volume: &[u8; 8]) -> Option<Tag> {
    let tag = Tag {
        sector: le32(bytes, 0),
        version: u64::from_le_bytes(core::array::from_fn(|at| bytes[8 + at])),
    };
    (tag.sector != 0 && le32(bytes, 4) == tag.crc(volume)).then_some(tag)
}
