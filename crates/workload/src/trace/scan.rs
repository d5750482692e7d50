//! A cursor over one line: the few shapes of field that trace formats are made of.

use super::Fault;
use nandlab_sim::Nanos;

/// Bytes of a word.
const WORD: usize = 8;
const POWERS_OF_TEN: [u64; WORD + 1] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];
/// A byte in each place of a word.
const EACH: u64 = u64::MAX / 255;
const NUMBER: &str = "a decimal number below 2^64";

/// A place in a line. Methods that fail leave it unspecified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    line: &'a [u8],
    /// The byte it stands before.
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The byte it stands before.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// Past blanks, to the next byte that is none.
    #[inline]
    pub(super) fn skip_blanks(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.peek()
    }

    #[inline]
    fn expect(
        &self,
        good: bool,
        at: usize,
        field: &'static str,
        expected: &'static str,
    ) -> Result<(), Fault> {
        if good {
            Ok(())
        } else {
            Err(Fault {
                at,
                field,
                expected,
            })
        }
    }

    /// Digits, at least one; stops at the first other byte.
    #[inline]
    pub(super) fn digits(&mut self, field: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        let mut value = 0u64;
        loop {
            let (part, count) = leading_digits(self.next_word());
            let shifted = value.checked_mul(POWERS_OF_TEN[count]);
            value = shifted.and_then(|v| v.checked_add(part)).ok_or(Fault {
                at: start,
                field,
                expected: NUMBER,
            })?;
            self.at += count;
            if count < WORD {
                break;
            }
        }
        self.expect(self.at > start, start, field, NUMBER)?;
        Ok(value)
    }

    /// The next eight bytes, the first one lowest; zeros behind the end of the line.
    #[inline]
    fn next_word(&self) -> u64 {
        let rest = self.line.get(self.at..).unwrap_or_default();
        match rest.first_chunk::<WORD>() {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, &b| word << 8 | u64::from(b)),
        }
    }

    #[inline]
    fn digit(&self) -> Option<u64> {
        let digit = self.peek()?.wrapping_sub(b'0');
        (digit <= 9).then_some(u64::from(digit))
    }

    /// A number that fills its field: blanks, digits, then a blank, a comma or the end.
    #[inline]
    pub(super) fn number(&mut self, field: &'static str) -> Result<u64, Fault> {
        self.skip_blanks();
        let start = self.at;
        let value = self.digits(field)?;
        self.end_of_field(start, field, NUMBER)?;
        Ok(value)
    }

    #[inline]
    fn end_of_field(
        &self,
        start: usize,
        field: &'static str,
        expected: &'static str,
    ) -> Result<(), Fault> {
        self.expect(
            matches!(self.peek(), None | Some(b' ' | b'\t' | b',')),
            start,
            field,
            expected,
        )
    }

    /// A number times `unit`.
    #[inline]
    pub(super) fn scaled(
        &mut self,
        field: &'static str,
        unit: u64,
        expected: &'static str,
    ) -> Result<u64, Fault> {
        self.skip_blanks();
        let at = self.at;
        self.number(field)?.checked_mul(unit).ok_or(Fault {
            at,
            field,
            expected,
        })
    }

    /// Seconds with an optional fraction that fill their field; digits beyond nanoseconds are cut
    /// off.
    #[inline]
    pub(super) fn seconds(&mut self, field: &'static str) -> Result<Nanos, Fault> {
        const SECONDS: &str = "seconds below 2^64 ns, as digits with an optional fraction";
        self.skip_blanks();
        let start = self.at;
        let fault = Fault {
            at: start,
            field,
            expected: SECONDS,
        };
        let whole = self
            .digits(field)
            .map_err(|_| fault)?
            .checked_mul(1_000_000_000)
            .ok_or(fault)?;
        let mut nanos = 0;
        if self.peek() == Some(b'.') {
            self.at += 1;
            let mut unit = 100_000_000;
            while let Some(digit) = self.digit() {
                nanos += digit * unit;
                unit /= 10;
                self.at += 1;
            }
        }
        self.end_of_field(start, field, SECONDS)?;
        whole.checked_add(nanos).ok_or(fault)
    }

    /// Past blanks and one comma, to the field named.
    #[inline]
    pub(super) fn comma(&mut self, field: &'static str) -> Result<(), Fault> {
        let next = self.skip_blanks();
        self.expect(next == Some(b','), self.at, field, "a comma and this field")?;
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    /// The rest of the line must be blank or begin with a comma: more fields, which are not read.
    #[inline]
    pub(super) fn end_or_comma(&mut self, field: &'static str) -> Result<(), Fault> {
        let next = self.skip_blanks();
        self.expect(
            matches!(next, None | Some(b',')),
            self.at,
            field,
            "the end of the field",
        )
    }

    /// A field up to the next comma or the end, without the blanks around it.
    #[inline]
    pub(super) fn field(&mut self) -> &'a [u8] {
        self.skip_blanks();
        self.take_while(|b| b != b',').trim_ascii_end()
    }

    /// A word up to the next blank or the end.
    #[inline]
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.skip_blanks();
        self.take_while(|b| !matches!(b, b' ' | b'\t'))
    }

    #[inline]
    fn take_while(&mut self, good: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(&good) {
            self.at += 1;
        }
        &self.line[start..self.at]
    }
}

