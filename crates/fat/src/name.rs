//! Names: UTF-16 on the medium, bytes (UTF-8) for the caller, and the short form of eight and three
//! characters that every entry has besides.
//!
//! *Promises* the short names that Linux's vfat makes (`shortname=mixed`, code page 437), except
//! that the number after nine clashes comes from the name instead of the clock. *Knows nothing of*
//! directories: whether a short name is taken is asked.

use crate::format::attr;
use alloc::vec::Vec;
use nandlab_vfs::Errno;

/// The longest name, in UTF-16 units.
pub(crate) const UNITS_MAX: usize = 255;
/// Units in one slot of a long name.
pub(crate) const SLOT_UNITS: usize = 13;
/// In a slot's byte 12: show the base, or the extension, in lower case.
const LOWER_BASE: u8 = 0x08;
const LOWER_EXT: u8 = 0x10;

/// The upper half of code page 437.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// A short name: eight bytes and three, padded with blanks.
pub(crate) type Short = [u8; 11];

fn to_oem(unit: u16) -> Option<u8> {
    if unit < 0x80 {
        return Some(unit as u8);
    }
    let place = CP437.chars().position(|c| c as u32 == u32::from(unit))?;
    Some(0x80 + place as u8)
}

fn from_oem(byte: u8) -> char {
    if byte < 0x80 {
        char::from(byte)
    } else {
        CP437.chars().nth(usize::from(byte - 0x80)).unwrap_or('_')
    }
}

/// The one character that a mapping gives, if it gives one.
fn single(mut mapped: impl Iterator<Item = char>, unmapped: char) -> char {
    mapped
        .next()
        .filter(|_| mapped.next().is_none())
        .unwrap_or(unmapped)
}

fn upper_unit(unit: u16) -> u16 {
    char::from_u32(u32::from(unit)).map_or(unit, |c| {
        u16::try_from(u32::from(single(c.to_uppercase(), c))).unwrap_or(unit)
    })
}

/// A name as it is compared: names that differ in case only are one.
pub(crate) fn fold(units: &[u16]) -> Vec<u16> {
    units.iter().map(|unit| upper_unit(*unit)).collect()
}

/// A name as the medium has it; trailing dots mean nothing. For looking up: accepts lone
/// surrogates, as [`to_bytes`] writes them.
pub(crate) fn to_units(name: &[u8]) -> Result<Vec<u16>, Errno> {
    let end = name
        .iter()
        .rposition(|byte| *byte != b'.')
        .map_or(0, |last| last + 1);
    let mut units = Vec::new();
    let mut rest = &name[..end];
    while !rest.is_empty() {
        let (code, length) = next_code(rest).ok_or(Errno::Invalid)?;
        match char::from_u32(code) {
            Some(c) => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            None => units.push(code as u16),
        }
        rest = &rest[length..];
    }
    match units.len() {
        0 => Err(Errno::NoEntry),
        1..=UNITS_MAX => Ok(units),
        _ => Err(Errno::NameTooLong),
    }
}

/// The first code point of UTF-8 that may have lone surrogates, and its length.
fn next_code(bytes: &[u8]) -> Option<(u32, usize)> {
    let head = &bytes[..bytes.len().min(4)];
    if let [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] = head {
        return Some((
            0xD000 | u32::from(second & 0x3F) << 6 | u32::from(third & 0x3F),
            3,
        ));
    }
    let valid = match str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    valid.chars().next().map(|c| (u32::from(c), c.len_utf8()))
}

/// A name that may be made: valid Unicode, none of the characters that the format forbids, no blank
/// at the end.
pub(crate) fn to_new_units(name: &[u8]) -> Result<Vec<u16>, Errno> {
    str::from_utf8(name).map_err(|_| Errno::Invalid)?;
    let units = to_units(name)?;
    let forbidden =
        |unit: &u16| *unit < 0x20 || br#"*?<>|":/\"#.iter().any(|bad| u16::from(*bad) == *unit);
    if units.iter().any(forbidden) || units.last() == Some(&0x20) {
        return Err(Errno::Invalid);
    }
    Ok(units)
}

