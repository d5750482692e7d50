//! Flipped bits: as many as the code promises are corrected wherever they lie, and more of them
//! never do harm beyond a wrong correction.

use nandlab_ecc::{Codec, Repair};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::sync::LazyLock;

const NAMES: [&str; 14] = [
    "hamming",
    "hamming-smc",
    "hamming-512",
    "hamming-512-smc",
    "bch-1",
    "bch-2",
    "bch-3",
    "bch-4",
    "bch-8",
    "bch-16",
    "bch-8-1024",
    "bch-40-1024",
    "bch-4-2048",
    "bch-60-2048",
];
static CODECS: LazyLock<Vec<Codec>> = LazyLock::new(|| NAMES.map(codec).to_vec());

fn codec(name: &str) -> Codec {
    Codec::new(name.parse().unwrap()).unwrap()
}

/// The bits that the code covers: all but the last ones of a last BCH byte that is not full, and
/// the two low bits of the Hamming code over 256 bytes.
fn bits(codec: &Codec) -> usize {
    let code = codec.code();
    let order = (8 * code.step()).ilog2() as usize + 1;
    let parity = match code {
        nandlab_ecc::Code::Hamming { step: 256, .. } => 22,
        nandlab_ecc::Code::Hamming { .. } => 24,
        nandlab_ecc::Code::Bch { strength, .. } => order * usize::from(strength),
    };
    8 * code.step() + parity
}

/// A step and its parity.
type Word = (Vec<u8>, Vec<u8>);

fn word(codec: &Codec, seed: u64) -> Word {
    let mut state = seed | 1;
    let step: Vec<u8> = (0..codec.code().step())
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut parity = vec![0; codec.code().parity()];
    codec.encode(&step, &mut parity);
    (step, parity)
}

fn flip(word: &mut Word, bit: usize) {
    let byte = bit / 8;
    let length = word.0.len();
    let cell = if byte < length {
        &mut word.0[byte]
    } else {
        &mut word.1[byte - length]
    };
    *cell ^= 0x80 >> (bit % 8);
}

/// A codec, the seed of a word, and so many different bits of it: at most `more` than its strength.
fn damage(more: usize) -> impl Strategy<Value = (&'static Codec, u64, Vec<usize>)> {
    select(CODECS.iter().collect::<Vec<_>>()).prop_flat_map(move |codec| {
        let most = usize::from(codec.code().strength()) + more;
        let all: Vec<usize> = (0..bits(codec)).collect();
        (Just(codec), any::<u64>(), subsequence(all, 0..=most))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_promised_flips_are_corrected_wherever_they_lie((codec, seed, flips) in damage(0)) {
        let whole = word(codec, seed);
        let mut broken = whole.clone();
        for bit in &flips {
            flip(&mut broken, *bit);
        }
        prop_assert_eq!(codec.is_sound(&broken.0, &broken.1), flips.is_empty());
        let repair = codec.correct(&mut broken.0, &mut broken.1);
        let expected = match flips.len() {
            0 => Repair::Sound,
            bits => Repair::Corrected { bits: bits as u16 },
        };
        prop_assert_eq!(repair, expected);
        prop_assert_eq!(broken, whole);
    }

    #[test]
    fn too_many_flips_leave_the_step_alone_or_a_codeword((codec, seed, flips) in damage(30)) {
        let mut broken = word(codec, seed);
        for bit in &flips {
            flip(&mut broken, *bit);
        }
        let before = broken.clone();
        match codec.correct(&mut broken.0, &mut broken.1) {
            Repair::Failed => {
                prop_assert!(flips.len() > usize::from(codec.code().strength()));
                prop_assert_eq!(broken, before);
            }
            Repair::Sound => prop_assert_eq!(broken, before),
            Repair::Corrected { .. } => prop_assert!(codec.is_sound(&broken.0, &broken.1)),
        }
    }
}

#[test]
fn hamming_detects_any_two_flips() {
    for codec in &CODECS[..4] {
        let whole = word(codec, 77);
        let bits = bits(codec);
        for first in (0..bits).step_by(13).chain(bits - 24..bits) {
            for second in (first + 1..bits).step_by(7).chain(bits - 22..bits) {
                if first == second {
                    continue;
                }
                let mut broken = whole.clone();
                flip(&mut broken, first);
                flip(&mut broken, second);
                let repair = codec.correct(&mut broken.0, &mut broken.1);
                assert_eq!(repair, Repair::Failed, "{} {first} {second}", codec.code());
            }
        }
    }
}

#[test]
fn an_erased_step_is_a_codeword_with_erased_parity() {
    for codec in CODECS.iter() {
        let step = vec![0xFF; codec.code().step()];
        let mut parity = vec![0; codec.code().parity()];
        codec.encode(&step, &mut parity);
        assert!(parity.iter().all(|byte| *byte == 0xFF), "{}", codec.code());
    }
}

#[test]
fn unused_bits_of_a_parity_count_as_in_the_kernel() {
    for (name, unused, outcome) in [
        ("bch-4", 0x0F, Repair::Sound),
        ("hamming", 0x01, Repair::Corrected { bits: 1 }),
        ("hamming", 0x03, Repair::Failed),
    ] {
        let codec = codec(name);
        let (mut step, mut parity) = word(&codec, 5);
        *parity.last_mut().unwrap() ^= unused;
        assert_eq!(codec.correct(&mut step, &mut parity), outcome, "{name}");
    }
}
