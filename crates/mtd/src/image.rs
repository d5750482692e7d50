//! A NAND array held in an image: page after page, each its data and then, if the image has it, its
//! whole spare area.
//!
//! *Promises.* Erased is 0xFF, a program only clears bits, an erase sets a block's, as on a chip;
//! pages may be programmed in any order and in parts. Every operation is in the image when it
//! returns, and durable after a sync. A bad block can be read, not programmed or erased.
//!
//! *Error correction.* With [`ImageFormat::ecc`], a read of data corrects them and a program of
//! data stores their ECC bytes; a program of user bytes alone leaves the ECC bytes as they are. A
//! page can be programmed in parts if each step of the code gets its data at once, since the ECC
//! bytes can only clear bits, too. Where a page's data were written without ECC bytes, the next
//! program adds them. Without a code, the bytes that the layout gives to it stay as they are.

use crate::correction::Correction;
use crate::{
    Block, Corrected, Corrections, Geometry, ImageError, ImageFormat, Mtd, MtdError, OobLayout,
    Page,
};
use alloc::{vec, vec::Vec};
use nandlab_ecc::Codec;
use nandlab_sim::Backing;

/// The rule that a program broke.
const SETS_A_BIT: &str = "program of a bit from zero to one";
/// The rule that its ECC bytes broke.
const STEP_HAS_DATA: &str = "program into an ECC step that has data";

/// A NAND array held in an image.
#[derive(Clone, Debug)]
pub struct Image<B> {
    backing: B,
    geometry: Geometry,
    /// None where the image holds data only.
    layout: Option<OobLayout>,
    /// None where the image has no code.
    ecc: Option<Correction>,
    read_only: bool,
    /// A page with its spare area.
    cells: Vec<u8>,
}

impl<B: Backing> Image<B> {
    /// The array in `backing`, as many blocks as it holds.
    pub fn new(backing: B, format: ImageFormat) -> Result<Self, ImageError> {
        let (geometry, layout) = format.fit(backing.len())?;
        let cells = vec![0; (format.page + format.oob) as usize];
        let ecc = match (format.ecc, &layout) {
            (Some(code), Some(layout)) => {
                let codec = Codec::new(code)?;
                Some(Correction::new(codec, layout, geometry.pages()))
            }
            _ => None,
        };
        Ok(Self {
            backing,
            geometry,
            layout,
            ecc,
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

    /// What error correction found so far; `None` in an image without a code.
    pub fn corrections(&self) -> Option<&Corrections> {
        self.ecc.as_ref().map(Correction::found)
    }

    /// Programs a page without ECC bytes, so that data beyond correction stay beyond it.
    pub fn program_unprotected(
        &mut self,
        page: Page,
        data: &[u8],
        oob: &[u8],
    ) -> Result<(), MtdError> {
        let ecc = self.ecc.take();
        let outcome = self.program(page, data, oob);
        self.ecc = ecc;
        outcome
    }

    /// Returns the byte store that holds the image.
    pub fn backing(&self) -> &B {
        &self.backing
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
        let first = self.offset(self.geometry.page_at(block, 0));
        let page_bytes = self.cells.len() as u64;
        let in_page = u64::from(self.geometry.page) + in_oob as u64;
        (0..u64::from(pages)).map(move |page| first + page * page_bytes + in_page)
    }

    fn check_change(&mut self, block: Block) -> Result<(), MtdError> {
        if self.read_only {
            return Err(MtdError::ReadOnly(None));
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
        let offset = self.offset(page);
        let page_bytes = self.geometry.page as usize;
        let corrects = self.ecc.is_some() && !data.is_empty();
        if !data.is_empty() {
            self.backing.read_at(offset, data)?;
        }
        let Some(layout) = self.layout.as_ref().filter(|_| corrects || !oob.is_empty()) else {
            return Ok(Corrected::default());
        };
        let raw = &mut self.cells[page_bytes..];
        self.backing.read_at(offset + page_bytes as u64, raw)?;
        layout.gather(raw, oob);
        match &mut self.ecc {
            Some(ecc) if corrects => ecc.read(page, data, raw, layout),
            _ => Ok(Corrected::default()),
        }
    }

    fn program(&mut self, page: Page, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.geometry.check_access(page, data.len(), oob.len())?;
        self.check_change(self.geometry.block_of(page))?;
        let offset = self.offset(page);
        self.backing.read_at(offset, &mut self.cells)?;
        let (old, raw) = self.cells.split_at_mut(self.geometry.page as usize);
        let layout = self.layout.as_ref();
        // The kernel programs user bytes alone without a look at the ECC bytes.
        let mut ecc = self.ecc.as_mut().zip(layout).filter(|_| !data.is_empty());
        if let Some((ecc, layout)) = &mut ecc {
            ecc.correct_for_program(page, old, raw, layout)?;
        }
        let mut fine = clears(old.iter_mut(), data);
        if let Some(layout) = layout {
            let mut user = vec![0xFF; oob.len()];
            layout.gather(raw, &mut user);
            fine &= clears(user.iter_mut(), oob);
            layout.scatter(&user, raw);
        }
        if !fine {
            return Err(MtdError::Illegal(page, SETS_A_BIT));
        }
        if let Some((ecc, layout)) = ecc
            && !ecc.seal(old, raw, layout)
        {
            return Err(MtdError::Illegal(page, STEP_HAS_DATA));
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
            return Err(MtdError::ReadOnly(None));
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
mod tests;
