//! The bytes that requests carry: one buffer for writes, one for reads, allocated once.

use nandlab_sim::rng;
use rand::Rng as _;

/// The longest piece of a request, in bytes.
pub const BYTES: u64 = 1 << 20;

/// What is written and where reads go.
pub struct Payload {
    data: Box<[u8]>,
    sink: Box<[u8]>,
    /// Bytes between two stamps; none where nobody keeps the data.
    stamp_every: Option<usize>,
    stamp: u64,
}

impl Payload {
    /// Pseudo-random bytes of `seed`; where data is kept in pages of `kept` bytes, each page is
    /// given a number of its own.
    pub fn new(seed: u64, kept: Option<usize>) -> Self {
        let mut data = vec![0; BYTES as usize].into_boxed_slice();
        rng(seed, "payload").fill_bytes(&mut data);
        Self {
            data,
            sink: vec![0; BYTES as usize].into(),
            stamp_every: kept,
            stamp: 0,
        }
    }

    pub fn zero() -> Self {
        Self {
            data: vec![0; BYTES as usize].into(),
            sink: vec![0; BYTES as usize].into(),
            stamp_every: None,
            stamp: 0,
        }
    }

    /// The next `length` bytes to write.
    #[inline]
    pub fn write(&mut self, length: u64) -> &[u8] {
        let data = &mut self.data[..length as usize];
        if let Some(every) = self.stamp_every {
            for page in data.chunks_mut(every) {
                self.stamp += 1;
                page[..8].copy_from_slice(&self.stamp.to_le_bytes());
            }
        }
        data
    }

    /// A buffer of `length` bytes.
    #[inline]
    pub fn read(&mut self, length: u64) -> &mut [u8] {
        &mut self.sink[..length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pages_that_are_kept_are_equal() {
        let mut payload = Payload::new(1, Some(512));
        let mut pages = std::collections::BTreeSet::new();
        for length in [512u64, 4096, 512, 1536] {
            assert!(
                payload
                    .write(length)
                    .chunks(512)
                    .all(|page| pages.insert(page.to_vec()))
            );
        }
        let mut dropped = Payload::new(1, None);
        let first = dropped.write(4096).to_vec();
        assert!(dropped.write(4096) == first);
    }
}
