//! Names what begins at a byte of a flash or disk image: file systems, boot loaders, archives and
//! tables that are not opened here, or only in part.
//!
//! *Promises.* Nothing is written. Any bytes are valid input: a recogniser reads a bounded part of
//! them, whatever they declare. A format is *proven* if a checksum of its own matches; otherwise
//! its magic number and its fields are plausible. *Knows nothing of* what lies around the byte.
//!
//! *Map.* `view` reads fields of the bytes; `squashfs`, `loaders`, `uboot`, `env`, `flash`,
//! `disks`, `tables`, `android` and `packed` hold the recognisers, one list of signs each.

mod android;
mod disks;
pub mod env;
mod flash;
mod loaders;
mod packed;
mod squashfs;
mod tables;
#[cfg(test)]
mod tests;
mod uboot;
mod view;

use nandlab_sim::Backing;
use serde::Serialize;
use std::sync::LazyLock;
pub(crate) use view::{View, date, printable};

/// Bytes of a range's beginning that every recogniser sees at once.
pub const HEAD_BYTES: usize = 4096;
/// Bytes that a checksum may cover. A longer range is not proven.
pub const CHECKED_MAX: u64 = 64 << 20;
/// Bytes from a format's beginning to the end of its farthest magic number. Overlap buffers by so
/// many.
pub const LOOK_AHEAD: usize = 0x1_0048;
/// Disks, tables and environments begin at sectors: they are not looked for in between.
const SECTOR: usize = 512;

/// A format that is recognised by name and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The name of the format.
    pub name: &'static str,
    /// Bytes from its first to its last, if it says so. They may reach beyond the image's end.
    pub len: Option<u64>,
    /// Its own description, in one line.
    pub says: String,
    /// Whether a checksum confirms the format.
    pub proven: bool,
}

/// Bytes that a format has at a fixed place.
struct Sign {
    /// From the format's beginning.
    at: usize,
    magic: &'static [u8],
    /// Looks at the bytes from the format's beginning, as far as they are there.
    fits: fn(&[u8]) -> bool,
}

impl Sign {
    const fn new(at: usize, magic: &'static [u8]) -> Self {
        let fits = |_: &[u8]| true;
        Self { at, magic, fits }
    }

    fn is_at(&self, bytes: &[u8]) -> bool {
        let there = bytes.get(self.at..self.at + self.magic.len());
        there == Some(self.magic) && (self.fits)(bytes)
    }

    /// The sign is at the beginning, and nothing says that the format begins at a sector.
    fn is_near(&self) -> bool {
        self.at == 0 && self.magic.len() >= 2
    }
}

/// A format: any of its signs, and its recogniser.
struct Format {
    signs: &'static [Sign],
    look: fn(&mut View<'_>) -> Option<Known>,
}

/// The formats; the first that is recognised is taken.
fn formats() -> impl Iterator<Item = &'static Format> {
    [
        squashfs::FORMATS,
        uboot::FORMATS,
        loaders::FORMATS,
        flash::FORMATS,
        android::FORMATS,
        packed::FORMATS,
        disks::FORMATS,
        tables::FORMATS,
        env::FORMATS,
    ]
    .into_iter()
    .flatten()
}

fn signs() -> impl Iterator<Item = &'static Sign> {
    formats().flat_map(|format| format.signs)
}

/// Returns the format that begins at byte `at`, if one does.
pub fn recognise(bytes: &mut dyn Backing, at: u64) -> Option<Known> {
    let mut view = View::new(bytes, at)?;
    formats().find_map(|format| {
        let is_signed = format.signs.iter().any(|sign| view.has(sign));
        is_signed.then(|| (format.look)(&mut view))?
    })
}

/// The first two bytes of each near sign, as a set of 65,536 bits.
static PAIRS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let mut pairs = vec![0u64; 1 << 10];
    for sign in signs().filter(|sign| sign.is_near()) {
        let pair = usize::from(u16::from_le_bytes([sign.magic[0], sign.magic[1]]));
        pairs[pair >> 6] |= 1 << (pair & 63);
    }
    pairs
});

/// Offsets in a buffer at which a format may begin, by magic numbers alone, in rising order.
///
/// Offsets are multiples of `step`; formats whose magic number is not at their beginning are looked
/// for at sectors of 512 bytes only. A format whose magic number the buffer cuts off is not found:
/// see [`LOOK_AHEAD`]. Buffers of a few MiB are the fastest.
pub fn candidates(buffer: &[u8], step: usize) -> Vec<usize> {
    let step = step.max(1);
    let mut found = near(buffer, step);
    found.extend(far(buffer, step));
    found.sort_unstable();
    found.dedup();
    found
}

/// Signs at the beginning.
fn near(buffer: &[u8], step: usize) -> Vec<usize> {
    let pairs: &[u64; 1 << 10] = PAIRS.first_chunk().expect("the set has its length");
    let mut found = Vec::new();
    for (number, pair) in buffer.windows(2).step_by(step).enumerate() {
        let pair = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
        if pairs[pair >> 6] >> (pair & 63) & 1 != 0 {
            found.push(number * step);
        }
    }
    let is_sign = |at: &usize| {
        let mut signs = signs().filter(|sign| sign.is_near());
        signs.any(|sign| sign.is_at(&buffer[*at..]))
    };
    found.retain(is_sign);
    found
}

/// All other signs, at sectors: one pass for each of them.
fn far(buffer: &[u8], step: usize) -> Vec<usize> {
    let stride = step * SECTOR.div_ceil(step);
    let mut found = Vec::new();
    for sign in signs().filter(|sign| !sign.is_near()) {
        let first = sign.magic.first_chunk::<2>();
        let pairs = buffer.get(sign.at..).unwrap_or_default().windows(2);
        for (number, pair) in pairs.step_by(stride).enumerate() {
            let at = number * stride;
            if first.is_none_or(|first| pair == first) && sign.is_at(&buffer[at..]) {
                found.push(at);
            }
        }
    }
    found
}
