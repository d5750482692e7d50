//! SPC, as the UMass repository has it: `ASU,LBA,Size,Opcode,Timestamp[,...]`.

use super::{Event, Fault, scan::Cursor};
use crate::Op;

/// Bytes of a block, the unit of LBA. Sizes are bytes.
const BLOCK: u64 = 512;

pub(super) fn line(line: &[u8]) -> Result<Option<Event>, Fault> {
    let mut cursor = Cursor::new(line);
    if cursor.skip_blanks().is_none() {
        return Ok(None);
    }
    let start = cursor.at;
    cursor.number("ASU")?;
    let unit = start..cursor.at;
    cursor.comma("LBA")?;
    let at = cursor.at;
    let offset = cursor.scaled(
        "LBA",
        BLOCK,
        "512-byte blocks that make less than 2^64 bytes",
    )?;
    cursor.comma("Size")?;
    let length = cursor.number("Size")?;
    cursor.comma("Opcode")?;
    let opcode = cursor.at;
    let op = match cursor.field() {
        b"R" | b"r" => Op::Read,
        b"W" | b"w" => Op::Write,
        _ => {
            return Err(Fault {
                at: opcode,
                field: "Opcode",
                expected: "R or W",
            });
        }
    };
    cursor.comma("Timestamp")?;
    let time = cursor.seconds("Timestamp")?;
    cursor.end_or_comma("Timestamp")?;
    Event::new(time, unit, op, offset, length).in_bounds(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_units() {
        assert_eq!(
            line(b"0,20941264,8192,W,0.551706"),
            Ok(Some(Event::new(
                551_706_000,
                0..1,
                Op::Write,
                20_941_264 * 512,
                8192
            )))
        );
        assert_eq!(
            line(b"12, 5, 512, r, 3.5, extra, fields"),
            Ok(Some(Event::new(3_500_000_000, 0..2, Op::Read, 2560, 512)))
        );
        assert_eq!(
            line(b"0,1,512,w,7,"),
            Ok(Some(Event::new(7_000_000_000, 0..1, Op::Write, 512, 512)))
        );
        assert_eq!(line(b""), Ok(None));
    }

    #[test]
    fn faults_name_their_field() {
        let fault = |text: &[u8]| line(text).map_err(|f| (f.field, f.at)).unwrap_err();
        assert_eq!(fault(b"asu,1,2,R,0"), ("ASU", 0));
        assert_eq!(fault(b"0;1;2;R;0"), ("ASU", 0));
        assert_eq!(fault(b"0,36028797018963968,512,R,0"), ("LBA", 2));
        assert_eq!(
            fault(b"0,36028797018963967,512,R,0"),
            ("offset and length", 2)
        );
        assert_eq!(fault(b"0,1,,R,0"), ("Size", 4));
        assert_eq!(fault(b"0,1,512,X,0"), ("Opcode", 8));
        assert_eq!(fault(b"0,1,512,R"), ("Timestamp", 9));
        assert_eq!(fault(b"0,1,512,R,1e9"), ("Timestamp", 10));
    }
}
