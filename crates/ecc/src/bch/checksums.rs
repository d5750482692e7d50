//! What a step differs from a codeword by, by checksums that processors compute fast.
//!
//! A step and its parity are a codeword if each factor of the generator divides them. Factors whose
//! product has a degree of at most 64 are taken together: a CRC of 64 bits gives the step's
//! remainder. The parity's share of the remainder comes from a table for each of its bytes.

use super::generator::{Generator, Polynomial};
use alloc::vec;
use alloc::vec::Vec;
use crc_fast::{CrcParams, checksum_with_params};

/// More checksums than this take longer than one remainder by the whole generator.
pub const PARTS_MAX: usize = 2;
const CRC_BITS: usize = 64;

/// The longest step, in bytes.
const STEP_MAX: usize = 2048;

/// A step where the CRC takes it without its slow beginning.
#[repr(align(16))]
struct Aligned([u8; STEP_MAX]);

/// The checksums of a code.
#[derive(Clone, Debug)]
pub struct Checksums {
    parts: Vec<Part>,
    /// For each odd power of x that is a root, the index of its part.
    owners: Vec<usize>,
}

/// A product of some of the generator's factors.
#[derive(Clone, Debug)]
struct Part {
    /// The product times the power of x that makes its degree 64.
    crc: CrcParams,
    /// The power by which the part is shifted.
    shift: usize,
    /// For each byte of the parity and each of its values: its share of the remainder.
    shares: Vec<[u64; 256]>,
    /// The share of the mask that Linux adds to each parity.
    mask: u64,
}

impl Checksums {
    /// The checksums of a code whose parities have this mask; `None` if they were too many.
    pub fn new(generator: &Generator, mask: &[u8]) -> Option<Self> {
        let mut products: Vec<Polynomial> = Vec::new();
        let mut part_of = Vec::new();
        for factor in generator.factors() {
            match products.last_mut() {
                Some(last) if last.degree() + factor.degree() <= CRC_BITS => {
                    *last = last.times(factor);
                }
                _ => products.push(factor.clone()),
            }
            part_of.push(products.len() - 1);
        }
        if products.len() > PARTS_MAX {
            return None;
        }
        let parts = products.iter();
        let parts = parts.map(|product| Part::new(product, generator.degree(), mask));
        let owners = generator.owners().iter().map(|factor| part_of[*factor]);
        Some(Self {
            parts: parts.collect(),
            owners: owners.collect(),
        })
    }

    /// For each odd power of x that is a root, the index of the difference that has its value.
    pub fn owners(&self) -> &[usize] {
        &self.owners
    }

    /// The differences of the step and its parity from a codeword, as remainders with the highest
    /// power at the top; `None` if there are none. Each is divided by a power of x, so that its
    /// first bit stands for the same power as the first bit of a parity.
    pub fn differences(&self, step: &[u8], parity: &[u8]) -> Option<[u64; PARTS_MAX]> {
        let mut aligned;
        let step = match step.as_ptr().addr() % align_of::<Aligned>() {
            0 => step,
            _ => {
                aligned = Aligned([0; STEP_MAX]);
                let copy = &mut aligned.0[..step.len()];
                copy.copy_from_slice(step);
                copy
            }
        };
        let mut all = [0; PARTS_MAX];
        for (difference, part) in all.iter_mut().zip(&self.parts) {
            *difference = part.difference(step, parity);
        }
        all.iter().any(|one| *one != 0).then_some(all)
    }
}

impl Part {
    fn new(product: &Polynomial, parity_bits: usize, mask: &[u8]) -> Self {
        let degree = product.degree();
        let shift = CRC_BITS - degree;
        let lower = product.lower();
        let crc = CrcParams::new("part of a BCH code", 64, lower << shift, 0, false, 0, 0);
        let mut part = Self {
            crc,
            shift,
            shares: shares(lower, degree, parity_bits),
            mask: 0,
        };
        part.mask = part.share(mask);
        part
    }

    fn difference(&self, step: &[u8], parity: &[u8]) -> u64 {
        let remainder = checksum_with_params(self.crc, step);
        remainder ^ (self.share(parity) ^ self.mask) << self.shift
    }

    fn share(&self, parity: &[u8]) -> u64 {
        let tables = self.shares.iter().zip(parity);
        tables.fold(0, |sum, (table, byte)| sum ^ table[usize::from(*byte)])
    }
}

/// The shares of a parity's bytes: its first bit stands for x^(degree - 1), each further bit for
/// the one before divided by x. Bits that fill up the last byte have none.
fn shares(lower: u64, degree: usize, parity_bits: usize) -> Vec<[u64; 256]> {
    let mut tables = vec![[0; 256]; parity_bits.div_ceil(8)];
    let mut power = 1 << (degree - 1);
    for bit in 0..parity_bits {
        let mask = 0x80 >> (bit % 8);
        let rows = tables[bit / 8].iter_mut().enumerate();
        rows.filter(|(byte, _)| byte & mask != 0)
            .for_each(|(_, row)| *row ^= power);
        power = match power & 1 {
            0 => power >> 1,
            _ => (power ^ lower) >> 1 | 1 << (degree - 1),
        };
    }
    tables
}
