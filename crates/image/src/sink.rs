//! Where the entries of a tree go, one after the other, with their contents as they are read.
//!
//! *Promises.* No contents are ever in memory as a whole. Holes are distinguished from data in
//! steps of [`HOLE`] bytes, whatever the file system thinks of them. *Knows nothing of* where
//! entries come from.

use crate::error::Result;
use crate::tree::{Data, Entry};
use crate::walk::Losses;

/// Zeros of this length, at a multiple of it, are a hole.
pub const HOLE: u64 = 4096;
/// Bytes that are read at once.
pub const STEP: usize = 256 * 1024;
/// Bytes of the shortest buffer.
const LEAST: usize = 32 * 1024;

/// A file's contents, to be read from the beginning.
pub trait Bytes {
    /// Place and length of everything that is not a hole.
    fn map(&mut self) -> Result<Vec<(u64, u64)>>;

    /// Gives everything that is not a hole, in order: place and bytes.
    fn each(&mut self, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()>;
}

/// A target that takes the entries of a tree one by one.
pub trait Sink {
    /// Takes one; directories come before what is in them, hard links behind what they name.
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<()>;

    /// Takes a file whose contents come later, perhaps on another thread; a sink that needs them at
    /// once takes nothing. A file that is `named` again later is there at once.
    fn begin(&mut self, _: &Entry, _named: bool) -> Result<Option<Box<dyn Fill>>> {
        Ok(None)
    }

    /// Ends the target; no entry follows.
    fn finish(&mut self) -> Result<()>;
}

/// A file that was taken without its contents.
pub trait Fill: Send {
    /// Takes them, and ends the file; tells what could not be kept of it.
    fn fill(self: Box<Self>, entry: &Entry, bytes: &mut dyn Bytes) -> Result<Losses>;
}

/// Two sinks as one; the second gets no contents.
pub struct Both<'a>(pub &'a mut dyn Sink, pub &'a mut dyn Sink);

impl std::fmt::Debug for Both<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Both")
    }
}

impl Sink for Both<'_> {
    fn put(&mut self, entry: &Entry, bytes: &mut dyn Bytes) -> Result<()> {
        self.0.put(entry, bytes)?;
        self.1.put(entry, &mut Nothing)
    }

    fn begin(&mut self, entry: &Entry, named: bool) -> Result<Option<Box<dyn Fill>>> {
        let begun = self.0.begin(entry, named)?;
        if begun.is_some() {
            self.1.put(entry, &mut Nothing)?;
        }
        Ok(begun)
    }

    fn finish(&mut self) -> Result<()> {
        self.0.finish()?;
        self.1.finish()
    }
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words
        .iter()
        .all(|word| word.iter().fold(0, |bits, byte| bits | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}

/// The parts of `data`, which lies at `at` (a multiple of [`HOLE`]), that are no holes: where they
/// begin in it and end.
pub fn parts(at: u64, data: &[u8]) -> Vec<(usize, usize)> {
    debug_assert!(at.is_multiple_of(HOLE));
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for (number, chunk) in data.chunks(HOLE as usize).enumerate() {
        if is_zero(chunk) {
            continue;
        }
        let from = number * HOLE as usize;
        let to = number * HOLE as usize + chunk.len();
        match parts.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => parts.push((from, to)),
        }
    }
    parts
}

/// Contents that can be read at any place.
pub trait ReadAt {
    /// Returns the length in bytes.
    fn size(&self) -> u64;

    /// Where, from `at` on, something other than zeros may be, or the end.
    fn next_data(&mut self, at: u64) -> u64;

    /// Fills `buf`, which lies within the file.
    fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()>;
}

/// [`Bytes`] of whatever can be read at any place. What the map says is what is given.
#[derive(Debug)]
pub struct Reading<R> {
    inner: R,
    map: Option<Vec<(u64, u64)>>,
    buffer: Vec<u8>,
    /// Where the part in the buffer begins.
    from: u64,
}

impl<R: ReadAt> Reading<R> {
    /// Nothing is read yet.
    pub fn new(inner: R) -> Self {
        Self::with(inner, Vec::new())
    }

    /// The same, by a buffer that was used before, whatever is in it.
    pub fn with(inner: R, buffer: Vec<u8>) -> Self {
        Self {
            inner,
            map: None,
            buffer,
            from: 0,
        }
    }

