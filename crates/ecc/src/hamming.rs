//! The Hamming code of `drivers/mtd/nand/ecc-sw-hamming.c`.
//!
//! A data bit has an address: its byte's number (8 or 9 bits) and its number in the byte (3 bits).
//! For each address bit there is a pair of parity bits, over the data bits whose address bit is 0
//! and 1. All parity bits are stored inverted, so that the parity of an erased step is erased.
//!
//! A flipped data bit changes one parity bit of every pair, and the odd ones spell its address. A
//! flipped parity bit changes one bit of one pair. Any other difference is beyond correction.

use crate::{Order, Repair};

/// Pairs over the low eight bits of the byte's number.
const ROWS: u32 = 0x5555;

/// The code for one length of step.
#[derive(Clone, Copy, Debug)]
pub struct Hamming {
    order: Order,
    /// The third parity byte's pairs that are in use: three over the bit's number in its byte, and
    /// with 512 bytes one over bit 8 of the byte's number.
    columns: u8,
}

/// Parity bits, or the differences of two sets.
#[derive(Clone, Copy)]
struct Parities {
    rows: u16,
    columns: u8,
}

impl Hamming {
    pub fn new(step: u16, order: Order) -> Self {
        let columns = if step == 512 { 0x55 } else { 0x54 };
        Self { order, columns }
    }

    pub fn encode(self, step: &[u8], parity: &mut [u8]) {
        self.store(self.parities(step), parity);
    }

    pub fn is_sound(self, step: &[u8], parity: &[u8]) -> bool {
        let difference = self.difference(step, parity);
        (difference.rows, difference.columns) == (0, 0)
    }

    pub fn correct(self, step: &mut [u8], parity: &mut [u8]) -> Repair {
        let difference = self.difference(step, parity);
        let rows = u32::from(difference.rows);
        let columns = difference.columns;
        if (rows, columns) == (0, 0) {
            return Repair::Sound;
        }
        let every_pair = |bits: u32, pairs: u32| (bits ^ (bits >> 1)) & pairs == pairs;
        if every_pair(rows, ROWS) && every_pair(columns.into(), self.columns.into()) {
            let byte = odd_bits(rows) | odd_bits(u32::from(columns) & 3 & self.unused_off()) << 8;
            step[byte] ^= 1 << odd_bits(u32::from(columns) >> 2);
        } else if rows.count_ones() + columns.count_ones() != 1 {
            return Repair::Failed;
        }
        self.encode(step, parity);
        Repair::Corrected { bits: 1 }
    }

    /// Masks the lowest pair, which steps of 256 bytes leave unused.
    fn unused_off(self) -> u32 {
        u32::from(self.columns & 1) * 3
    }

    fn difference(self, step: &[u8], parity: &[u8]) -> Parities {
        let stored = self.load(parity);
        let computed = self.parities(step);
        Parities {
            rows: stored.rows ^ computed.rows,
            columns: stored.columns ^ computed.columns,
        }
    }

    fn load(self, parity: &[u8]) -> Parities {
        let first = [parity[0], parity[1]];
        Parities {
            rows: match self.order {
                Order::Linux => u16::from_be_bytes(first),
                Order::SmartMedia => u16::from_le_bytes(first),
            },
            columns: parity[2],
        }
    }

    fn store(self, parities: Parities, parity: &mut [u8]) {
        let first = match self.order {
            Order::Linux => parities.rows.to_be_bytes(),
            Order::SmartMedia => parities.rows.to_le_bytes(),
        };
        parity[..2].copy_from_slice(&first);
        parity[2] = parities.columns;
    }

    /// The parity bits of a step as they are stored, inverted.
    fn parities(self, step: &[u8]) -> Parities {
        let halves = step.chunks_exact(256).map(fold);
        let mut sum = Folded::default();
        let mut last = 0;
        for half in halves {
            last = half.all;
            sum = sum.plus(half);
        }
        let odd_rows = (sum.rows() & 0xFF) as u8;
        let all = parity(sum.all);
        let rows = pairs(odd_rows, all);
        let columns = pairs(sum.columns(), all) << 2;
        let lowest = if self.columns & 1 == 1 {
            pairs(parity(last), all) & 3
        } else {
            0
        };
        Parities {
            rows: !rows,
            columns: !(columns | lowest) as u8,
        }
    }
}

/// 256 bytes as 32 words, XORed: all of them, and those whose number has a bit set.
#[derive(Clone, Copy, Default)]
struct Folded {
    all: u64,
    by_bit: [u64; 5],
}

impl Folded {
    fn plus(self, other: Self) -> Self {
        let mut by_bit = self.by_bit;
        for (sum, more) in by_bit.iter_mut().zip(other.by_bit) {
            *sum ^= more;
        }
        Self {
            all: self.all ^ other.all,
            by_bit,
        }
    }

    /// For each bit of the byte's number the parity over the bytes that have it set.
    fn rows(&self) -> u32 {
        // The lowest three bits are the byte's place in its word, little-endian.
        let in_word = [
            0xFF00_FF00_FF00_FF00,
            0xFFFF_0000_FFFF_0000,
            0xFFFF_FFFF_0000_0000,
        ];
        let low = in_word.map(|mask| self.all & mask);
        let words = low.into_iter().chain(self.by_bit);
        (0..)
            .zip(words)
            .fold(0, |rows, (at, word)| rows | u32::from(parity(word)) << at)
    }

    /// For each bit of the number in the byte the parity over the bits that have it set.
    fn columns(&self) -> u8 {
        let masks: [u64; 3] = [0xAA, 0xCC, 0xF0];
        (0..).zip(masks).fold(0, |columns, (at, mask)| {
            columns | parity(self.all & (mask * 0x0101_0101_0101_0101)) << at
        })
    }
}

/// XORs the words of 256 bytes, halving their number five times.
fn fold(bytes: &[u8]) -> Folded {
    let mut words = [0; 32];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    }
    let mut by_bit = [0; 5];
    let mut half = words.len() / 2;
    for sum in by_bit.iter_mut().rev() {
        let (low, high) = words.split_at_mut(half);
        for (to, from) in low.iter_mut().zip(&high[..half]) {
            *to ^= *from;
            *sum ^= *from;
        }
        half /= 2;
    }
    Folded {
        all: words[0],
        by_bit,
    }
}

fn parity(word: u64) -> u8 {
    (word.count_ones() & 1) as u8
}

/// Pairs of parities: over the bits that have an address bit set (`odd`), and over the others.
fn pairs(odd: u8, all: u8) -> u16 {
    let even = odd ^ 0_u8.wrapping_sub(all);
    spread(odd) << 1 | spread(even)
}

/// Moves bit k to bit 2k.
fn spread(bits: u8) -> u16 {
    let mut wide = u16::from(bits);
    wide = (wide | wide << 4) & 0x0F0F;
    wide = (wide | wide << 2) & 0x3333;
    (wide | wide << 1) & 0x5555
}

/// Moves bit 2k + 1 to bit k.
fn odd_bits(pairs: u32) -> usize {
    (0..8).fold(0, |bits, at| bits | (pairs >> (2 * at + 1) & 1) << at) as usize
}
