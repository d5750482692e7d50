//! blkparse's default text: `major,minor cpu sequence seconds.nanoseconds pid action RWBS sector +
//! sectors [process]`.
//!
//! One action tells the story once; the others are the same requests at other stations.

use super::{Event, Fault, scan::Cursor};
use crate::Op;

/// Bytes of a sector here, whatever the device's are.
const SECTOR: u64 = 512;
const RWBS: &str = "R, W, D or N with F, S, M, A, B, E or U around it";

/// At which station of its way a request is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `Q`, as it enters the block layer: what the workload asked for.
    #[default]
    Queue,
    /// `D`, as it is issued to the driver: after merging, splitting and sorting.
    Issue,
    /// `C`, as it completes.
    Complete,
}

impl Action {
    fn letter(self) -> &'static [u8] {
        match self {
            Self::Queue => b"Q",
            Self::Issue => b"D",
            Self::Complete => b"C",
        }
    }
}

/// Whether the summary at the end has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    summary: bool,
}

impl State {
    #[inline]
    pub(super) fn line(&mut self, line: &[u8], action: Action) -> Result<Option<Event>, Fault> {
        let mut cursor = Cursor::new(line);
        match cursor.skip_blanks() {
            Some(b'0'..=b'9') if !self.summary => event(cursor, action),
            Some(_) => {
                // Blank lines, messages of blkparse's own and per-process statistics are passed
                // over; from the first of these headings on nothing is an event.
                let rest = &line[cursor.at..];
                self.summary |= (rest.starts_with(b"CPU") || rest.starts_with(b"Total"))
                    && rest.contains(&b'(');
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

#[inline]
fn event(mut cursor: Cursor<'_>, wanted: Action) -> Result<Option<Event>, Fault> {
    let start = cursor.at;
    cursor.digits("device")?;
    cursor.comma("device")?;
    cursor.number("device")?;
    let unit = start..cursor.at;
    cursor.number("CPU")?;
    cursor.number("sequence")?;
    let time = cursor.seconds("time")?;
    cursor.number("PID")?;
    cursor.skip_blanks();
    let at = cursor.at;
    let action = cursor.word();
    if action != wanted.letter() {
        let known = action.first().is_some_and(u8::is_ascii_alphabetic);
        return if known {
            Ok(None)
        } else {
            Err(Fault {
                at,
                field: "action",
                expected: "a letter such as Q, D or C",
            })
        };
    }
    let flags = Flags::parse(&mut cursor)?;
    request(&mut cursor, Event::flush(time, unit), flags)
}

/// The rest of the line, for the event `flush` that it is if it has no extent.
#[inline]
fn request(cursor: &mut Cursor<'_>, flush: Event, flags: Flags) -> Result<Option<Event>, Fault> {
    cursor.skip_blanks();
    let at = cursor.at;
    if let Some(b'0'..=b'9') = cursor.peek() {
        let offset = cursor.scaled("sector", SECTOR, "a sector below 2^64 bytes")?;
        // A number without a plus is the sector of a request without data, or the length of a SCSI
        // command.
        if cursor.skip_blanks() == Some(b'+') {
            cursor.at += 1;
            let length = cursor.scaled("sectors", SECTOR, "fewer than 2^64 bytes")?;
            return flags
                .extent(flush, offset, length)
                .map_or(Ok(None), |event| event.in_bounds(at));
        }
    } else if !matches!(cursor.peek(), None | Some(b'[' | b'(')) {
        return Err(Fault {
            at,
            field: "sector",
            expected: "sector + sectors, or [process]",
        });
    }
    Ok(flags.flushes().then_some(flush))
}

/// The letters of blkparse's RWBS field.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    op: Option<Op>,
    before: bool,
    after: bool,
}

impl Flags {
    #[inline]
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        cursor.skip_blanks();
        let at = cursor.at;
        let word = cursor.word();
        let mut flags = Self::default();
        let mut data_seen = false;
        for letter in word {
            match letter {
                b'R' | b'W' | b'D' | b'N' => {
                    data_seen = true;
                    flags.op = [(b'R', Op::Read), (b'W', Op::Write), (b'D', Op::Discard)]
                        .iter()
                        .find(|(l, _)| l == letter)
                        .map(|&(_, op)| op);
                }
                // Before the direction it is a preflush, after it force unit access; the barrier of
                // old kernels is both.
                b'F' if data_seen => flags.after = true,
                b'F' => flags.before = true,
                b'B' => (flags.before, flags.after) = (true, true),
                b'S' | b'M' | b'A' | b'E' | b'U' => (),
                _ => {
                    return Err(Fault {
                        at,
                        field: "RWBS",
                        expected: RWBS,
                    });
                }
            }
        }
        if word.is_empty() {
            Err(Fault {
                at,
                field: "RWBS",
                expected: RWBS,
            })
        } else {
            Ok(flags)
        }
    }

    fn flushes(self) -> bool {
        self.before || self.after
    }

    /// The request for an extent; a flush if it has no direction or no length, none if it is not
    /// even that.
    #[inline]
    fn extent(self, flush: Event, offset: u64, length: u64) -> Option<Event> {
        match self.op {
            None => self.flushes().then_some(flush),
            Some(_) if length == 0 && self.flushes() => Some(flush),
            Some(op) => Some(Event {
                op,
                offset,
                length,
                flush_before: self.before,
                flush_after: self.after,
                ..flush
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Event>, Fault> {
        State::default().line(text.as_bytes(), Action::Queue)
    }

    fn q(rwbs: &str, rest: &str) -> Option<Event> {
        parse(&std::format!(
            "  8,0    3       11     0.009507758   697  Q {rwbs:>3} {rest}"
        ))
        .unwrap()
    }

    const TIME: u64 = 9_507_758;

    #[test]
    fn fields_and_units() {
        assert_eq!(
            q("R", "223490 + 56 [bash]"),
            Some(Event::new(TIME, 2..5, Op::Read, 223_490 * 512, 56 * 512))
        );
        assert_eq!(
            q("WSM", "8 + 8 [a b c]"),
            Some(Event::new(TIME, 2..5, Op::Write, 4096, 4096))
        );
        assert_eq!(
            q("DS", "0 + 2048 [fstrim]"),
            Some(Event::new(TIME, 2..5, Op::Discard, 0, 1 << 20))
        );
        assert_eq!(
            q("RA", "8 + 8 (    1234) [x]").map(|e| e.op),
            Some(Op::Read)
        );
        let wide = parse("259,1048575 12 123456789 123456.000000001 4194304  Q  WS 8 + 8 [x]")
            .unwrap()
            .unwrap();
        assert_eq!((wide.time, wide.unit), (123_456_000_000_001, 0..11));
    }

    #[test]
    fn flush_letters_stand_before_or_after_the_direction() {
        let flags = |rwbs| q(rwbs, "8 + 8 [x]").map(|e| (e.op, e.flush_before, e.flush_after));
        assert_eq!(flags("FWS"), Some((Op::Write, true, false)));
        assert_eq!(flags("WFS"), Some((Op::Write, false, true)));
        assert_eq!(flags("FWFSM"), Some((Op::Write, true, true)));
        assert_eq!(flags("WBS"), Some((Op::Write, true, true)));
        let flush = Some(Event::flush(TIME, 2..5));
        assert_eq!(
            (
                q("FWS", "[jbd2/sda1-8]"),
                q("FN", "[kworker]"),
                q("F", "0 [0]"),
                q("FN", "0 + 0 [x]")
            ),
            (flush.clone(), flush.clone(), flush.clone(), flush)
        );
    }

    #[test]
    fn other_actions_and_commands_hold_nothing() {
        for rest in [
            "G   W 223490 + 8 [x]",
            "P   N [x]",
            "U   N [x] 3",
            "UT  N [x] 1",
            "m   N cfq697 insert_request",
            "X  WS 8 / 16 [x]",
            "A   W 8 + 8 <- (8,1) 0",
            "M   W 16 + 8 [x]",
            "I   W 8 + 8 [x]",
            "C   W 8 + 8 [0]",
            "D   R 36 (12 01 00 00 24 00) [udev]",
            "Q   R 36 (12 01 00 00 24 00) [udev]",
            "Q   N 0 [x]",
        ] {
            assert_eq!(
                parse(&std::format!("  8,0 3 1 0.000000000 697  {rest}")),
                Ok(None),
                "{rest}"
            );
        }
    }

    #[test]
    fn the_action_can_be_chosen() {
        let line = b"  8,0    3       15     0.009515000   697  C   W 8 + 8 [0]";
        assert!(matches!(
            State::default().line(line, Action::Complete),
            Ok(Some(_))
        ));
        assert_eq!(State::default().line(line, Action::Issue), Ok(None));
    }

    #[test]
    fn summaries_hold_nothing() {
        let mut state = State::default();
        let text = "bash (697)\n Reads Queued:          1,        4KiB\t Writes Queued:           0,        0KiB\n\nCPU0 (sda):\n Reads Queued:          60,      240KiB\n\
            Total (sda):\n IO unplugs:         1,193      \t Timer unplugs:         859\n\nThroughput (R/W): 2KiB/s / 46,340KiB/s\nEvents (sda): 1,234 entries\n\
            Skips: 0 forward (0 -   0.0%)\n8,0 is no event here";
        assert!(
            text.lines()
                .all(|line| state.line(line.as_bytes(), Action::Queue) == Ok(None))
        );
    }

    #[test]
    fn faults_name_their_field() {
        let fault = |text: &str| parse(text).map_err(|f| (f.field, f.at)).unwrap_err();
        assert_eq!(fault("8.0 3 1 0.0 697 Q W 8 + 8 [x]"), ("device", 1));
        assert_eq!(fault("8,0 c 1 0.0 697 Q W 8 + 8 [x]"), ("CPU", 4));
        assert_eq!(fault("8,0 3 1 soon 697 Q W 8 + 8 [x]"), ("time", 8));
        assert_eq!(fault("8,0 3 1 0.0 697"), ("action", 15));
        assert_eq!(fault("8,0 3 1 0.0 697 Q"), ("RWBS", 17));
        assert_eq!(fault("8,0 3 1 0.0 697 Q X 8 + 8 [x]"), ("RWBS", 18));
        assert_eq!(fault("8,0 3 1 0.0 697 Q W x + 8 [x]"), ("sector", 20));
        assert_eq!(
            fault("8,0 3 1 0.0 697 Q W 36028797018963968 + 8 [x]"),
            ("sector", 20)
        );
        assert_eq!(fault("8,0 3 1 0.0 697 Q W 8 + [x]"), ("sectors", 24));
    }
}
