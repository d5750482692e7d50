//! The contents of a sector: they name the operation that wrote them, and the sector.

use super::op::{Stamp, ZEROS};
use nandlab_sim::mix;

/// The contents that a stamp stands for at a sector: the stamp, the sector's number, and words that
/// follow from both.
pub(super) fn fill(sector: &mut [u8], lba: u64, stamp: Stamp) {
    if stamp == ZEROS {
        return sector.fill(0);
    }
    let key = mix(stamp, lba);
    for (i, word) in sector.chunks_mut(8).enumerate() {
        let value = expected_word(i as u64, key, lba, stamp).to_le_bytes();
        word.copy_from_slice(&value[..word.len()]);
    }
}

#[inline]
fn expected_word(i: u64, key: u64, lba: u64, stamp: Stamp) -> u64 {
    match i {
        0 => stamp,
        1 => lba,
        i => key.wrapping_add(i),
    }
}

pub(super) fn word(bytes: &[u8], i: usize) -> u64 {
    bytes
        .get(i * 8..i * 8 + 8)
        .map_or(0, |w| u64::from_le_bytes(w.try_into().expect("8 bytes")))
}

/// The stamp whose contents a sector holds, whole.
pub(super) fn stamp_of(bytes: &[u8], lba: u64) -> Option<Stamp> {
    let stamp = word(bytes, 0);
    let key = mix(stamp, lba);
    // No early exit, so that the comparison is vectorised.
    let rest = |first: u64, step: u64| {
        let words = bytes.chunks_exact(8).skip(2).zip(2u64..);
        words.fold(0, |differs, (w, i)| {
            differs
                | (u64::from_le_bytes(w.try_into().expect("8 bytes"))
                    ^ first.wrapping_add(i * step))
        })
    };
    let whole = if stamp == ZEROS {
        word(bytes, 1) | rest(0, 0)
    } else {
        (word(bytes, 1) ^ lba) | rest(key, 1)
    };
    (whole == 0).then_some(stamp)
}
