//! A memory that survives a power cut, in front of the metadata of a volume: whatever sector it
//! holds is newer than the one on flash.
//!
//! *Promises.* A sector that was put is durable at once, whole as far as the memory's own sectors
//! are. It goes to flash only when it is evicted or the volume is unmounted. *Needs* a memory whose
//! sectors are written whole and are durable on return. *Knows nothing of* what the sectors hold.
//!
//! # Layout
//!
//! Numbers are little-endian; S is the memory's sector, B the volume's; `slots` is as many as fit.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `NLFATNV1` |
//! | 8..12 | B |
//! | 12..16 | `slots` |
//! | 16..20 | the volume's number |
//! | 20..24 | sectors of the volume |
//! | 24..28 | CRC-32 of bytes 0..24 |
//! | S.. | one tag a slot: the sector that it holds (4 bytes, 0: none), and the CRC-32 of these 4 bytes and bytes 16..24 (4 bytes); a tag that does not fit its CRC is none |
//! | from the next multiple of S | `slots` times B bytes |
//!
//! **Power loss.** A slot's data is written before its tag, and a tag is cleared only when the data
//! is durable on flash or the sector's cluster is free there. So each tag names the newest contents
//! of its sector at every moment. Two tags never name one sector.

use crate::{
    FatError,
    format::{Layout, le32, put32},
};
use alloc::{collections::BTreeSet, vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba, Lru};

const MAGIC: &[u8; 8] = b"NLFATNV1";
const HEADER: usize = 28;
const TAG: u64 = 8;
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
        let sectors = tags
            .chunks_exact(TAG as usize)
            .filter_map(|tag| tagged(tag, &volume))
            .count() as u32;
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
        for (number, tag) in (0..self.slots).zip(tags.chunks_exact(TAG as usize)) {
            let sector = tagged(tag, &self.volume);
            if let Some(sector) = sector.filter(|sector| !self.held.contains(*sector)) {
                self.held.insert(sector, number);
            }
        }
        let taken: BTreeSet<u32> = self.held.iter().map(|(_, slot)| *slot).collect();
        self.free.retain(|number| !taken.contains(number));
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
        if let Some(slot) = self.held.get(sector).copied() {
            self.write(self.place(slot), data)?;
            return Ok(true);
        }
        let Some(number) = self.free.pop() else {
            return Ok(false);
        };
        self.write(self.place(number), data)?;
        self.set_tag(number, sector)?;
        self.held.insert(sector, number);
        Ok(true)
    }

    /// What was used longest ago: an eighth of all.
    pub fn eldest(&self) -> Vec<u32> {
        self.held.eldest().take(self.slots as usize / 8).collect()
    }

    /// Lets go of a sector, which is durable on flash or needed no more.
    pub fn release(&mut self, sector: u32) -> Result<(), FatError> {
        if let Some(slot) = self.held.remove(sector) {
            self.set_tag(slot, 0)?;
            self.free.push(slot);
        }
        Ok(())
    }

    fn set_tag(&mut self, number: u32, sector: u32) -> Result<(), FatError> {
        let at = u64::from(number) * TAG;
        let start = self.sector + at / self.sector * self.sector;
        let mut tags = vec![0; self.sector as usize];
        self.read(start, &mut tags)?;
        let within = (at % self.sector) as usize;
        put32(&mut tags, within, sector);
        let crc = if sector == 0 {
            0
        } else {
            tag_crc(sector, &self.volume)
        };
        put32(&mut tags, within + 4, crc);
        self.write(start, &tags)
    }

    pub fn into_inner(self) -> N {
        self.memory
    }
}

fn tag_crc(sector: u32, volume: &[u8; 8]) -> u32 {
    let mut bytes = [0; 12];
    put32(&mut bytes, 0, sector);
    bytes[4..].copy_from_slice(volume);
    crc32fast::hash(&bytes)
}

fn tagged(tag: &[u8], volume: &[u8; 8]) -> Option<u32> {
    let sector = le32(tag, 0);
    (sector != 0 && le32(tag, 4) == tag_crc(sector, volume)).then_some(sector)
}
