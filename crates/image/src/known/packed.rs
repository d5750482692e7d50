//! Compressed streams, archives and programs.

use super::{Format, Known, Sign, View, date, printable};
use crate::words::counted;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign {
            at: 0,
            magic: &[0x1F, 0x8B, 0x08],
            fits: |bytes| bytes.get(3).is_some_and(|flags| *flags < 0x20),
        }],
        look: gzip,
    },
    Format {
        signs: &[Sign::new(0, &[0xFD, b'7', b'z', b'X', b'Z', 0])],
        look: xz,
    },
    Format {
        signs: &[Sign::new(0, &[0x28, 0xB5, 0x2F, 0xFD])],
        look: zstd,
    },
    Format {
        signs: &[Sign {
            at: 0,
            magic: &[0x5D, 0, 0],
            fits: is_lzma,
        }],
        look: lzma,
    },
    Format {
        signs: &[Sign::new(0, b"070701"), Sign::new(0, b"070702")],
        look: cpio,
    },
    Format {
        signs: &[Sign::new(0, b"\x7FELF")],
        look: elf,
    },
];

/// Entries of an archive that are walked over.
const ENTRIES_MAX: u32 = 1 << 17;

fn stream(name: &'static str, says: String, proven: bool) -> Option<Known> {
    Some(Known {
        name,
        len: None,
        says,
        proven,
    })
}

fn gzip(view: &mut View<'_>) -> Option<Known> {
    let flags = view.byte(3)?;
    let made = view.le32(4)?;
    let level = view.byte(8)?;
    let system = view.byte(9)?;
    if flags >= 0x20 || !matches!(level, 0 | 2 | 4) || !(system <= 13 || system == 255) {
        return None;
    }
    let mut at = 10;
    if flags & 4 != 0 {
        at += 2 + u64::from(view.le16(at)?);
    }
    let mut says = "a gzip stream".to_owned();
    if flags & 8 != 0 {
        says += &format!(" of \"{}\"", view.shown(at, 256)?);
    }
    if made != 0 {
        says += &format!(", made {}", date(made));
    }
    stream("gzip", says, false)
}

fn xz(view: &mut View<'_>) -> Option<Known> {
    let flags: [u8; 2] = view.get(6)?;
    let check = match flags {
        [0, 0] => "no check",
        [0, 1] => "CRC-32",
        [0, 4] => "CRC-64",
        [0, 10] => "SHA-256",
        _ => return None,
    };
    let proven = crc32fast::hash(&flags) == view.le32(8)?;
    proven.then(|| stream("xz", format!("an xz stream, {check}"), proven))?
}

fn zstd(view: &mut View<'_>) -> Option<Known> {
    let flags = view.byte(4)?;
    if flags & 0x08 != 0 {
        return None;
    }
    let is_single = flags & 0x20 != 0;
    let at = 5 + u64::from(!is_single) + [0, 1, 2, 4][usize::from(flags & 3)];
    let size = match (flags >> 6, is_single) {
        (0, false) => None,
        (0, true) => Some(view.byte(at)?.into()),
        (1, _) => Some(u64::from(view.le16(at)?) + 256),
        (2, _) => Some(view.le32(at)?.into()),
        _ => Some(view.le64(at)?),
    };
    // What follows is the first block: its kind is not the reserved one.
    let says = size.map_or("a zstd frame".into(), |size| {
        format!("a zstd frame of {}", counted(size, "byte"))
    });
    stream("zstd", says, false)
}

/// A dictionary of 2^n or 2^n + 2^(n - 1) bytes, and a length that is left open or plausible.
fn is_lzma(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<14>() else {
        return false;
    };
    let dictionary = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let size = head[5..13].iter().rev();
    let size = size.fold(0u64, |size, byte| size << 8 | u64::from(*byte));
    let is_usual =
        dictionary.is_power_of_two() || dictionary % 3 == 0 && (dictionary / 3).is_power_of_two();
    let is_plausible = size == u64::MAX || (1..1 << 38).contains(&size);
    // The range coder begins with a zero.
    dictionary >= 4096 && is_usual && is_plausible && head[13] == 0
}