/// The number that the first bytes of a word make as digits, and how many digits there are.
#[inline]
fn leading_digits(word: u64) -> (u64, usize) {
    let digits = word ^ (EACH * u64::from(b'0'));
    // The lowest byte above 9 gets its upper bit set; a carry reaches later bytes only.
    let others = (digits | digits.wrapping_add(EACH * 0x76)) & EACH << 7;
    let count = others.trailing_zeros() / 8;
    // Zeros before the digits, so that there are eight.
    let digits = digits.checked_shl(64 - 8 * count).unwrap_or(0);
    // Neighbours become numbers of two digits, of four, of eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let even = (pairs & 0xff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let odd = (pairs >> 16 & 0xff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    (even.wrapping_add(odd) >> 32, count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u64> {
        Cursor::new(text.as_bytes()).number("n").ok()
    }

    fn seconds(text: &str) -> Option<Nanos> {
        Cursor::new(text.as_bytes()).seconds("t").ok()
    }

    #[test]
    fn numbers_never_wrap() {
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("18446744073709551616"), None);
        assert_eq!(number("99999999999999999999"), None);
        assert_eq!(number("000000000000000000000000042 "), Some(42));
    }

    #[test]
    fn digits_end_at_any_other_byte_wherever_it_stands() {
        for length in 0..=20 {
            let digits = &"12345678901234567890"[..length];
            for byte in 0..=255u8 {
                let line = [digits.as_bytes(), &[byte], b"77777777"].concat();
                let mut cursor = Cursor::new(&line);
                let found = cursor.digits("n").ok();
                if byte.is_ascii_digit() {
                    continue;
                }
                assert_eq!((found, cursor.at), (digits.parse().ok(), length), "{byte}");
            }
        }
    }

    #[test]
    fn numbers_fill_their_field() {
        assert_eq!((number("  7,"), number("7\t")), (Some(7), Some(7)));
        for bad in ["", " ", "x", "7x", "-7", "+7", "0x7", "7.0", ","] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        assert_eq!(seconds("12"), Some(12_000_000_000));
        assert_eq!(seconds("0.026214,"), Some(26_214_000));
        assert_eq!(seconds("0.1234567899"), Some(123_456_789));
        assert_eq!(seconds("18446744073.709551615"), Some(u64::MAX));
        for bad in [
            "",
            ".",
            ".5",
            "18446744073.709551616",
            "18446744074",
            "1e5",
            "1.5s",
            "1.2.3",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
