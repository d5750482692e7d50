//! The BCH code of `drivers/mtd/nand/ecc-sw-bch.c` and `lib/bch.c`.
//!
//! A step is a polynomial over GF(2): its first bit (the highest of the first byte) has the highest
//! power. The parity is the remainder of the step times x^e divided by the generator, whose degree
//! is e. It is stored with its highest power first, the last byte filled up with zeros, and then
//! masked with the inverted parity of an erased step: an erased step is a codeword.
//!
//! Correcting takes three stages. The difference of the stored and the computed parity gives the
//! syndromes, the syndromes give the locator polynomial ([`locator`]), and its roots are the
//! positions of the flipped bits ([`roots`]). A sound step ends at the first stage.

#[cfg(feature = "simd")]
mod checksums;
mod field;
mod generator;
mod locator;
mod remainder;
mod roots;
mod syndromes;

use crate::Repair;
use crate::code::field_order;
use alloc::vec;
use alloc::vec::Vec;
use field::Field;
use generator::Generator;
use locator::Locator;
use remainder::Remainders;
use syndromes::Syndromes;

/// The longest parity: 64 bits corrected in a field of 2^15 elements.
const PARITY_MAX: usize = 120;
/// The most bits that a code corrects.
const STRENGTH_MAX: usize = 64;

/// The tables of one code.
#[derive(Clone, Debug)]
pub struct Bch {
    field: Field,
    strength: usize,
    /// Parity bits of a step.
    degree: usize,
    remainders: Remainders,
    syndromes: Syndromes,
    /// What Linux adds to each remainder.
    mask: Vec<u8>,
    /// Tells sound steps without a remainder, of codes with short parities.
    #[cfg(feature = "simd")]
    checksums: Option<checksums::Checksums>,
}

impl Bch {
    pub fn new(step: u16, strength: u8) -> Self {
        let order = field_order(step);
        let strength = usize::from(strength);
        let field = Field::new(order);
        let generator = Generator::new(&field, strength);
        let degree = generator.degree();
        let remainders = Remainders::new(&generator);
        let mut mask = vec![0; (order as usize * strength).div_ceil(8)];
        remainders.encode(&vec![0xFF; usize::from(step)], &mut mask);
        for byte in &mut mask {
            *byte = !*byte;
        }
        Self {
            syndromes: Syndromes::new(&field, strength, degree),
            field,
            strength,
            degree,
            remainders,
            #[cfg(feature = "simd")]
            checksums: checksums::Checksums::new(&generator, &mask),
            mask,
        }
    }

    pub fn encode(&self, step: &[u8], parity: &mut [u8]) {
        self.remainders.encode(step, parity);
        for (byte, mask) in parity.iter_mut().zip(&self.mask) {
            *byte ^= mask;
        }
    }

    pub fn is_sound(&self, step: &[u8], parity: &[u8]) -> bool {
        #[cfg(feature = "simd")]
        if let Some(checksums) = &self.checksums {
            return checksums.differences(step, parity).is_none();
        }
        self.difference(step, parity).is_none()
    }

    /// Fills `syndromes`, that of x first; false if the step is sound.
    fn syndromes_of(&self, step: &[u8], parity: &[u8], syndromes: &mut [u16]) -> bool {
        #[cfg(feature = "simd")]
        if let Some(checksums) = &self.checksums {
            let Some(parts) = checksums.differences(step, parity) else {
                return false;
            };
            self.syndromes
                .of_parts(&self.field, &parts, checksums.owners(), syndromes);
            return true;
        }
        let Some(difference) = self.difference(step, parity) else {
            return false;
        };
        self.syndromes
            .of(&self.field, &difference[..parity.len()], syndromes);
        true
    }

    /// The difference of the stored and the computed parity, without the unused bits; `None` if
    /// they agree.
    fn difference(&self, step: &[u8], parity: &[u8]) -> Option<[u8; PARITY_MAX]> {
        let mut computed = [0; PARITY_MAX];
        let difference = &mut computed[..parity.len()];
        self.encode(step, difference);
        for (byte, stored) in difference.iter_mut().zip(parity) {
            *byte ^= stored;
        }
        clear_behind(difference, self.degree);
        difference.iter().any(|byte| *byte != 0).then_some(computed)
    }

    pub fn correct(&self, step: &mut [u8], parity: &mut [u8]) -> Repair {
        let mut syndromes = [0; 2 * STRENGTH_MAX];
        let syndromes = &mut syndromes[..2 * self.strength];
        if !self.syndromes_of(step, parity, syndromes) {
            return Repair::Sound;
        }
        let bits = step.len() * 8 + self.degree;
        let mut powers = [0; STRENGTH_MAX];
        let Some(powers) = self.positions(syndromes, bits, &mut powers) else {
            return Repair::Failed;
        };
        for power in powers {
            flip(step, parity, bits - 1 - usize::from(*power));
        }
        Repair::Corrected {
            bits: powers.len() as u16,
        }
    }

    /// The powers of x whose bits are flipped, below `bits`; `None` if they cannot be located.
    fn positions<'a>(
        &self,
        syndromes: &[u16],
        bits: usize,
        powers: &'a mut [u16],
    ) -> Option<&'a [u16]> {
        if let Some(power) = single(&self.field, syndromes) {
            powers[0] = power;
            return (usize::from(power) < bits).then_some(&powers[..1]);
        }
        let locator = Locator::find(&self.field, syndromes)?;
        let powers = &mut powers[..locator.degree()];
        roots::positions(&self.field, &locator, bits, powers).then_some(powers)
    }
}

/// The logarithm of the first syndrome, if the others are its powers: one bit is flipped there.
fn single(field: &Field, syndromes: &[u16]) -> Option<u16> {
    let first = *syndromes.first().filter(|first| **first != 0)?;
    let square = field.logarithm(field.square(first));
    let mut expected = first;
    for odd in syndromes.iter().step_by(2) {
        if *odd != expected {
            return None;
        }
        expected = field.power(field.logarithm(expected) + square);
    }
    Some(field.logarithm(first) as u16)
}

/// Clears the bits from `bits` on, counted from the highest of the first byte.
fn clear_behind(bytes: &mut [u8], bits: usize) {
    let whole = bits / 8;
    if let Some(rest) = bytes.get_mut(whole..) {
        for (byte, keep) in rest.iter_mut().zip((0..).map(|at| (at == 0, bits % 8))) {
            *byte &= if keep.0 { !(0xFF_u8 >> keep.1) } else { 0 };
        }
    }
}

fn flip(step: &mut [u8], parity: &mut [u8], bit: usize) {
    let byte = bit / 8;
    let cell = match step.get_mut(byte) {
        Some(cell) => cell,
        None => &mut parity[byte - step.len()],
    };
    *cell ^= 0x80 >> (bit % 8);
}
