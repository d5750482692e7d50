//! Failures, bit errors and the error correction against them. Every draw is a hash of the seed,
//! the place and its history.

use crate::{BlockCells, Reliability};
use nandlab_mtd::{Block, Page};
use nandlab_sim::{Nanos, chance, mix};

const DAY: f64 = 86_400e9;

/// Purposes of a draw, so that two at one place are independent.
const FACTORY: u64 = 1;
const PROGRAM: u64 = 2;
const ERASE: u64 = 3;
const READ: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Faults {
    model: Reliability,
    seed: u64,
    /// Any failure possible at all; the hot path asks nothing else of a perfect chip.
    pub fails: bool,
    pub flips: bool,
    /// Erases into SLC mode that a block is rated for.
    pub slc_rated: u32,
    codewords: u32,
    codeword_bits: f64,
    strength: u16,
}

impl Faults {
    pub fn new(model: &Reliability, page: u32, seed: u64) -> Self {
        let (strength, codeword) = model.ecc.strength();
        let positive = |pair: [f64; 2]| pair[0] > 0.0 || pair[1] > 0.0;
        Self {
            seed,
            fails: positive(model.program_fail) || positive(model.erase_fail),
            flips: positive(model.bit_errors)
                || model.bit_errors_per_read > 0.0
                || model.bit_errors_per_day > 0.0,
            slc_rated: 0,
            codewords: page.div_ceil(codeword),
            codeword_bits: f64::from(codeword.min(page)) * 8.0,
            strength,
            model: model.clone(),
        }
    }

    fn wear(&self, cells: &BlockCells) -> f64 {
        let share = |erases: u32, rated: u32| match rated {
            0 => 0.0,
            _ => f64::from(erases) / f64::from(rated),
        };
        share(cells.erases - cells.slc_erases, self.model.rated_erases)
            + share(cells.slc_erases, self.slc_rated)
    }

    fn at_wear(&self, [fresh, worn]: [f64; 2], cells: &BlockCells) -> f64 {
        let wear = self.wear(cells);
        fresh + (worn - fresh) * wear * wear
    }

    fn draw(&self, purpose: u64, place: u32, history: u64) -> u64 {
        mix(mix(self.seed, purpose << 32 | u64::from(place)), history)
    }

    pub fn factory_bad(&self, block: Block) -> bool {
        self.model.factory_bad > 0.0
            && chance(self.draw(FACTORY, block.0, 0), self.model.factory_bad)
    }

    pub fn program_fails(&self, page: Page, cells: &BlockCells) -> bool {
        chance(
            self.draw(PROGRAM, page.0, u64::from(cells.erases)),
            self.at_wear(self.model.program_fail, cells),
        )
    }

    pub fn erase_fails(&self, block: Block, cells: &BlockCells) -> bool {
        chance(
            self.draw(ERASE, block.0, u64::from(cells.erases)),
            self.at_wear(self.model.erase_fail, cells),
        )
    }

    /// The most bits wrong in one codeword of this read, besides `carried` ones.
    pub fn flipped(&self, page: Page, cells: &BlockCells, now: Nanos, carried: u16) -> u16 {
        let age = now.saturating_sub(cells.programmed_at) as f64 / DAY;
        let rate = self.at_wear(self.model.bit_errors, cells)
            + self.model.bit_errors_per_read * f64::from(cells.reads)
            + self.model.bit_errors_per_day * age * (1.0 + self.wear(cells));
        let mean = rate.clamp(0.0, 1.0) * self.codeword_bits;
        let word = self.draw(
            READ,
            page.0,
            u64::from(cells.erases) << 32 | u64::from(cells.reads),
        );
        let worst = (0..self.codewords)
            .map(|i| poisson(mean, mix(word, u64::from(i))))
            .max()
            .unwrap_or(0);
        worst.saturating_add(carried)
    }

    /// Whether the code corrects that many wrong bits; without a code nothing is corrected or
    /// noticed.
    pub fn corrects(&self, bits: u16) -> bool {
        bits <= self.strength || self.strength == 0
    }

    /// Whether wrong bits reach the caller unnoticed.
    pub fn unprotected(&self) -> bool {
        self.strength == 0
    }

    /// Flips `bits` bits of `data`, chosen by the page.
    pub fn damage(&self, page: Page, bits: u16, data: &mut [u8]) {
        for i in 0..bits {
            let at = self.draw(READ, page.0, u64::from(i)) as usize % (data.len() * 8);
            data[at / 8] ^= 1 << (at % 8);
        }
    }
}

/// A Poisson variate by inversion; the tail beyond 2,000 is cut.
fn poisson(mean: f64, word: u64) -> u16 {
    if mean <= 0.0 {
        return 0;
    }
    if mean > 500.0 {
        return 2_000;
    }
    let uniform = (word >> 11) as f64 / (1u64 << 53) as f64;
    let mut term = libm::exp(-mean);
    let mut sum = term;
    let mut n = 0u16;
    while uniform > sum && n < 2_000 {
        n += 1;
        term *= mean / f64::from(n);
        sum += term;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecc;

    #[test]
    fn poisson_has_its_mean() {
        for mean in [0.01, 0.7, 5.0, 60.0] {
            let total: u64 = (0..20_000)
                .map(|i| u64::from(poisson(mean, mix(3, i))))
                .sum();
            let seen = total as f64 / 20_000.0;
            assert!(
                (seen - mean).abs() < 0.05 * mean + 0.01,
                "{seen} for {mean}"
            );
        }
    }

    #[test]
    fn errors_grow_with_wear_reads_and_age() {
        let model = Reliability {
            rated_erases: 1_000,
            bit_errors: [1e-6, 1e-4],
            bit_errors_per_read: 1e-9,
            bit_errors_per_day: 1e-6,
            ecc: Ecc::Bch {
                bits: 8,
                codeword: 512,
            },
            ..Reliability::default()
        };
        let faults = Faults::new(&model, 2048, 1);
        let mean = |cells: BlockCells, now| {
            (0..2_000)
                .map(|p| f64::from(faults.flipped(Page(p), &cells, now, 0)))
                .sum::<f64>()
                / 2_000.0
        };
        let fresh = mean(BlockCells::default(), 0);
        let worn = mean(
            BlockCells {
                erases: 1_000,
                ..Default::default()
            },
            0,
        );
        let read = mean(
            BlockCells {
                reads: 100_000,
                ..Default::default()
            },
            0,
        );
        let old = mean(BlockCells::default(), 365 * DAY as u64);
        assert!(
            worn > 5.0 * fresh && read > 5.0 * fresh && old > 5.0 * fresh,
            "{fresh} {worn} {read} {old}"
        );
    }
}
