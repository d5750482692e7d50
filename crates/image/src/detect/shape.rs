//! How an image is cut into pages, and which error correction its spare bytes hold.
//!
//! *Knows nothing of* the search for it: see `find`.

use nandlab_ecc::Code;
use nandlab_mtd::{ImageFormat, Layout};

/// How an image is cut into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data bytes of a page; 0 where an image without spare bytes does not say.
    pub page: u32,
    /// Spare bytes behind each page.
    pub oob: u32,
    /// The code whose parity the spare bytes hold.
    pub ecc: Option<Code>,
    /// Who owns which spare bytes.
    pub layout: Layout,
}

impl Shape {
    /// Pages without an OOB area in the image.
    pub const PLAIN: Self = Self {
        page: 0,
        oob: 0,
        ecc: None,
        layout: Layout::Raw,
    };

    /// The format of an image of this shape.
    pub fn format(&self, pages_per_block: u32) -> ImageFormat {
        ImageFormat {
            page: self.page,
            oob: self.oob,
            pages_per_block,
            layout: self.layout,
            ecc: self.ecc,
        }
    }

    /// Bytes of the image that a page takes.
    pub fn stride(&self) -> u64 {
        u64::from(self.page) + u64::from(self.oob)
    }

    /// Whether an image of that length is whole pages.
    pub(super) fn fits(&self, len: u64) -> bool {
        match self.oob {
            0 => len.is_multiple_of(4096),
            _ => len.is_multiple_of(self.stride()),
        }
    }

    /// Where a byte of the data lies in the image.
    pub fn raw(&self, at: u64) -> u64 {
        match (self.page, self.oob) {
            (0, _) | (_, 0) => at,
            (page, _) => at / u64::from(page) * self.stride() + at % u64::from(page),
        }
    }

    /// Which byte of the data a byte of the image is, or the first behind it.
    pub fn data(&self, at: u64) -> u64 {
        match (self.page, self.oob) {
            (0, _) | (_, 0) => at,
            (page, _) => {
                let within = (at % self.stride()).min(page.into());
                at / self.stride() * u64::from(page) + within
            }
        }
    }

    pub(super) fn words(&self) -> String {
        match self.oob {
            0 => "data without spare bytes (--oob 0)".into(),
            oob => format!(
                "pages of {} + {oob} bytes (--page {} --oob {oob})",
                self.page, self.page
            ),
        }
    }
}

pub(super) fn named(shape: &Shape) -> String {
    match shape.ecc {
        Some(code) => format!("{} with the code {code} (--ecc {code})", shape.words()),
        None => shape.words(),
    }
}

/// Pages with spare bytes that hold no known code. All layouts without one fit.
pub(crate) fn plain_format(page: u32, oob: u32) -> ImageFormat {
    ImageFormat::linux(page, oob, 1, None).unwrap_or(ImageFormat {
        page,
        oob,
        pages_per_block: 1,
        layout: Layout::MarkerOnly,
        ecc: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_data_and_in_the_image_belong_together() {
        let shape = Shape {
            page: 2048,
            oob: 64,
            ..Shape::PLAIN
        };
        for (data, raw) in [(0, 0), (2047, 2047), (2048, 2112), (5000, 5128)] {
            assert_eq!((shape.raw(data), shape.data(raw)), (raw, data));
        }
        // Spare bytes belong to the end of their page.
        assert_eq!(shape.data(2100), 2048);
        assert_eq!(Shape::PLAIN.raw(77), 77);
    }
}
