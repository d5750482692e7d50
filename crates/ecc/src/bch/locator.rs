//! The locator polynomial, by the algorithm of Berlekamp and Massey.
//!
//! It is the shortest recurrence that produces the syndromes. If up to `strength` bits were
//! flipped, its degree is their number and its roots are the inverses of their positions. The
//! syndromes of a binary code satisfy every second step by themselves, so only the others are done.

use super::STRENGTH_MAX;
use super::field::Field;

/// An update may reach twice the strength before the degree is found to be too high.
const COEFFICIENTS: usize = 2 * STRENGTH_MAX + 2;

/// Coefficients from x^0 on, and the degree.
pub struct Locator {
    coefficients: [u16; COEFFICIENTS],
    degree: usize,
}

impl Locator {
    const ONE: Self = {
        let mut coefficients = [0; COEFFICIENTS];
        coefficients[0] = 1;
        Self {
            coefficients,
            degree: 0,
        }
    };

    /// The locator of these syndromes; `None` if more bits were flipped than can be located.
    pub fn find(field: &Field, syndromes: &[u16]) -> Option<Self> {
        let strength = syndromes.len() / 2;
        let mut locator = Self::ONE;
        let mut before = Self::ONE;
        let mut kept = Self::ONE;
        let mut divisor = 1;
        let mut shift = 1;
        for at in (0..syndromes.len()).step_by(2) {
            let discrepancy = locator.discrepancy(field, &syndromes[..=at]);
            if discrepancy != 0 {
                kept.copy(&locator);
                let factor = field.logarithm(discrepancy) + field.inverse_logarithm(divisor);
                locator.add(field, &before, factor, shift);
                if before.degree + shift > kept.degree {
                    locator.degree = before.degree + shift;
                    core::mem::swap(&mut before, &mut kept);
                    divisor = discrepancy;
                    shift = 0;
                }
                if locator.degree > strength {
                    return None;
                }
            }
            shift += 2;
        }
        Some(locator)
    }

    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The coefficients from x^0 to the highest.
    pub fn coefficients(&self) -> &[u16] {
        &self.coefficients[..=self.degree]
    }

    /// By how much the recurrence misses the last of these syndromes.
    fn discrepancy(&self, field: &Field, syndromes: &[u16]) -> u16 {
        self.coefficients()
            .iter()
            .zip(syndromes.iter().rev())
            .fold(0, |sum, (c, s)| sum ^ field.product(*c, *s))
    }

    /// Adds `other` times x^`shift` and a factor with this logarithm.
    fn add(&mut self, field: &Field, other: &Self, factor: usize, shift: usize) {
        let factor = factor % field.cycle();
        let to = &mut self.coefficients[shift..];
        for (to, from) in to.iter_mut().zip(other.coefficients()) {
            *to ^= field.power(field.logarithm(*from) + factor);
        }
    }

    /// Becomes `other`, whose degree is not lower than it ever was here.
    fn copy(&mut self, other: &Self) {
        self.coefficients[..=other.degree].copy_from_slice(other.coefficients());
        self.degree = other.degree;
    }
}
