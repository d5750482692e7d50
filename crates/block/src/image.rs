//! A disk held in an image: sector `n` lies at byte `n * sector`, nothing else is in it.
//!
//! *Promises.* What was written is in the image at once and durable after a flush. *Knows nothing
//! of* what the image lies in (see [`Backing`]) or of partition tables.

use crate::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_sim::{Backing, BackingError};

/// An image that cannot be a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The sector length is none.
    #[error("sector of {0} bytes, expected at least 1")]
    BadSector(u32),
    /// The image does not end where a sector ends.
    #[error(
        "image of {found} bytes ends {excess} bytes into a sector, expected a multiple of {sector} bytes"
    )]
    BadLength {
        /// The image's length in bytes.
        found: u64,
        /// Bytes beyond the last whole sector.
        excess: u64,
        /// Bytes of a sector.
        sector: u32,
    },
}

/// A disk held in an image.
#[derive(Clone, Debug)]
pub struct Image<B> {
    backing: B,
    geometry: BlockGeometry,
    read_only: bool,
}

impl<B: Backing> Image<B> {
    /// The disk in `backing`, whose length is the disk's.
    pub fn new(backing: B, sector_bytes: u32) -> Result<Self, ImageError> {
        let found = backing.len();
        let excess = found
            .checked_rem(u64::from(sector_bytes))
            .ok_or(ImageError::BadSector(sector_bytes))?;
        if excess > 0 {
            return Err(ImageError::BadLength {
                found,
                excess,
                sector: sector_bytes,
            });
        }
        let geometry = BlockGeometry {
            sector: sector_bytes,
            sectors: found / u64::from(sector_bytes),
            page: sector_bytes,
        };
        Ok(Self {
            backing,
            geometry,
            read_only: false,
        })
    }

    /// The same disk, refusing every write and discard.
    pub fn read_only(self) -> Self {
        Self {
            read_only: true,
            ..self
        }
    }

    /// Gives the image back.
    pub fn into_backing(self) -> B {
        self.backing
    }

    fn offset(&self, lba: Lba) -> u64 {
        lba.0 * u64::from(self.geometry.sector)
    }

    fn check_writable(&self) -> Result<(), BlockError> {
        if self.read_only {
            Err(BlockError::ReadOnly(None))
        } else {
            Ok(())
        }
    }
}

impl From<BackingError> for BlockError {
    fn from(error: BackingError) -> Self {
        Self::Backing(error.reason())
    }
}

impl<B: Backing> BlockDevice for Image<B> {
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&mut self, lba: Lba, buf: &mut [u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, buf.len())?;
        Ok(self.backing.read_at(self.offset(lba), buf)?)
    }

    fn write(&mut self, lba: Lba, data: &[u8]) -> Result<(), BlockError> {
        self.geometry.check(lba, data.len())?;
        self.check_writable()?;
        Ok(self.backing.write_at(self.offset(lba), data)?)
    }

    fn flush(&mut self) -> Result<(), BlockError> {
        if self.read_only {
            Ok(())
        } else {
            Ok(self.backing.sync()?)
        }
    }

    fn discard(&mut self, lba: Lba, sectors: u64) -> Result<(), BlockError> {
        self.geometry.check_sectors(lba, sectors)?;
        self.check_writable()?;
        Ok(self
            .backing
            .punch(self.offset(lba), sectors * u64::from(self.geometry.sector))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec, vec::Vec};

    #[test]
    fn a_sector_lies_at_its_number_times_its_length() {
        let mut disk = Image::new(vec![1u8; 4 * 512], 512).unwrap();
        disk.write(Lba(2), &[5; 512]).unwrap();
        disk.discard(Lba(3), 1).unwrap();
        let bytes = disk.into_backing();
        assert!(bytes[..1024].iter().all(|b| *b == 1) && bytes[1024..1536].iter().all(|b| *b == 5));
        assert!(bytes[1536..].iter().all(|b| *b == 0));
    }

    #[test]
    fn an_image_that_ends_inside_a_sector_is_refused_with_its_numbers() {
        let error = Image::new(vec![0u8; 1030], 512).unwrap_err();
        assert_eq!(
            error.to_string(),
            "image of 1030 bytes ends 6 bytes into a sector, expected a multiple of 512 bytes"
        );
        assert_eq!(
            Image::new(Vec::new(), 0).unwrap_err(),
            ImageError::BadSector(0)
        );
    }

    #[test]
    fn a_read_only_image_never_changes() {
        let mut disk = Image::new(vec![1u8; 1024], 512).unwrap().read_only();
        assert_eq!(
            disk.write(Lba(0), &[5; 512]),
            Err(BlockError::ReadOnly(None))
        );
        assert_eq!(disk.discard(Lba(0), 2), Err(BlockError::ReadOnly(None)));
        assert_eq!(disk.flush(), Ok(()));
        assert_eq!(disk.into_backing(), [1; 1024]);
    }

    /// Shorter than it said: a file that was truncated behind our back.
    struct Shrunk(Vec<u8>);

    impl Backing for Shrunk {
        fn len(&self) -> u64 {
            1024
        }
        fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), BackingError> {
            self.0.read_at(offset, buf)
        }
        fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
            self.0.write_at(offset, data)
        }
        fn sync(&mut self) -> Result<(), BackingError> {
            Err(BackingError::Io("input/output error"))
        }
    }

    #[test]
    fn a_failing_backing_is_an_error_of_the_disk() {
        let mut disk = Image::new(Shrunk(vec![0; 512]), 512).unwrap();
        assert_eq!(
            disk.read(Lba(1), &mut [0; 512]),
            Err(BlockError::Backing("access outside the image"))
        );
        assert_eq!(disk.flush(), Err(BlockError::Backing("input/output error")));
    }
}
