//! Numbers for people: three significant digits, a fitting unit, narrow no-break spaces; a dash for
//! what is no number.

/// The narrow no-break space between a number and its unit, and between groups of three digits.
const THIN: char = '\u{202f}';

/// What a number measures, hence how it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Virtual or wall time in nanoseconds.
    Nanoseconds,
    /// Bytes per second, decimal prefixes.
    Rate,
    /// Bytes of data, decimal prefixes.
    Bytes,
    /// Bytes of memory, binary prefixes.
    Memory,
    /// A count, with decimal prefixes.
    Count,
    /// A number without a unit.
    Factor,
    /// A share from 0 to 1, in percent.
    Share,
    /// A share of requests that take longer, named by the percentile where it begins: 0.001 is
    /// p99.9.
    Exceedance,
}

type Units = &'static [(f64, &'static str)];
const TIME: Units = &[
    (1e0, "ns"),
    (1e3, "µs"),
    (1e6, "ms"),
    (1e9, "s"),
    (6e10, "min"),
    (3.6e12, "h"),
    (8.64e13, "d"),
    (3.15576e16, "years"),
];
const RATE: Units = &[
    (1e0, "B/s"),
    (1e3, "kB/s"),
    (1e6, "MB/s"),
    (1e9, "GB/s"),
    (1e12, "TB/s"),
];
const BYTES: Units = &[
    (1e0, "B"),
    (1e3, "kB"),
    (1e6, "MB"),
    (1e9, "GB"),
    (1e12, "TB"),
    (1e15, "PB"),
    (1e18, "EB"),
];
const MEMORY: Units = &[
    (1.0, "B"),
    (1024.0, "KiB"),
    (1048576.0, "MiB"),
    (1073741824.0, "GiB"),
    (1099511627776.0, "TiB"),
    (1125899906842624.0, "PiB"),
    (1152921504606846976.0, "EiB"),
];
const COUNT: Units = &[
    (1e0, ""),
    (1e3, "k"),
    (1e6, "M"),
    (1e9, "G"),
    (1e12, "T"),
    (1e15, "P"),
    (1e18, "E"),
];

impl Quantity {
    /// `value` with the unit that fits it.
    pub fn write(self, value: f64) -> String {
        let value = round(value, 2);
        match self {
            Quantity::Exceedance => self.tick(value, value),
            // Minutes and beyond begin at two: "90 s" reads better than "1.50 min".
            _ => with_unit(significant, value, self.unit(value, 2.0), self),
        }
    }

    /// `value` as an axis writes it whose largest value is `top`: one unit for all ticks, no
    /// trailing zeros.
    pub fn tick(self, value: f64, top: f64) -> String {
        match self {
            Quantity::Exceedance => format!("p{}", round(100.0 * (1.0 - value), 6)),
            _ => with_unit(plain, value, self.tick_unit(top), self),
        }
    }

    /// The unit of an axis up to `top`, and what one of it is worth; five minutes are the least
    /// that are parted into minutes.
    pub fn tick_unit(self, top: f64) -> (f64, &'static str) {
        self.unit(top, 5.0)
    }

    fn unit(self, top: f64, begin_minutes: f64) -> (f64, &'static str) {
        let units = match self {
            Quantity::Nanoseconds => TIME,
            Quantity::Rate => RATE,
            Quantity::Bytes => BYTES,
            Quantity::Memory => MEMORY,
            Quantity::Count => COUNT,
            Quantity::Share => return (0.01, "%"),
            Quantity::Factor | Quantity::Exceedance => return (1.0, ""),
        };
        let begins = |worth: f64| {
            if self == Quantity::Nanoseconds && worth > 1e9 {
                begin_minutes * worth
            } else {
                worth
            }
        };
        *units
            .iter()
            .rev()
            .find(|(worth, _)| top.abs() >= begins(*worth))
            .unwrap_or(&units[0])
    }
}

fn with_unit(
    digits: fn(f64) -> String,
    value: f64,
    (worth, unit): (f64, &str),
    quantity: Quantity,
) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let number = digits(value / worth);
    if unit.is_empty() || (value == 0.0 && quantity != Quantity::Share) {
        number
    } else {
        format!("{number}{THIN}{unit}")
    }
}

/// An exact whole number in groups of three digits.
pub fn grouped(value: u64) -> String {
    group(&value.to_string())
}

/// Three significant digits, trailing zeros kept, so that a column of numbers compares at a glance.
fn significant(value: f64) -> String {
    let value = round(value, 2);
    let magnitude = value.abs();
    if value != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        return minus(&format!("{value:.2e}"));
    }
    let decimals = match magnitude {
        0.0 => 0,
        m if m >= 100.0 => 0,
        m => (2.0 - m.log10().floor()) as usize,
    };
    minus(&group(&format!("{value:.decimals$}")))
}

fn plain(value: f64) -> String {
    minus(&group(&round(value, 9).to_string()))
}

fn round(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$e}").parse().unwrap_or(f64::NAN)
}

fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

/// Four digits stay together, as is customary; more are parted by thin spaces.
fn group(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let first = text[..whole]
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(0);
    if whole - first < 5 {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 12);
    for (at, c) in text.char_indices() {
        if at > first && at < whole && (whole - at).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_three_digits_and_a_fitting_unit() {
        let cases = [
            (Quantity::Nanoseconds, 0.0, "0"),
            (Quantity::Nanoseconds, 220_000.0, "220 µs"),
            (Quantity::Nanoseconds, 999_600.0, "1.00 ms"),
            (Quantity::Nanoseconds, 90e9, "90.0 s"),
            (Quantity::Nanoseconds, 7.2e12, "2.00 h"),
            (Quantity::Rate, 84_250_000.0, "84.2 MB/s"),
            (Quantity::Memory, 131_072.0, "128 KiB"),
            (Quantity::Bytes, 1.5e13, "15.0 TB"),
            (Quantity::Factor, 1.0, "1.00"),
            (Quantity::Factor, -0.0123, "\u{2212}0.0123"),
            (Quantity::Share, 0.5, "50.0 %"),
            (Quantity::Exceedance, 0.001, "p99.9"),
            (Quantity::Count, 1234567.0, "1.23 M"),
        ];
        for (quantity, value, expected) in cases {
            assert_eq!(
                quantity.write(value).replace(THIN, " "),
                expected,
                "{quantity:?} {value}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Quantity::Rate.write(value), "–");
        }
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(1234), "1234");
        assert_eq!(
            grouped(u64::MAX).replace(THIN, " "),
            "18 446 744 073 709 551 615"
        );
        assert_eq!(
            Quantity::Factor.tick(-12345.5, 1.0).replace(THIN, " "),
            "\u{2212}12 345.5"
        );
    }

    #[test]
    fn ticks_of_an_axis_share_its_unit() {
        assert_eq!(
            Quantity::Rate.tick(500_000.0, 2e6).replace(THIN, " "),
            "0.5 MB/s"
        );
        assert_eq!(
            Quantity::Nanoseconds.tick(30e9, 600e9).replace(THIN, " "),
            "0.5 min"
        );
    }
}