    /// Returns where the last part that was read begins.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// What was read from, and the buffer.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        (self.inner, self.buffer)
    }

    /// Every part that is no hole, of at most [`STEP`] bytes.
    fn scan(&mut self, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let size = self.inner.size();
        let mut at = 0;
        while at < size {
            let next = self.inner.next_data(at);
            if next >= size {
                break;
            }
            at = next / HOLE * HOLE;
            let part = part_of(&mut self.buffer, size - at);
            self.inner.read_at(at, part)?;
            self.from = at;
            for (from, to) in parts(at, part) {
                take(at + from as u64, &part[from..to])?;
            }
            at += part.len() as u64;
        }
        Ok(())
    }
}

/// So many bytes of a buffer, at most [`STEP`]. It only ever grows, to a power of two, because
/// other files use it again.
fn part_of(buffer: &mut Vec<u8>, len: u64) -> &mut [u8] {
    let len = STEP.min(usize::try_from(len).unwrap_or(STEP));
    if buffer.len() < len {
        *buffer = vec![0; len.next_power_of_two().max(LEAST)];
    }
    &mut buffer[..len]
}

impl<R: ReadAt> Bytes for Reading<R> {
    fn map(&mut self) -> Result<Vec<(u64, u64)>> {
        if let Some(map) = &self.map {
            return Ok(map.clone());
        }
        let mut map: Vec<(u64, u64)> = Vec::new();
        self.scan(&mut |at, data| {
            match map.last_mut() {
                Some((from, len)) if *from + *len == at => *len += data.len() as u64,
                _ => map.push((at, data.len() as u64)),
            }
            Ok(())
        })?;
        self.map = Some(map.clone());
        Ok(map)
    }

    fn each(&mut self, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let Some(map) = self.map.clone() else {
            return self.scan(take);
        };
        for (from, len) in map {
            for at in (from..from + len).step_by(STEP) {
                let part = part_of(&mut self.buffer, from + len - at);
                self.inner.read_at(at, part)?;
                take(at, part)?;
            }
        }
        Ok(())
    }
}

/// The contents of an empty file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Bytes for Nothing {
    fn map(&mut self) -> Result<Vec<(u64, u64)>> {
        Ok(Vec::new())
    }

    fn each(&mut self, _: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

/// The contents of a file of up to [`STEP`] bytes in memory: all that is no hole.
#[derive(Debug)]
pub(crate) struct Held {
    /// Place and length, in order.
    map: Vec<(u64, u64)>,
    /// The file from somewhere on to its end, and perhaps more.
    bytes: Vec<u8>,
    /// Where that begins.
    from: u64,
}

impl Held {
    /// Takes the parts that a [`Reading`] of the file gave, its buffer, and where that begins.
    pub fn new(map: Vec<(u64, u64)>, bytes: Vec<u8>, from: u64) -> Self {
        Self { map, bytes, from }
    }

    /// Gives the buffer back for another file.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

impl Bytes for Held {
    fn map(&mut self) -> Result<Vec<(u64, u64)>> {
        Ok(self.map.clone())
    }

    fn each(&mut self, take: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        self.map.iter().try_for_each(|(at, len)| {
            let from = (at - self.from) as usize;
            take(*at, &self.bytes[from..from + *len as usize])
        })
    }
}

/// Contents in a file of the operating system.
#[derive(Debug)]
pub struct Stored<'a> {
    /// The extents that hold the contents.
    pub data: &'a Data,
    /// The length of the contents in bytes.
    pub size: u64,
}

impl ReadAt for Stored<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn next_data(&mut self, at: u64) -> u64 {
        self.data.next(at).unwrap_or(self.size)
    }

    fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        self.data.read(at, buf)
    }
}

/// Gives a whole tree to a sink.
pub fn pour(tree: &crate::tree::Tree, sink: &mut dyn Sink) -> Result<()> {
    for (entry, data) in &tree.entries {
        sink.put(
            entry,
            &mut Reading::new(Stored {
                data,
                size: entry.size(),
            }),
        )?;
    }
    sink.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_found_in_whole_steps_only() {
        let mut data = vec![0; 4 * 4096 + 10];
        data[4096 + 5] = 1;
        data[2 * 4096] = 1;
        data[4 * 4096 + 9] = 1;
        assert_eq!(
            parts(0, &data),
            [(4096, 3 * 4096), (4 * 4096, 4 * 4096 + 10)]
        );
        assert_eq!(parts(8192, &[0; 100]), []);
    }
}