/// A name for the caller; a lone surrogate in the three bytes that UTF-8 would have for it.
pub(crate) fn to_bytes(units: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(units.len());
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let unit = lone.unpaired_surrogate();
                bytes.extend([
                    0xE0 | (unit >> 12) as u8,
                    0x80 | (unit >> 6 & 0x3F) as u8,
                    0x80 | (unit & 0x3F) as u8,
                ]);
            }
        }
    }
    bytes
}

/// The name to show for a short name, given the slot's byte 12. What no name may hold shows as `_`.
pub(crate) fn show(short: &Short, case: u8) -> Vec<u16> {
    let part = |bytes: &[u8], lower: bool| -> Vec<u16> {
        let end = bytes
            .iter()
            .rposition(|byte| *byte != b' ')
            .map_or(0, |last| last + 1);
        let shown = bytes[..end].iter().map(|byte| unit(*byte, lower));
        shown.collect()
    };
    let mut base = *short;
    if base[0] == 0x05 {
        base[0] = 0xE5;
    }
    let mut name = part(&base[..8], case & LOWER_BASE != 0);
    let ext = part(&base[8..], case & LOWER_EXT != 0);
    if !ext.is_empty() {
        name.push(u16::from(b'.'));
        name.extend(ext);
    }
    name
}

/// A byte of a short name as it is shown. Every character of the code page is one unit.
fn unit(byte: u8, lower: bool) -> u16 {
    let c = if byte < 0x20 || matches!(byte, b'.' | b'/') {
        '_'
    } else {
        from_oem(byte)
    };
    let c = if lower {
        single(c.to_lowercase(), c)
    } else {
        c
    };
    u32::from(c) as u16
}

/// What ties the slots of a long name to their short name.
pub(crate) fn checksum(short: &Short) -> u8 {
    short
        .iter()
        .fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// A short name for a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub short: Short,
    /// The slot's byte 12.
    pub case: u8,
    /// Whether the name needs slots for its long form.
    pub long: bool,
}

/// One part of a name, base or extension, on its way to a short name.
struct Part {
    bytes: Vec<u8>,
    /// Nothing was cut off.
    whole: bool,
    /// Nothing was left out or replaced.
    valid: bool,
    /// All letters are such.
    lower: bool,
    upper: bool,
}

fn part(units: &[u16], max: usize) -> Part {
    let mut part = Part {
        bytes: Vec::new(),
        whole: true,
        valid: true,
        lower: true,
        upper: true,
    };
    for (index, unit) in units.iter().enumerate() {
        let ascii = u8::try_from(*unit).unwrap_or(0);
        match ascii {
            b'.' | b' ' => {
                part.valid = false;
                continue;
            }
            b'[' | b']' | b';' | b',' | b'+' | b'=' => {
                part.valid = false;
                part.bytes.push(b'_');
            }
            _ => match to_oem(*unit) {
                None => {
                    part.valid = false;
                    part.bytes.push(b'_');
                }
                Some(byte) => {
                    let upper = to_oem(upper_unit(*unit)).unwrap_or(byte);
                    let foreign = byte >= 0x7F;
                    part.lower &= !(foreign || byte.is_ascii_uppercase());
                    part.upper &= !(foreign || byte.is_ascii_lowercase());
                    part.bytes.push(upper);
                }
            },
        }
        if part.bytes.len() == max {
            part.whole = index + 1 == units.len();
            break;
        }
    }
    part
}

/// Base and extension: what stands before and after the last dot, unless nothing but dots and
/// blanks stands before it.
fn split(units: &[u16]) -> (&[u16], &[u16]) {
    let skipped = |unit: &u16| *unit == u16::from(b'.') || *unit == u16::from(b' ');
    match units.iter().rposition(|unit| *unit == u16::from(b'.')) {
        Some(dot) if !units[..dot].iter().all(skipped) => (&units[..dot], &units[dot + 1..]),
        _ => (units, &[]),
    }
}

