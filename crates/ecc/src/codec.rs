//! A code with the tables that it needs: the only way to encode and correct.

use crate::bch::Bch;
use crate::hamming::Hamming;
use crate::{Code, CodeError};
use alloc::boxed::Box;

/// A code, ready to use. Building one takes some time and memory (a few hundred KiB for the
/// strongest codes), so keep it.
#[derive(Clone, Debug)]
pub struct Codec {
    code: Code,
    engine: Engine,
}

#[derive(Clone, Debug)]
enum Engine {
    Hamming(Hamming),
    Bch(Box<Bch>),
}

/// The outcome of correcting a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Data and parity agree.
    Sound,
    /// So many bits of data and parity were flipped, and are corrected.
    Corrected {
        /// Bits that the code flipped back.
        bits: u16,
    },
    /// More bits were flipped than the code can correct; data and parity are left as they were.
    Failed,
}

impl Codec {
    /// Builds the tables of a code.
    pub fn new(code: Code) -> Result<Self, CodeError> {
        code.check()?;
        let engine = match code {
            Code::Hamming { step, order } => Engine::Hamming(Hamming::new(step, order)),
            Code::Bch { step, strength } => Engine::Bch(Box::new(Bch::new(step, strength))),
        };
        Ok(Self { code, engine })
    }

    /// Returns the code that it computes.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Fills `parity` with the parity bytes of `step`.
    ///
    /// # Panics
    /// If the lengths are not [`Code::step`] and [`Code::parity`]; so do the methods below.
    pub fn encode(&self, step: &[u8], parity: &mut [u8]) {
        self.check_lengths(step, parity);
        match &self.engine {
            Engine::Hamming(hamming) => hamming.encode(step, parity),
            Engine::Bch(bch) => bch.encode(step, parity),
        }
    }

    /// Whether data and parity agree: what [`correct`](Self::correct) calls sound, changing
    /// nothing.
    pub fn is_sound(&self, step: &[u8], parity: &[u8]) -> bool {
        self.check_lengths(step, parity);
        match &self.engine {
            Engine::Hamming(hamming) => hamming.is_sound(step, parity),
            Engine::Bch(bch) => bch.is_sound(step, parity),
        }
    }

    /// Corrects flipped bits in data and parity.
    ///
    /// Bits that the code leaves unused (the low bits of the last BCH byte, two bits of the
    /// Hamming code over 256 bytes) count as the kernel counts them: not at all in BCH; in the
    /// Hamming code alone only.
    pub fn correct(&self, step: &mut [u8], parity: &mut [u8]) -> Repair {
        self.check_lengths(step, parity);
        match &self.engine {
            Engine::Hamming(hamming) => hamming.correct(step, parity),
            Engine::Bch(bch) => bch.correct(step, parity),
        }
    }

    fn check_lengths(&self, step: &[u8], parity: &[u8]) {
        assert_eq!(step.len(), self.code.step(), "length of a step");
        assert_eq!(parity.len(), self.code.parity(), "length of its parity");
    }
}
