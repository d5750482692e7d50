//! Where lines come from.

use alloc::string::String;
use memchr::memchr;

/// The longest line that is read, in bytes without its newline. No format comes near it.
pub const MAX_LINE: usize = 4096;

/// A line that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line goes on beyond the limit; binary data, most likely.
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    /// The source cannot be read a second time.
    #[error("the trace cannot be read again from its start")]
    NoRewind,
    /// The source failed, in its own words.
    #[error("{0}")]
    Failed(String),
}

/// Text, line by line. An implementation needs to hold one line of [`MAX_LINE`] bytes and no more;
/// it refuses longer ones with [`LineError::TooLong`].
pub trait Lines {
    /// The next line without its newline (a carriage return before that may stay), or none at the
    /// end. The last line needs no newline.
    fn line(&mut self) -> Result<Option<&[u8]>, LineError>;

    /// Back to the first line.
    fn rewind(&mut self) -> Result<(), LineError>;
}

/// The lines of a text in memory.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }
}

impl Lines for Text<'_> {
    #[inline]
    fn line(&mut self) -> Result<Option<&[u8]>, LineError> {
        let rest = &self.text[self.at..];
        // A longest line with carriage return and newline; nothing beyond is looked at.
        let window = &rest[..rest.len().min(MAX_LINE + 2)];
        let line = match memchr(b'\n', window) {
            Some(end) => &window[..end],
            None if window.is_empty() => return Ok(None),
            None => window,
        };
        if line.len() > MAX_LINE + 1 {
            return Err(LineError::TooLong);
        }
        self.at = (self.at + line.len() + 1).min(self.text.len());
        Ok(Some(line))
    }

    fn rewind(&mut self) -> Result<(), LineError> {
        self.at = 0;
        Ok(())
    }
}

impl<L: Lines + ?Sized> Lines for alloc::boxed::Box<L> {
    fn line(&mut self) -> Result<Option<&[u8]>, LineError> {
        (**self).line()
    }

    fn rewind(&mut self) -> Result<(), LineError> {
        (**self).rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    fn lines(text: &str) -> Vec<Vec<u8>> {
        let mut text = Text::from(text.as_bytes());
        core::iter::from_fn(|| text.line().unwrap().map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn a_last_newline_may_be_there_or_not() {
        assert_eq!(lines("a\nb\n"), [b"a", b"b"]);
        assert_eq!(lines("a\nb"), [b"a", b"b"]);
        assert_eq!(lines("\n\na"), [&b""[..], b"", b"a"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let text = vec![b'x'; 10 * MAX_LINE];
        let mut text = Text::from(&text[..]);
        assert_eq!(text.line(), Err(LineError::TooLong));
        assert_eq!(text.line(), Err(LineError::TooLong));
    }
}
