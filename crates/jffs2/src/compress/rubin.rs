//! An arithmetic code of bits, each with a probability of its own for each place in a byte: only
//! read, no kernel writes it by default.
//!
//! Source: fs/jffs2/compr_rubin.c. The numbers are exchanged there, against the names in the
//! header: 3 is preceded by its table, 5 has the fixed one.

const UPPER: u32 = 1 << 15;
const LOWER: u32 = UPPER - 1;
/// Bits that may be read beyond the end: the last bytes of the code are cut short by some writers.
const BEYOND_MAX: usize = 64;

/// Weights of a one at each place, of 1043.
const FIXED: [u32; 8] = [277, 249, 290, 267, 229, 341, 212, 241];
const FIXED_SUM: u32 = 1043;

struct Decoder<'a> {
    data: &'a [u8],
    bit: usize,
    p: u32,
    q: u32,
    seen: u32,
}

impl<'a> Decoder<'a> {
    fn new(data: &'a [u8]) -> Option<Self> {
        let mut new = Self {
            data,
            bit: 0,
            p: 2 * UPPER,
            q: 0,
            seen: 0,
        };
        for _ in 0..16 {
            new.seen = new.seen * 2 + new.pull()?;
        }
        Some(new)
    }

    fn pull(&mut self) -> Option<u32> {
        let at = self.bit;
        self.bit += 1;
        match self.data.get(at / 8) {
            Some(byte) => Some(u32::from(byte >> (7 - at % 8) & 1)),
            None => (at < self.data.len() * 8 + BEYOND_MAX).then_some(0),
        }
    }

    fn symbol(&mut self, zero: u32, one: u32) -> Option<bool> {
        while self.q >= UPPER || self.p + self.q <= UPPER {
            self.q = (self.q & LOWER) << 1;
            self.p <<= 1;
            self.seen = ((self.seen & LOWER) << 1) + self.pull()?;
        }
        let low = (zero * self.p / (zero + one))
            .max(1)
            .min(self.p.saturating_sub(1));
        let set = self.seen >= self.q + low;
        if set {
            self.q += low;
            self.p -= low;
        } else {
            self.p = low;
        }
        // No encoder writes a code that leaves no interval.
        (self.p > 0).then_some(set)
    }

    fn byte(&mut self, sum: u32, weights: &[u32; 8]) -> Option<u8> {
        let mut byte = 0;
        for (place, one) in weights.iter().enumerate() {
            byte |= u8::from(self.symbol(sum - one, *one)?) << place;
        }
        Some(byte)
    }

    fn fill(mut self, sum: u32, weights: &[u32; 8], out: &mut [u8]) -> Option<()> {
        for to in out {
            *to = self.byte(sum, weights)?;
        }
        Some(())
    }
}

/// With the fixed table.
pub(super) fn decompress_fixed(data: &[u8], out: &mut [u8]) -> Option<()> {
    Decoder::new(data)?.fill(FIXED_SUM, &FIXED, out)
}

/// With the table that is before the code.
pub(super) fn decompress_dynamic(data: &[u8], out: &mut [u8]) -> Option<()> {
    let (table, code) = data.split_first_chunk::<8>()?;
    Decoder::new(code)?.fill(256, &table.map(u32::from), out)
}
