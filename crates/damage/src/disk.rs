//! Edits of a disk: words, bytes and sectors, mostly where structure lies.
//!
//! *Knows nothing of* formats: a format gives its good volumes and repairs its checksums.

use crate::edit::{Edit, Script};
use crate::strike::Strike;
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_sim::{Backing, BackingError};

const SECTOR: usize = 512;

/// A good volume, and where its structure lies.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The volume in memory.
    pub ram: Ram,
    /// Sectors worth an edit.
    places: Vec<u64>,
}

impl Disk {
    /// Takes as structure every sector that is not empty and has many zeros: contents of files here
    /// have few.
    pub fn new(mut ram: Ram) -> Self {
        let sectors = ram.geometry().sectors;
        let places = (0..sectors).filter(|lba| {
            let zeros = sector(&mut ram, *lba)
                .iter()
                .filter(|byte| **byte == 0)
                .count();
            (60..SECTOR).contains(&zeros)
        });
        let places: Vec<u64> = places.collect();
        assert!(!places.is_empty(), "an empty disk");
        Self { places, ram }
    }

    /// Applies one edit to the volume.
    pub fn edit(&mut self, edit: Edit) {
        let Edit {
            verb,
            field,
            place,
            value,
        } = edit;
        let lba = self.places[place % self.places.len()];
        let other = self.places[value as usize % self.places.len()];
        let mut data = sector(&mut self.ram, lba);
        let at = usize::from(field) * 2;
        let word = at.min(SECTOR - 4);
        match verb % 10 {
            0 => data[word..word + 4].copy_from_slice(&value.to_le_bytes()),
            1 => data[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
            2 => data[at + (value >> 8 & 1) as usize] = value as u8,
            3 => {
                let old = u32::from_le_bytes([
                    data[word],
                    data[word + 1],
                    data[word + 2],
                    data[word + 3],
                ]);
                data[word..word + 4].copy_from_slice(&old.wrapping_add(value).to_le_bytes());
            }
            4 => data = sector(&mut self.ram, other),
            5 => data[at..].fill(value as u8),
            // Entries of tables and directories are of these sizes.
            6 | 7 => {
                let size = if verb % 10 == 6 { 32 } else { 128 };
                let from = (value >> 16) as usize % (SECTOR / size) * size;
                let entry = sector(&mut self.ram, other)[from..from + size].to_vec();
                let to = at / size * size;
                data[to..to + size].copy_from_slice(&entry);
            }
            8 => data[at] ^= 1 << (value % 8),
            _ => {
                // Anywhere, structure or not.
                let lba = value as u64 % self.ram.geometry().sectors;
                let mut data = sector(&mut self.ram, lba);
                data[at] = place as u8;
                return put(&mut self.ram, lba, &data);
            }
        }
        put(&mut self.ram, lba, &data);
    }
}

impl Disk {
    /// Random damage that knows no structure.
    pub fn strike(&mut self, seed: u64) {
        // Blocks of these sizes are the formats' own.
        let block = 1024 << (seed % 3);
        let sectors = self.ram.geometry().sectors;
        match Strike::random(seed, &self.places, sectors, block) {
            Strike::Flip { at, mask } => {
                let lba = at / SECTOR as u64;
                let mut data = sector(&mut self.ram, lba);
                data[at as usize % SECTOR] ^= mask;
                put(&mut self.ram, lba, &data);
            }
            Strike::Fill { at, value } => {
                put(&mut self.ram, at / SECTOR as u64, &[value; SECTOR]);
            }
            Strike::Swap { first, second, len } => self.swap(first, second, len),
        }
    }

    fn swap(&mut self, first: u64, second: u64, len: u64) {
        let count = self.ram.geometry().sectors;
        for sectors in 0..len / SECTOR as u64 {
            let [a, b] = [first, second].map(|at| at / SECTOR as u64 + sectors);
            if a < count && b < count {
                let one = sector(&mut self.ram, a);
                let other = sector(&mut self.ram, b);
                put(&mut self.ram, a, &other);
                put(&mut self.ram, b, &one);
            }
        }
    }
}

/// A disk as bytes that can be read.
#[derive(Clone, Debug)]
pub struct Bytes(pub Ram);

impl Backing for Bytes {
    fn len(&self) -> u64 {
        self.0.geometry().bytes()
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        let outside = BackingError::OutOfRange {
            offset,
            count: buf.len() as u64,
            len: self.len(),
        };
        let mut at = offset;
        let mut rest = buf;
        let mut sector = [0; SECTOR];
        while !rest.is_empty() {
            let within = at as usize % SECTOR;
            if within == 0 && rest.len() >= SECTOR {
                let whole = rest.len() / SECTOR * SECTOR;
                let (now, later) = rest.split_at_mut(whole);
                self.0
                    .read(Lba(at / SECTOR as u64), now)
                    .map_err(|_| outside)?;
                (at, rest) = (at + whole as u64, later);
                continue;
            }
            self.0
                .read(Lba(at / SECTOR as u64), &mut sector)
                .map_err(|_| outside)?;
            let (now, later) = rest.split_at_mut(rest.len().min(SECTOR - within));
            now.copy_from_slice(&sector[within..within + now.len()]);
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), BackingError> {
        panic!("what is opened for reading is written");
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

/// One format on disks.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Returns good volumes to start from.
    pub seeds: fn() -> &'static [Disk],
    /// Makes checksums right again, unless the script says not to.
    pub repair: fn(&mut Ram, Script<'_>),
}

impl Target {
    /// The medium as edited.
    pub fn edited(&self, script: Script<'_>) -> Ram {
        self.disk(script).ram
    }

    /// The same, to be damaged further.
    pub fn disk(&self, script: Script<'_>) -> Disk {
        let seeds = (self.seeds)();
        let mut disk = seeds[script.seed % seeds.len()].clone();
        script.edits().for_each(|edit| disk.edit(edit));
        (self.repair)(&mut disk.ram, script);
        disk
    }
}

fn sector(ram: &mut Ram, lba: u64) -> [u8; SECTOR] {
    let mut data = [0; SECTOR];
    ram.read(Lba(lba), &mut data).expect("a sector of the disk");
    data
}

fn put(ram: &mut Ram, lba: u64, data: &[u8]) {
    ram.write(Lba(lba), data).expect("a sector of the disk");
}
