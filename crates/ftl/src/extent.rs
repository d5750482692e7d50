//! The pages that an extent of sectors touches, and the requests of a disk that maps whole pages.

use alloc::boxed::Box;
use nandlab_block::{BlockError, Lba};

/// Bytes of a logical sector.
pub const SECTOR: u32 = 512;

/// A part of a page: (page, first sector in it, sectors).
pub(crate) type Part = (u32, u32, u32);

/// The parts of an extent, in order, on pages of `per_page` sectors.
#[inline]
pub(crate) fn parts(per_page: u32, lba: Lba, count: u64) -> impl Iterator<Item = Part> {
    let per = u64::from(per_page);
    let mut page = lba.0 / per;
    let mut first = lba.0 % per;
    let mut left = count;
    core::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let n = (per - first).min(left);
        let part = (page as u32, first as u32, n as u32);
        left -= n;
        page += 1;
        first = 0;
        Some(part)
    })
}

/// A layer that reads and writes logical pages of [`SECTOR`]-sized sectors. Requests of any extent
/// follow from that; the caller has checked that the extent is inside the disk.
pub(crate) trait Paged {
    /// Sectors of a page.
    fn sectors_per_page(&self) -> u32;

    /// A buffer of one page.
    fn scratch(&mut self) -> &mut Box<[u8]>;

    /// Whether a page holds anything but zeros.
    fn is_mapped(&mut self, lpn: u32) -> Result<bool, BlockError>;

    /// Reads a page; zeros if it is unmapped.
    fn read_page(&mut self, lpn: u32, buf: &mut [u8]) -> Result<(), BlockError>;

    fn write_page(&mut self, lpn: u32, data: &[u8]) -> Result<(), BlockError>;

    fn discard_page(&mut self, lpn: u32) -> Result<(), BlockError>;

    /// Rewrites a part of a page. What cannot be read is not made up: a lost page must be
    /// overwritten whole.
    fn patch_page(
        &mut self,
        lpn: u32,
        first: u32,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), BlockError> {
        let mut scratch = core::mem::take(self.scratch());
        let result = self.read_page(lpn, &mut scratch).and_then(|()| {
            change(&mut scratch[(first * SECTOR) as usize..]);
            self.write_page(lpn, &scratch)
        });
        *self.scratch() = scratch;
        result
    }

    #[inline]
    fn read_extent(&mut self, lba: Lba, count: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        let per_page = self.sectors_per_page();
        let mut rest = buf;
        for (lpn, first, n) in parts(per_page, lba, count) {
            let (part, tail) = rest.split_at_mut((n * SECTOR) as usize);
            rest = tail;
            if n == per_page {
                self.read_page(lpn, part)?;
                continue;
            }
            let mut scratch = core::mem::take(self.scratch());
            let result = self.read_page(lpn, &mut scratch);
            let at = (first * SECTOR) as usize;
            part.copy_from_slice(&scratch[at..at + part.len()]);
            *self.scratch() = scratch;
            result?;
        }
        Ok(())
    }

    #[inline]
    fn write_extent(&mut self, lba: Lba, count: u64, data: &[u8]) -> Result<(), BlockError> {
        let per_page = self.sectors_per_page();
        let mut rest = data;
        for (lpn, first, n) in parts(per_page, lba, count) {
            let (part, tail) = rest.split_at((n * SECTOR) as usize);
            rest = tail;
            if n == per_page {
                self.write_page(lpn, part)?;
            } else {
                self.patch_page(lpn, first, |old| old[..part.len()].copy_from_slice(part))?;
            }
        }
        Ok(())
    }

    fn discard_extent(&mut self, lba: Lba, count: u64) -> Result<(), BlockError> {
        let per_page = self.sectors_per_page();
        for (lpn, first, n) in parts(per_page, lba, count) {
            if !self.is_mapped(lpn)? {
                continue;
            }
            if n == per_page {
                self.discard_page(lpn)?;
            } else {
                self.patch_page(lpn, first, |old| old[..(n * SECTOR) as usize].fill(0))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn an_extent_is_cut_at_page_boundaries() {
        assert_eq!(
            parts(4, Lba(3), 6).collect::<Vec<_>>(),
            [(0, 3, 1), (1, 0, 4), (2, 0, 1)]
        );
        assert_eq!(
            parts(1, Lba(7), 2).collect::<Vec<_>>(),
            [(7, 0, 1), (8, 0, 1)]
        );
        assert_eq!(parts(4, Lba(3), 0).count(), 0);
    }
}
