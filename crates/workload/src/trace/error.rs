//! What is wrong with a line, and where.

use alloc::{boxed::Box, format, string::String};

/// The most of a line that an error repeats, in bytes.
const MAX_FOUND: usize = 32;

/// A field that is not what its format says: position and expectation, without a copy of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte of the line where the field begins, from 0.
    pub at: usize,
    /// The field's name in its format.
    pub field: &'static str,
    /// The form that was expected.
    pub expected: &'static str,
}

/// A [`Fault`] with its line number and what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}, {field}: found {found}, expected {expected}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: u64,
    /// The byte within it, from 1.
    pub column: usize,
    /// The field's name in its format.
    pub field: &'static str,
    /// What stands there, quoted and escaped, at most 32 bytes of it.
    pub found: String,
    /// The form that was expected.
    pub expected: &'static str,
}

impl Fault {
    /// The full error, for line number `number`, which reads `line`.
    #[cold]
    pub fn in_line(self, number: u64, line: &[u8]) -> Box<TraceError> {
        let rest = line.get(self.at..).unwrap_or_default();
        let delimiter = |b: &u8| matches!(b, b',' | b' ' | b'\t');
        // A wrong delimiter is shown itself.
        let length = rest.iter().position(delimiter).unwrap_or(rest.len()).max(1);
        self.at_token(number, rest.get(..length).unwrap_or_default())
    }

    /// The full error, where `token` is what was found.
    #[cold]
    pub(super) fn at_token(self, line: u64, token: &[u8]) -> Box<TraceError> {
        let Self {
            at,
            field,
            expected,
        } = self;
        let found = match token.get(..MAX_FOUND) {
            _ if token.is_empty() => String::from("the end of the line"),
            Some(start) if token.len() > MAX_FOUND => format!("\"{}\"...", start.escape_ascii()),
            _ => format!("\"{}\"", token.escape_ascii()),
        };
        Box::new(TraceError {
            line,
            column: at + 1,
            field,
            found,
            expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_message_says_where_what_and_what_for() {
        let fault = Fault {
            at: 2,
            field: "Size",
            expected: "a number",
        };
        let text = fault.in_line(7, b"a,xyz,b").to_string();
        assert_eq!(
            text,
            "line 7, column 3, Size: found \"xyz\", expected a number"
        );
        assert_eq!(fault.in_line(1, b"a,").found, "the end of the line");
        assert_eq!(fault.in_line(1, b"").found, "the end of the line");
        assert_eq!(fault.in_line(1, b"a,,b").found, "\",\"");
    }

    #[test]
    fn what_was_found_is_short_and_printable() {
        let found = Fault {
            at: 0,
            field: "",
            expected: "",
        }
        .in_line(1, &[0xff; 5000])
        .found;
        assert!(
            found.len() <= 4 * MAX_FOUND + 5 && found.is_ascii(),
            "{found}"
        );
    }
}
