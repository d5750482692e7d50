//! The device in blocks, and the journal's blocks on it.
//!
//! *Promises.* Neighbouring blocks written one after another go down as one request. What was
//! written reaches the device at the next [`submit`](Blocks::submit), [`flush`](Blocks::flush) or
//! [`remap`](Blocks::remap), in order. *Knows nothing of* transactions.

use crate::{JournalError, Map};
use alloc::vec::Vec;
use nandlab_block::{BlockDevice, BlockError, Lba, Remap};

/// The longest request, in bytes.
const REQUEST_MAX: usize = 128 * 1024;

/// The device in blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<D> {
    device: D,
    map: Map,
    size: u32,
    /// Sectors of a block.
    ratio: u64,
    /// Neighbours that wait to go down together, and the first one's number.
    waiting: Vec<u8>,
    start: u64,
    pairs: Vec<Remap>,
}

impl<D: BlockDevice> Blocks<D> {
    /// Refuses a block size that does not suit, and a map that leaves the device.
    pub fn new(device: D, map: Map, size: u32) -> Result<Self, JournalError> {
        let sector = device.geometry().sector;
        if !(1024..=65_536).contains(&size)
            || !size.is_power_of_two()
            || sector == 0
            || !size.is_multiple_of(sector)
        {
            return Err(JournalError::BlockSize {
                block: size,
                sector,
            });
        }
        let ratio = u64::from(size / sector);
        let blocks = device.geometry().sectors / ratio;
        for (log, home, count) in map.runs() {
            if home
                .checked_add(u64::from(count))
                .is_none_or(|end| end > blocks)
            {
                return Err(JournalError::Map { log, home, blocks });
            }
        }
        Ok(Self {
            device,
            map,
            size,
            ratio,
            waiting: Vec::with_capacity(REQUEST_MAX),
            start: 0,
            pairs: Vec::new(),
        })
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Blocks of the device that a tag can name.
    pub fn count(&self) -> u64 {
        (self.device.geometry().sectors / self.ratio).min(1 << 32)
    }

    pub fn map(&self) -> &Map {
        &self.map
    }

    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    pub fn into_device(self) -> D {
        self.device
    }

    fn lba(&self, block: u64) -> Lba {
        Lba(block * self.ratio)
    }

    /// Reads a block of the device; nothing may be waiting.
    pub fn read(&mut self, block: u64, data: &mut [u8]) -> Result<(), BlockError> {
        self.device.read(self.lba(block), data)
    }

    /// Reads a block of the journal; nothing may be waiting.
    pub fn read_log(&mut self, log: u32, data: &mut [u8]) -> Result<(), BlockError> {
        self.read(self.map.home(log), data)
    }

    /// Writes a block of the device.
    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<(), BlockError> {
        let waiting = (self.waiting.len() / self.size as usize) as u64;
        if self.start + waiting != block || self.waiting.len() + data.len() > REQUEST_MAX {
            self.submit()?;
        }
        if self.waiting.is_empty() {
            self.start = block;
        }
        self.waiting.extend_from_slice(data);
        Ok(())
    }

    /// Writes a block of the journal.
    pub fn write_log(&mut self, log: u32, data: &[u8]) -> Result<(), BlockError> {
        self.write(self.map.home(log), data)
    }

    /// Writes the buffered neighbours to the device.
    pub fn submit(&mut self) -> Result<(), BlockError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let outcome = self
            .device
            .write(Lba(self.start * self.ratio), &self.waiting);
        self.waiting.clear();
        outcome
    }

    pub fn flush(&mut self) -> Result<(), BlockError> {
        self.submit()?;
        self.device.flush()
    }

    /// Each `to` takes over what `from` holds, all or none, durable on return.
    pub fn remap(&mut self, moves: impl Iterator<Item = (u64, u64)>) -> Result<(), BlockError> {
        self.submit()?;
        let ratio = self.ratio;
        self.pairs.clear();
        self.pairs.extend(moves.flat_map(|(from, to)| {
            (0..ratio).map(move |sector| Remap {
                from: Lba(from * ratio + sector),
                to: Lba(to * ratio + sector),
            })
        }));
        self.device.remap(&self.pairs)
    }

    /// Makes every block of the journal read as zeros.
    pub fn clear_log(&mut self) -> Result<(), BlockError> {
        for (_, home, count) in self.map.runs() {
            self.device
                .discard(Lba(home * self.ratio), u64::from(count) * self.ratio)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use nandlab_block::{Ram, Record, WriteLog};

    #[test]
    fn neighbours_go_down_together_and_the_rest_in_order() {
        let mut blocks = Blocks::new(
            WriteLog::new(Ram::new(512, 64)),
            [9, 10, 3].into_iter().collect(),
            1024,
        )
        .unwrap();
        for log in 0..3 {
            blocks.write_log(log, &[log as u8 + 1; 1024]).unwrap();
        }
        blocks.write(4, &[4; 1024]).unwrap();
        blocks.flush().unwrap();
        let write = |lba, parts: &[u8]| Record::Write {
            lba: Lba(lba),
            data: parts.iter().flat_map(|byte| [*byte; 1024]).collect(),
        };
        assert_eq!(
            blocks.into_device().records(),
            [write(18, &[1, 2]), write(6, &[3, 4]), Record::Flush]
        );
    }

    #[test]
    fn a_request_is_no_longer_than_its_limit() {
        let mut blocks =
            Blocks::new(WriteLog::new(Ram::new(512, 512)), Map::default(), 1024).unwrap();
        (0..200).for_each(|block| blocks.write(block, &[1; 1024]).unwrap());
        blocks.submit().unwrap();
        let lengths: Vec<usize> = blocks
            .into_device()
            .records()
            .iter()
            .map(|record| match record {
                Record::Write { data, .. } => data.len() / 1024,
                _ => 0,
            })
            .collect();
        assert_eq!(lengths, [128, 72]);
    }

    #[test]
    fn what_does_not_suit_the_device_is_refused() {
        let refused = |sector, map: &[u64], size| {
            Blocks::new(Ram::new(sector, 16), map.iter().copied().collect(), size).err()
        };
        for (sector, size) in [(512, 512), (512, 3072), (4096, 2048), (512, 131_072)] {
            assert_eq!(
                refused(sector, &[], size),
                Some(JournalError::BlockSize {
                    block: size,
                    sector
                })
            );
        }
        assert_eq!(
            refused(512, &[6, 7, 8], 1024),
            Some(JournalError::Map {
                log: 0,
                home: 6,
                blocks: 8
            })
        );
        assert_eq!(
            refused(512, &[0, u64::MAX], 1024),
            Some(JournalError::Map {
                log: 1,
                home: u64::MAX,
                blocks: 8
            })
        );
        assert_eq!(refused(512, &[], 1024), None);
        let mut blocks = Blocks::new(Ram::new(512, 16), Map::default(), 1024).unwrap();
        assert_eq!(
            (blocks.count(), blocks.read(0, &mut vec![0; 1024])),
            (8, Ok(()))
        );
    }
}
