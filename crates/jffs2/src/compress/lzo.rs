//! LZO1X: copies from up to 48 KiB before, literals between them.
//!
//! Source: Documentation/staging/lzo.rst of Linux, which describes what its decompressor
//! understands. The compressors are plain ones of our own: one table of the last place of each four
//! bytes, the first match taken; or, where time matters less than room, the [best] way. *Promises.*
//! Any compressed data give an error at worst; what is compressed here decompresses here and in
//! Linux.

mod best;

use alloc::vec::Vec;

/// The longest distance of a short copy instruction with two bytes of distance.
const NEAR: usize = 0x4000;
/// The longest distance at all.
const FAR: usize = 0xBFFF;
/// Up to here one byte of distance will do.
const CLOSE: usize = 0x800;
const HASH_BITS: u32 = 13;
/// Ends a stream: a copy from distance 16384.
const END: [u8; 3] = [0x11, 0, 0];
/// The last bytes are always literals, so that four bytes can be read at any place before them.
const TAIL: usize = 8;

/// The compressors' memory.
#[derive(Debug, Default)]
pub(super) struct Lzo {
    /// Where each hash of four bytes was seen last, plus one.
    table: Vec<u32>,
    best: best::Best,
}

impl Lzo {
    /// Appends all of `source` to `out`, at most `room` bytes; false where it does not fit.
    pub fn compress(&mut self, source: &[u8], room: usize, out: &mut Vec<u8>) -> bool {
        self.table.clear();
        self.table.resize(1 << HASH_BITS, 0);
        let (mut at, mut literals) = (0, 0);
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
            if out.len() + END.len() > room {
                return false;
            }
            at += len;
            literals = at;
        }
        put_literals(&source[literals..], literals == 0, out);
        out.extend(END);
        out.len() <= room
    }

    /// The same, as short as can be.
    pub fn compress_well(&mut self, source: &[u8], room: usize, out: &mut Vec<u8>) -> bool {
        self.best.search(source);
        let mut literals = 0;
        for (run, len, distance) in self.best.way.iter().copied() {
            let at = literals + run;
            put_literals(&source[literals..at], literals == 0, out);
            match len {
                2 => out.extend([
                    ((distance - 1) << 2 & 0xC) as u8,
                    ((distance - 1) >> 2) as u8,
                ]),
                _ if best::is_middle(len, distance, run) => {
                    let place = distance - CLOSE - 1;
                    out.extend([(place << 2 & 0xC) as u8, (place >> 2) as u8]);
                }
                _ => put_copy(len, distance, out),
            }
            literals = at + len;
        }
        put_literals(&source[literals..], literals == 0, out);
        out.extend(END);
        out.len() <= room
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
        let place = distance - 1;
        let op = if len <= 4 {
            0x40 | (len - 3) << 5
        } else {
            0x80 | (len - 5) << 5
        };
        out.extend([(op | (place & 7) << 2) as u8, (place >> 3) as u8]);
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

struct Input<'a> {
    data: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<usize> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte.into())
    }

    fn word(&mut self) -> Option<usize> {
        let low = self.byte()?;
        Some(low | self.byte()? << 8)
    }

    /// The length of an instruction: its bits, or if they are zero what the next bytes say.
    fn length(&mut self, bits: usize, mask: usize) -> Option<usize> {
        if bits != 0 {
            return Some(bits);
        }
        let mut length = mask;
        loop {
            match self.byte()? {
                0 => length = length.checked_add(255)?,
                rest => return length.checked_add(rest),
            }
        }
    }
}

impl Input<'_> {
    /// Length and distance of a copy, and how many literals follow it.
    fn copy(&mut self, op: usize, state: usize) -> Option<(usize, usize, usize)> {
        Some(match op {
            0..=15 => {
                let (len, base) = if state == 4 { (3, 2049) } else { (2, 1) };
                (len, (self.byte()? << 2) + (op >> 2) + base, op & 3)
            }
            16..=31 => {
                let len = 2 + self.length(op & 7, 7)?;
                let word = self.word()?;
                (len, NEAR + ((op & 8) << 11) + (word >> 2), word & 3)
            }
            32..=63 => {
                let len = 2 + self.length(op & 31, 31)?;
                let word = self.word()?;
                (len, (word >> 2) + 1, word & 3)
            }
            64..=127 => (
                3 + (op >> 5 & 1),
                (self.byte()? << 3) + (op >> 2 & 7) + 1,
                op & 3,
            ),
            _ => (
                5 + (op >> 5 & 3),
                (self.byte()? << 3) + (op >> 2 & 7) + 1,
                op & 3,
            ),
        })
    }
}

/// Fills `out`; nothing where the data end early, refer to what is not there, or give more or less.
pub(super) fn decompress(data: &[u8], out: &mut [u8]) -> Option<()> {
    let mut input = Input { data, at: 0 };
    let mut done = 0;
    // Literals that the last instruction copied, 4 for any more.
    let mut state = 0;
    if *data.first()? > 17 {
        let len = input.byte()? - 17;
        copy_literals(&mut input, out, &mut done, len)?;
        state = len.min(4);
    }
    loop {
        let op = input.byte()?;
        if op < 16 && state == 0 {
            let len = 3 + input.length(op, 15)?;
            copy_literals(&mut input, out, &mut done, len)?;
            state = 4;
            continue;
        }
        let (len, distance, next) = input.copy(op, state)?;
        if distance == NEAR && (16..32).contains(&op) {
            return (done == out.len()).then_some(());
        }
        if distance > done || len > out.len() - done {
            return None;
        }
        for at in done..done + len {
            out[at] = out[at - distance];
        }
        done += len;
        copy_literals(&mut input, out, &mut done, next)?;
        state = next;
    }
}

fn copy_literals(
    input: &mut Input<'_>,
    out: &mut [u8],
    done: &mut usize,
    len: usize,
) -> Option<()> {
    let from = input.data.get(input.at..input.at.checked_add(len)?)?;
    out.get_mut(*done..done.checked_add(len)?)?
        .copy_from_slice(from);
    (input.at, *done) = (input.at + len, *done + len);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn each_instruction_of_the_description_is_understood() {
        // Two literals; copy 2 from 1 back, one literal; a copy of 3 far back is refused.
        let mut out = [0; 5];
        assert_eq!(
            decompress(&[19, b'a', b'b', 1, 0, b'c', 0x11, 0, 0], &mut out),
            Some(())
        );
        assert_eq!(&out, b"abbbc");
        assert_eq!(decompress(&[21, 1, 2, 3, 4, 0, 0], &mut [0; 7]), None);
        // A run of zeros: one literal, then a copy of 33 + 255 + 11 bytes from distance 1.
        let mut out = [7; 300];
        let data = [18, 0, 0x20, 0, 11, 0, 0, 0x11, 0, 0];
        assert_eq!(decompress(&data, &mut out), Some(()));
        assert_eq!(out, [0; 300]);
        assert_eq!(decompress(&data, &mut [0; 299]), None);
        assert_eq!(decompress(&data, &mut [0; 301]), None);
        assert_eq!(decompress(&data[..8], &mut [0; 300]), None);
    }

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
        assert_eq!(decompress(&packed, &mut out), Some(()));
        assert_eq!(out, source);
    }
}
