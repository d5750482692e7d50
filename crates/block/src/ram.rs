//! A disk in memory that takes memory only for what was written and is not zero.
//!
//! *Promises.* Every write and discard is durable at once. A clone shares what neither has changed
//! since, so that a disk can be forked at every crash point. *Knows nothing of* power: see
//! [`Nvram`](crate::Nvram).

use crate::{BlockDevice, BlockError, BlockGeometry, Lba, Remap};
use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    vec,
};

/// Bytes that are allocated and shared together, unless a sector is larger.
const CHUNK_BYTES: u32 = 16 * 1024;

/// A sparse disk in memory.
#[derive(Clone, Debug)]
pub struct Ram {
    geometry: BlockGeometry,
    chunk: usize,
    chunks: BTreeMap<u64, Arc<[u8]>>,
}

impl Ram {
    /// A disk of zeros.
    ///
    /// # Panics
    /// If a sector has no bytes, or the disk 2^64 or more: a bug of the caller.
    pub fn new(sector_bytes: u32, sectors: u64) -> Self {
        assert!(sector_bytes > 0, "a sector of no bytes");
        assert!(
            sectors.checked_mul(u64::from(sector_bytes)).is_some(),
            "a disk of 2^64 bytes or more"
        );
        let chunk = sector_bytes as usize * (CHUNK_BYTES / sector_bytes).max(1) as usize;
        Self {
            geometry: BlockGeometry {
                sector: sector_bytes,
                sectors,
                page: sector_bytes,
            },
            chunk,
            chunks: BTreeMap::new(),
        }
    }

    /// Where `offset` lies, and how many of `left` bytes lie in the same chunk.
    fn locate(&self, offset: u64, left: u64) -> (u64, usize, usize) {
        let at = (offset % self.chunk as u64) as usize;
        (
            offset / self.chunk as u64,
            at,
            left.min((self.chunk - at) as u64) as usize,
        )
    }

    fn offset(&self, lba: Lba) -> u64 {
        lba.0 * u64::from(self.geometry.sector)
    }

    /// Zeros part of a chunk, if it is there at all.
    fn clear(&mut self, index: u64, at: usize, count: usize) {
        if let Some(chunk) = self.chunks.get_mut(&index) {
            Arc::make_mut(chunk)[at..at + count].fill(0);
        }
    }
}

