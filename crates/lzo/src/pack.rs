//! Two compressors: one table of the last place of each four bytes, the first match taken; or,
//! where time matters less than space, the [`best`] way.

use crate::best;
use alloc::vec::Vec;

/// The longest distance of a short copy instruction with two bytes of distance.
pub(crate) const NEAR: usize = 0x4000;
/// The longest distance at all.
pub(crate) const FAR: usize = 0xBFFF;
/// Up to here one byte of distance will do.
pub(crate) const CLOSE: usize = 0x800;
const HASH_BITS: u32 = 13;
/// Ends a stream: a copy from distance 16384.
const END: [u8; 3] = [0x11, 0, 0];
/// The last bytes are always literals, so that four bytes can be read at any place before them.
pub(crate) const TAIL: usize = 8;

/// The compressors with their memory, some hundred KiB once they are used.
#[derive(Debug, Default)]
pub struct Lzo {
    /// Where each hash of four bytes was seen last, plus one.
    table: Vec<u32>,
    best: best::Best,
}

impl Lzo {
    /// Appends all of `source` to `out`, at most `space` bytes; false where it does not fit.
    pub fn compress(&mut self, source: &[u8], space: usize, out: &mut Vec<u8>) -> bool {
        self.table.clear();
        self.table.resize(1 << HASH_BITS, 0);
        let mut at = 0;
        let mut literals = 0;
        while at + TAIL < source.len() {
            let slot = hash(&source[at..]);
            let seen = core::mem::replace(&mut self.table[slot], at as u32 + 1) as usize;
            // The first instruction has no place for a copy.
            let found = seen > 0
                && at > 0
                && at + 1 - seen <= FAR
                && source[seen - 1..seen + 3] == source[at..at + 4];
            if !found {
                // The longer nothing was found, the wider the steps.
                at += 1 + (at - literals) / 32;
                continue;
            }
            let from = seen - 1;
            let limit = source.len() - at;
            let len = 4 + source[at + 4..at + limit]
                .iter()
                .zip(&source[from + 4..])
                .take_while(|(a, b)| a == b)
                .count();
            put_literals(&source[literals..at], literals == 0, out);
            put_copy(len, at - from, out);
            if out.len() + END.len() > space {
                return false;
            }
            at += len;
            literals = at;
        }
        put_literals(&source[literals..], literals == 0, out);
        out.extend(END);
        out.len() <= space
    }

    /// The same, as short as can be.
    pub fn compress_well(&mut self, source: &[u8], space: usize, out: &mut Vec<u8>) -> bool {
        self.best.search(source);
        let mut literals = 0;
        for (run, len, distance) in self.best.way.iter().copied() {
            let at = literals + run;
            put_literals(&source[literals..at], literals == 0, out);
            match len {
                2 => put_two(distance - 1, out),
                _ if best::is_middle(len, distance, run) => put_two(distance - CLOSE - 1, out),
                _ => put_copy(len, distance, out),
            }
            literals = at + len;
        }
        put_literals(&source[literals..], literals == 0, out);
        out.extend(END);
        out.len() <= space
    }
}

fn hash(bytes: &[u8]) -> usize {
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize
}

/// A length beyond what the instruction holds: 255 for each zero byte, then the rest, which is not
/// zero.
fn put_rest(mut rest: usize, out: &mut Vec<u8>) {
    while rest > 255 {
        out.push(0);
        rest -= 255;
    }
    out.push(rest as u8);
}

/// Up to three literals go into the two lowest bits of the copy before, which always is the third
/// byte from the end or the second.
fn put_literals(bytes: &[u8], first: bool, out: &mut Vec<u8>) {
    match bytes.len() {
        0 => return,
        len if first && len <= 238 => out.push(17 + len as u8),
        len @ 1..=3 => {
            let at = out.len() - 2;
            out[at] |= len as u8;
        }
        len @ 4..=18 => out.push((len - 3) as u8),
        len => {
            out.push(0);
            put_rest(len - 18, out);
        }
    }
    out.extend(bytes);
}

fn put_copy(len: usize, distance: usize, out: &mut Vec<u8>) {
    if len <= 8 && distance <= CLOSE {
        put_near(len, distance, out);
        return;
    }
    let (op, most, place) = match distance {
        ..=NEAR => (0x20, 33, distance - 1),
        _ => (
            0x10 | ((distance - NEAR) >> 14 & 1) << 3,
            9,
            (distance - NEAR) & 0x3FFF,
        ),
    };
    if len <= most {
        out.push((op | (len - 2)) as u8);
    } else {
        out.push(op as u8);
        put_rest(len - most, out);
    }
    out.extend(((place << 2) as u16).to_le_bytes());
}

/// Puts the two bytes of a short copy.
fn put_two(place: usize, out: &mut Vec<u8>) {
    out.extend([(place << 2 & 0xC) as u8, (place >> 2) as u8]);
}

/// Puts a copy of at most 8 bytes from nearby.
fn put_near(len: usize, distance: usize, out: &mut Vec<u8>) {
    let place = distance - 1;
    let op = if len <= 4 {
        0x40 | (len - 3) << 5
    } else {
        0x80 | (len - 5) << 5
    };
    out.extend([(op | (place & 7) << 2) as u8, (place >> 3) as u8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack;
    use alloc::vec;

    #[test]
    fn distances_beyond_16_kib_come_back() {
        let mut source: Vec<u8> = (0..40_000u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        let copy = source[100..5000].to_vec();
        source.extend_from_slice(&copy);
        source.extend_from_slice(&copy[..777]);
        let mut packed = Vec::new();
        assert!(Lzo::default().compress(&source, source.len(), &mut packed));
        assert!(packed.len() < 41_000, "{}", packed.len());
        let mut out = vec![0; source.len()];
        assert_eq!(unpack(&packed, &mut out), Ok(source.len()));
        assert_eq!(out, source);
    }
}
