//! fio's iolog, version 2 and 3.
//!
//! Version 2: `filename action [offset length]`; `wait` spends offset microseconds. Version 3 puts
//! a timestamp in microseconds before that, and has no `wait`.

use super::{Event, Fault, scan::Cursor};
use crate::Op;
use nandlab_sim::Nanos;

const MICROSECOND: Nanos = 1000;
const TIME: &str = "microseconds that make less than 2^64 ns";
const ACTIONS: &str =
    "add, open, close, read, write, sync, datasync, trim, or wait (version 2 only)";

/// What earlier lines say about later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    version: Option<Version>,
    /// The sum of version 2's waits.
    waited: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl State {
    #[inline]
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<Event>, Fault> {
        let mut cursor = Cursor::new(line);
        if cursor.skip_blanks().is_none() {
            return Ok(None);
        }
        match self.version {
            None => self.heading(line),
            Some(version) => self.action(&mut cursor, version),
        }
    }

    fn heading(&mut self, line: &[u8]) -> Result<Option<Event>, Fault> {
        self.version = match line.trim_ascii() {
            b"fio version 2 iolog" => Some(Version::Two),
            b"fio version 3 iolog" => Some(Version::Three),
            _ => {
                return Err(Fault {
                    at: 0,
                    field: "heading",
                    expected: "fio version 2 iolog, or fio version 3 iolog",
                });
            }
        };
        Ok(None)
    }

    #[inline]
    fn action(
        &mut self,
        cursor: &mut Cursor<'_>,
        version: Version,
    ) -> Result<Option<Event>, Fault> {
        let time = match version {
            Version::Two => self.waited,
            Version::Three => cursor.scaled("timestamp", MICROSECOND, TIME)?,
        };
        cursor.skip_blanks();
        let start = cursor.at;
        cursor.word();
        let unit = start..cursor.at;
        cursor.skip_blanks();
        let at = cursor.at;
        match cursor.word() {
            b"read" => extent(cursor, time, unit, Op::Read),
            b"write" => extent(cursor, time, unit, Op::Write),
            b"trim" => extent(cursor, time, unit, Op::Discard),
            b"sync" | b"datasync" => Ok(Some(Event::flush(time, unit))),
            b"add" | b"open" | b"close" => Ok(None),
            b"wait" if version == Version::Two => self.wait(cursor),
            _ => Err(Fault {
                at,
                field: "action",
                expected: ACTIONS,
            }),
        }
    }

    fn wait(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<Event>, Fault> {
        cursor.skip_blanks();
        let at = cursor.at;
        let span = cursor.scaled("wait", MICROSECOND, TIME)?;
        self.waited = self.waited.checked_add(span).ok_or(Fault {
            at,
            field: "wait",
            expected: TIME,
        })?;
        Ok(None)
    }
}

#[inline]
fn extent(
    cursor: &mut Cursor<'_>,
    time: Nanos,
    unit: core::ops::Range<usize>,
    op: Op,
) -> Result<Option<Event>, Fault> {
    cursor.skip_blanks();
    let at = cursor.at;
    let offset = cursor.number("offset")?;
    let length = cursor.number("length")?;
    Event::new(time, unit, op, offset, length).in_bounds(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn events(text: &str) -> Result<Vec<Event>, Fault> {
        let mut state = State::default();
        text.lines()
            .filter_map(|line| state.line(line.as_bytes()).transpose())
            .collect()
    }

    #[test]
    fn version_2_times_are_the_sum_of_its_waits() {
        let text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n/dev/sda wait 250 0\n/dev/sda read 0 512\n\
                    /dev/sda wait 50\n/dev/sda trim 1048576 65536\n/dev/sda sync 0 0\n/dev/sda datasync\n/dev/sda close\n";
        let expected = [
            Event::new(0, 0..8, Op::Write, 4096, 8192),
            Event::new(250_000, 0..8, Op::Read, 0, 512),
            Event::new(300_000, 0..8, Op::Discard, 1_048_576, 65_536),
            Event::flush(300_000, 0..8),
            Event::flush(300_000, 0..8),
        ];
        assert_eq!(events(text).unwrap(), expected);
    }

    #[test]
    fn version_3_times_are_microseconds() {
        let text = "fio version 3 iolog\n2 /dev/sda add\n872 /dev/sda open\n878 /dev/sda write 0 16384\n10001677 /dev/sda close\n";
        assert_eq!(
            events(text).unwrap(),
            [Event::new(878_000, 4..12, Op::Write, 0, 16_384)]
        );
    }

    #[test]
    fn faults_name_their_field() {
        let fault = |text: &str| events(text).map_err(|f| (f.field, f.at)).unwrap_err();
        assert_eq!(fault("/dev/sda add"), ("heading", 0));
        assert_eq!(fault("fio version 4 iolog"), ("heading", 0));
        assert_eq!(fault("fio version 2 iolog\nf erase 0 1"), ("action", 2));
        assert_eq!(fault("fio version 2 iolog\nf"), ("action", 1));
        assert_eq!(fault("fio version 2 iolog\nf read 0"), ("length", 8));
        assert_eq!(fault("fio version 2 iolog\nf read"), ("offset", 6));
        assert_eq!(
            fault("fio version 2 iolog\nf wait 18446744073709551615"),
            ("wait", 7)
        );
        assert_eq!(
            fault("fio version 2 iolog\nf wait 18446744073709551\nf wait 18446744073709551"),
            ("wait", 7)
        );
        assert_eq!(fault("fio version 3 iolog\nf read 0 512"), ("timestamp", 0));
        assert_eq!(fault("fio version 3 iolog\n5 f wait 100 0"), ("action", 4));
        assert_eq!(
            fault("fio version 3 iolog\n5 f read 9223372036854775808 512"),
            ("offset and length", 9)
        );
    }
}
