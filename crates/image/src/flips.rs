//! Flipped bits in a dump with error correction: how many are corrected, and which pages are beyond
//! correction.
//!
//! *Promises.* Every page is read once. A page beyond correction is listed with its block and its
//! bytes; in UBI also with its volume and logical block. *Knows nothing of* files: the check of a
//! file system names those.

use crate::check::{Checked, Finding, Severity};
use crate::detect::{Detected, FlashKind};
use crate::error::Result;
use crate::overlay::Overlay;
use crate::ubi::Survey;
use crate::volume::{Volume, failed};
use nandlab_mtd::{Block, Image, ImageFormat, Mtd as _, MtdError, Page};
use nandlab_sim::Backing as _;
use serde::Serialize;

/// What error correction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flips {
    /// Pages with flipped bits, all of them corrected.
    pub pages: u64,
    /// Flipped bits that were corrected.
    pub bits: u64,
    /// Pages with more flipped bits than the code corrects.
    pub failed: u64,
}

/// Reads all pages of a dump with error correction; `None` if it has none.
pub(crate) fn flips(volume: &Volume, checked: &mut Checked) -> Result<Option<Flips>> {
    let Detected::Flash(format, kind) = volume.detected else {
        return Ok(None);
    };
    if format.ecc.is_none() {
        return Ok(None);
    }
    let survey = match kind {
        FlashKind::Ubi { .. } => volume.survey(None)?,
        _ => None,
    };
    let bytes = volume.place.raw()?;
    let len = bytes.len().div_ceil(format.bytes(1)) * format.bytes(1);
    let mut image = Image::new(Overlay::new(bytes, len), format)
        .map_err(|error| failed("flash", error))?
        .read_only();
    let geometry = image.geometry().clone();
    let mut data = vec![0; geometry.page as usize];
    for block in (0..geometry.blocks).map(Block) {
        if image.is_bad(block) == Ok(true) {
            continue;
        }
        for index in 0..geometry.pages_per_block {
            let page = geometry.page_at(block, index);
            match image.read(page, &mut data, &mut []) {
                Ok(_) => {}
                Err(MtdError::Uncorrectable(_)) => {
                    checked.add(finding(&format, page, survey.as_ref()));
                }
                Err(error) => return Err(failed("flash", error)),
            }
        }
    }
    Ok(image.corrections().map(|found| Flips {
        pages: found.pages,
        bits: found.bits,
        failed: found.failed,
    }))
}

/// A page beyond correction. In a logical block that counts it is damage: nothing else says whether
/// the contents of a dynamic volume are right. In JFFS2 and in translation layers the page may hold
/// nothing that counts, such as a write that a power cut tore.
fn finding(format: &ImageFormat, page: Page, survey: Option<&Survey>) -> Finding {
    let block = page.0 / format.pages_per_block;
    let index = page.0 % format.pages_per_block;
    let at = u64::from(page.0) * u64::from(format.page);
    let owner = survey.and_then(|survey| survey.owner(block, index));
    let holds = owner.map_or(String::new(), |owner| {
        let end = owner.offset + u64::from(format.page);
        format!(
            ": volume {}, LEB {}, bytes {} to {end} of it",
            owner.volume, owner.leb, owner.offset
        )
    });
    let severity = match owner {
        Some(_) => Severity::Damage,
        None => Severity::Note,
    };
    let what = format!(
        "page {} in block {block} is beyond correction{holds}",
        page.0
    );
    Finding::new(severity, Some(at), what)
}
