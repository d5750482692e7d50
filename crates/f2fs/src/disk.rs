//! The device in blocks of 4096 bytes, the blocks of a log in requests of many.
//!
//! *Promises.* What was written is read back, whether its request has gone out or not; a flush
//! sends out all queued blocks. *Knows nothing of* what the blocks hold.

use crate::{
    F2fsError,
    format::{BLOCK, log},
};
use alloc::{boxed::Box, vec, vec::Vec};
use nandlab_block::{BlockDevice, Lba};

/// One block in memory.
pub(crate) type Block = Box<[u8]>;

/// A block of zeros.
pub(crate) fn zeros() -> Block {
    vec![0; BLOCK].into_boxed_slice()
}

/// The device's stream for tables and checkpoints, which are overwritten most often.
const TABLES: usize = 0;
/// Its streams for the logs, in the order of their numbers: what is expected to live longer has a
/// larger one.
const STREAMS: [usize; log::COUNT] = [1, 4, 6, 2, 3, 5];

/// Blocks that follow each other and wait to be written at once.
#[derive(Debug, Default)]
struct Request {
    first: u32,
    bytes: Vec<u8>,
}

impl Request {
    fn end(&self) -> u32 {
        self.first + (self.bytes.len() / BLOCK) as u32
    }

    /// Where a block of it lies.
    fn place(&self, addr: u32) -> Option<core::ops::Range<usize>> {
        let at = (addr.wrapping_sub(self.first)) as usize * BLOCK;
        (addr >= self.first && at < self.bytes.len()).then(|| at..at + BLOCK)
    }
}

#[derive(Debug)]
pub(crate) struct Disk<D> {
    pub device: D,
    sectors: u64,
    /// Something was written since the last flush.
    dirty: bool,
    /// Bytes of the longest request.
    request_bytes: usize,
    /// Queued blocks, by stream.
    queued: [Request; 1 + log::COUNT],
}

impl<D: BlockDevice> Disk<D> {
    /// With a request for each block.
    pub fn open(device: D) -> Result<Self, F2fsError> {
        let sector = device.geometry().sector;
        match sector {
            1.. if (BLOCK as u32).is_multiple_of(sector) => {
                let sectors = (BLOCK as u32 / sector).into();
                Ok(Self {
                    device,
                    sectors,
                    dirty: false,
                    request_bytes: BLOCK,
                    queued: Default::default(),
                })
            }
            _ => Err(F2fsError::Sectors { sector }),
        }
    }

    /// Requests are as long as this from now on.
    pub fn with_requests(self, bytes: u64) -> Self {
        Self {
            request_bytes: (bytes as usize).clamp(BLOCK, 16 << 20),
            ..self
        }
    }

    pub fn blocks(&self) -> u64 {
        self.device.geometry().sectors / self.sectors
    }

    pub fn read(&mut self, addr: u32) -> Result<Block, F2fsError> {
        let mut block = zeros();
        match self
            .queued
            .iter()
            .find_map(|request| Some(&request.bytes[request.place(addr)?]))
        {
            Some(bytes) => block.copy_from_slice(bytes),
            None => self
                .device
                .read(Lba(u64::from(addr) * self.sectors), &mut block)?,
        }
        Ok(block)
    }

    /// Reads blocks one behind the other.
    pub fn read_run(&mut self, first: u32, buf: &mut [u8]) -> Result<(), F2fsError> {
        if self.queued.iter().all(|request| request.bytes.is_empty()) {
            return Ok(self
                .device
                .read(Lba(u64::from(first) * self.sectors), buf)?);
        }
        for (addr, block) in (first..).zip(buf.chunks_exact_mut(BLOCK)) {
            block.copy_from_slice(&self.read(addr)?);
        }
        Ok(())
    }

    /// Writes a block of the tables or of a checkpoint.
    pub fn write(&mut self, addr: u32, block: &[u8]) -> Result<(), F2fsError> {
        self.write_to(TABLES, addr, block)
    }

    /// Writes a block of a log.
    pub fn write_log(&mut self, log: usize, addr: u32, block: &[u8]) -> Result<(), F2fsError> {
        self.write_to(STREAMS[log], addr, block)
    }

    fn write_to(&mut self, stream: usize, addr: u32, block: &[u8]) -> Result<(), F2fsError> {
        self.dirty = true;
        if self.request_bytes <= BLOCK {
            self.device.stream(stream as u8);
            return Ok(self
                .device
                .write(Lba(u64::from(addr) * self.sectors), block)?);
        }
        if let Some(bytes) = self
            .queued
            .iter_mut()
            .find_map(|request| request.place(addr).map(|place| &mut request.bytes[place]))
        {
            bytes.copy_from_slice(block);
            return Ok(());
        }
        let request = &self.queued[stream];
        if request.end() != addr || request.bytes.len() >= self.request_bytes {
            self.submit(stream)?;
        }
        let request = &mut self.queued[stream];
        if request.bytes.is_empty() {
            request.first = addr;
        }
        request.bytes.extend_from_slice(block);
        Ok(())
    }

    fn submit(&mut self, stream: usize) -> Result<(), F2fsError> {
        let Request { first, bytes } = &mut self.queued[stream];
        if !bytes.is_empty() {
            self.device.stream(stream as u8);
            self.device
                .write(Lba(u64::from(*first) * self.sectors), bytes)?;
            bytes.clear();
        }
        Ok(())
    }

    /// Sends out all queued blocks.
    pub fn submit_all(&mut self) -> Result<(), F2fsError> {
        (0..self.queued.len()).try_for_each(|stream| self.submit(stream))
    }

    /// Everything written so far is durable.
    pub fn flush(&mut self) -> Result<(), F2fsError> {
        self.submit_all()?;
        if core::mem::take(&mut self.dirty) {
            Ok(self.device.flush()?)
        } else {
            Ok(())
        }
    }

    pub fn discard(&mut self, addr: u32, blocks: u32) -> Result<(), F2fsError> {
        self.submit_all()?;
        match self.device.discard(
            Lba(u64::from(addr) * self.sectors),
            u64::from(blocks) * self.sectors,
        ) {
            Err(nandlab_block::BlockError::Unsupported) => Ok(()),
            outcome => Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_block::{Counter, Ram};

    #[test]
    fn blocks_of_a_log_go_out_together_and_are_read_before_they_do() {
        let mut disk = Disk::open(Counter::new(Ram::new(512, 8 * 64)))
            .unwrap()
            .with_requests(4 * BLOCK as u64);
        let block = |byte: u8| vec![byte; BLOCK];
        for i in 0..6u32 {
            disk.write_log(log::WARM_DATA, 8 + i, &block(i as u8))
                .unwrap();
            disk.write_log(log::WARM_NODE, 32 + i, &block(100 + i as u8))
                .unwrap();
        }
        disk.write(9, &block(77)).unwrap();
        disk.write(13, &block(78)).unwrap();
        let read = |disk: &mut Disk<_>, addr| disk.read(addr).unwrap()[0];
        assert_eq!(
            [8, 9, 13, 32, 37].map(|addr| read(&mut disk, addr)),
            [0, 77, 78, 100, 105]
        );
        // Two requests have gone out, each full.
        assert_eq!(disk.device.counts().writes.requests, 2);
        disk.flush().unwrap();
        assert_eq!(
            (
                disk.device.counts().writes.requests,
                disk.device.counts().flushes.requests
            ),
            (5, 1)
        );
        assert_eq!(
            [8, 9, 13, 32, 37].map(|addr| read(&mut disk, addr)),
            [0, 77, 78, 100, 105]
        );
    }
}
