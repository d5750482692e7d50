//! Reads fields of bytes that begin at a place.
//!
//! *Promises.* A field that leaves the bytes, or cannot be read, is `None`. Small reads go through
//! a window, so that a walk along a structure costs one read for each 4 KiB.

use super::{HEAD_BYTES, Sign};
use crate::words::visible;
use nandlab_sim::Backing;
use nandlab_vfs::Time;

/// Bytes that a checksum takes at a time.
const CHUNK: u64 = 64 << 10;
/// Characters of a text that are shown.
const SHOWN_MAX: usize = 120;

/// Bytes from a place on.
pub(crate) struct View<'a> {
    bytes: &'a mut dyn Backing,
    start: u64,
    head: Vec<u8>,
    /// Two, for a walk along a structure that refers to a table; the last used is the first.
    windows: [(u64, Vec<u8>); 2],
}

macro_rules! fields {
    ($($name:ident $type:ident $from:ident)*) => {$(
        pub fn $name(&mut self, at: u64) -> Option<$type> {
            self.get(at).map($type::$from)
        }
    )*};
}

impl<'a> View<'a> {
    pub fn new(bytes: &'a mut dyn Backing, start: u64) -> Option<Self> {
        let there = bytes.len().checked_sub(start)?;
        let mut head = vec![0; there.min(HEAD_BYTES as u64) as usize];
        bytes.read_at(start, &mut head).ok()?;
        let windows = Default::default();
        Some(Self {
            bytes,
            start,
            head,
            windows,
        })
    }

    /// Bytes to the end of the image.
    pub fn len(&self) -> u64 {
        self.bytes.len() - self.start
    }

    pub fn head(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn has(&mut self, sign: &Sign) -> bool {
        if sign.at + sign.magic.len() <= self.head.len() {
            return sign.is_at(&self.head);
        }
        let mut there = vec![0; sign.magic.len()];
        self.read(sign.at as u64, &mut there).is_some() && there == sign.magic
    }

    pub fn read(&mut self, at: u64, buf: &mut [u8]) -> Option<()> {
        let place = self.start.checked_add(at)?;
        self.bytes.read_at(place, buf).ok()
    }

    /// So many bytes from `at` on.
    pub fn get<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let end = at.checked_add(N as u64).filter(|end| *end <= self.len())?;
        if end <= self.head.len() as u64 {
            return self.head[at as usize..].first_chunk().copied();
        }
        let holds =
            |(from, bytes): &(u64, Vec<u8>)| at >= *from && end <= from + bytes.len() as u64;
        if !holds(&self.windows[0]) {
            self.windows.swap(0, 1);
        }
        if !holds(&self.windows[0]) {
            let mut bytes = vec![0; (self.len() - at).min(HEAD_BYTES.max(N) as u64) as usize];
            self.read(at, &mut bytes)?;
            self.windows[0] = (at, bytes);
        }
        let (from, bytes) = &self.windows[0];
        bytes.get((at - from) as usize..)?.first_chunk().copied()
    }

    pub fn byte(&mut self, at: u64) -> Option<u8> {
        self.get(at).map(|[byte]| byte)
    }

    fields! {
        le16 u16 from_le_bytes
        le32 u32 from_le_bytes
        le64 u64 from_le_bytes
        be16 u16 from_be_bytes
        be32 u32 from_be_bytes
        be64 u64 from_be_bytes
    }

    /// A text that ends with a NUL or after `max` bytes.
    pub fn text(&mut self, at: u64, max: usize) -> Option<Vec<u8>> {
        let mut text = vec![0; (max as u64).min(self.len().checked_sub(at)?) as usize];
        self.read(at, &mut text)?;
        let end = text.iter().position(|byte| *byte == 0);
        text.truncate(end.unwrap_or(text.len()));
        Some(text)
    }

    /// The same, as messages show it.
    pub fn shown(&mut self, at: u64, max: usize) -> Option<String> {
        self.text(at, max).map(|text| printable(&text))
    }

    /// Passes an extent in parts; `None` if it leaves the bytes or is longer than a checksum
    /// may be.
    pub fn each(&mut self, from: u64, len: u64, mut each: impl FnMut(&[u8])) -> Option<()> {
        if len > super::CHECKED_MAX || from.checked_add(len)? > self.len() {
            return None;
        }
        let mut buffer = vec![0; CHUNK.min(len) as usize];
        let mut done = 0;
        while done < len {
            let part = &mut buffer[..CHUNK.min(len - done) as usize];
            let place = self.start + from + done;
            self.bytes.read_at(place, part).ok()?;
            each(part);
            done += part.len() as u64;
        }
        Some(())
    }

    /// CRC-32 of an extent, with the usual inversions.
    pub fn crc32(&mut self, from: u64, len: u64) -> Option<u32> {
        let mut crc = crc32fast::Hasher::new();
        self.each(from, len, |part| crc.update(part))?;
        Some(crc.finalize())
    }
}

/// A text of a format in one line: trailing spaces go, hidden characters are escaped, the rest of a
/// long one is left out.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut short: String = text.trim_end().chars().take(SHOWN_MAX).collect();
    if short.len() < text.trim_end().len() {
        short.push_str("...");
    }
    visible(&short).replace('\n', "\\n").replace('\t', "\\t")
}

/// Seconds since 1970 as a date.
pub(crate) fn date(seconds: impl Into<u64>) -> String {
    let secs = i64::try_from(seconds.into()).unwrap_or(i64::MAX);
    crate::manifest::date(Time { secs, nanos: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_leaves_the_bytes_is_none_wherever_the_view_begins() {
        let mut bytes = vec![1u8; 10_000];
        assert!(View::new(&mut bytes, 10_001).is_none());
        let mut view = View::new(&mut bytes, 2000).unwrap();
        assert_eq!(view.le32(7996), Some(0x0101_0101));
        assert_eq!(view.le32(7997), None);
        assert_eq!(view.le32(u64::MAX - 1), None);
        assert_eq!(view.be16(4095), Some(0x0101));
        assert_eq!(view.crc32(u64::MAX, 2), None);
        assert_eq!(view.crc32(0, 8001), None);
    }
}
