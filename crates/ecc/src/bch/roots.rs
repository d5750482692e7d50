//! Roots of the locator polynomial: the positions of the flipped bits.

use super::STRENGTH_MAX;
use super::field::Field;
use super::locator::Locator;

/// Fills `powers` with the powers of x whose bits are flipped. Returns whether there is a position
/// for each root, below `bits`.
pub fn positions(field: &Field, locator: &Locator, bits: usize, powers: &mut [u16]) -> bool {
    // Each term of the polynomial at the inverse of x^power, as power grows.
    let mut logarithms = [None; STRENGTH_MAX + 1];
    for (logarithm, c) in logarithms.iter_mut().zip(locator.coefficients()) {
        *logarithm = (*c != 0).then(|| field.logarithm(*c));
    }
    let terms = &mut logarithms[..=locator.degree()];
    let mut found = 0;
    for power in 0..bits {
        let value = terms
            .iter()
            .flatten()
            .fold(0, |sum, logarithm| sum ^ field.power(*logarithm));
        if value == 0 {
            let Some(to) = powers.get_mut(found) else {
                return false;
            };
            *to = power as u16;
            found += 1;
        }
        for (step, term) in terms.iter_mut().enumerate() {
            if let Some(logarithm) = term {
                *logarithm += field.cycle() - step;
                if *logarithm >= field.cycle() {
                    *logarithm -= field.cycle();
                }
            }
        }
    }
    found == powers.len()
}
