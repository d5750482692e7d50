//! What a workload's files hold: bytes that look random, a function of the place alone.
//!
//! *Promises.* The byte at an offset depends on seed, file, version and offset, not on how the bytes are grouped into writes; so whoever knows the calls can
//! tell what a file must hold, and bytes that ended up elsewhere are found. No compressor makes them smaller.

use super::FileId;
use nandlab_sim::mix;

/// Bytes that are made together.
const WORD: usize = size_of::<u64>();

/// The contents of all files of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    seed: u64,
}

impl Contents {
    /// Those of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Fills `buf` with what `file` holds from `offset` on, in this version.
    pub fn fill(&self, file: FileId, version: u32, offset: u64, buf: &mut [u8]) {
        let key = mix(mix(self.seed, u64::from(file.0)), u64::from(version));
        let word = |index: u64| mix(key, index).to_le_bytes();
        let (into, first) = ((offset % WORD as u64) as usize, offset / WORD as u64);
        let (head, rest) = buf.split_at_mut(if into == 0 { 0 } else { (WORD - into).min(buf.len()) });
        head.copy_from_slice(&word(first)[into..][..head.len()]);
        for (index, part) in (first + u64::from(into > 0)..).zip(rest.chunks_mut(WORD)) {
            part.copy_from_slice(&word(index)[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    fn bytes(seed: u64, file: u32, version: u32, offset: u64, length: usize) -> Vec<u8> {
        let mut buf = vec![0; length];
        Contents::new(seed).fill(FileId(file), version, offset, &mut buf);
        buf
    }

    #[test]
    fn bytes_depend_on_the_place_and_not_on_the_write() {
        let whole = bytes(1, 2, 3, 0, 200);
        for from in 0..200 {
            for to in from..200 {
                assert_eq!(bytes(1, 2, 3, from as u64, to - from), whole[from..to], "{from}..{to}");
            }
        }
    }

    #[test]
    fn another_seed_file_version_or_place_holds_something_else() {
        let here = bytes(1, 2, 3, 512, 512);
        for other in [bytes(2, 2, 3, 512, 512), bytes(1, 1, 3, 512, 512), bytes(1, 2, 4, 512, 512), bytes(1, 2, 3, 0, 512)] {
            let same = here.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same < 20, "{same} of 512 bytes are the same, about 2 by chance");
        }
    }

    #[test]
    fn the_highest_offsets_have_bytes_too() {
        assert_eq!(bytes(1, 0, 0, u64::MAX - 10, 10).len(), 10);
    }
}
