//! A byte-addressed view of a disk: the clients of an export may ask for any extent, a device takes
//! whole sectors.
//!
//! A partly covered sector is read, changed and written back. The owner of the view owns the
//! device, so nothing comes between the two.

use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};

/// Bytes of zeros written by one device request.
const ZEROS: usize = 64 << 10;

/// Whether zeroed sectors may be left without storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// Holes are allowed: discard them, which costs least.
    Allowed,
    /// Write zeros, so that a later write finds its space taken.
    Forbidden,
}

/// A disk addressed by byte.
#[derive(Debug)]
pub struct Bytes<D> {
    device: D,
    sector: Vec<u8>,
    zeros: Vec<u8>,
}

/// An extent cut at sector boundaries, lengths in bytes.
struct Cut {
    /// Up to the first boundary, less than a sector.
    head: u64,
    /// The first whole sector of the range.
    lba: Lba,
    /// The number of whole sectors.
    body: u64,
    /// Behind the last boundary, less than a sector.
    tail: u64,
}

impl<D: BlockDevice> Bytes<D> {
    /// A view of `device`.
    pub fn new(device: D) -> Self {
        let sector = device.geometry().sector as usize;
        Self {
            device,
            sector: vec![0; sector],
            zeros: vec![0; ZEROS.next_multiple_of(sector)],
        }
    }

    /// Returns the shape of the disk.
    pub fn geometry(&self) -> &BlockGeometry {
        self.device.geometry()
    }

    /// Returns the disk and drops the wrapper.
    pub fn into_inner(self) -> D {
        self.device
    }

