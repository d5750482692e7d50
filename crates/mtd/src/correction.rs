//! The error correction of an image's pages: data against the ECC bytes of the spare area.
//!
//! *Promises.* A read corrects data as Linux's `nand_read_page_swecc` does, and user bytes not at
//! all. A program stores the ECC bytes that `nand_write_page_swecc` stores. Each page counts once,
//! however often it is read.

use crate::{Corrected, MtdError, OobLayout, Page};
use alloc::{vec, vec::Vec};
use nandlab_ecc::{Codec, PageRepair};

/// Pages beyond correction that are named.
const NAMED: usize = 1024;

/// The rule that a program broke.
const BEYOND_CORRECTION: &str = "program over data beyond correction";

/// What error correction found in the pages that were read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    /// Pages with flipped bits, all of them corrected.
    pub pages: u64,
    /// Flipped bits that were corrected, also in pages of which another part is beyond correction.
    pub bits: u64,
    /// Pages with more flipped bits than the code corrects.
    pub failed: u64,
    /// The first 1024 pages beyond correction, in the order in which they were read.
    pub failed_pages: Vec<Page>,
}

/// The code of an image, ready to use.
#[derive(Clone, Debug)]
pub struct Correction {
    codec: Codec,
    /// The ECC bytes of a page.
    ecc: Vec<u8>,
    found: Corrections,
    /// A bit for each page that was counted.
    counted: Vec<u64>,
}

impl Correction {
    pub fn new(codec: Codec, layout: &OobLayout, pages: u32) -> Self {
        Self {
            codec,
            ecc: vec![0; layout.ecc().count()],
            found: Corrections::default(),
            counted: vec![0; (pages as usize).div_ceil(64)],
        }
    }

    pub fn found(&self) -> &Corrections {
        &self.found
    }

    /// Corrects the data of a page that was read with this spare area.
    pub fn read(
        &mut self,
        page: Page,
        data: &mut [u8],
        spare: &[u8],
        layout: &OobLayout,
    ) -> Result<Corrected, MtdError> {
        let repair = self.repair(data, spare, layout);
        if !repair.is_sound() {
            self.count(page, &repair);
        }
        if repair.failed.is_empty() {
            Ok(Corrected { bits: repair.worst })
        } else {
            Err(MtdError::Uncorrectable(page))
        }
    }

    /// Corrects a page that is about to be programmed again, data and ECC bytes. Erased ECC bytes
    /// belong to an erased page, or to data that were written without them: such data stay.
    pub fn correct_for_program(
        &mut self,
        page: Page,
        data: &mut [u8],
        spare: &mut [u8],
        layout: &OobLayout,
    ) -> Result<(), MtdError> {
        let unprotected = layout.ecc().all(|at| spare[at] == 0xFF);
        let kept = unprotected.then(|| data.to_vec());
        let failed = !self.repair(data, spare, layout).failed.is_empty();
        match kept {
            Some(kept) if failed || data.iter().any(|byte| *byte != 0xFF) => {
                data.copy_from_slice(&kept);
            }
            None if failed => {
                return Err(MtdError::Illegal(page, BEYOND_CORRECTION));
            }
            _ => self.store(spare, layout),
        }
        Ok(())
    }

    /// Stores the ECC bytes of programmed data. Returns whether that only clears bits.
    pub fn seal(&mut self, data: &[u8], spare: &mut [u8], layout: &OobLayout) -> bool {
        self.codec.encode_page(data, &mut self.ecc);
        let mut cells = layout.ecc().zip(&self.ecc);
        let clears = cells.all(|(at, new)| !spare[at] & new == 0);
        self.store(spare, layout);
        clears
    }

    fn repair(&mut self, data: &mut [u8], spare: &[u8], layout: &OobLayout) -> PageRepair {
        for (to, at) in self.ecc.iter_mut().zip(layout.ecc()) {
            *to = spare[at];
        }
        self.codec.correct_page(data, &mut self.ecc)
    }

    fn store(&self, spare: &mut [u8], layout: &OobLayout) {
        for (from, at) in self.ecc.iter().zip(layout.ecc()) {
            spare[at] = *from;
        }
    }

    fn count(&mut self, page: Page, repair: &PageRepair) {
        let word = &mut self.counted[page.0 as usize / 64];
        let bit = 1 << (page.0 % 64);
        if *word & bit != 0 {
            return;
        }
        *word |= bit;
        self.found.bits += u64::from(repair.bits);
        if repair.failed.is_empty() {
            self.found.pages += 1;
            return;
        }
        self.found.failed += 1;
        if self.found.failed_pages.len() < NAMED {
            self.found.failed_pages.push(page);
        }
    }
}
