//! The formats, and telling them apart by content.

use super::{Action, Parser, TraceError};
use alloc::boxed::Box;
use core::fmt;

/// The layout of a trace's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSR Cambridge: comma separated, times in 100 ns ticks.
    Msr,
    /// The default text of blkparse.
    Blkparse,
    /// fio's iolog, version 2 or 3, as its first line says.
    Fio,
    /// SPC, as in the UMass repository: ASU, LBA, size, opcode, seconds.
    Spc,
}

impl Format {
    /// Guesses the format from the first few lines of a trace: that of the first line that records
    /// a request in one of them. None if no line does. `head` should hold whole lines; a part of
    /// one at its end can at worst go unrecognised.
    pub fn detect(head: &[u8]) -> Option<Self> {
        head.split(|&b| b == b'\n')
            .find_map(|line| Self::of_line(line.trim_ascii_end()))
    }

    /// Of a trace in no format, the format that comes nearest: of its first line that is not
    /// blank, the one with most right fields, and what is wrong behind them.
    pub fn nearest(head: &[u8]) -> Option<(Self, Box<TraceError>)> {
        let mut lines = (1..).zip(head.split(|&b| b == b'\n'));
        let (number, line) = lines.find(|(_, line)| !line.trim_ascii().is_empty())?;
        let faults = [Self::Msr, Self::Spc, Self::Blkparse].map(|format| {
            let fault = Parser::new(format, Action::Queue).line(line).err();
            fault.map(|fault| (format, fault))
        });
        let most = faults.into_iter().flatten();
        let (format, fault) = most.max_by_key(|(_, fault)| fault.at)?;
        (fault.at > 0).then(|| (format, fault.in_line(number, line)))
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        if line.starts_with(b"fio version ") {
            return Some(Self::Fio);
        }
        let actions =
            [Action::Queue, Action::Issue, Action::Complete].map(|action| (Self::Blkparse, action));
        let candidates = [(Self::Msr, Action::Queue), (Self::Spc, Action::Queue)]
            .into_iter()
            .chain(actions);
        let mut fitting = candidates.filter(|&(format, action)| {
            matches!(Parser::new(format, action).line(line), Ok(Some(_)))
        });
        fitting.next().map(|(format, _)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Msr => "MSR",
            Self::Blkparse => "blkparse",
            Self::Fio => "fio",
            Self::Spc => "SPC",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_content() {
        let detect = |text: &str| Format::detect(text.as_bytes());
        assert_eq!(
            detect(
                "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n128166372003061629,usr,0,Read,7014609920,24576,41286\r\n"
            ),
            Some(Format::Msr)
        );
        assert_eq!(
            detect("\n\nfio version 2 iolog\n/dev/sda add\n"),
            Some(Format::Fio)
        );
        assert_eq!(detect("fio version 3 iolog\n"), Some(Format::Fio));
        assert_eq!(detect("0,20941264,8192,W,0.551706\n"), Some(Format::Spc));
        assert_eq!(
            detect(
                "  8,0 3 1 0.000000000 697  G   W 223490 + 8 [kjournald]\n  8,0 3 2 0.000001829 697  D   W 223490 + 8 [kjournald]\n"
            ),
            Some(Format::Blkparse)
        );
        assert_eq!(detect("offset,length\n1,2\n"), None);
        assert_eq!(detect(""), None);
    }

    #[test]
    fn of_a_trace_in_no_format_the_nearest_one_says_what_is_wrong() {
        let nearest = |text: &str| Format::nearest(text.as_bytes());
        let (format, error) =
            nearest("\n128166372003061629,usr,0,Read,18446744073709551615,512,1").unwrap();
        assert_eq!(format, Format::Msr);
        let expected = "line 2, column 31, offset and length: found \"18446744073709551615\", \
                        expected an extent that ends below 2^63 bytes";
        assert_eq!(alloc::format!("{error}"), expected);
        assert!(nearest("hello").is_none() && nearest("\n \n").is_none());
    }
}