    /// Reads any extent inside the disk.
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        let cut = self.cut(offset, buf.len() as u64)?;
        let (head, rest) = buf.split_at_mut(cut.head as usize);
        let (body, tail) = rest.split_at_mut(cut.body as usize);
        self.read_part(offset, head)?;
        if !body.is_empty() {
            self.device.read(cut.lba, body)?;
        }
        self.read_part(offset + cut.head + cut.body, tail)
    }

    /// Writes any extent inside the disk. A power cut may tear it between sectors, as any write.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockError> {
        let cut = self.cut(offset, data.len() as u64)?;
        let (head, rest) = data.split_at(cut.head as usize);
        let (body, tail) = rest.split_at(cut.body as usize);
        self.edit_part(offset, cut.head, |part| part.copy_from_slice(head))?;
        if !body.is_empty() {
            self.device.write(cut.lba, body)?;
        }
        self.edit_part(offset + cut.head + cut.body, cut.tail, |part| {
            part.copy_from_slice(tail)
        })
    }

    /// Makes any extent inside the disk read as zeros.
    pub fn zero(&mut self, offset: u64, length: u64, hole: Hole) -> Result<(), BlockError> {
        let cut = self.cut(offset, length)?;
        self.edit_part(offset, cut.head, |part| part.fill(0))?;
        let discarded = match hole {
            Hole::Allowed => self.discard_whole(&cut)?,
            Hole::Forbidden => false,
        };
        if !discarded {
            self.write_zeros(cut.lba, cut.body)?;
        }
        self.edit_part(offset + cut.head + cut.body, cut.tail, |part| part.fill(0))
    }

    /// Gives up the sectors that lie wholly inside an extent; the rest keeps its contents. A hint:
    /// a device that cannot discard keeps everything, which is no error.
    pub fn trim(&mut self, offset: u64, length: u64) -> Result<(), BlockError> {
        let cut = self.cut(offset, length)?;
        self.discard_whole(&cut).map(|_| ())
    }

    /// Makes everything written, zeroed and trimmed so far durable.
    pub fn flush(&mut self) -> Result<(), BlockError> {
        self.device.flush()
    }

    fn cut(&self, offset: u64, length: u64) -> Result<Cut, BlockError> {
        let BlockGeometry {
            sector, sectors, ..
        } = *self.device.geometry();
        let sector = u64::from(sector);
        if offset
            .checked_add(length)
            .is_none_or(|end| end > sectors * sector)
        {
            return Err(BlockError::OutOfRange {
                lba: Lba(offset / sector),
                count: length.div_ceil(sector),
                sectors,
            });
        }
        let head = (offset.next_multiple_of(sector) - offset).min(length);
        let tail = (length - head) % sector;
        Ok(Cut {
            head,
            lba: Lba((offset + head) / sector),
            body: length - head - tail,
            tail,
        })
    }

    /// False where the device cannot.
    fn discard_whole(&mut self, cut: &Cut) -> Result<bool, BlockError> {
        if cut.body == 0 {
            return Ok(true);
        }
        match self
            .device
            .discard(cut.lba, cut.body / self.sector.len() as u64)
        {
            Err(BlockError::Unsupported) => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn write_zeros(&mut self, lba: Lba, length: u64) -> Result<(), BlockError> {
        let mut lba = lba;
        let mut left = length;
        while left > 0 {
            let chunk = left.min(self.zeros.len() as u64);
            self.device.write(lba, &self.zeros[..chunk as usize])?;
            lba.0 += chunk / self.sector.len() as u64;
            left -= chunk;
        }
        Ok(())
    }

    fn read_part(&mut self, offset: u64, part: &mut [u8]) -> Result<(), BlockError> {
        if part.is_empty() {
            return Ok(());
        }
        let (lba, at) = self.locate(offset);
        self.device.read(lba, &mut self.sector)?;
        part.copy_from_slice(&self.sector[at..at + part.len()]);
        Ok(())
    }

    fn edit_part(
        &mut self,
        offset: u64,
        length: u64,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<(), BlockError> {
        if length == 0 {
            return Ok(());
        }
        let (lba, at) = self.locate(offset);
        self.device.read(lba, &mut self.sector)?;
        edit(&mut self.sector[at..at + length as usize]);
        self.device.write(lba, &self.sector)
    }

    fn locate(&self, offset: u64) -> (Lba, usize) {
        let sector = self.sector.len() as u64;
        (Lba(offset / sector), (offset % sector) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::{WatchedRam, watched_ram};

    const SECTOR: u64 = 512;
    const SIZE: u64 = 8 * SECTOR;

    /// Extents that begin and end at, just before and just behind sector boundaries.
    fn extents() -> impl Iterator<Item = (u64, u64)> {
        let edges = [0, 1, 511, 512, 513, 1024, 1700, SIZE - 1, SIZE];
        edges.into_iter().flat_map(move |from| {
            edges
                .into_iter()
                .filter(move |to| from <= *to)
                .map(move |to| (from, to - from))
        })
    }

    fn filled() -> (Bytes<WatchedRam>, Vec<u8>) {
        let content: Vec<u8> = (0..SIZE).map(|i| (i % 251) as u8 + 1).collect();
        let mut disk = Bytes::new(watched_ram(SECTOR as u32, 8).0);
        disk.write(0, &content).unwrap();
        (disk, content)
    }

    fn whole(disk: &mut Bytes<WatchedRam>) -> Vec<u8> {
        let mut all = vec![0; SIZE as usize];
        disk.read(0, &mut all).unwrap();
        all
    }

    #[test]
    fn any_extent_reads_writes_and_zeroes_as_in_a_plain_array() {
        for (offset, length) in extents() {
            let range = offset as usize..(offset + length) as usize;
            let (mut disk, mut model) = filled();
            let mut part = vec![0; length as usize];
            disk.read(offset, &mut part).unwrap();
            assert_eq!(part, model[range.clone()], "read {length} at {offset}");

            model[range.clone()].fill(0xee);
            disk.write(offset, &model[range.clone()]).unwrap();
            assert_eq!(whole(&mut disk), model, "write {length} at {offset}");

            for hole in [Hole::Allowed, Hole::Forbidden] {
                let (mut disk, mut model) = filled();
                model[range.clone()].fill(0);
                disk.zero(offset, length, hole).unwrap();
                assert_eq!(
                    whole(&mut disk),
                    model,
                    "zero {length} at {offset}, hole {hole:?}"
                );
            }
        }
    }

    #[test]
    fn trim_never_touches_a_partly_covered_sector() {
        for (offset, length) in extents() {
            let (mut disk, mut model) = filled();
            let first = offset.next_multiple_of(SECTOR);
            let last = (offset + length) / SECTOR * SECTOR;
            if first < last {
                model[first as usize..last as usize].fill(0);
            }
            disk.trim(offset, length).unwrap();
            assert_eq!(whole(&mut disk), model, "trim {length} at {offset}");
        }
    }

    #[test]
    fn zeros_are_discarded_only_where_a_hole_is_allowed() {
        let (ram, probe) = watched_ram(512, 1024);
        let mut disk = Bytes::new(ram);
        disk.zero(0, 1024 * 512, Hole::Allowed).unwrap();
        assert_eq!((probe.discards(), probe.writes()), (1, 0));
        disk.zero(0, 1024 * 512, Hole::Forbidden).unwrap();
        assert_eq!((probe.discards(), probe.writes()), (1, 8), "64 KiB a write");
    }

    #[test]
    fn a_device_that_cannot_discard_is_zeroed_by_writing() {
        let (ram, probe) = watched_ram(512, 8);
        probe.refuse_discard();
        let mut disk = Bytes::new(ram);
        disk.write(0, &[7; 4096]).unwrap();
        disk.trim(0, 4096).unwrap();
        assert_eq!(whole(&mut disk), [7; 4096]);
        disk.zero(0, 4096, Hole::Allowed).unwrap();
        assert_eq!(whole(&mut disk), [0; 4096]);
    }

    #[test]
    fn an_extent_that_leaves_the_disk_is_refused_even_if_its_end_overflows() {
        let (mut disk, content) = filled();
        for offset in [SIZE, SIZE - 1, u64::MAX] {
            let error = disk.write(offset, &[0; 2]).unwrap_err();
            assert!(
                matches!(error, BlockError::OutOfRange { sectors: 8, .. }),
                "{error}"
            );
            disk.zero(offset, u64::MAX, Hole::Allowed).unwrap_err();
        }
        assert_eq!(whole(&mut disk), content);
    }
}
