//! How a chip's dumps are laid out: `chip.oob-layout` and `chip.ecc-code`.

use crate::dump::DumpFormat;
use crate::{DescriptionError, Section};
use nandlab_ecc::{Code, NameError};
use nandlab_mtd::{Geometry, ImageFormat, Layout};

/// The layouts of dumps. How many ECC bytes are at the end follows from the code.
const LAYOUTS: [(&str, Option<Layout>); 8] = [
    ("none", None),
    ("raw", Some(Layout::Raw)),
    ("marker-only", Some(Layout::MarkerOnly)),
    ("linux-small-page", Some(Layout::LinuxSmallPage)),
    ("linux-large-page-64", Some(Layout::LinuxLargePage64)),
    ("linux-large-page-128", Some(Layout::LinuxLargePage128)),
    (
        "linux-large-page-end",
        Some(Layout::LinuxLargePageEnd { ecc: 0 }),
    ),
    ("disk-on-chip", Some(Layout::DiskOnChip)),
];
const NAMES: &str = "none, hamming, hamming-512, hamming-smc, bch-N or bch-N-1024";
const DATA_ONLY: DumpFormat = DumpFormat {
    spare: 0,
    layout: Layout::Raw,
    ecc: None,
};

/// How dumps are laid out; the layout decides how many bytes of the spare area are the user's.
pub(super) fn dump_format(
    section: &mut Section,
    geometry: &mut Geometry,
    spare: u32,
    dumped: bool,
) -> Result<DumpFormat, DescriptionError> {
    if !dumped && !section.has("oob-layout") {
        section.choice("oob-layout", &LAYOUTS, None)?;
        section.inapplicable(&["ecc-code"], "chip.load, chip.save or chip.oob-layout")?;
        return Ok(DATA_ONLY);
    }
    let chosen = section.choice("oob-layout", &LAYOUTS, Some(Layout::MarkerOnly))?;
    let name = LAYOUTS
        .iter()
        .find(|(_, layout)| *layout == chosen)
        .map_or("", |(name, _)| name);
    let Some(layout) = chosen else {
        section.inapplicable(&["ecc-code"], "a chip.oob-layout with ECC bytes")?;
        if !section.has("oob") {
            geometry.oob = spare.saturating_sub(if geometry.page <= 512 { 1 } else { 2 });
            section.list_derived("oob", &geometry.oob);
        }
        return Ok(DATA_ONLY);
    };
    let format = protected(section, geometry.page, spare, layout)?;
    let parity = format
        .ecc
        .and_then(|code| code.page_parity(geometry.page as usize));
    let places = format.layout.with_ecc(geometry.page, spare, parity);
    let places = places.map_err(|error| {
        let found = format!("\"{name}\" on pages of {} + {spare} bytes", geometry.page);
        section.refuse("oob-layout", &found, error.expected)
    })?;
    let user = places.user_bytes() as u32;
    if section.has("oob") && geometry.oob != user {
        let expected = format!(
            "{user}, which oob-layout \"{name}\" leaves to the user of {spare} spare bytes (chip.spare)"
        );
        return Err(section.refuse("oob", &geometry.oob.to_string(), &expected));
    }
    geometry.oob = user;
    section.list_derived("oob", &user);
    Ok(format)
}

/// The layout with the code of its ECC bytes.
fn protected(
    section: &mut Section,
    page: u32,
    spare: u32,
    layout: Layout,
) -> Result<DumpFormat, DescriptionError> {
    let code = code(section, page, spare, layout)?;
    let refuse = |expected: &str| {
        let found = code.map_or("none".into(), |code| code.to_string());
        section.refuse("ecc-code", &format!("\"{found}\""), expected)
    };
    let parity = match code {
        Some(code) => code.page_parity(page as usize).map(Some),
        None => Some(None),
    };
    let none = || refuse(&format!("a code whose steps fill pages of {page} bytes"));
    let Some(layout) = end_layout(layout, parity.ok_or_else(none)?) else {
        return Err(refuse("a code: it says how many bytes are at the end"));
    };
    Ok(DumpFormat {
        spare,
        layout,
        ecc: code,
    })
}

/// The layout with its ECC bytes counted; `None` if only a code could count them.
fn end_layout(layout: Layout, parity: Option<usize>) -> Option<Layout> {
    match (layout, parity) {
        (Layout::LinuxLargePageEnd { .. }, None) => None,
        (Layout::LinuxLargePageEnd { .. }, Some(ecc)) => Some(Layout::LinuxLargePageEnd {
            ecc: ecc.try_into().unwrap_or(u16::MAX),
        }),
        (layout, _) => Some(layout),
    }
}

/// The code that is given; without one, Linux's default in the layout that Linux has for it.
fn code(
    section: &mut Section,
    page: u32,
    spare: u32,
    layout: Layout,
) -> Result<Option<Code>, DescriptionError> {
    let default = ImageFormat::linux(page, spare, 1, Some(Code::LINUX))
        .ok()
        .filter(|linux| linux.layout == layout)
        .and_then(|linux| linux.ecc);
    let name = default.map_or("none".into(), |code| code.to_string());
    let given: String = section.or("ecc-code", name)?;
    if given == "none" {
        return Ok(None);
    }
    let code = given.parse().map_err(|error| {
        let expected = match error {
            NameError::Form => NAMES.into(),
            NameError::Code(error) => error.to_string(),
        };
        section.refuse("ecc-code", &format!("\"{given}\""), &expected)
    })?;
    Ok(Some(code))
}
