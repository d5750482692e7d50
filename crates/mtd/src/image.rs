//! A NAND array held in an image: page after page, each its data and then, if the image has it, its
//! whole spare area.
//!
//! *Promises.* Erased is 0xFF, a program only clears bits, an erase sets a block's, as on a chip;
//! pages may be programmed in any order and in parts. Every operation is in the image when it
//! returns, and durable after a sync. A bad block can be read, not programmed or erased. *Knows
//! nothing of* ECC: the bytes that the layout gives it stay as they are.

use crate::{Block, Corrected, Geometry, ImageError, ImageFormat, Mtd, MtdError, OobLayout, Page};
use alloc::{vec, vec::Vec};
use nandlab_sim::Backing;

/// A NAND array held in an image.
#[derive(Clone, Debug)]
pub struct Image<B> {
    backing: B,
    geometry: Geometry,
    /// None where the image holds data only.
    layout: Option<OobLayout>,
    read_only: bool,
    /// A page with its spare area.
    cells: Vec<u8>,
}

impl<B: Backing> Image<B> {
    /// The array in `backing`, as many blocks as it holds.
    pub fn new(backing: B, format: ImageFormat) -> Result<Self, ImageError> {
        let (geometry, layout) = format.fit(backing.len())?;
        let cells = vec![0; (format.page + format.oob) as usize];
        Ok(Self {
            backing,
            geometry,
            layout,
            read_only: false,
            cells,
        })
    }

    /// The same array, refusing every program, erase and mark.
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

    fn offset(&self, page: Page) -> u64 {
        u64::from(page.0) * self.cells.len() as u64
    }

    /// Where the bad-block markers of a block lie in the image: none in an image of data only, or
    /// in a layout without them.
    fn markers(&self, block: Block) -> impl Iterator<Item = u64> + use<B> {
        let marker = self.layout.as_ref().and_then(OobLayout::marker);
        let pages = marker.map(|marker| (marker, self.geometry.pages_per_block.min(2)));
        let (in_oob, pages) = pages.unwrap_or_default();
        let (first, page_bytes) = (
            self.offset(self.geometry.page_at(block, 0)),
            self.cells.len() as u64,
        );
        let in_page = u64::from(self.geometry.page) + in_oob as u64;
        (0..u64::from(pages)).map(move |page| first + page * page_bytes + in_page)
    }

    fn check_change(&mut self, block: Block) -> Result<(), MtdError> {
        if self.read_only {
            return Err(MtdError::ReadOnly);
        }
        if self.is_bad(block)? {
            Err(MtdError::BadBlock(block))
        } else {
            Ok(())
        }
    }
}

/// Programs `new` into `cells`: whether it only clears bits.
fn clears<'a>(cells: impl Iterator<Item = &'a mut u8>, new: &[u8]) -> bool {
    // Not `all`: a loop that never ends early goes by many bytes at once.
    cells.zip(new).fold(true, |fine, (cell, new)| {
        let clears = !*cell & new == 0;
        *cell &= new;
        fine & clears
    })
}

