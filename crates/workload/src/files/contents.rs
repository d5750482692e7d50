//! What a workload's files hold: bytes that are a function of the place alone.
//!
//! *Promises.* The byte at an offset depends on seed, file, version and offset, not on how the
//! bytes are grouped into writes; so the calls determine what a file must hold, and bytes that
//! ended up elsewhere are found, unless all are zeros.

use super::FileId;
use nandlab_sim::mix;

/// Bytes that are made together.
const WORD: usize = size_of::<u64>();

/// What bytes look like, which decides what compression makes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// At random: no compressor makes them smaller.
    #[default]
    Random,
    /// Words of a small vocabulary: about a third is left.
    Text,
    /// Zeros, whatever the version: next to nothing is left.
    Zero,
}

/// The contents of all files of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    seed: u64,
    look: Look,
}

/// Words of eight letters, blank included, from which text is drawn.
const WORDS: [&[u8; WORD]; 64] = [
    b"erasing ",
    b"blocks, ",
    b"writes, ",
    b"the page",
    b" of the ",
    b"journal ",
    b"commits ",
    b"and the ",
    b"mapping ",
    b"is then ",
    b"written ",
    b"behind. ",
    b"A flash ",
    b"layer of",
    b" its own",
    b" device ",
    b"without ",
    b"losing a",
    b" single ",
    b"sector, ",
    b"before a",
    b" victim ",
    b"becomes ",
    b"free and",
    b" collect",
    b"ion ends",
    b". While ",
    b"the host",
    b" waits, ",
    b"programs",
    b" go on, ",
    b"one by 1",
    b"another ",
    b"segment ",
    b"cleaner ",
    b"chooses ",
    b"what is ",
    b"coldest ",
    b"of them,",
    b" so that",
    b" wear is",
    b" spread ",
    b"evenly; ",
    b"between ",
    b"several ",
    b"regions ",
    b"a record",
    b" tells: ",
    b"nothing ",
    b"remains ",
    b"of it in",
    b" memory,",
    b" unless ",
    b"somebody",
    b" reads. ",
    b"Checksum",
    b" matches",
    b", it is ",
    b"accepted",
    b"; if not",
    b", it is ",
    b"skipped.",
    b"\nChapter",
    b" follows",
];

impl Contents {
    /// Those of this seed, random bytes.
    pub fn new(seed: u64) -> Self {
        Self::looking(Look::Random, seed)
    }

    /// Those of this seed with this look.
    pub fn looking(look: Look, seed: u64) -> Self {
        Self { seed, look }
    }

    /// Fills `buf` with what `file` holds from `offset` on, in this version.
    pub fn fill(&self, file: FileId, version: u32, offset: u64, buf: &mut [u8]) {
        let key = mix(mix(self.seed, u64::from(file.0)), u64::from(version));
        let word = |index: u64| self.word(key, index);
        let into = (offset % WORD as u64) as usize;
        let first = offset / WORD as u64;
        let (head, rest) = buf.split_at_mut(if into == 0 {
            0
        } else {
            (WORD - into).min(buf.len())
        });
        head.copy_from_slice(&word(first)[into..][..head.len()]);
        for (index, part) in (first + u64::from(into > 0)..).zip(rest.chunks_mut(WORD)) {
            part.copy_from_slice(&word(index)[..part.len()]);
        }
    }

    fn word(&self, key: u64, index: u64) -> [u8; WORD] {
        match self.look {
            Look::Random => mix(key, index).to_le_bytes(),
            Look::Text => *WORDS[(mix(key, index) >> 58) as usize],
            Look::Zero => [0; WORD],
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
                assert_eq!(
                    bytes(1, 2, 3, from as u64, to - from),
                    whole[from..to],
                    "{from}..{to}"
                );
            }
        }
    }

    #[test]
    fn another_seed_file_version_or_place_holds_something_else() {
        let here = bytes(1, 2, 3, 512, 512);
        for other in [
            bytes(2, 2, 3, 512, 512),
            bytes(1, 1, 3, 512, 512),
            bytes(1, 2, 4, 512, 512),
            bytes(1, 2, 3, 0, 512),
        ] {
            let same = here.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(
                same < 20,
                "{same} of 512 bytes are the same, about 2 by chance"
            );
        }
    }

    #[test]
    fn text_is_text_and_zeros_are_zeros_wherever_they_begin() {
        let look = |look, offset, length| {
            let mut buf = vec![1; length];
            Contents::looking(look, 3).fill(FileId(1), 2, offset, &mut buf);
            buf
        };
        let text = look(Look::Text, 0, 4000);
        assert!(
            text.iter()
                .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
        );
        assert_eq!(look(Look::Text, 13, 100), text[13..113]);
        assert_eq!(look(Look::Zero, 13, 100), [0; 100]);
    }

    #[test]
    fn the_highest_offsets_have_bytes_too() {
        assert_eq!(bytes(1, 0, 0, u64::MAX - 10, 10).len(), 10);
    }

    #[test]
    fn a_page_of_random_bytes_is_one_that_takes_no_page_of_memory() {
        for page in [256, 2048, 4096, 16_384] {
            let bytes = bytes(4, 5, 6, 3 * page as u64, page);
            assert!(nandlab_sim::MixedPage::of(&bytes).is_some(), "{page}");
        }
    }
}
