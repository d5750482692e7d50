//! All steps of a page against its ECC bytes, one step's parity after the other.

use crate::{Codec, Repair};
use alloc::vec::Vec;

/// The outcome of correcting a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRepair {
    /// The most bits corrected in one step.
    pub worst: u16,
    /// The bits corrected in all steps.
    pub bits: u32,
    /// The steps beyond correction, in ascending order.
    pub failed: Vec<u32>,
}

impl PageRepair {
    /// Whether every step was sound.
    pub fn is_sound(&self) -> bool {
        self.bits == 0 && self.failed.is_empty()
    }
}

impl Codec {
    /// Fills `ecc` with the parity bytes of a page.
    ///
    /// # Panics
    /// If the steps do not fill the page, or `ecc` is not as long as
    /// [`Code::page_parity`](crate::Code::page_parity) says; so do the methods below.
    pub fn encode_page(&self, data: &[u8], ecc: &mut [u8]) {
        self.check_page(data, ecc);
        let parities = ecc.chunks_exact_mut(self.code().parity());
        for (step, parity) in data.chunks_exact(self.code().step()).zip(parities) {
            self.encode(step, parity);
        }
    }

    /// Counts the steps of a page whose data and parity agree.
    pub fn sound_steps(&self, data: &[u8], ecc: &[u8]) -> usize {
        self.check_page(data, ecc);
        let parities = ecc.chunks_exact(self.code().parity());
        data.chunks_exact(self.code().step())
            .zip(parities)
            .filter(|(step, parity)| self.is_sound(step, parity))
            .count()
    }

    /// Corrects each step of a page. A step beyond correction stays as it was.
    pub fn correct_page(&self, data: &mut [u8], ecc: &mut [u8]) -> PageRepair {
        self.check_page(data, ecc);
        let mut outcome = PageRepair::default();
        // An erased page is a codeword.
        if is_erased(data) && is_erased(ecc) {
            return outcome;
        }
        let parities = ecc.chunks_exact_mut(self.code().parity());
        let steps = data.chunks_exact_mut(self.code().step()).zip(parities);
        for (index, (step, parity)) in (0..).zip(steps) {
            match self.correct(step, parity) {
                Repair::Sound => {}
                Repair::Corrected { bits } => {
                    outcome.worst = outcome.worst.max(bits);
                    outcome.bits += u32::from(bits);
                }
                Repair::Failed => outcome.failed.push(index),
            }
        }
        outcome
    }

    fn check_page(&self, data: &[u8], ecc: &[u8]) {
        assert_eq!(
            Some(ecc.len()),
            self.code().page_parity(data.len()),
            "ECC bytes of a page of {} bytes",
            data.len()
        );
    }
}

/// Whether every bit is one. Looks at many bytes at once, since an erased page has many.
fn is_erased(bytes: &[u8]) -> bool {
    bytes
        .chunks(64)
        .all(|chunk| chunk.iter().fold(0xFF, |all, byte| all & byte) == 0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use alloc::vec;

    #[test]
    fn a_page_tells_its_worst_step_and_the_steps_beyond_correction() {
        let codec = Codec::new(Code::Bch {
            step: 512,
            strength: 4,
        })
        .unwrap();
        let whole: Vec<u8> = (0..2048u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let mut ecc = vec![0; 28];
        codec.encode_page(&whole, &mut ecc);
        assert_eq!(codec.sound_steps(&whole, &ecc), 4);
        let mut page = whole.clone();
        page[0] ^= 1;
        page[1024] ^= 0x3F;
        page[1536] ^= 6;
        ecc[27] ^= 0x80;
        assert_eq!(codec.sound_steps(&page, &ecc), 1);
        let broken = page[1024..1536].to_vec();
        let outcome = codec.correct_page(&mut page, &mut ecc);
        assert_eq!((outcome.worst, outcome.bits), (3, 4));
        assert_eq!(outcome.failed, [2]);
        assert_eq!(page[1024..1536], broken);
        page[1024..1536].copy_from_slice(&whole[1024..1536]);
        assert_eq!(page, whole);
    }

    #[test]
    fn an_erased_page_is_sound_in_every_code() {
        for name in ["hamming", "hamming-512-smc", "bch-8", "bch-24-1024"] {
            let codec = Codec::new(name.parse().unwrap()).unwrap();
            let mut ecc = vec![0xFF; codec.code().page_parity(2048).unwrap()];
            let mut page = [0xFF; 2048];
            assert!(codec.correct_page(&mut page, &mut ecc).is_sound(), "{name}");
        }
    }
}
