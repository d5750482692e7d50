//! The data channel from the guest's helpers to the test, a stream of frames:
//!
//! ```text
//! say KEY=VALUE\n                  one value; the key has no `=`
//! KIND KEY LENGTH\n LENGTH bytes   a blob: `file`, or a manifest (`tree`)
//! exit STATUS\n                    the script has ended
//! ```

use std::io::{self, BufRead, Read};

/// A header longer than this is not one of ours.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// What a blob holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blob {
    /// Bytes that the script sent.
    File,
    /// Every entry of a tree.
    Tree,
}

/// One message of the guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A key with its value.
    Say { key: String, value: String },
    /// A named run of bytes.
    Blob {
        kind: Blob,
        key: String,
        bytes: Vec<u8>,
    },
    /// The script's exit status.
    Exit(i32),
}

/// The guest sent what its helpers never write.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The line is no frame header.
    #[error(
        "byte {offset}: found `{found}`, expected `say KEY=VALUE`, `KIND KEY LENGTH` or `exit STATUS`"
    )]
    Header {
        /// Where in the stream.
        offset: u64,
        /// The line that was read.
        found: String,
    },
    /// The stream ends within a frame.
    #[error("byte {offset}: the stream ends within a frame")]
    Truncated {
        /// Where in the stream.
        offset: u64,
    },
    /// More than a test could want.
    #[error("byte {offset}: {wanted} bytes more, but the channel takes {limit} bytes in all")]
    TooMuch {
        /// Where in the stream.
        offset: u64,
        /// What the next frame wants.
        wanted: u64,
        /// The most that is accepted.
        limit: u64,
    },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads frames from a pipe.
pub struct Frames<R> {
    input: R,
    offset: u64,
    limit: u64,
}

impl<R: BufRead> Frames<R> {
    /// Frames of `input`, at most `limit` bytes of them.
    pub fn new(input: R, limit: u64) -> Self {
        Self {
            input,
            offset: 0,
            limit,
        }
    }

    /// The next frame; none at the end of the stream.
    pub fn read(&mut self) -> Result<Option<Frame>, WireError> {
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let bad = || WireError::Header {
            offset: self.offset,
            found: line.chars().take(200).collect(),
        };
        let (kind, rest) = line.split_once(' ').ok_or_else(bad)?;
        let frame = match kind {
            "say" => rest
                .split_once('=')
                .map(|(key, value)| Frame::Say {
                    key: key.into(),
                    value: value.into(),
                })
                .ok_or_else(bad)?,
            "exit" => Frame::Exit(rest.parse().map_err(|_| bad())?),
            _ => {
                let kind = blob(kind).ok_or_else(bad)?;
                let (key, length) = rest.rsplit_once(' ').ok_or_else(bad)?;
                let key = key.into();
                let length = length.parse().map_err(|_| bad())?;
                Frame::Blob {
                    kind,
                    key,
                    bytes: self.bytes(length)?,
                }
            }
        };
        Ok(Some(frame))
    }

    /// The next line, without its end; what is not UTF-8 in it is replaced.
    fn line(&mut self) -> Result<Option<String>, WireError> {
        self.afford(0)?;
        let mut line = Vec::new();
        let read = (&mut self.input)
            .take(HEADER_BYTES_MAX)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            return Err(match read as u64 {
                HEADER_BYTES_MAX => WireError::Header {
                    offset: self.offset,
                    found: "a line without end".into(),
                },
                _ => WireError::Truncated {
                    offset: self.offset,
                },
            });
        }
        self.offset += read as u64;
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, WireError> {
        self.afford(length)?;
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(length).read_to_end(&mut bytes)?;
        self.offset += read as u64;
        if read as u64 == length {
            Ok(bytes)
        } else {
            Err(WireError::Truncated {
                offset: self.offset,
            })
        }
    }

    fn afford(&self, wanted: u64) -> Result<(), WireError> {
        match self.offset.checked_add(wanted) {
            Some(end) if end <= self.limit => Ok(()),
            _ => Err(WireError::TooMuch {
                offset: self.offset,
                wanted,
                limit: self.limit,
            }),
        }
    }
}

fn blob(kind: &str) -> Option<Blob> {
    Some(match kind {
        "file" => Blob::File,
        "tree" => Blob::Tree,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(input: &[u8]) -> Result<Vec<Frame>, WireError> {
        let mut frames = Frames::new(input, 1000);
        std::iter::from_fn(|| frames.read().transpose()).collect()
    }

    #[test]
    fn values_blobs_and_the_exit_status_arrive_in_order() {
        let expected = vec![
            Frame::Say {
                key: "a".into(),
                value: "b=c d".into(),
            },
            Frame::Blob {
                kind: Blob::File,
                key: "two words".into(),
                bytes: b"1\n\0\xff".into(),
            },
            Frame::Say {
                key: "a".into(),
                value: "".into(),
            },
            Frame::Exit(7),
        ];
        assert_eq!(
            frames(b"say a=b=c d\nfile two words 4\n1\n\0\xffsay a=\nexit 7\n").unwrap(),
            expected
        );
    }

    #[test]
    fn anything_else_is_an_error_that_tells_where() {
        assert!(matches!(
            frames(b"say a=1\nnoise\n"),
            Err(WireError::Header { offset: 14, .. })
        ));
        assert!(matches!(
            frames(b"file x many\n"),
            Err(WireError::Header { .. })
        ));
        assert!(matches!(
            frames(&[b'x'; 100_000]),
            Err(WireError::Header { offset: 0, .. })
        ));
        assert!(matches!(
            frames(b"say a=1"),
            Err(WireError::Truncated { offset: 0 })
        ));
        assert!(matches!(
            frames(b"file x 9\nshort"),
            Err(WireError::Truncated { offset: 14 })
        ));
    }

    #[test]
    fn a_guest_cannot_make_the_test_hold_more_than_the_limit() {
        assert!(matches!(
            frames(b"file x 991\n"),
            Err(WireError::TooMuch {
                wanted: 991,
                limit: 1000,
                ..
            })
        ));
        assert!(matches!(
            frames(b"file x 18446744073709551615\n"),
            Err(WireError::TooMuch { .. })
        ));
        assert!(matches!(
            frames(&b"say a=1\n".repeat(200)),
            Err(WireError::TooMuch { .. })
        ));
    }
}
