//! FAT's dates and times: local time, from 1980 to 2107, of two seconds' resolution, ten
//! milliseconds for births, days for accesses.

use nandlab_vfs::Time;

const DAY: i64 = 86_400;
/// Day 0 of the format, 1 January 1980, in days since 1970.
const FIRST_DAY: i64 = 3652;
/// 31 December 2107 in days since 1970.
const LAST_DAY: i64 = 50_402;

/// A moment as a slot has it: date, time, and the hundredths of a second after that time, up
/// to 199.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub date: u16,
    pub time: u16,
    pub hundredths: u8,
}

/// Years, months and days from days since 1970, in the calendar of today, after Howard Hinnant's
/// `civil_from_days`.
fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (
        year_of_era + era * 400 + i64::from(month <= 2),
        month as u32,
        day as u32,
    )
}

/// Days since 1970, the other way.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The nearest moment that the format can hold, not later unless nothing earlier can be held.
/// `offset_minutes` is local time minus UTC.
pub(crate) fn encode(time: Time, offset_minutes: i16) -> Stamp {
    let local = time.secs.saturating_add(i64::from(offset_minutes) * 60);
    if local < FIRST_DAY * DAY {
        return Stamp {
            date: 1 << 5 | 1,
            time: 0,
            hundredths: 0,
        };
    }
    if local >= (LAST_DAY + 1) * DAY {
        return Stamp {
            date: 127 << 9 | 12 << 5 | 31,
            time: 23 << 11 | 59 << 5 | 29,
            hundredths: 199,
        };
    }
    stamp(local, time.nanos)
}

/// The stamp of a time in the years that FAT knows.
fn stamp(local: i64, nanos: u32) -> Stamp {
    let (year, month, day) = civil(local.div_euclid(DAY));
    let second = local.rem_euclid(DAY) as u32;
    let date = ((year - 1980) as u32) << 9 | month << 5 | day;
    let clock = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
    Stamp {
        date: date as u16,
        time: clock as u16,
        hundredths: (second % 2 * 100 + nanos / 10_000_000) as u8,
    }
}

/// The moment that a slot names; impossible days count as the nearest possible ones.
pub(crate) fn decode(stamp: Stamp, offset_minutes: i16) -> Time {
    let date = u32::from(stamp.date);
    let clock = u32::from(stamp.time);
    let year = 1980 + i64::from(date >> 9);
    let month = (date >> 5 & 15).clamp(1, 12);
    let day = (date & 31).max(1);
    let hundredths = u32::from(stamp.hundredths.min(199));
    let second =
        (clock >> 11) * 3600 + (clock >> 5 & 63) * 60 + (clock & 31) * 2 + hundredths / 100;
    let secs = days(year, month, day) * DAY + i64::from(second) - i64::from(offset_minutes) * 60;
    Time {
        secs,
        nanos: hundredths % 100 * 10_000_000,
    }
}

/// The moment as a modification time can hold it.
pub(crate) fn rounded(time: Time, offset_minutes: i16) -> Time {
    decode(
        Stamp {
            hundredths: 0,
            ..encode(time, offset_minutes)
        },
        offset_minutes,
    )
}

/// The moment as an access time can hold it: the day alone.
pub(crate) fn day(time: Time, offset_minutes: i16) -> Time {
    decode(
        Stamp {
            time: 0,
            hundredths: 0,
            ..encode(time, offset_minutes)
        },
        offset_minutes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_have_known_stamps() {
        // 2001-09-09 01:46:40 UTC.
        let stamp = encode(
            Time {
                secs: 1_000_000_001,
                nanos: 250_000_000,
            },
            0,
        );
        assert_eq!(
            stamp,
            Stamp {
                date: 21 << 9 | 9 << 5 | 9,
                time: 1 << 11 | 46 << 5 | 20,
                hundredths: 125
            }
        );
        assert_eq!(
            decode(stamp, 0),
            Time {
                secs: 1_000_000_001,
                nanos: 250_000_000
            }
        );
        assert_eq!(decode(stamp, 120).secs, 1_000_000_001 - 7200);
    }

    #[test]
    fn every_day_comes_back() {
        for day in FIRST_DAY..=LAST_DAY {
            let time = Time::new(day * DAY + 3661 * 2 % DAY);
            assert_eq!(rounded(time, 0), time);
            assert_eq!(rounded(rounded(time, -90), -90), rounded(time, -90));
        }
    }

    #[test]
    fn moments_out_of_range_are_the_nearest_in_range() {
        assert_eq!(rounded(Time::MIN, 0), Time::new(FIRST_DAY * DAY));
        assert_eq!(rounded(Time::MAX, 0), Time::new((LAST_DAY + 1) * DAY - 2));
        for wild in [0, u16::MAX, 15 << 5, 31] {
            decode(
                Stamp {
                    date: wild,
                    time: u16::MAX,
                    hundredths: 255,
                },
                i16::MIN,
            );
        }
    }
}