impl<B: Backing> Mtd for Image<B> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, page: Page, data: &mut [u8], oob: &mut [u8]) -> Result<Corrected, MtdError> {
        self.geometry.check_access(page, data.len(), oob.len())?;
        let (offset, page_bytes) = (self.offset(page), self.geometry.page as usize);
        if !data.is_empty() {
            self.backing.read_at(offset, data)?;
        }
        if let (Some(layout), false) = (&self.layout, oob.is_empty()) {
            let raw = &mut self.cells[page_bytes..];
            self.backing.read_at(offset + page_bytes as u64, raw)?;
            layout.gather(raw, oob);
        }
        Ok(Corrected::default())
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.geometry.check_access(page, data.len(), oob.len())?;
        self.check_change(self.geometry.block_of(page))?;
        let offset = self.offset(page);
        self.backing.read_at(offset, &mut self.cells)?;
        let (old, raw) = self.cells.split_at_mut(self.geometry.page as usize);
        let mut fine = clears(old.iter_mut(), data);
        if let Some(layout) = &self.layout {
            let mut user = vec![0xFF; oob.len()];
            layout.gather(raw, &mut user);
            fine &= clears(user.iter_mut(), oob);
            layout.scatter(&user, raw);
        }
        if !fine {
            return Err(MtdError::Illegal(page, "program of a bit from zero to one"));
        }
        Ok(self.backing.write_at(offset, &self.cells)?)
    }

    fn copy(
        &mut self,
        from: Page,
        to: Page,
        head: &mut [u8],
        tail: &[u8],
    ) -> Result<Corrected, MtdError> {
        let mut data = vec![0; self.geometry.page as usize];
        let corrected = self.read(from, &mut data, head)?;
        let oob = [&*head, tail].concat();
        self.program(to, &data, &oob)?;
        Ok(corrected)
    }

    fn erase(&mut self, block: Block) -> Result<(), MtdError> {
        self.geometry.check_block(block)?;
        self.check_change(block)?;
        self.cells.fill(0xFF);
        for index in 0..self.geometry.pages_per_block {
            self.backing.write_at(
                self.offset(self.geometry.page_at(block, index)),
                &self.cells,
            )?;
        }
        Ok(())
    }

    fn is_bad(&mut self, block: Block) -> Result<bool, MtdError> {
        self.geometry.check_block(block)?;
        for at in self.markers(block) {
            let mut marker = [0];
            self.backing.read_at(at, &mut marker)?;
            if marker != [0xFF] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mark_bad(&mut self, block: Block) -> Result<(), MtdError> {
        self.geometry.check_block(block)?;
        if self.read_only {
            return Err(MtdError::ReadOnly);
        }
        match &self.layout {
            None => {
                return Err(MtdError::Backing(
                    "an image without OOB has no place for a bad-block mark",
                ));
            }
            Some(layout) if layout.marker().is_none() => {
                return Err(MtdError::Backing(
                    "the image's OOB layout has no place for a bad-block mark",
                ));
            }
            Some(_) => {}
        }
        for at in self.markers(block) {
            self.backing.write_at(at, &[0])?;
        }
        Ok(self.backing.sync()?)
    }

    fn sync(&mut self) -> Result<(), MtdError> {
        if self.read_only {
            Ok(())
        } else {
            Ok(self.backing.sync()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    const LARGE: ImageFormat = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 4,
        layout: Layout::LinuxLargePage64,
    };
    const SMALL: ImageFormat = ImageFormat {
        page: 512,
        oob: 16,
        pages_per_block: 4,
        layout: Layout::LinuxSmallPage,
    };

    fn erased(format: ImageFormat) -> Image<Vec<u8>> {
        Image::new(vec![0xFF; format.bytes(3) as usize], format).unwrap()
    }

    #[test]
    fn data_and_user_bytes_lie_where_a_dump_has_them() {
        let mut image = erased(LARGE);
        image
            .program(Page(5), &[0x12; 2048], &[0x34, 0x56])
            .unwrap();
        let bytes = image.into_backing();
        let at = 5 * 2112;
        assert_eq!(
            (bytes[at], bytes[at + 2047], &bytes[at + 2048..at + 2053]),
            (0x12, 0x12, &[0xFF, 0xFF, 0x34, 0x56, 0xFF][..])
        );
        assert_eq!(bytes.iter().filter(|b| **b != 0xFF).count(), 2048 + 2);
    }

    #[test]
    fn a_program_clears_bits_and_never_sets_one() {
        let mut image = erased(SMALL);
        image.program(Page(0), &[0xF0; 512], &[0x0F]).unwrap();
        let illegal = Err(MtdError::Illegal(
            Page(0),
            "program of a bit from zero to one",
        ));
        assert_eq!(image.program(Page(0), &[0xF1; 512], &[]), illegal);
        assert_eq!(image.program(Page(0), &[0x70; 512], &[0x1F]), illegal);
        assert_eq!(image.program(Page(0), &[0x70; 512], &[0x0E, 0x77]), Ok(()));
        let (mut data, mut oob) = ([0; 512], [0; 3]);
        image.read(Page(0), &mut data, &mut oob).unwrap();
        assert_eq!((data, oob), ([0x70; 512], [0x0E, 0x77, 0xFF]));
        image.erase(Block(0)).unwrap();
        assert_eq!(image.program(Page(0), &[0xF1; 512], &[]), Ok(()));
    }

    #[test]
    fn a_marker_in_either_of_the_first_pages_makes_a_block_bad() {
        for (format, marker) in [(SMALL, 512 + 5), (LARGE, 2048)] {
            let page_bytes = (format.page + format.oob) as usize;
            for (page, bad) in [(4, true), (5, true), (6, false)] {
                let mut bytes = vec![0xFF; format.bytes(3) as usize];
                bytes[page * page_bytes + marker] = 0x7F;
                let mut image = Image::new(bytes, format).unwrap();
                assert_eq!(
                    [0, 1, 2].map(|b| image.is_bad(Block(b)).unwrap()),
                    [false, bad, false]
                );
                let outcome = if bad {
                    Err(MtdError::BadBlock(Block(1)))
                } else {
                    Ok(())
                };
                assert_eq!(
                    (image.program(Page(7), &[], &[1]), image.erase(Block(1))),
                    (outcome, outcome)
                );
            }
        }
    }

    #[test]
    fn a_marked_block_stays_bad_in_the_image() {
        let mut image = erased(LARGE);
        image.mark_bad(Block(2)).unwrap();
        let mut again = Image::new(image.into_backing(), LARGE).unwrap();
        assert_eq!(
            [0, 1, 2].map(|b| again.is_bad(Block(b)).unwrap()),
            [false, false, true]
        );
    }

    #[test]
    fn an_image_of_data_only_has_no_oob_and_no_bad_blocks() {
        let format = ImageFormat { oob: 0, ..LARGE };
        let mut image = erased(format);
        assert_eq!(
            (
                image.geometry().oob,
                image.program(Page(0), &[3; 2048], &[])
            ),
            (0, Ok(()))
        );
        assert!(!image.is_bad(Block(0)).unwrap());
        assert!(matches!(
            image.mark_bad(Block(0)),
            Err(MtdError::Backing(_))
        ));
        assert_eq!(
            &image.into_backing()[..2049],
            [&[3; 2048][..], &[0xFF]].concat()
        );
    }

    #[test]
    fn a_layout_without_a_marker_has_no_bad_blocks() {
        let mut image = erased(ImageFormat {
            layout: Layout::DiskOnChip,
            ..SMALL
        });
        image.program(Page(4), &[1; 512], &[0; 10]).unwrap();
        assert!(matches!(
            image.mark_bad(Block(2)),
            Err(MtdError::Backing(_))
        ));
        assert_eq!([0, 1, 2].map(|b| image.is_bad(Block(b))), [Ok(false); 3]);
        let bytes = image.into_backing();
        assert_eq!(
            bytes[4 * 528 + 512..5 * 528],
            [[0xFF; 6].as_slice(), &[0; 10]].concat()
        );
    }

    #[test]
    fn a_copy_carries_data_and_head_and_takes_a_new_tail() {
        let mut image = erased(SMALL);
        image.program(Page(0), &[0x5A; 512], &[1, 2, 3, 4]).unwrap();
        let mut head = [0; 2];
        image.copy(Page(0), Page(9), &mut head, &[9]).unwrap();
        let (mut data, mut oob) = ([0; 512], [0; 4]);
        image.read(Page(9), &mut data, &mut oob).unwrap();
        assert_eq!((data, oob, head), ([0x5A; 512], [1, 2, 9, 0xFF], [1, 2]));
        assert_eq!(
            image.copy(Page(0), Page(10), &mut [0; 8], &[9]),
            Err(MtdError::BadLength {
                found: 9,
                expected: 8
            })
        );
    }

    #[test]
    fn a_read_only_image_never_changes() {
        let mut image = erased(SMALL).read_only();
        assert_eq!(
            [
                image.program(Page(0), &[0; 512], &[]),
                image.erase(Block(0)),
                image.mark_bad(Block(0))
            ],
            [Err(MtdError::ReadOnly); 3]
        );
        assert_eq!(image.sync(), Ok(()));
        assert!(image.into_backing().iter().all(|b| *b == 0xFF));
    }
}