/// The short name for a name that may be made; `taken` says which are in the directory already.
pub(crate) fn alias(units: &[u16], taken: impl Fn(&Short) -> bool) -> Result<Alias, Errno> {
    let (base, ext) = split(units);
    let base = part(base, 8);
    let ext = part(ext, 3);
    if base.bytes.is_empty() {
        return Err(Errno::Invalid);
    }
    let mut short = [b' '; 11];
    short[..base.bytes.len()].copy_from_slice(&base.bytes);
    short[8..8 + ext.bytes.len()].copy_from_slice(&ext.bytes);
    if short[0] == 0xE5 {
        short[0] = 0x05;
    }
    if base.whole && ext.whole && base.valid && ext.valid {
        if taken(&short) {
            return Err(Errno::Exists);
        }
        if (base.upper || base.lower) && (ext.upper || ext.lower) {
            let case =
                if base.upper { 0 } else { LOWER_BASE } | if ext.upper { 0 } else { LOWER_EXT };
            return Ok(Alias {
                short,
                case,
                long: false,
            });
        }
        return Ok(Alias {
            short,
            case: 0,
            long: true,
        });
    }
    let short = numbered(short, base.bytes.len(), units, taken).ok_or(Errno::NoSpace)?;
    Ok(Alias {
        short,
        case: 0,
        long: true,
    })
}

/// `LONGNA~1` to `~9`, then four digits from the name: `LO3F2A~1`.
fn numbered(
    mut short: Short,
    base: usize,
    units: &[u16],
    taken: impl Fn(&Short) -> bool,
) -> Option<Short> {
    let at = base.min(6);
    short[at] = b'~';
    for digit in b'1'..=b'9' {
        short[at + 1] = digit;
        if !taken(&short) {
            return Some(short);
        }
    }
    hashed(short, base, units, taken)
}

/// A short name with a hash of the long one, as Linux makes it after nine numbers.
fn hashed(
    mut short: Short,
    base: usize,
    units: &[u16],
    taken: impl Fn(&Short) -> bool,
) -> Option<Short> {
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let hash = crc32fast::hash(&bytes);
    let at = base.min(2);
    (short[at + 4], short[at + 5]) = (b'~', b'1' + (hash >> 16 & 7) as u8);
    (0..=u16::MAX).find_map(|attempt| {
        let number = (hash as u16).wrapping_sub(attempt.wrapping_mul(11));
        for (place, shift) in [12, 8, 4, 0].into_iter().enumerate() {
            short[at + place] = b"0123456789ABCDEF"[usize::from(number >> shift & 15)];
        }
        (!taken(&short)).then_some(short)
    })
}

