//! Steps to encode or to correct: as they were written, and as they are read.

use nandlab_ecc::{Code, Codec};
use std::io::Write as _;
use tempfile::NamedTempFile;

const COUNT: usize = 2000;

/// What is done with the steps.
#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Encode,
    Correct,
}

pub struct Steps {
    pub code: Code,
    pub work: Work,
    /// The flipped bits, in words.
    pub what: String,
    /// Each with its parity behind it.
    pub read: Vec<u8>,
    pub written: Vec<u8>,
    /// The parity of an erased step, inverted: the peers' parity is without it.
    mask: Vec<u8>,
}

impl Steps {
    /// All that is measured of a code.
    pub fn all(name: &str) -> Vec<Self> {
        let code: Code = name.parse().expect("a code");
        let strength = usize::from(code.strength());
        let encode = Self::new(code, Work::Encode, String::new(), |_| 0);
        let correct = |what: &str, flips: &dyn Fn(usize) -> usize| {
            Self::new(code, Work::Correct, what.into(), flips)
        };
        let mut all = vec![encode, correct("sound", &|_| 0)];
        all.push(correct("1 flip", &|_| 1));
        if strength > 1 {
            let half = strength / 2;
            all.push(correct(&format!("{half} flips"), &|_| half));
            all.push(correct(&format!("{strength} flips"), &|_| strength));
        }
        // Nine of ten sound; of a hundred six with one flip, two with two, one each of the others.
        all.push(correct("mixed", &|step| match step % 100 {
            5 => strength,
            15 => strength.div_ceil(2),
            25 | 35 => strength.min(2),
            45 | 55 | 65 | 75 | 85 | 95 => 1,
            _ => 0,
        }));
        all
    }

    fn new(code: Code, work: Work, what: String, flips: impl Fn(usize) -> usize) -> Self {
        let codec = Codec::new(code).expect("a code");
        let mut random = Random(1);
        let mut written = Vec::new();
        let mut parity = vec![0; code.parity()];
        for _ in 0..COUNT {
            let step: Vec<u8> = (0..code.step()).map(|_| random.below(256) as u8).collect();
            codec.encode(&step, &mut parity);
            written.extend_from_slice(&step);
            written.extend_from_slice(&parity);
        }
        let mut read = written.clone();
        let steps = read.chunks_mut(code.step() + code.parity());
        for (number, step) in steps.enumerate() {
            let mut flipped = Vec::new();
            while flipped.len() < flips(number) {
                // In the data: the kernel does not correct parity.
                let bit = random.below(code.step() * 8);
                if !flipped.contains(&bit) {
                    step[bit / 8] ^= 1 << (bit % 8);
                    flipped.push(bit);
                }
            }
        }
        let mut mask = vec![0; code.parity()];
        codec.encode(&vec![0; code.step()], &mut mask);
        Self {
            code,
            work,
            what,
            read,
            written,
            mask,
        }
    }

    /// The steps in a file, for the peers.
    pub fn file(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a file");
        let order = (8 * self.code.step()).ilog2() + 1;
        let head = [self.code.step(), self.code.parity(), order as usize, COUNT];
        let head: Vec<u8> = head
            .iter()
            .flat_map(|number| (*number as u32).to_le_bytes())
            .collect();
        let all = [
            head,
            self.unmasked(&self.read),
            self.unmasked(&self.written),
        ]
        .concat();
        file.write_all(&all).expect("space for the steps");
        file
    }

    /// The steps with parity as the library has it, to which the NAND driver adds a mask. The
    /// Hamming code has none.
    fn unmasked(&self, steps: &[u8]) -> Vec<u8> {
        let mut steps = steps.to_vec();
        if matches!(self.code, Code::Bch { .. }) {
            for step in steps.chunks_mut(self.code.step() + self.code.parity()) {
                for (byte, mask) in step[self.code.step()..].iter_mut().zip(&self.mask) {
                    *byte ^= mask;
                }
            }
        }
        steps
    }
}

/// A generator of seeded numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) as usize) % most
    }
}
