//! The shape of an image of a NAND array, and whether a given length can be one.

use crate::{Geometry, GeometryError, Layout, LayoutError, OobLayout};
use core::fmt;

/// How an image is cut into pages and blocks. The number of blocks follows from its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFormat {
    /// Data bytes of a page.
    pub page: u32,
    /// Bytes of its spare area that follow in the image, all of them; 0 for an image of data only.
    pub oob: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Who owns which byte of the spare area; not looked at in an image of data only.
    pub layout: Layout,
}

/// An image that cannot hold an array of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The spare area does not fit the layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No array has this shape.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The image does not end where a block ends.
    #[error("image of {found} bytes, expected a multiple of the {block}-byte block; {hint}")]
    BadLength {
        /// The image's length in bytes.
        found: u64,
        /// Bytes of a block with all its spare areas.
        block: u64,
        /// What it might be instead.
        hint: Hint,
    },
}

/// What an image of the wrong length might be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Whole blocks of this page length.
    WithoutOob(u32),
    /// Whole blocks of this page length with the usual spare area, a 32nd of the page.
    WithOob(u32),
    /// Whole pages of this length, spare area included, but not whole blocks.
    WholePages(u32),
    /// Not even whole pages of this length, spare area included.
    CutShort(u32),
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutOob(page) => write!(
                f,
                "it is whole blocks of {page}-byte pages: a dump without OOB?"
            ),
            Self::WithOob(page) => write!(
                f,
                "it is whole blocks of {}-byte pages: a dump with OOB?",
                page + page / 32
            ),
            Self::WholePages(page) => write!(
                f,
                "it is whole pages of {page} bytes: cut short, or another block length?"
            ),
            Self::CutShort(page) => {
                write!(f, "it is not even whole pages of {page} bytes: cut short?")
            }
        }
    }
}

impl ImageFormat {
    /// Bytes of an image of so many blocks; 2^64 - 1 stands for anything more.
    pub fn bytes(&self, blocks: u32) -> u64 {
        u64::from(blocks).saturating_mul(self.block_bytes(self.oob))
    }

    fn block_bytes(&self, oob: u32) -> u64 {
        (u64::from(self.page) + u64::from(oob)).saturating_mul(u64::from(self.pages_per_block))
    }

    /// The array that an image of `found` bytes holds.
    pub(crate) fn fit(&self, found: u64) -> Result<(Geometry, Option<OobLayout>), ImageError> {
        let mut geometry = Geometry::single_die(self.page, self.oob, self.pages_per_block, 1);
        geometry.check()?;
        let layout = if self.oob == 0 {
            None
        } else {
            Some(self.layout.on(self.page, self.oob)?)
        };
        let block = self.block_bytes(self.oob);
        if !found.is_multiple_of(block) {
            return Err(ImageError::BadLength {
                found,
                block,
                hint: self.hint(found),
            });
        }
        let blocks = found / block;
        let too_many = GeometryError {
            field: "blocks",
            found: blocks,
            expected: "below 2^32",
        };
        geometry.blocks = u32::try_from(blocks).map_err(|_| too_many)?;
        geometry.oob = layout
            .as_ref()
            .map_or(0, |layout| layout.user_bytes() as u32);
        geometry.check()?;
        Ok((geometry, layout))
    }

    fn hint(&self, found: u64) -> Hint {
        let cells = self.page + self.oob;
        if self.oob > 0 && found.is_multiple_of(self.block_bytes(0)) {
            Hint::WithoutOob(self.page)
        } else if self.oob == 0 && found.is_multiple_of(self.block_bytes(self.page / 32)) {
            Hint::WithOob(self.page)
        } else if found.is_multiple_of(u64::from(cells)) {
            Hint::WholePages(cells)
        } else {
            Hint::CutShort(cells)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const LARGE: ImageFormat = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 64,
        layout: Layout::LinuxLargePage64,
    };

    #[test]
    fn an_image_of_whole_blocks_gives_their_number_and_the_user_bytes() {
        let (geometry, layout) = LARGE.fit(LARGE.bytes(10)).unwrap();
        assert_eq!(
            (geometry.blocks, geometry.oob, layout.unwrap().raw_bytes()),
            (10, 38, 64)
        );
    }

    #[test]
    fn a_wrong_length_is_refused_with_its_numbers_and_a_guess() {
        let refusal = |format: ImageFormat, found| format.fit(found).unwrap_err().to_string();
        assert_eq!(
            refusal(LARGE, 2048 * 64 * 8),
            "image of 1048576 bytes, expected a multiple of the 135168-byte block; it is whole blocks of 2048-byte pages: a dump without OOB?"
        );
        assert!(
            refusal(ImageFormat { oob: 0, ..LARGE }, 2112 * 64)
                .ends_with("2112-byte pages: a dump with OOB?")
        );
        assert!(
            refusal(LARGE, 2112 * 63)
                .ends_with("whole pages of 2112 bytes: cut short, or another block length?")
        );
        assert!(
            refusal(LARGE, 2112 * 64 + 5)
                .ends_with("not even whole pages of 2112 bytes: cut short?")
        );
    }

    #[test]
    fn shapes_that_no_array_has_are_refused_whatever_the_length() {
        let extremes = [0, 1, 5, 16, 64, 511, 512, 2048, 65_536, u32::MAX];
        let mut fitted = 0;
        for (page, oob, pages_per_block) in extremes.iter().flat_map(|p| {
            extremes
                .iter()
                .flat_map(move |o| extremes.map(|n| (*p, *o, n)))
        }) {
            for layout in [
                Layout::Raw,
                Layout::MarkerOnly,
                Layout::LinuxSmallPage,
                Layout::LinuxLargePage64,
                Layout::DiskOnChip,
            ] {
                let format = ImageFormat {
                    page,
                    oob,
                    pages_per_block,
                    layout,
                };
                for found in [0, 1, 528, format.bytes(1), format.bytes(u32::MAX), u64::MAX] {
                    if let Ok((geometry, _)) = format.fit(found) {
                        assert_eq!(
                            (geometry.check(), format.bytes(geometry.blocks)),
                            (Ok(()), found)
                        );
                        fitted += 1;
                    }
                }
            }
        }
        assert!(fitted > 100);
    }
}
