//! squashfs of every version, in either byte order.
//!
//! Version 4 is always little-endian. Versions 1 to 3 keep the byte order of their maker; vendors
//! changed the magic number to mark their own compression.

use super::{Format, Known, Sign, View, date};

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(0, b"hsqs")],
        look: |view| version_4(view).or_else(|| older(view, true)),
    },
    Format {
        signs: &[Sign::new(0, b"sqsh"), Sign::new(0, b"qshs")],
        look: |view| older(view, false),
    },
    Format {
        signs: &[Sign::new(0, b"shsq")],
        look: |view| older(view, true),
    },
];

/// Bytes of version 4's superblock.
const HEAD: u64 = 96;
const COMPRESSORS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// The name of a compressor by its number on the medium.
pub(crate) fn compressor(number: u16) -> Option<&'static str> {
    let index = usize::from(number).checked_sub(1)?;
    COMPRESSORS.get(index).copied()
}

fn version_4(view: &mut View<'_>) -> Option<Known> {
    let major = view.le16(28)?;
    let minor = view.le16(30)?;
    let block = view.le32(12)?;
    let used = view.le64(40)?;
    let log = view.le16(22)?;
    let is_plausible = major == 4 && (12..=20).contains(&log) && block == 1 << log && used >= HEAD;
    if !is_plausible {
        return None;
    }
    let number = view.le16(20)?;
    let compressor = compressor(number).map_or(format!("compressor {number}"), str::to_owned);
    let inodes = view.le32(4)?;
    let made = date(view.le32(8)?);
    Some(Known {
        name: "squashfs",
        len: Some(used),
        says: format!(
            "squashfs {major}.{minor}, {compressor}, blocks of {block} bytes, {inodes} inodes, \
             made {made}"
        ),
        proven: false,
    })
}

/// Versions 1 to 3, where the version lies at the same place.
fn older(view: &mut View<'_>, little: bool) -> Option<Known> {
    let major = if little { view.le16(28) } else { view.be16(28) }?;
    let minor = if little { view.le16(30) } else { view.be16(30) }?;
    let used = match (major, little) {
        (3, true) => view.le64(63)?,
        (3, false) => view.be64(63)?,
        (_, true) => view.le32(8)?.into(),
        (_, false) => view.be32(8)?.into(),
    };
    let order = if little { "little" } else { "big" };
    let vendor = match view.head().first_chunk()? {
        b"shsq" | b"qshs" => ", a vendor's magic number",
        _ => "",
    };
    ((1..=3).contains(&major) && minor <= 1 && used >= HEAD / 2).then(|| Known {
        name: "squashfs",
        len: Some(used),
        says: format!("squashfs {major}.{minor}, {order}-endian{vendor}"),
        proven: false,
    })
}
