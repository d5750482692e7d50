//! Remainders of steps, eight bytes at a time.
//!
//! A remainder is held in 64-bit words with its highest power at the top of the first word. The
//! next eight bytes of the step meet the first word; what is above the generator's degree then are
//! 64 bits, and a table for each of their bytes says to which remainder it comes down.

use super::generator::Generator;
use alloc::vec;
use alloc::vec::Vec;

/// The tables for remainders of a number of words that is a power of two.
#[derive(Clone, Debug)]
pub enum Remainders {
    One(Tables<1>),
    Two(Tables<2>),
    Four(Tables<4>),
    Eight(Tables<8>),
    Sixteen(Tables<16>),
}

/// For each byte of a word, from the highest, and each of its values: the remainder.
#[derive(Clone, Debug)]
pub struct Tables<const W: usize>(Vec<[[u64; W]; 256]>);

impl Remainders {
    pub fn new(generator: &Generator) -> Self {
        match generator.degree() {
            0..=64 => Self::One(Tables::new(generator)),
            65..=128 => Self::Two(Tables::new(generator)),
            129..=256 => Self::Four(Tables::new(generator)),
            257..=512 => Self::Eight(Tables::new(generator)),
            _ => Self::Sixteen(Tables::new(generator)),
        }
    }

    /// Writes the remainder of `step`, its highest power first, as many bytes as there are.
    pub fn encode(&self, step: &[u8], to: &mut [u8]) {
        match self {
            Self::One(tables) => tables.encode(step, to),
            Self::Two(tables) => tables.encode(step, to),
            Self::Four(tables) => tables.encode(step, to),
            Self::Eight(tables) => tables.encode(step, to),
            Self::Sixteen(tables) => tables.encode(step, to),
        }
    }
}

impl<const W: usize> Tables<W> {
    fn new(generator: &Generator) -> Self {
        let mut low = [0; W];
        for (at, _) in generator.lower().enumerate().filter(|(_, set)| *set) {
            low[at / 64] |= 1 << (63 - at % 64);
        }
        let mut tables = vec![[[0; W]; 256]; 8];
        // The remainder of x^(degree + bit), bit 0 being the lowest of the last byte.
        let mut power = low;
        for bit in 0..64 {
            fill(&mut tables[7 - bit / 8], bit % 8, power);
            power = next(power, low);
        }
        Self(tables)
    }

    fn encode(&self, step: &[u8], to: &mut [u8]) {
        let bytes = self.remainder(step);
        let words = bytes.iter().flat_map(|word| word.to_be_bytes());
        for (to, from) in to.iter_mut().zip(words) {
            *to = from;
        }
    }

    fn remainder(&self, step: &[u8]) -> [u64; W] {
        let tables: &[[[u64; W]; 256]; 8] = self.0[..].try_into().expect("a table for each byte");
        let mut remainder = [0; W];
        for chunk in step.chunks_exact(8) {
            let word = u64::from_be_bytes(chunk.try_into().expect("eight bytes"));
            let above = (remainder[0] ^ word).to_be_bytes();
            remainder.copy_within(1.., 0);
            remainder[W - 1] = 0;
            for (table, byte) in tables.iter().zip(above) {
                add(&mut remainder, &table[usize::from(byte)]);
            }
        }
        remainder
    }
}

/// Adds the remainder of one bit to the rows of all bytes that have it.
fn fill<const W: usize>(table: &mut [[u64; W]; 256], bit: usize, remainder: [u64; W]) {
    for (_, row) in table
        .iter_mut()
        .enumerate()
        .filter(|(byte, _)| byte >> bit & 1 == 1)
    {
        add(row, &remainder);
    }
}

/// A remainder times x.
fn next<const W: usize>(remainder: [u64; W], low: [u64; W]) -> [u64; W] {
    let mut doubled = [0; W];
    for (at, word) in doubled.iter_mut().enumerate() {
        let carry = remainder.get(at + 1).map_or(0, |word| word >> 63);
        *word = remainder[at] << 1 | carry;
    }
    if remainder[0] >> 63 == 1 {
        add(&mut doubled, &low);
    }
    doubled
}

fn add<const W: usize>(to: &mut [u64; W], from: &[u64; W]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= from;
    }
}
