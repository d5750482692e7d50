//! Which code protects a step, and how many parity bytes it needs.

/// The strongest BCH code of the kernel's library, `BCH_MAX_T` of `lib/bch.c`.
const STRENGTH_MAX: u8 = 64;

/// An error-correcting code over steps of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Linux's software Hamming code, `drivers/mtd/nand/ecc-sw-hamming.c`: three parity bytes for
    /// a step. It corrects one flipped bit and detects two.
    Hamming {
        /// Data bytes of a step: 256 or 512.
        step: u16,
        /// Which of the first two parity bytes comes first.
        order: Order,
    },
    /// Linux's software BCH code, `drivers/mtd/nand/ecc-sw-bch.c`: its parity is masked so that
    /// the parity of an erased step is erased as well.
    Bch {
        /// Data bytes of a step: 512, 1024 or 2048.
        step: u16,
        /// Bits that the code corrects in a step, 1 to 64.
        strength: u8,
    },
}

/// Which of the first two parity bytes of the Hamming code comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The parities of the high address bits first.
    #[default]
    Linux,
    /// The parities of the low address bits first: `CONFIG_MTD_NAND_ECC_SW_HAMMING_SMC`.
    SmartMedia,
}

/// A code that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Not a step of the Hamming code.
    #[error("Hamming code over steps of {0} bytes, expected 256 or 512")]
    HammingStep(u16),
    /// Not a step of the BCH code.
    #[error("BCH code over steps of {0} bytes, expected 512, 1024 or 2048")]
    BchStep(u16),
    /// Not a strength of the BCH code.
    #[error("BCH code for {0} bits a step, expected 1 to 64")]
    Strength(u8),
}

impl Code {
    /// What Linux uses on a chip that asks for nothing: the Hamming code over 256 bytes.
    pub const LINUX: Self = Self::Hamming {
        step: 256,
        order: Order::Linux,
    };

    /// Whether there is such a code.
    pub fn check(self) -> Result<(), CodeError> {
        match self {
            Self::Hamming {
                step: 256 | 512, ..
            } => Ok(()),
            Self::Hamming { step, .. } => Err(CodeError::HammingStep(step)),
            Self::Bch { step, .. } if ![512, 1024, 2048].contains(&step) => {
                Err(CodeError::BchStep(step))
            }
            Self::Bch { strength, .. } if !(1..=STRENGTH_MAX).contains(&strength) => {
                Err(CodeError::Strength(strength))
            }
            Self::Bch { .. } => Ok(()),
        }
    }

    /// Data bytes of a step.
    pub fn step(self) -> usize {
        match self {
            Self::Hamming { step, .. } | Self::Bch { step, .. } => usize::from(step),
        }
    }

    /// Parity bytes of a step.
    pub fn parity(self) -> usize {
        match self {
            Self::Hamming { .. } => 3,
            Self::Bch { step, strength } => {
                (field_order(step) as usize * usize::from(strength)).div_ceil(8)
            }
        }
    }

    /// Flipped bits that the code corrects in a step, its parity included.
    pub fn strength(self) -> u16 {
        match self {
            Self::Hamming { .. } => 1,
            Self::Bch { strength, .. } => u16::from(strength),
        }
    }

    /// Steps of a page of `page` data bytes; `None` if they do not fill it.
    pub fn steps(self, page: usize) -> Option<usize> {
        let step = self.step();
        (step > 0 && page > 0 && page.is_multiple_of(step)).then(|| page / step)
    }

    /// Parity bytes of a page of `page` data bytes; `None` if the steps do not fill it.
    pub fn page_parity(self, page: usize) -> Option<usize> {
        Some(self.steps(page)? * self.parity())
    }
}

/// The kernel's choice of field, GF(2^m): m is the bit length of 1 + 8 * step.
pub fn field_order(step: u16) -> u32 {
    let bits = 1 + 8 * u32::from(step);
    u32::BITS - bits.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_is_as_long_as_the_kernel_makes_it() {
        let bch = |step, strength| Code::Bch { step, strength }.parity();
        assert_eq!([1, 4, 8, 12].map(|t| bch(512, t)), [2, 7, 13, 20]);
        assert_eq!([4, 8, 24].map(|t| bch(1024, t)), [7, 14, 42]);
        assert_eq!(bch(2048, 8), 15);
        assert_eq!(Code::LINUX.parity(), 3);
    }

    #[test]
    fn a_code_that_does_not_exist_says_what_does() {
        let hamming = Code::Hamming {
            step: 1024,
            order: Order::Linux,
        };
        let step = Code::Bch {
            step: 256,
            strength: 4,
        };
        let strength = Code::Bch {
            step: 512,
            strength: 65,
        };
        let none = Code::Bch {
            step: 512,
            strength: 0,
        };
        assert_eq!(
            [hamming, step, strength, none].map(Code::check),
            [
                Err(CodeError::HammingStep(1024)),
                Err(CodeError::BchStep(256)),
                Err(CodeError::Strength(65)),
                Err(CodeError::Strength(0)),
            ]
        );
    }

    #[test]
    fn steps_fill_a_page_or_there_are_none() {
        assert_eq!(Code::LINUX.steps(2048), Some(8));
        assert_eq!(Code::LINUX.page_parity(2048), Some(24));
        assert_eq!(Code::LINUX.steps(300), None);
        let large = Code::Bch {
            step: 1024,
            strength: 8,
        };
        assert_eq!(large.steps(512), None);
    }
}