fn lzma(view: &mut View<'_>) -> Option<Known> {
    if !is_lzma(view.head()) {
        return None;
    }
    let says = match view.le64(5)? {
        u64::MAX => "an lzma stream".into(),
        size => format!("an lzma stream of {}", counted(size, "byte")),
    };
    stream("lzma", says, false)
}

/// A number of eight hexadecimal digits.
fn digits(view: &mut View<'_>, at: u64) -> Option<u64> {
    let digits: [u8; 8] = view.get(at)?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number << 4 | u64::from((*digit as char).to_digit(16)?))
    })
}

/// Walks from entry to entry until the one that ends the archive.
fn cpio(view: &mut View<'_>) -> Option<Known> {
    let mut at = 0;
    let mut first = None;
    for count in 0..ENTRIES_MAX {
        let magic: Option<[u8; 6]> = view.get(at);
        let is_entry = matches!(magic.as_ref(), Some(b"070701" | b"070702"));
        let sizes = digits(view, at + 54).zip(digits(view, at + 94));
        let Some((size, name)) = sizes.filter(|(_, name)| is_entry && (1..4096).contains(name))
        else {
            let found = first.map(|first: String| format!("\"{first}\" first, its end is missing"));
            return stream("cpio", found?, false);
        };
        let text = view.text(at + 110, name as usize)?;
        at = (at + 110 + name).next_multiple_of(4) + size;
        if text == b"TRAILER!!!" {
            return Some(Known {
                name: "cpio",
                len: Some(at),
                says: format!("an archive of {}", counted(count, "entry")),
                proven: false,
            });
        }
        at = at.next_multiple_of(4);
        first.get_or_insert_with(|| printable(&text));
    }
    stream(
        "cpio",
        format!("an archive of {ENTRIES_MAX} entries or more"),
        false,
    )
}

const PROCESSORS: &[(u16, &str)] = &[
    (3, "x86"),
    (8, "MIPS"),
    (20, "PowerPC"),
    (21, "PowerPC64"),
    (40, "ARM"),
    (42, "SuperH"),
    (62, "x86-64"),
    (93, "ARC"),
    (94, "Xtensa"),
    (183, "ARM64"),
    (195, "ARC"),
    (243, "RISC-V"),
    (258, "LoongArch"),
];

fn elf(view: &mut View<'_>) -> Option<Known> {
    let is_64 = match view.byte(4)? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let little = match view.byte(5)? {
        1 => true,
        2 => false,
        _ => return None,
    };
    let mut short = |at: u64| if little { view.le16(at) } else { view.be16(at) };
    let kind = match short(16)? {
        1 => "object",
        2 => "program",
        3 => "shared object",
        4 => "core dump",
        _ => return None,
    };
    let machine = short(18)?;
    let tail = if is_64 { 58 } else { 46 };
    let entry = u64::from(short(tail)?);
    let count = u64::from(short(tail + 2)?);
    let sections = match (is_64, little) {
        (true, true) => view.le64(40)?,
        (true, false) => view.be64(40)?,
        (false, true) => view.le32(32)?.into(),
        (false, false) => view.be32(32)?.into(),
    };
    if view.byte(6)? != 1 {
        return None;
    }
    let processor = PROCESSORS.iter().find(|(number, _)| *number == machine);
    let processor = processor.map_or(format!("machine {machine}"), |(_, name)| (*name).into());
    let bits = if is_64 { 64 } else { 32 };
    let order = if little { "little" } else { "big" };
    Some(Known {
        name: "ELF",
        // The list of sections lies at the end, where it has not been stripped.
        len: sections.checked_add(entry * count).filter(|_| sections > 0),
        says: format!("{processor} {kind}, {bits} bits, {order}-endian"),
        proven: false,
    })
}
