//! U-Boot's environment: a CRC-32, on some devices a flag byte, and variables as `name=value`.
//!
//! *Promises.* Only a matching checksum makes an environment. Its size is not on the medium: every
//! multiple of 512 bytes from 1 KiB to 256 KiB is tried, in one pass.

use super::{Format, Known, Sign, View};
use crate::words::counted;
use nandlab_sim::Backing;

pub(super) const FORMATS: &[Format] = &[Format {
    signs: &[Sign {
        at: 0,
        magic: b"",
        fits,
    }],
    look: |view| Environment::look(view).map(|found| found.known()),
}];

const SIZE_MIN: usize = 1 << 10;
const SIZE_MAX: usize = 256 << 10;
const SIZE_STEP: usize = 512;
/// Bytes of a variable's name.
const NAME_MAX: usize = 64;
/// Bytes of a value in which its end must lie for a first look.
const VALUE_MAX: usize = 8 << 10;

/// A U-Boot environment with its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Bytes that it takes with its checksum.
    pub size: u64,
    /// The flag or the serial number of a redundant copy.
    pub flag: Option<u8>,
    /// Names and values in the order of the medium.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The end of a name: what lies before `=`.
fn name(text: &[u8]) -> Option<usize> {
    let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'=';
    let len = text.iter().take(NAME_MAX).take_while(|byte| is_name(byte));
    let len = len.count();
    (len > 0 && text.get(len) == Some(&b'=')).then_some(len)
}

/// Whether a variable begins here: a name, a value without control characters but tabs and line
/// ends, and a NUL if the bytes reach so far.
fn begins(text: &[u8]) -> bool {
    let Some(name) = name(text) else {
        return false;
    };
    let value = &text[name + 1..text.len().min(name + 1 + VALUE_MAX)];
    match memchr::memchr(0, value) {
        Some(end) => value[..end]
            .iter()
            .all(|byte| *byte >= b' ' || matches!(byte, b'\t'..=b'\r')),
        None => value.len() < VALUE_MAX,
    }
}

fn fits(bytes: &[u8]) -> bool {
    let is_at = |at: usize| bytes.get(at..).is_some_and(begins);
    is_at(4) || is_at(5)
}

impl Environment {
    /// Returns the environment that begins at byte `at`, if one does.
    pub fn read(bytes: &mut dyn Backing, at: u64) -> Option<Self> {
        Self::look(&mut View::new(bytes, at)?)
    }

    fn look(view: &mut View<'_>) -> Option<Self> {
        let plain = view.head().get(4..).is_some_and(begins);
        let flagged = view.head().get(5..).is_some_and(begins);
        if !plain && !flagged {
            return None;
        }
        let mut bytes = vec![0; view.len().min(SIZE_MAX as u64) as usize];
        view.read(0, &mut bytes)?;
        let found = [(plain, 4), (flagged, 5)];
        let mut found = found.into_iter().filter(|(begins, _)| *begins);
        found.find_map(|(_, from)| {
            let size = size(&bytes, from)?;
            Some(Self {
                size: size as u64,
                flag: (from == 5).then_some(bytes[4]),
                variables: variables(&bytes[from..size]),
            })
        })
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| &value[..])
    }

    fn known(&self) -> Known {
        let count = counted(self.variables.len() as u64, "variable");
        let says = match self.flag {
            Some(flag) => format!("{count}, redundant copy, flag {flag}"),
            None => count,
        };
        Known {
            name: "U-Boot environment",
            len: Some(self.size),
            says,
            proven: true,
        }
    }
}

/// The size for which the checksum matches, if the contents begin at `from`.
fn size(bytes: &[u8], from: usize) -> Option<usize> {
    let expected = u32::from_le_bytes(*bytes.first_chunk()?);
    let big = expected.swap_bytes();
    let mut crc = crc32fast::Hasher::new();
    let mut done = from;
    for size in (SIZE_STEP..=bytes.len()).step_by(SIZE_STEP) {
        crc.update(&bytes[done..size]);
        done = size;
        let found = crc.clone().finalize();
        if size >= SIZE_MIN && (found == expected || found == big) {
            return Some(size);
        }
    }
    None
}

/// The variables up to the first empty one.
fn variables(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let texts = bytes.split(|byte| *byte == 0);
    let texts = texts.take_while(|text| !text.is_empty());
    let pairs = texts.filter_map(|text| {
        let at = memchr::memchr(b'=', text)?;
        Some((text[..at].to_vec(), text[at + 1..].to_vec()))
    });
    pairs.collect()
}
