//! The shape of a chip: pages, blocks, planes, dies and the spare area of a page.

use super::refuse_spec;
use crate::value::{Size, Take};
use crate::{DescriptionError, Section};
use nandlab_mtd::Geometry;
use nandlab_nand::SpecError;

/// The most bytes of a spare area.
const SPARE_MAX: u32 = 1 << 16;

/// The shape, and all bytes of a page's spare area.
pub(super) fn geometry(
    section: &mut Section,
    base: Option<(&Geometry, u32)>,
) -> Result<(Geometry, u32), DescriptionError> {
    let spare = base.map(|(_, spare)| spare);
    let base = base.map(|(geometry, _)| geometry);
    let Size(page) = section.needed("page", base.map(|g| Size(g.page.into())))?;
    let page = u32::try_from(page).map_err(|_| {
        section.refuse(
            "page",
            &page.to_string(),
            "a power of two from 256 to 65536",
        )
    })?;
    let layout_decides = section.has("oob-layout") || section.has("load") || section.has("save");
    let oob = match section.given("oob")? {
        Some(oob) => oob,
        None if layout_decides => 0,
        None => section.or_missing("oob", base.map(|g| g.oob))?,
    };
    let marker = if page <= 512 { 1 } else { 2 };
    if oob > SPARE_MAX - marker {
        let expected = format!("at most {} user bytes", SPARE_MAX - marker);
        return Err(section.refuse("oob", &oob.to_string(), &expected));
    }
    let pages_per_block = section.needed("pages-per-block", base.map(|g| g.pages_per_block))?;
    let dies = section.or("dies", base.map_or(1, |g| g.dies))?;
    let planes = section.or("planes", base.map_or(1, |g| g.planes))?;
    let channels = section.or("channels", base.map_or(1, |g| g.channels.min(dies)))?;
    let write_unit = base
        .map(|g| {
            if g.write_unit == g.page {
                page
            } else {
                g.write_unit.min(page)
            }
        })
        .unwrap_or(page);
    let Size(unit) = section.or("write-unit", Size(write_unit.into()))?;
    let write_unit = u32::try_from(unit)
        .map_err(|_| section.refuse("write-unit", &unit.to_string(), "a divisor of the page"))?;
    let spare = section.checked(
        "spare",
        spare
            .filter(|spare| *spare > oob)
            .unwrap_or((page / 32).max(oob.saturating_add(marker))),
        |spare| *spare <= SPARE_MAX && *spare >= oob,
        "space for the user bytes (chip.oob), at most 65536",
    )?;
    let shape = Geometry {
        page,
        oob,
        pages_per_block,
        dies,
        planes,
        channels,
        write_unit,
        blocks: dies.saturating_mul(planes),
    };
    // The block's size is needed to count blocks, so the rest of the shape comes first.
    refuse_spec(section, shape.check().map_err(SpecError::from))?;
    let blocks = blocks(section, base.map(|g| g.blocks), &shape)?;
    Ok((Geometry { blocks, ..shape }, spare))
}

/// The number of blocks, given as such or as a size.
fn blocks(
    section: &mut Section,
    base: Option<u32>,
    shape: &Geometry,
) -> Result<u32, DescriptionError> {
    let Some(Size(size)) = section.given("size")? else {
        return match base {
            Some(base) => section.or("blocks", base),
            None => section
                .given("blocks")?
                .ok_or_else(|| section.missing("blocks", "a number of blocks, or chip.size")),
        };
    };
    section.conflicting(&["blocks"], "size")?;
    let stripe = u64::from(shape.page)
        * u64::from(shape.pages_per_block)
        * u64::from(shape.dies)
        * u64::from(shape.planes);
    let refuse = |expected: String| section.refuse("size", &Size(size).write(), &expected);
    if size == 0 || !size.is_multiple_of(stripe) {
        let unit = Size(stripe).write();
        return Err(refuse(format!(
            "a multiple of {unit}, a block on every plane of every die"
        )));
    }
    let blocks = size / (u64::from(shape.page) * u64::from(shape.pages_per_block));
    let blocks = u32::try_from(blocks).map_err(|_| refuse("fewer than 2^32 blocks".into()))?;
    section.list_derived("blocks", &blocks);
    Ok(blocks)
}
