//! Times as inodes have them: 32 bits of seconds, and where the inode has space 2 bits above them
//! and 30 bits of nanoseconds (Linux `fs/ext4/ext4.h`).

use nandlab_vfs::Time;

/// The 32 bits that every inode has, and the other 32.
pub(crate) fn encode(time: Time) -> (u32, u32) {
    // The two bits above count units of 2^32 s from the signed low part, which carries into them.
    let epoch = (time.secs - i64::from(time.secs as i32)) >> 32;
    (time.secs as u32, time.nanos << 2 | epoch as u32 & 3)
}

pub(crate) fn decode(low: u32, extra: u32) -> Time {
    Time {
        secs: i64::from(low as i32) + (i64::from(extra & 3) << 32),
        nanos: (extra >> 2).min(999_999_999),
    }
}

/// A time as an inode can hold it: without the other 32 bits whole seconds, the nearest year there
/// is.
pub(crate) fn rounded(time: Time, extra: bool) -> Time {
    const MAX: i64 = i32::MAX as i64;
    match extra {
        true => Time {
            secs: time.secs.clamp(i32::MIN.into(), MAX + (3 << 32)),
            nanos: time.nanos,
        },
        false => Time::new(time.secs.clamp(i32::MIN.into(), MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_from_1901_to_2446() {
        for secs in [
            i32::MIN.into(),
            -1,
            0,
            1,
            0x7FFF_FFFF,
            0x8000_0000,
            0xFFFF_FFFF,
            0x1_0000_0000,
            0x3_7FFF_FFFF,
        ] {
            let time = Time {
                secs,
                nanos: 999_999_999,
            };
            let (low, extra) = encode(rounded(time, true));
            assert_eq!(decode(low, extra), time);
        }
        assert_eq!(rounded(Time::new(1 << 40), true).secs, 0x3_7FFF_FFFF);
        assert_eq!(rounded(Time::new(1 << 33), false).secs, 0x7FFF_FFFF);
    }
}
