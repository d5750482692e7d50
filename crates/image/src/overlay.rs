//! Changes beside an image instead of in it: what a journal, a log or a volume table wants to have
//! written before it can be read.
//!
//! *Promises.* The image below is read, never written. Chunks that changed are kept, in memory up
//! to a limit and beyond it in a temporary file without a name. The overlay may be longer than the
//! image: the rest is erased flash. *Power loss.* Everything is lost, on purpose.

use nandlab_sim::{Backing, BackingError};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes of a chunk.
const CHUNK: usize = 4096;
/// Chunks that are kept in memory.
const IN_MEMORY: usize = 16 << 20 >> 12;

/// An image with changes beside it.
#[derive(Debug)]
pub struct Overlay<B> {
    below: B,
    len: u64,
    /// Where each changed chunk is.
    changed: BTreeMap<u64, usize>,
    memory: Vec<u8>,
    spilled: Option<File>,
}

impl<B: Backing> Overlay<B> {
    /// Nothing changed yet; `len` bytes long, or as long as the image if that is longer.
    pub fn new(below: B, len: u64) -> Self {
        Self {
            len: len.max(below.len()),
            below,
            changed: BTreeMap::new(),
            memory: Vec::new(),
            spilled: None,
        }
    }

    /// The first `len` bytes of an image.
    pub fn cut(below: B, len: u64) -> Self {
        Self {
            len: len.min(below.len()),
            ..Self::new(below, 0)
        }
    }

    fn chunk(&mut self, number: u64, within: usize, buf: &mut [u8]) -> Result<(), BackingError> {
        match self.changed.get(&number) {
            Some(slot) if *slot < IN_MEMORY => {
                buf.copy_from_slice(&self.memory[slot * CHUNK + within..][..buf.len()])
            }
            Some(slot) => {
                let at = ((slot - IN_MEMORY) * CHUNK + within) as u64;
                let spilled = self.spilled.as_ref().ok_or(SPILL)?;
                spilled.read_exact_at(buf, at).map_err(|_| SPILL)?;
            }
            None => {
                let at = number * CHUNK as u64 + within as u64;
                let below = (self.below.len().saturating_sub(at) as usize).min(buf.len());
                buf[below..].fill(0xFF);
                if below > 0 {
                    self.below.read_at(at, &mut buf[..below])?;
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, number: u64, within: usize, data: &[u8]) -> Result<(), BackingError> {
        let mut whole = [0; CHUNK];
        if data.len() < CHUNK {
            self.chunk(number, 0, &mut whole)?;
        }
        whole[within..within + data.len()].copy_from_slice(data);
        let next = self.changed.len();
        let slot = *self.changed.entry(number).or_insert(next);
        if slot < IN_MEMORY {
            self.memory
                .resize(self.memory.len().max((slot + 1) * CHUNK), 0);
            self.memory[slot * CHUNK..][..CHUNK].copy_from_slice(&whole);
            return Ok(());
        }
        if self.spilled.is_none() {
            self.spilled = Some(tempfile::tempfile().map_err(|_| SPILL)?);
        }
        let spilled = self.spilled.as_ref().ok_or(SPILL)?;
        spilled
            .write_all_at(&whole, ((slot - IN_MEMORY) * CHUNK) as u64)
            .map_err(|_| SPILL)
    }
}

const SPILL: BackingError = BackingError::Io("the temporary file for changes failed");

impl<B: Backing> Backing for Overlay<B> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
        self.check(offset, buf.len() as u64)?;
        let end = offset + buf.len() as u64;
        if end <= self.below.len()
            && self
                .changed
                .range(offset / CHUNK as u64..=end / CHUNK as u64)
                .next()
                .is_none()
        {
            return self.below.read_at(offset, buf);
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (at % CHUNK as u64) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(CHUNK - within));
            self.chunk(at / CHUNK as u64, within, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.check(offset, data.len() as u64)?;
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % CHUNK as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(CHUNK - within));
            self.put(at / CHUNK as u64, within, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackingError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_above_and_not_below() {
        let mut below = vec![1u8; 10_000];
        let mut overlay = Overlay::new(&mut below, 20_000);
        overlay.write_at(4000, &[2; 200]).unwrap();
        overlay.write_at(9_990, &[3; 20]).unwrap();
        let mut all = vec![0; 20_000];
        overlay.read_at(0, &mut all).unwrap();
        let count = |byte| all.iter().filter(|found| **found == byte).count();
        assert_eq!(
            [count(1), count(2), count(3), count(0xFF)],
            [10_000 - 210, 200, 20, 20_000 - 10_010]
        );
        assert!(overlay.write_at(19_999, &[0; 2]).is_err());
        assert!(below.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn what_is_too_much_for_memory_goes_to_a_file() {
        let len = (IN_MEMORY + 100) * CHUNK;
        let mut overlay = Overlay::new(Vec::new(), len as u64);
        for number in 0..IN_MEMORY + 100 {
            overlay
                .write_at((number * CHUNK) as u64 + 5, &(number as u32).to_le_bytes())
                .unwrap();
        }
        assert_eq!(
            (overlay.memory.len(), overlay.changed.len() * CHUNK),
            (IN_MEMORY * CHUNK, len)
        );
        for number in [0, 77, IN_MEMORY - 1, IN_MEMORY, IN_MEMORY + 99] {
            let mut bytes = [0; 4];
            overlay
                .read_at((number * CHUNK) as u64 + 5, &mut bytes)
                .unwrap();
            assert_eq!(u32::from_le_bytes(bytes), number as u32);
        }
    }
}
