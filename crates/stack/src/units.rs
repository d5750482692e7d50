//! Sizes and times as people write them: `"8 GiB"`, `"25 us"`.

/// Units of a size, in bytes.
const SIZES: [(&str, u64); 11] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("", 1),
];

/// Units of a time, in nanoseconds.
const TIMES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Bytes of a size such as `4096`, `4 KiB` or `1.5 GiB`; none if it is no size, no whole number of
/// bytes, or 2^63 or more.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, &SIZES)
}

/// Nanoseconds of a time such as `25 us` or `1.5 ms`; none if it is no time, no whole number of
/// nanoseconds, or 2^63 or more.
pub fn parse_time(text: &str) -> Option<u64> {
    parse(text, &TIMES)
}

/// A size in the largest unit that holds it whole.
pub fn write_size(bytes: u64) -> String {
    let binary = SIZES[..6]
        .iter()
        .rev()
        .find(|(_, worth)| bytes > 0 && bytes.is_multiple_of(*worth));
    binary.map_or(format!("{bytes} B"), |(unit, worth)| {
        format!("{} {unit}", bytes / worth)
    })
}

/// A time in the largest unit up to seconds that holds it whole.
pub fn write_time(ns: u64) -> String {
    let units = [TIMES[0], TIMES[1], TIMES[3], TIMES[4]];
    let whole = units
        .iter()
        .rev()
        .find(|(_, worth)| ns > 0 && ns.is_multiple_of(*worth));
    whole.map_or(format!("{ns} ns"), |(unit, worth)| {
        format!("{} {unit}", ns / worth)
    })
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let number = &text[..end];
    let unit = text[end..].trim();
    let worth = u128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| text.replace('_', "").parse::<u64>().ok().map(u128::from);
    let scale = 10u128.pow(fraction.len() as u32);
    let part = digits(fraction)? * worth;
    if !part.is_multiple_of(scale) || fraction.contains('_') {
        return None;
    }
    let total = digits(whole)?
        .checked_mul(worth)?
        .checked_add(part / scale)?;
    u64::try_from(total).ok().filter(|total| *total < 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_exact() {
        assert_eq!(
            (
                parse_size("8 GiB"),
                parse_size("512MiB"),
                parse_size("4096"),
                parse_size("1.5 KiB")
            ),
            (Some(8 << 30), Some(512 << 20), Some(4096), Some(1536))
        );
        assert_eq!(
            (
                parse_time("25 us"),
                parse_time("1.5ms"),
                parse_time("2 s"),
                parse_time("0.001 us")
            ),
            (Some(25_000), Some(1_500_000), Some(2_000_000_000), Some(1))
        );
    }

    #[test]
    fn what_is_no_size_or_time_is_none() {
        for bad in [
            "",
            "GiB",
            "-1",
            "1e3",
            "8 gib",
            "8 GiB x",
            "1.5 B",
            ".5 KiB",
            "5. KiB",
            "0.3 KiB",
            "9 EiB",
            "99999999999999999999",
            "8192 PiB",
            "1.0000000000000000000 KiB",
        ] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        for bad in ["", "25", "25 u", "us", "0.5 ns", "1000000 d", "-1 s"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for n in [
            0,
            1,
            1000,
            1024,
            1536,
            5 << 30,
            25_000,
            1_500_000,
            (1 << 63) - 1,
        ] {
            assert_eq!(
                (parse_size(&write_size(n)), parse_time(&write_time(n))),
                (Some(n), Some(n))
            );
        }
        assert_eq!(
            (write_size(8 << 30), write_time(25_000)),
            ("8 GiB".into(), "25 us".into())
        );
    }
}
