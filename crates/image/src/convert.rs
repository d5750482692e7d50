//! Dumps of flash with other spare areas: with, without, or with another layout or code.
//!
//! *Promises.* Each page's data and its user bytes are carried over. User bytes are those that the
//! layout does not give to error correction or the bad-block marker. Bad blocks stay marked where
//! the new layout has a place for it; memory is one page. With codes, data are corrected by the old
//! one and protected by the new one. Data beyond correction are carried over as they are, without
//! ECC bytes, so that they stay beyond correction, and counted. *Knows nothing of* what the pages
//! hold.

use crate::error::{ImageError, Result};
use crate::file::ImageFile;
use crate::lock::Lock;
use crate::place::Place;
use nandlab_mtd::{Block, Image, ImageFormat, Mtd, MtdError, Page};
use nandlab_scratch::beside;
use nandlab_sim::Backing;
use serde::Serialize;
use std::path::Path;

/// What was carried over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// Pages that are not erased.
    pub pages: u64,
    /// Blocks that are marked bad.
    pub bad: u64,
    /// Pages whose user bytes did not all find a place.
    pub cut: u64,
    /// Pages with flipped bits that were corrected.
    pub corrected: u64,
    /// Pages with more flipped bits than the code corrects.
    pub failed: u64,
    /// The first of them.
    pub failed_pages: Vec<u32>,
}

/// Writes the dump in `from`, which is of that shape, to `to` with the spare areas of `new`, whose
/// page and block are the same.
pub fn convert(from: &Place, shape: ImageFormat, to: &Path, new: ImageFormat) -> Result<Converted> {
    let open = |why: String| ImageError::Open {
        layer: "flash",
        why,
    };
    let mut input = Image::new(from.raw()?, shape)
        .map_err(|error| open(error.to_string()))?
        .read_only();
    let _lock = Lock::target(to)?;
    let scratch = beside(to)?;
    let file = scratch
        .as_file()
        .try_clone()
        .map_err(ImageError::file(to))?;
    let blocks = input.geometry().blocks;
    let blank = ImageFile::blank(file, new.bytes(blocks)).map_err(ImageError::file(to))?;
    let mut output = Image::new(blank, new).map_err(|error| ImageError::Make {
        format: "dump",
        why: error.to_string(),
    })?;
    let mut converted = carry(&mut input, &mut output).map_err(|error| open(error.to_string()))?;
    if let Some(found) = input.corrections() {
        converted.corrected = found.pages;
        converted.failed = found.failed;
        converted.failed_pages = found.failed_pages.iter().map(|page| page.0).collect();
    }
    output
        .into_backing()
        .finish(new.bytes(blocks))
        .map_err(ImageError::file(to))?;
    scratch.persist(to)?;
    Ok(converted)
}

fn carry<A: Backing, B: Backing>(
    input: &mut Image<A>,
    output: &mut Image<B>,
) -> std::result::Result<Converted, MtdError> {
    let geometry = input.geometry().clone();
    let space = output.geometry().oob as usize;
    let mut converted = Converted::default();
    let mut data = vec![0; geometry.page as usize];
    let mut user = vec![0; geometry.oob as usize];
    for block in (0..geometry.blocks).map(Block) {
        if input.is_bad(block)? {
            converted.bad += 1;
            if space > 0 {
                output.mark_bad(block)?;
            }
            continue;
        }
        for page in (0..geometry.pages_per_block).map(|index| geometry.page_at(block, index)) {
            converted.cut += u64::from(carry_page(
                input,
                output,
                page,
                (&mut data, &mut user),
                space,
                &mut converted.pages,
            )?);
        }
    }
    Ok(converted)
}

fn carry_page<A: Backing, B: Backing>(
    input: &mut Image<A>,
    output: &mut Image<B>,
    page: Page,
    (data, user): (&mut [u8], &mut [u8]),
    space: usize,
    pages: &mut u64,
) -> std::result::Result<bool, MtdError> {
    let failed = match input.read(page, data, user) {
        Ok(_) => false,
        Err(MtdError::Uncorrectable(_)) => true,
        Err(error) => return Err(error),
    };
    let erased = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xFF);
    if erased(data) && erased(user) {
        return Ok(false);
    }
    *pages += 1;
    let kept = user.len().min(space);
    if failed {
        output.program_unprotected(page, data, &user[..kept])?;
    } else {
        output.program(page, data, &user[..kept])?;
    }
    Ok(!erased(&user[kept..]))
}
