//! `mtdparts=` as Linux reads it (`drivers/mtd/parsers/cmdlinepart.c`):
//! `id:size[@offset][(name)][ro][lk][slc],...;id:...`.
//!
//! A size is a number with one of the suffixes K, M, G, T, P and E, or `-` for the rest of the
//! device. A number is decimal, hexadecimal with `0x`, or octal with `0`. Without an offset a
//! partition follows the one before. As in Linux, a partition without bytes is skipped.

use crate::error;

use super::{At, Entries, PARTITIONS_MAX, Partition, Result, checked, wrong};

const TABLE: &str = "mtdparts";
const KEY: &str = "mtdparts=";

/// One partition as it is written.
struct Written {
    at: usize,
    /// `None` is the rest of the device.
    size: Option<u64>,
    offset: Option<u64>,
    name: Option<String>,
    read_only: bool,
}

/// A device, and the partitions that are written for it.
struct Device {
    id: String,
    parts: Vec<Written>,
}

/// Text, and a place in it.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// Finds the value in a kernel's command line, or takes the whole text for it.
    fn new(text: &'a str) -> Self {
        let at = text.rfind(KEY).map_or(0, |at| at + KEY.len());
        let mut is_named = false;
        let is_end = |character: char| {
            is_named = match character {
                '(' => true,
                ')' => false,
                _ => is_named,
            };
            matches!(character, '"' | '\'') || !is_named && character.is_whitespace()
        };
        let at = at + text[at..].len() - text[at..].trim_start().len();
        let end = text[at..].find(is_end).map_or(text.len(), |end| at + end);
        Self { text, at, end }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..self.end]
    }

    /// Skips a text, if it comes next.
    fn skip(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let found = match self.rest() {
            "" => "the end".to_owned(),
            rest => format!("{:?}", rest.chars().take(20).collect::<String>()),
        };
        wrong(TABLE, At::Character(self.at), found, expected)
    }

    /// A number with its suffix.
    fn number(&mut self) -> Result<u64> {
        let expected = "a number, such as 512k or 0x20000";
        let radix = match self.rest().as_bytes() {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => 16,
            [b'0', ..] => 8,
            _ => 10,
        };
        let prefix = if radix == 16 { 2 } else { 0 };
        let rest = &self.rest()[prefix..];
        let digits = rest
            .bytes()
            .take_while(|byte| (*byte as char).is_digit(radix));
        let digits = digits.count();
        let Ok(number) = u64::from_str_radix(&rest[..digits], radix) else {
            return self.wrong(expected);
        };
        let suffix = rest.as_bytes().get(digits).map(u8::to_ascii_lowercase);
        let power = suffix.and_then(|suffix| b"kmgtpe".iter().position(|one| *one == suffix));
        let shift = power.map_or(0, |power| 10 * (power as u32 + 1));
        let Some(bytes) = number.checked_mul(1 << shift) else {
            return self.wrong("a number below 16 EiB");
        };
        self.at += prefix + digits + usize::from(power.is_some());
        Ok(bytes)
    }

    fn part(&mut self) -> Result<Written> {
        let at = self.at;
        let size = if self.skip("-") {
            None
        } else {
            Some(self.number()?)
        };
        let offset = if self.skip("@") {
            Some(self.number()?)
        } else {
            None
        };
        let name = if self.skip("(") {
            Some(self.name()?)
        } else {
            None
        };
        let read_only = self.skip("ro");
        self.skip("lk");
        self.skip("slc");
        Ok(Written {
            at,
            size,
            offset,
            name,
            read_only,
        })
    }

    fn name(&mut self) -> Result<String> {
        let Some(len) = self.rest().find(')') else {
            return self.wrong("a name that ends with )");
        };
        let name = self.rest()[..len].to_owned();
        self.at += len + 1;
        Ok(name)
    }

    /// An id may hold colons: the last one in front of the first name ends it.
    fn id(&mut self) -> Result<String> {
        let rest = self.rest();
        let end = rest.find([';', '(']).unwrap_or(rest.len());
        match rest[..end].rfind(':') {
            Some(len) if len > 0 => {
                self.at += len + 1;
                Ok(rest[..len].to_owned())
            }
            _ => self.wrong("the name of a device with a colon behind it"),
        }
    }

    fn device(&mut self) -> Result<Device> {
        let id = self.id()?;
        let mut parts: Vec<Written> = Vec::new();
        loop {
            if parts.len() > PARTITIONS_MAX {
                return self.wrong("at most 4096 partitions");
            }
            if parts.last().is_some_and(|part| part.size.is_none()) {
                return self.wrong("nothing behind the partition that takes the rest");
            }
            parts.push(self.part()?);
            if !self.skip(",") {
                return Ok(Device { id, parts });
            }
        }
    }

    fn devices(&mut self) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        loop {
            devices.push(self.device()?);
            let more = self.skip(";");
            if self.rest().is_empty() {
                return Ok(devices);
            }
            if !more {
                return self.wrong("a comma, a semicolon or the end");
            }
        }
    }
}

impl Device {
    /// Gives each partition its place on a device of `len` bytes.
    fn placed(self, len: u64) -> Result<Vec<Partition>> {
        let mut entries = Entries::new();
        let mut next = 0u64;
        for (number, part) in self.parts.into_iter().enumerate() {
            let place = At::Character(part.at);
            let at = part.offset.unwrap_or(next);
            let Some(size) = part.size.or_else(|| len.checked_sub(at)) else {
                let found = format!("a partition at byte {at}");
                return wrong(
                    TABLE,
                    place,
                    found,
                    format!("a device of more than {len} bytes"),
                );
            };
            next = at.saturating_add(size);
            let name = part
                .name
                .unwrap_or_else(|| format!("Partition_{number:03}"));
            let read_only = part.read_only;
            let one = Partition {
                name,
                at,
                len: size,
                read_only,
            };
            entries.extend((size > 0).then_some((place, one)));
        }
        checked(TABLE, entries, len, true)
    }
}

/// The devices that a string has partitions for.
pub fn mtd_ids(text: &str) -> Result<Vec<String>> {
    let devices = Reader::new(text).devices()?;
    Ok(devices.into_iter().map(|device| device.id).collect())
}

/// The partitions that a string, or a kernel's command line with one, has for the only device in
/// it, which has `len` bytes.
pub fn mtdparts(text: &str, len: u64) -> error::Result<Vec<Partition>> {
    Ok(mtdparts_of(text, None, len)?)
}

/// The same for the device of an id. Without an id the string must be for one device.
pub fn mtdparts_of(text: &str, device: Option<&str>, len: u64) -> Result<Vec<Partition>> {
    let mut reader = Reader::new(text);
    let start = At::Character(reader.at);
    let mut devices = reader.devices()?;
    let ids: Vec<&str> = devices.iter().map(|device| &device.id[..]).collect();
    let ids = ids.join(", ");
    let index = match device {
        Some(id) => devices.iter().position(|device| device.id == id),
        None => Some(0).filter(|_| devices.len() == 1),
    };
    match (index, device) {
        (Some(index), _) => devices.swap_remove(index).placed(len),
        (None, Some(id)) => wrong(
            TABLE,
            start,
            format!("devices {ids}"),
            format!("one named {id}"),
        ),
        (None, None) => wrong(
            TABLE,
            start,
            format!("devices {ids}"),
            "the name of one of them",
        ),
    }
}
