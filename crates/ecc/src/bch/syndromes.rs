//! Syndromes of a parity's difference: its values at x, x^2, x^3 and so on.

use super::field::Field;
use alloc::vec;
use alloc::vec::Vec;

/// Odd powers that are added up at once.
const LANES: usize = 8;

/// For each half byte of a parity and each of its values: the values at the odd powers.
#[derive(Clone, Debug)]
pub struct Syndromes {
    /// Rows of one half byte's value.
    groups: usize,
    rows: Vec<[u16; LANES]>,
}

impl Syndromes {
    /// The tables for parities of `degree` bits.
    pub fn new(field: &Field, strength: usize, degree: usize) -> Self {
        let groups = strength.div_ceil(LANES);
        let halves = degree.div_ceil(8) * 2;
        let mut rows = vec![[0; LANES]; halves * 16 * groups];
        for bit in 0..degree {
            let power = degree - 1 - bit;
            let half = &mut rows[bit / 4 * 16 * groups..][..16 * groups];
            let mask = 8 >> (bit % 4);
            for (at, row) in half.iter_mut().enumerate() {
                if (at / groups) & mask != 0 {
                    add_bit(field, power, at % groups, row);
                }
            }
        }
        Self { groups, rows }
    }

    /// Fills `to` with the syndromes of `difference`, that of x first.
    pub fn of(&self, field: &Field, difference: &[u8], to: &mut [u16]) {
        let odds = self.odds(difference);
        for (pair, odd) in to.chunks_exact_mut(2).zip(odds.iter().flatten()) {
            pair[0] = *odd;
        }
        square_evens(field, to);
    }

    /// Fills `to` with the syndromes of several differences; `owners` tells for each odd power
    /// which of them has its value.
    #[cfg(feature = "simd")]
    pub fn of_parts(&self, field: &Field, parts: &[u64], owners: &[usize], to: &mut [u16]) {
        for (index, part) in parts.iter().enumerate() {
            let odds = self.odds(&part.to_be_bytes());
            let values = odds.iter().flatten().zip(owners);
            for (pair, (odd, owner)) in to.chunks_exact_mut(2).zip(values) {
                if *owner == index {
                    pair[0] = *odd;
                }
            }
        }
        square_evens(field, to);
    }

    /// The values at the odd powers.
    fn odds(&self, difference: &[u8]) -> [[u16; LANES]; 8] {
        let halves = difference.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let tables = self.rows.chunks_exact(16 * self.groups);
        let mut sums = [[0; LANES]; 8];
        for (half, table) in halves.zip(tables) {
            let row = &table[usize::from(half) * self.groups..][..self.groups];
            for (sum, row) in sums.iter_mut().zip(row) {
                for (to, from) in sum.iter_mut().zip(row) {
                    *to ^= from;
                }
            }
        }
        sums
    }
}

/// A binary polynomial's value at a square is the square of its value.
fn square_evens(field: &Field, syndromes: &mut [u16]) {
    for at in (1..syndromes.len()).step_by(2) {
        syndromes[at] = field.square(syndromes[at / 2]);
    }
}

/// Adds the values of x^`power` at the odd powers of a group.
fn add_bit(field: &Field, power: usize, group: usize, row: &mut [u16; LANES]) {
    for (lane, sum) in row.iter_mut().enumerate() {
        let odd = 2 * (group * LANES + lane) + 1;
        *sum ^= field.power(odd * power % field.cycle());
    }
}