impl BlockDevice for Ram {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, mut buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        let mut offset = self.offset(lba);
        while !buf.is_empty() {
            let (index, at, count) = self.locate(offset, buf.len() as u64);
            let (part, rest) = buf.split_at_mut(count);
            match self.chunks.get(&index) {
                Some(chunk) => part.copy_from_slice(&chunk[at..at + count]),
                None => part.fill(0),
            }
            (buf, offset) = (rest, offset + count as u64);
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, mut data: &[u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, data.len())?;
        let mut offset = self.offset(lba);
        while !data.is_empty() {
            let (index, at, count) = self.locate(offset, data.len() as u64);
            let (part, rest) = data.split_at(count);
            (data, offset) = (rest, offset + count as u64);
            match self.chunks.entry(index) {
                Entry::Occupied(mut chunk) => {
                    Arc::make_mut(chunk.get_mut())[at..at + count].copy_from_slice(part);
                }
                Entry::Vacant(_) if part.iter().all(|byte| *byte == 0) => {}
                Entry::Vacant(place) if count == self.chunk => _ = place.insert(part.into()),
                Entry::Vacant(place) => {
                    let zeros = core::iter::repeat_n(0, self.chunk).collect();
                    Arc::make_mut(place.insert(zeros))[at..at + count].copy_from_slice(part);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        Ok(())
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        let start = self.offset(lba);
        let end = self.offset(Lba(lba.0 + sectors));
        let chunk = self.chunk as u64;
        let first = start.div_ceil(chunk);
        let last = end / chunk;
        if first > last {
            // Both ends lie inside one chunk.
            self.clear(last, (start % chunk) as usize, (end - start) as usize);
            return Ok(());
        }
        // A disk may be far larger than what it holds, so whole chunks are dropped by what is
        // there, not by address.
        while let Some((&index, _)) = self.chunks.range(first..last).next() {
            self.chunks.remove(&index);
        }
        self.clear(
            first.wrapping_sub(1),
            (start % chunk) as usize,
            (first * chunk - start) as usize,
        );
        self.clear(last, 0, (end % chunk) as usize);
        Ok(())
    }

    /// All contents are taken before any is given, so that chains and circles of pairs mean what
    /// they say.
    fn remap(&mut self, pairs: &[Remap]) -> Result<(), BlockError> {
        for pair in pairs {
            self.geometry.check_sectors(pair.from, 1)?;
            self.geometry.check_sectors(pair.to, 1)?;
        }
        let sector = self.geometry.sector as usize;
        let mut taken = vec![0; pairs.len() * sector];
        for (pair, data) in pairs.iter().zip(taken.chunks_exact_mut(sector)) {
            self.read(pair.from, data)?;
        }
        pairs
            .iter()
            .try_for_each(|pair| self.discard(pair.from, 1))?;
        pairs
            .iter()
            .zip(taken.chunks_exact(sector))
            .try_for_each(|(pair, data)| self.write(pair.to, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn byte(disk: &mut Ram, lba: u64) -> u8 {
        let mut buf = [0xEE; 512];
        disk.read(Lba(lba), &mut buf).unwrap();
        assert!(buf.iter().all(|b| *b == buf[0]));
        buf[0]
    }

    #[test]
    fn memory_is_taken_by_what_is_written_and_given_back_by_discard() {
        let taken = |disk: &Ram| disk.chunks.len() * disk.chunk;
        let mut disk = Ram::new(512, 1 << 54);
        assert_eq!((taken(&disk), byte(&mut disk, 1 << 53)), (0, 0));
        disk.write(Lba(1 << 53), &[7; 512]).unwrap();
        assert_eq!((taken(&disk), byte(&mut disk, 1 << 53)), (16 * 1024, 7));
        disk.discard(Lba(0), 1 << 54).unwrap();
        assert_eq!((taken(&disk), byte(&mut disk, 1 << 53)), (0, 0));
    }

    #[test]
    fn discard_clears_its_sectors_and_no_others() {
        // 32 sectors of 512 bytes make a chunk: extents inside one, across an edge, on the edges,
        // over whole ones.
        for (lba, sectors) in [
            (3, 4),
            (30, 4),
            (32, 32),
            (0, 32),
            (31, 66),
            (5, 0),
            (32, 0),
            (100, 28),
        ] {
            let mut disk = Ram::new(512, 128);
            disk.write(Lba(0), &[9; 128 * 512]).unwrap();
            disk.discard(Lba(lba), sectors).unwrap();
            for at in 0..128 {
                let expected = if (lba..lba + sectors).contains(&at) {
                    0
                } else {
                    9
                };
                assert_eq!(
                    byte(&mut disk, at),
                    expected,
                    "sector {at} after discarding {sectors} at {lba}"
                );
            }
        }
    }

    #[test]
    fn a_clone_goes_its_own_way() {
        let mut one = Ram::new(512, 64);
        one.write(Lba(1), &[1; 512]).unwrap();
        let mut two = one.clone();
        two.write(Lba(1), &[2; 512]).unwrap();
        one.discard(Lba(0), 1).unwrap();
        assert_eq!((byte(&mut one, 1), byte(&mut two, 1)), (1, 2));
    }

    #[test]
    fn remap_moves_contents_and_leaves_zeros() {
        let mut disk = Ram::new(512, 64);
        (0..8).for_each(|lba| disk.write(Lba(lba), &[lba as u8 + 1; 512]).unwrap());
        let pair = |from, to| Remap {
            from: Lba(from),
            to: Lba(to),
        };
        // One plain move, one from nothing, a chain, a circle, and nowhere.
        disk.remap(&[
            pair(0, 40),
            pair(50, 1),
            pair(2, 3),
            pair(3, 4),
            pair(5, 6),
            pair(6, 5),
            pair(7, 7),
        ])
        .unwrap();
        let found: Vec<u8> = [0, 40, 1, 2, 3, 4, 5, 6, 7]
            .map(|lba| byte(&mut disk, lba))
            .into();
        assert_eq!(found, [0, 1, 0, 0, 3, 4, 7, 6, 8]);
    }

    #[test]
    fn a_remap_with_one_bad_pair_changes_nothing() {
        let mut disk = Ram::new(512, 8);
        disk.write(Lba(1), &[1; 512]).unwrap();
        let outside = BlockError::OutOfRange {
            lba: Lba(8),
            count: 1,
            sectors: 8,
        };
        for (from, to) in [(2, 8), (8, 2)] {
            let pairs = [
                Remap {
                    from: Lba(1),
                    to: Lba(0),
                },
                Remap {
                    from: Lba(from),
                    to: Lba(to),
                },
            ];
            assert_eq!(
                (disk.remap(&pairs), byte(&mut disk, 0), byte(&mut disk, 1)),
                (Err(outside), 0, 1)
            );
        }
    }

    #[test]
    fn requests_outside_the_disk_are_refused() {
        let mut disk = Ram::new(512, 8);
        assert_eq!(
            disk.write(Lba(7), &[0; 1024]),
            Err(BlockError::OutOfRange {
                lba: Lba(7),
                count: 2,
                sectors: 8
            })
        );
        assert_eq!(
            disk.read(Lba(0), &mut [0; 100]),
            Err(BlockError::BadLength {
                found: 100,
                sector: 512
            })
        );
        assert_eq!(
            disk.discard(Lba(u64::MAX), 2),
            Err(BlockError::OutOfRange {
                lba: Lba(u64::MAX),
                count: 2,
                sectors: 8
            })
        );
    }
}
