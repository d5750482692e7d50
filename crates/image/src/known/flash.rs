//! Formats that lie on raw flash: UBIFS, cramfs, romfs, TRX and Linux's bad block tables.

use super::{CHECKED_MAX, Format, Known, Sign, View};
use crate::words::counted;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign {
            at: 0,
            magic: &[0x31, 0x18, 0x10, 0x06],
            fits: |bytes| bytes.get(20) == Some(&UBIFS_SUPERBLOCK),
        }],
        look: ubifs,
    },
    Format {
        signs: &[
            Sign::new(0, &[0x45, 0x3D, 0xCD, 0x28]),
            Sign::new(0, &[0x28, 0xCD, 0x3D, 0x45]),
        ],
        look: cramfs,
    },
    Format {
        signs: &[Sign::new(0, b"-rom1fs-")],
        look: romfs,
    },
    Format {
        signs: &[Sign::new(0, b"HDR0")],
        look: trx,
    },
    Format {
        signs: &[
            Sign::new(0, b"Bbt0"),
            Sign::new(0, b"1tbB"),
            Sign::new(512 + 8, b"Bbt0"),
            Sign::new(512 + 8, b"1tbB"),
            Sign::new(2048 + 8, b"Bbt0"),
            Sign::new(2048 + 8, b"1tbB"),
            Sign::new(4096 + 8, b"Bbt0"),
            Sign::new(4096 + 8, b"1tbB"),
            Sign::new(8192 + 8, b"Bbt0"),
            Sign::new(8192 + 8, b"1tbB"),
        ],
        look: bad_blocks,
    },
];

const UBIFS_SUPERBLOCK: u8 = 6;
/// Bytes of UBIFS's superblock.
const UBIFS_HEAD: u32 = 4096;
const UBIFS_COMPRESSORS: [&str; 4] = ["none", "lzo", "zlib", "zstd"];

/// CRC-32 without the inversion at the end.
fn crc_raw(view: &mut View<'_>, from: u64, len: u64) -> Option<u32> {
    view.crc32(from, len).map(|crc| !crc)
}

fn ubifs(view: &mut View<'_>) -> Option<Known> {
    if view.byte(20)? != UBIFS_SUPERBLOCK || view.le32(16)? != UBIFS_HEAD {
        return None;
    }
    let proven = crc_raw(view, 8, u64::from(UBIFS_HEAD) - 8) == Some(view.le32(4)?);
    let leb = view.le32(36)?;
    let count = view.le32(40)?;
    let max = view.le32(44)?;
    let version = view.le32(80)?;
    let number = view.le16(84)?;
    let compressor = UBIFS_COMPRESSORS.get(usize::from(number)).copied();
    let compressor = compressor.unwrap_or("an unknown compressor");
    let len = u64::from(leb) * u64::from(count);
    (proven || (leb.is_power_of_two() || leb.is_multiple_of(512)) && count <= max).then(|| Known {
        name: "UBIFS",
        len: Some(len),
        says: format!(
            "UBIFS version {version}, {count} logical blocks of {leb} bytes, at most {max}, \
             compression {compressor}"
        ),
        proven,
    })
}

fn cramfs(view: &mut View<'_>) -> Option<Known> {
    if view.head().get(16..32) != Some(b"Compressed ROMFS") {
        return None;
    }
    let little = view.byte(0)? == 0x45;
    let mut field = |at: u64| if little { view.le32(at) } else { view.be32(at) };
    let size = u64::from(field(4)?);
    let flags = field(8)?;
    let expected = field(32)?;
    let files = field(44)?;
    let name = view.shown(48, 16)?;
    let order = if little { "little" } else { "big" };
    // Version 1 has no checksum.
    let proven = flags & 1 != 0 && cramfs_crc(view, size) == Some(expected);
    Some(Known {
        name: "cramfs",
        len: Some(size),
        says: format!(
            "cramfs \"{name}\", {order}-endian, {}",
            counted(files, "file")
        ),
        proven,
    })
}

/// Of all bytes, with zeros in the place of the checksum.
fn cramfs_crc(view: &mut View<'_>, size: u64) -> Option<u32> {
    let rest = size.checked_sub(36)?;
    let mut crc = crc32fast::Hasher::new();
    view.each(0, 32, |part| crc.update(part))?;
    crc.update(&[0; 4]);
    view.each(36, rest, |part| crc.update(part))?;
    Some(crc.finalize())
}

/// The words of the first 512 bytes add up to zero.
fn romfs(view: &mut View<'_>) -> Option<Known> {
    let size = u64::from(view.be32(8)?);
    if size < 32 {
        return None;
    }
    let mut sum = 0u32;
    let summed = view.each(0, size.min(512) / 4 * 4, |part| {
        sum = part.chunks_exact(4).fold(sum, |sum, word| {
            sum.wrapping_add(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        });
    });
    let name = view.shown(16, 64)?;
    Some(Known {
        name: "romfs",
        len: Some(size),
        says: format!("romfs \"{name}\""),
        proven: summed.is_some() && sum == 0,
    })
}

/// Broadcom's TRX: a header with up to four parts, and a checksum of all behind its own place.
fn trx(view: &mut View<'_>) -> Option<Known> {
    let len = u64::from(view.le32(4)?);
    let expected = view.le32(8)?;
    let version = view.le16(14)?;
    let parts = 2 + u64::from(version);
    if !(1..=2).contains(&version) || len < 16 + 4 * parts {
        return None;
    }
    let mut offsets = Vec::new();
    for number in 0..parts {
        let offset = view.le32(16 + 4 * number)?;
        offsets.extend((offset != 0).then_some(u64::from(offset)));
    }
    if offsets.is_empty() || !offsets.is_sorted() || offsets.iter().any(|offset| *offset >= len) {
        return None;
    }
    let proven = crc_raw(view, 12, len - 12) == Some(expected);
    let offsets: Vec<String> = offsets.iter().map(u64::to_string).collect();
    let contents = match proven {
        true => "checksum matches",
        false if len > view.len() => "cut short by the end of the image",
        false if len > CHECKED_MAX => "checksum not looked at",
        false => "checksum does not match",
    };
    Some(Known {
        name: "TRX",
        len: Some(len),
        says: format!(
            "TRX version {version}, parts at bytes {}, {contents}",
            offsets.join(", ")
        ),
        proven,
    })
}

/// A table of Linux: two bits a block, with its sign at the page's beginning or in its spare bytes.
fn bad_blocks(view: &mut View<'_>) -> Option<Known> {
    let signs = [0, 512 + 8, 2048 + 8, 4096 + 8, 8192 + 8];
    let at = signs.into_iter().find(|at| {
        let sign: Option<[u8; 4]> = view.get(*at);
        sign.is_some_and(|sign| matches!(&sign, b"Bbt0" | b"1tbB"))
    })?;
    let table = match at {
        // The version follows; a table of a small chip may be no longer than that.
        0 => view.head().get(5..64)?,
        _ => view.head().get(..64)?,
    };
    // Blocks that are good read as ones, and few are not.
    let good = table.iter().filter(|byte| **byte == 0xFF).count();
    if good * 2 < table.len() {
        return None;
    }
    let sign = view.shown(at, 4)?;
    let version = view.byte(at + 4)?;
    let which = if sign == "Bbt0" { "main" } else { "mirror" };
    let place = match at {
        0 => "in its page".to_owned(),
        _ => format!("in the spare bytes of a page of {}", at - 8),
    };
    Some(Known {
        name: "bad block table",
        len: None,
        says: format!("Linux's {which} table, version {version}, sign {sign} {place}"),
        proven: false,
    })
}
