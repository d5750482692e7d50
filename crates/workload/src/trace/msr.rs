//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.

use super::{Event, Fault, scan::Cursor};
use crate::Op;

/// Nanoseconds of a Windows file time tick.
const TICK: u64 = 100;

pub(super) fn line(line: &[u8]) -> Result<Option<Event>, Fault> {
    let mut cursor = Cursor::new(line);
    if cursor.skip_blanks().is_none() || line[cursor.at..].starts_with(b"Timestamp") {
        return Ok(None);
    }
    let time = cursor.scaled(
        "Timestamp",
        TICK,
        "100 ns ticks that make less than 2^64 ns",
    )?;
    cursor.comma("Hostname")?;
    let start = cursor.at;
    cursor.field();
    cursor.comma("DiskNumber")?;
    cursor.number("DiskNumber")?;
    let unit = start..cursor.at;
    cursor.comma("Type")?;
    let at = cursor.at;
    let op = match cursor.field() {
        b"Read" => Op::Read,
        b"Write" => Op::Write,
        word if word.eq_ignore_ascii_case(b"read") => Op::Read,
        word if word.eq_ignore_ascii_case(b"write") => Op::Write,
        _ => {
            return Err(Fault {
                at,
                field: "Type",
                expected: "Read or Write",
            });
        }
    };
    cursor.comma("Offset")?;
    let at = cursor.at;
    let offset = cursor.number("Offset")?;
    cursor.comma("Size")?;
    let length = cursor.number("Size")?;
    cursor.end_or_comma("Size")?;
    Event::new(time, unit, op, offset, length).in_bounds(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_units() {
        let text = b"128166372003061629,usr,0,Read,7014609920,24576,41286";
        let event = line(text).unwrap().unwrap();
        assert_eq!(
            event,
            Event::new(
                12_816_637_200_306_162_900,
                19..24,
                Op::Read,
                7_014_609_920,
                24_576
            )
        );
        assert_eq!(&text[event.unit], b"usr,0");
    }

    #[test]
    fn response_time_may_be_absent_and_case_is_free() {
        assert_eq!(
            line(b"1,a,0,WRITE,512,1024"),
            Ok(Some(Event::new(100, 2..5, Op::Write, 512, 1024)))
        );
        assert_eq!(
            line(b" 1 , a , 0 , write , 512 , 1024 , 5"),
            line(b" 1 , a , 0 , Write , 512 , 1024 ")
        );
    }

    #[test]
    fn heading_and_blank_lines_hold_nothing() {
        assert_eq!(
            line(b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
            Ok(None)
        );
        assert_eq!((line(b""), line(b" \t")), (Ok(None), Ok(None)));
    }

    #[test]
    fn faults_name_their_field() {
        let fault = |text: &[u8]| line(text).map_err(|f| (f.field, f.at)).unwrap_err();
        assert_eq!(fault(b"x,usr,0,Read,1,2,3"), ("Timestamp", 0));
        assert_eq!(
            fault(b"184467440737095517,usr,0,Read,1,2,3"),
            ("Timestamp", 0)
        );
        assert_eq!(fault(b"1"), ("Hostname", 1));
        assert_eq!(fault(b"1,usr"), ("DiskNumber", 5));
        assert_eq!(fault(b"1,usr,zero,Read,1,2,3"), ("DiskNumber", 6));
        assert_eq!(fault(b"1,usr,0,Trim,1,2,3"), ("Type", 8));
        assert_eq!(fault(b"1,usr,0,Read,-1,2,3"), ("Offset", 13));
        assert_eq!(fault(b"1,usr,0,Read,1"), ("Size", 14));
        assert_eq!(
            fault(b"1,usr,0,Read,1,99999999999999999999,3"),
            ("Size", 15)
        );
        assert_eq!(fault(b"1,usr,0,Read,1,2 3"), ("Size", 17));
        assert_eq!(
            fault(b"1,usr,0,Read,9223372036854775807,1,3"),
            ("offset and length", 13)
        );
    }
}
