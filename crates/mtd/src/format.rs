//! The shape of an image of a NAND array, and whether a given length can be one.

use crate::{Geometry, GeometryError, Layout, LayoutError, OobLayout};
use core::fmt;
use nandlab_ecc::{Code, CodeError};

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
    /// The code whose parity is in the spare area's ECC bytes, step after step. Without one, nobody
    /// looks at those bytes and they stay as they are.
    pub ecc: Option<Code>,
}

/// An image that cannot hold an array of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The spare area does not fit the layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// There is no such code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The code's steps do not fill a page.
    #[error("ECC {code} on pages of {page} bytes, expected a multiple of its {}-byte steps", code.step())]
    Steps {
        /// The error-correcting code that was asked for.
        code: Code,
        /// Data bytes of a page.
        page: u32,
    },
    /// An image of data only has no place for ECC bytes.
    #[error("ECC {0} in an image without spare bytes, expected none")]
    NoSpare(Code),
    /// Linux has no layout for this code and spare area.
    #[error("ECC {code} with {oob} spare bytes behind pages of {page}, expected {expected}")]
    NotInLinux {
        /// The error-correcting code that was asked for.
        code: Code,
        /// Data bytes of a page.
        page: u32,
        /// Bytes of its spare area.
        oob: u32,
        /// What Linux has a layout for.
        expected: &'static str,
    },
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
    /// The format that Linux uses with this code: Hamming lies where it always was, with 8, 16, 64
    /// or 128 spare bytes; BCH at the end, with 64 and more. Without a code, the user has all
    /// bytes but those that Linux gives to Hamming by default on small pages and with 64 spare.
    pub fn linux(
        page: u32,
        oob: u32,
        pages_per_block: u32,
        ecc: Option<Code>,
    ) -> Result<Self, ImageError> {
        let layout = match ecc {
            None => layout_without_code(page, oob),
            Some(code) => layout_with_code(page, oob, code)?,
        };
        let format = Self {
            page,
            oob,
            pages_per_block,
            layout,
            ecc,
        };
        format.spare()?;
        Ok(format)
    }

    /// The code that Linux uses where neither the chip nor the board asks for another: Hamming over
    /// 256 bytes, if it has a layout for these spare bytes.
    pub fn linux_code(page: u32, oob: u32) -> Option<Code> {
        Self::linux(page, oob, 1, Some(Code::LINUX)).ok()?.ecc
    }

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
        let layout = self.spare()?;
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

    /// The spare area, with as many ECC bytes as the code has.
    fn spare(&self) -> Result<Option<OobLayout>, ImageError> {
        let ecc = match self.ecc {
            Some(code) if self.oob == 0 => return Err(ImageError::NoSpare(code)),
            Some(code) => Some(self.parity(code)?),
            None => None,
        };
        if self.oob == 0 {
            return Ok(None);
        }
        Ok(Some(self.layout.with_ecc(self.page, self.oob, ecc)?))
    }

    /// ECC bytes of a page.
    fn parity(&self, code: Code) -> Result<usize, ImageError> {
        code.check()?;
        let page = self.page;
        code.page_parity(page as usize)
            .ok_or(ImageError::Steps { code, page })
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

fn layout_without_code(page: u32, oob: u32) -> Layout {
    match (page, oob) {
        (..=512, 16) => Layout::LinuxSmallPage,
        (513.., 64) => Layout::LinuxLargePage64,
        _ => Layout::MarkerOnly,
    }
}

fn layout_with_code(page: u32, oob: u32, code: Code) -> Result<Layout, ImageError> {
    let refused = |expected| ImageError::NotInLinux {
        code,
        page,
        oob,
        expected,
    };
    match (code, oob) {
        (Code::Hamming { .. }, 8 | 16) => Ok(Layout::LinuxSmallPage),
        (Code::Hamming { .. }, 64) => Ok(Layout::LinuxLargePage64),
        (Code::Hamming { .. }, 128) => Ok(Layout::LinuxLargePage128),
        (Code::Hamming { .. }, _) => Err(refused("8, 16, 64 or 128")),
        (Code::Bch { .. }, 64..) => {
            let ecc = code.page_parity(page as usize);
            let ecc = ecc.ok_or(ImageError::Steps { code, page })?;
            let ecc = u16::try_from(ecc).map_err(|_| refused("space for the ECC bytes"))?;
            Ok(Layout::LinuxLargePageEnd { ecc })
        }
        (Code::Bch { .. }, _) => Err(refused("at least 64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use nandlab_ecc::Order;

    const LARGE: ImageFormat = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 64,
        layout: Layout::LinuxLargePage64,
        ecc: None,
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
    fn linux_has_a_layout_for_each_code_and_spare_area_or_says_what_it_has() {
        let bch = |strength| Code::Bch {
            step: 512,
            strength,
        };
        let wide = Code::Hamming {
            step: 512,
            order: Order::Linux,
        };
        let layout = |page, oob, ecc| Ok(ImageFormat::linux(page, oob, 64, ecc)?.layout);
        for (page, oob, code, expected) in [
            (512, 16, Code::LINUX, Layout::LinuxSmallPage),
            (256, 8, Code::LINUX, Layout::LinuxSmallPage),
            (2048, 64, Code::LINUX, Layout::LinuxLargePage64),
            (2048, 64, wide, Layout::LinuxLargePage64),
            (4096, 128, Code::LINUX, Layout::LinuxLargePage128),
            (2048, 64, bch(8), Layout::LinuxLargePageEnd { ecc: 52 }),
            (4096, 224, bch(8), Layout::LinuxLargePageEnd { ecc: 104 }),
        ] {
            assert_eq!(layout(page, oob, Some(code)), Ok(expected), "{code}");
        }
        assert_eq!(layout(2048, 128, None), Ok(Layout::MarkerOnly));
        let refusal =
            |page, oob, code| -> Result<Layout, ImageError> { layout(page, oob, Some(code)) };
        assert_eq!(
            refusal(4096, 224, Code::LINUX).unwrap_err().to_string(),
            "ECC hamming with 224 spare bytes behind pages of 4096, expected 8, 16, 64 or 128"
        );
        assert_eq!(
            refusal(512, 16, bch(4)).unwrap_err().to_string(),
            "ECC bch-4 with 16 spare bytes behind pages of 512, expected at least 64"
        );
        for (page, oob, code) in [
            (4096, 64, Code::LINUX),
            (2048, 64, bch(12)),
            (2048, 64, bch(0)),
            (1000, 64, bch(4)),
            (2048, 0, Code::LINUX),
        ] {
            assert!(refusal(page, oob, code).is_err(), "{page} + {oob} {code}");
        }
    }

    #[test]
    fn linux_uses_hamming_where_it_has_room_for_it() {
        for (page, oob) in [(512, 16), (256, 8), (2048, 64), (2048, 128), (4096, 128)] {
            assert_eq!(ImageFormat::linux_code(page, oob), Some(Code::LINUX));
        }
        for (page, oob) in [(2048, 0), (4096, 64), (4096, 224), (8192, 640)] {
            assert_eq!(ImageFormat::linux_code(page, oob), None, "{page} + {oob}");
        }
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
                Layout::LinuxLargePage128,
                Layout::LinuxLargePageEnd { ecc: 14 },
                Layout::DiskOnChip,
            ] {
                let format = ImageFormat {
                    page,
                    oob,
                    pages_per_block,
                    layout,
                    ecc: None,
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