/// The slots of a long name, in the order in which they lie before the entry.
pub(crate) fn long_slots(units: &[u16], short: &Short) -> Vec<[u8; 32]> {
    let count = units.len().div_ceil(SLOT_UNITS);
    let slot = |number: usize| {
        let mut slot = [0; 32];
        slot[0] = number as u8 | if number == count { 0x40 } else { 0 };
        (slot[11], slot[13]) = (attr::LONG_NAME, checksum(short));
        for (place, at) in (0..).zip(unit_places()) {
            let index = (number - 1) * SLOT_UNITS + place;
            let unit = if index == units.len() {
                0
            } else {
                units.get(index).copied().unwrap_or(0xFFFF)
            };
            slot[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        slot
    };
    (1..=count).rev().map(slot).collect()
}

/// Where the units of a long name's slot are.
pub(crate) fn unit_places() -> impl Iterator<Item = usize> {
    (1..11)
        .step_by(2)
        .chain((14..26).step_by(2))
        .chain((28..32).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};

    fn made(name: &str, taken: &[&Short]) -> Result<(String, u8, bool), Errno> {
        let alias = alias(&to_new_units(name.as_bytes())?, |short| {
            taken.contains(&short)
        })?;
        let text = alias.short.iter().map(|byte| from_oem(*byte)).collect();
        Ok((text, alias.case, alias.long))
    }

    #[test]
    fn short_names_are_those_of_linux() {
        let cases: [(&str, &str, u8, bool); 17] = [
            ("README.TXT", "README  TXT", 0, false),
            ("readme.txt", "README  TXT", 0x18, false),
            ("readme.TXT", "README  TXT", 0x08, false),
            ("README.txt", "README  TXT", 0x10, false),
            ("ReadMe.txt", "README  TXT", 0, true),
            ("a", "A          ", 0x08, false),
            ("123.456", "123     456", 0, false),
            ("long file name.jpeg", "LONGFI~1JPE", 0, true),
            ("a b", "AB~1       ", 0, true),
            ("a.b.c", "AB~1    C  ", 0, true),
            (".profile", "PROFIL~1   ", 0, true),
            ("..x.y", "X~1     Y  ", 0, true),
            ("x+y", "X_Y~1      ", 0, true),
            ("été", "ÉTÉ        ", 0, true),
            ("日本", "__~1       ", 0, true),
            ("abcdefghi", "ABCDEF~1   ", 0, true),
            ("x.html", "X~1     HTM", 0, true),
        ];
        for (name, short, case, long) in cases {
            assert_eq!(made(name, &[]), Ok((short.into(), case, long)), "{name}");
        }
    }

    #[test]
    fn clashes_count_to_nine_and_then_take_digits_of_the_name() {
        let all: Vec<Short> = (b'1'..=b'9')
            .map(|digit| {
                [
                    b'L', b'O', b'N', b'G', b'N', b'A', b'~', digit, b' ', b' ', b' ',
                ]
            })
            .collect();
        for (count, digit) in (0..9).zip(1..) {
            let taken: Vec<_> = all[..count].iter().collect();
            assert_eq!(
                made("long name", &taken).unwrap().0,
                format!("LONGNA~{digit}   ")
            );
        }
        let (tenth, ..) = made("long name", &all.iter().collect::<Vec<_>>()).unwrap();
        assert!(
            tenth.starts_with("LO")
                && &tenth[6..7] == "~"
                && tenth[2..6].bytes().all(|b| b.is_ascii_hexdigit()),
            "{tenth}"
        );
        assert_eq!(
            alias(&to_units(b"long name").unwrap(), |_| true),
            Err(Errno::NoSpace)
        );
        assert_eq!(made("README.TXT", &[b"README  TXT"]), Err(Errno::Exists));
    }

    #[test]
    fn names_that_cannot_be_held_are_refused() {
        for bad in [
            &b"a?"[..],
            b"a\\b",
            b"x ",
            b"\xff",
            b"\xED\xA0\x80",
            b"tab\t",
            b"\xF0\x9F",
        ] {
            assert_eq!(to_new_units(bad), Err(Errno::Invalid), "{bad:?}");
        }
        assert_eq!(to_new_units(b"..."), Err(Errno::NoEntry));
        assert_eq!(
            to_new_units("ä".repeat(256).as_bytes()),
            Err(Errno::NameTooLong)
        );
        assert_eq!(
            to_new_units("ä".repeat(255).as_bytes()).map(|units| units.len()),
            Ok(255)
        );
        assert_eq!(to_new_units(b"dot."), to_new_units(b"dot"));
    }

    #[test]
    fn bytes_and_units_translate_both_ways_even_lone_surrogates() {
        for units in [
            &[0x61, 0xD83D, 0xDE00][..],
            &[0xD800],
            &[0x20AC, 0xDC01, 0x7A],
        ] {
            assert_eq!(to_units(&to_bytes(units)).as_deref(), Ok(units));
        }
        assert_eq!(to_bytes(&[0xD83D, 0xDE00]), "😀".as_bytes());
    }

    #[test]
    fn case_is_folded_one_character_for_one() {
        let folded = |name: &str| fold(&to_units(name.as_bytes()).unwrap());
        assert_eq!(folded("Éa"), folded("éA"));
        assert_ne!(folded("ß"), folded("SS"));
    }

    #[test]
    fn the_checksum_and_the_first_byte_are_those_of_the_specification() {
        // A rotation to the right and a sum, by hand for two bytes: 'A' = 0x41 -> 0x41; rotated
        // 0xA0; + 'B' 0x42 = 0xE2 ...
        assert_eq!(checksum(&[0; 11]), 0);
        assert_eq!(checksum(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0x42]), 0xE2);
        assert_eq!(
            to_bytes(&show(b"\x05X      TXT", LOWER_EXT)),
            "σX.txt".as_bytes()
        );
    }
}
