//! Where in an erase block the headers and the data lie.

use crate::UbiError;
use crate::error::require;
use crate::format::{HEADER_BYTES, slots};
use nandlab_mtd::Geometry;

/// Where the two headers of an erase block are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Headers {
    /// As Linux would: the volume header in the next sub-page where the flash has them, otherwise
    /// in the next page.
    #[default]
    Linux,
    /// The volume header at this offset in bytes. Where that is in the middle of a page, pages must
    /// take a second program there.
    At(u32),
    /// None at all: the whole erase block is data. Only for UBIL, whose log has what they would
    /// say.
    None,
}

/// The shape of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of physical erase blocks.
    pub pebs: u32,
    /// Bytes of a physical erase block.
    pub peb_bytes: u32,
    /// The write unit of data, in bytes: a page.
    pub page: u32,
    /// Offset of the volume header in bytes.
    pub vid_offset: u32,
    /// Offset of the data in bytes.
    pub data_offset: u32,
    /// Bytes of a logical erase block before alignment.
    pub leb_bytes: u32,
}

impl Shape {
    /// On flash of that geometry.
    pub fn new(geometry: &Geometry, headers: Headers) -> Result<Self, UbiError> {
        let page = geometry.page;
        let peb_bytes = geometry.block_bytes();
        let header = HEADER_BYTES as u32;
        let vid_offset = vid_offset(geometry, headers)?;
        let data_offset = if headers == Headers::None {
            0
        } else {
            (vid_offset + header).next_multiple_of(page)
        };
        let space = peb_bytes.saturating_sub(data_offset);
        require(
            slots(space) > 0,
            "bytes of a logical erase block",
            space.into(),
            "space for a record of the volume table",
        )?;
        Ok(Self {
            pebs: geometry.blocks,
            peb_bytes,
            page,
            vid_offset,
            data_offset,
            leb_bytes: space,
        })
    }

    /// Whether erase blocks have headers.
    pub fn has_headers(&self) -> bool {
        self.data_offset > 0
    }
}

/// Where volume headers lie, checked against the geometry.
fn vid_offset(geometry: &Geometry, headers: Headers) -> Result<u32, UbiError> {
    let page = geometry.page;
    let peb_bytes = geometry.block_bytes();
    let header = HEADER_BYTES as u32;
    let vid_offset = match headers {
        Headers::Linux => header.next_multiple_of(geometry.write_unit.max(1)),
        Headers::At(offset) => offset,
        Headers::None => 0,
    };
    let fits = vid_offset >= header
        && vid_offset < peb_bytes
        && vid_offset % page <= page.saturating_sub(header);
    let fits = fits || headers == Headers::None;
    require(
        fits,
        "offset of the volume header",
        vid_offset.into(),
        "64 bytes or more, within a page of an erase block",
    )?;
    require(
        vid_offset.is_multiple_of(8),
        "offset of the volume header",
        vid_offset.into(),
        "a multiple of 8",
    )?;
    Ok(vid_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_lie_where_linux_puts_them() {
        let large = Geometry {
            write_unit: 512,
            ..Geometry::single_die(2048, 63, 64, 1024)
        };
        let shape = |geometry: &Geometry, headers| {
            Shape::new(geometry, headers).map(|s| (s.vid_offset, s.data_offset, s.leb_bytes))
        };
        assert_eq!(shape(&large, Headers::Linux), Ok((512, 2048, 129_024)));
        assert_eq!(shape(&large, Headers::At(2048)), Ok((2048, 4096, 126_976)));
        assert_eq!(
            shape(&Geometry::single_die(2048, 63, 64, 1024), Headers::Linux),
            Ok((2048, 4096, 126_976))
        );
        assert_eq!(
            shape(&Geometry::single_die(512, 15, 32, 1024), Headers::Linux),
            Ok((512, 1024, 15_360))
        );
        assert_eq!(shape(&large, Headers::None), Ok((0, 0, 131_072)));
        assert!(
            shape(&large, Headers::At(2032)).is_err()
                && shape(&large, Headers::At(516)).is_err()
                && shape(&large, Headers::At(0)).is_err()
        );
        assert!(
            shape(&large, Headers::At(u32::MAX)).is_err()
                && shape(&large, Headers::At(0xFFFF_F800)).is_err()
        );
    }
}
