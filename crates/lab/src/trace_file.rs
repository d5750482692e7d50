//! A trace in a file of the operating system, laid onto a device.

use crate::feed::{BATCH, Feed};
use memchr::memchr;
use nandlab_workload::fit::Target;
use nandlab_workload::trace::{Format, LineError, Lines, MAX_LINE, Options, Reader, TraceError};
use nandlab_workload::{Fit, Fitted, Request, Source, Survey, WorkloadError};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// As much of a trace as is looked at to tell its format, in bytes.
const HEAD: u64 = 64 << 10;

/// A recorded workload, as a description names it.
#[derive(Clone, Debug)]
pub struct TraceDescription {
    /// The file that holds the trace.
    pub file: PathBuf,
    /// Its format; none: detected by its content.
    pub format: Option<Format>,
    /// How it is read.
    pub options: Options,
    /// How it is laid onto the device.
    pub fit: FitRule,
    /// Arrival times are multiplied by this.
    pub time_scale: f64,
}

impl TraceDescription {
    /// Why the trace is read more than once, if it is.
    fn read_again(&self) -> Option<&'static str> {
        if self.fit == FitRule::Scale(None) {
            Some("workload.fit = \"scale\" without workload.span reads it twice")
        } else if self.options.passes.get() > 1 {
            Some("workload.passes reads it several times")
        } else {
            None
        }
    }
}

/// What to do with requests beyond the device's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitRule {
    /// Stop with an error.
    Refuse,
    /// Offsets modulo the device.
    Wrap,
    /// Offsets scaled down from the trace's span in bytes; none: found by reading the trace first.
    Scale(Option<u64>),
}

/// A trace that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(
        "{}: found no request of a known format in its first 64 KiB, expected MSR, blkparse, \
         fio or SPC lines; workload.format tells which{}",
        path.display(),
        as_nearest(nearest)
    )]
    UnknownFormat {
        path: PathBuf,
        /// The format that comes nearest, and what is wrong in it.
        nearest: Option<(Format, Box<TraceError>)>,
    },
    /// A pipe cannot be read again.
    #[error(
        "{}: found a pipe, which can be read once, expected a file, since {why}; write the \
         trace into a file first",
        path.display()
    )]
    Pipe {
        path: PathBuf,
        /// Why it is read again.
        why: &'static str,
    },
    /// A line or a request is wrong.
    #[error("{}", in_file(path, error))]
    Content {
        path: PathBuf,
        /// The wrong line and the reason.
        error: WorkloadError,
    },
}

/// `file:line:column: what`, as far as it is known.
fn in_file(path: &Path, error: &WorkloadError) -> String {
    let path = path.display();
    match error {
        WorkloadError::Trace(e) => format!(
            "{path}:{}:{}: {}: found {}, expected {}",
            e.line, e.column, e.field, e.found, e.expected
        ),
        WorkloadError::Lines { line, error } => format!("{path}:{line}: {error}"),
        WorkloadError::OutOfRange { .. } => {
            format!(
                "{path}: {error}; workload.fit = \"wrap\" or \"scale\" lays a trace onto a smaller device"
            )
        }
        other => format!("{path}: {other}"),
    }
}

/// Bytes of one read.
const BUFFER: usize = 256 << 10;
/// A longest line with carriage return and newline; one byte more tells a longer one.
const WINDOW: usize = MAX_LINE + 3;

/// The lines of a file or a pipe, out of one buffer.
struct FileLines {
    /// The beginning of a pipe, read to tell the format, and what follows.
    source: io::Chain<io::Cursor<Vec<u8>>, File>,
    buffer: Box<[u8]>,
    /// The part of the buffer that holds the next lines.
    unread: Range<usize>,
    /// Bytes read so far, over all passes.
    read: Rc<Cell<u64>>,
}

impl FileLines {
    fn new(trace: Opened, read: Rc<Cell<u64>>) -> Self {
        Self {
            source: io::Cursor::new(trace.head).chain(trace.rest),
            buffer: vec![0; BUFFER].into(),
            unread: 0..0,
            read,
        }
    }

    /// Moves the rest of the buffer to its front and reads on; false at the end.
    #[cold]
    fn fill(&mut self) -> Result<bool, LineError> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        loop {
            match self.source.read(&mut self.buffer[self.unread.end..]) {
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LineError::Failed(error.to_string())),
            }
        }
    }
}

impl Lines for FileLines {
    #[inline]
    fn line(&mut self) -> Result<Option<&[u8]>, LineError> {
        let (length, newline) = loop {
            let unread = &self.buffer[self.unread.clone()];
            let window = &unread[..unread.len().min(WINDOW)];
            match memchr(b'\n', window) {
                Some(end) => break (end, 1),
                None if window.len() == WINDOW => return Err(LineError::TooLong),
                None => {
                    if !self.fill()? {
                        break (self.unread.len(), 0);
                    }
                }
            }
        };
        if length + newline == 0 {
            return Ok(None);
        }
        if length > MAX_LINE + 1 {
            return Err(LineError::TooLong);
        }
        let start = self.unread.start;
        self.unread.start += length + newline;
        self.read.set(self.read.get() + (length + newline) as u64);
        Ok(Some(&self.buffer[start..start + length]))
    }

    fn rewind(&mut self) -> Result<(), LineError> {
        self.unread = 0..0;
        let (head, rest) = self.source.get_mut();
        head.set_position(head.get_ref().len() as u64);
        rest.rewind()
            .map_err(|error| LineError::Failed(error.to_string()))
    }
}

/// What is wrong in the format that comes nearest, for an error that names none.
fn as_nearest(nearest: &Option<(Format, Box<TraceError>)>) -> String {
    let reported = |(format, error): &(Format, _)| format!("; read as {format}: {error}");
    nearest.as_ref().map_or(String::new(), reported)
}

/// A trace, opened once: a pipe gives its bytes to nobody else.
struct Opened {
    /// Bytes that were read ahead of `rest`.
    head: Vec<u8>,
    rest: File,
    format: Option<Format>,
    /// Where no format fits: see [`Format::nearest`].
    nearest: Option<(Format, Box<TraceError>)>,
    pipe: bool,
}

impl Opened {
    fn new(path: &Path, format: Option<Format>) -> io::Result<Self> {
        let mut opened = Self {
            head: Vec::new(),
            rest: File::open(path)?,
            format,
            nearest: None,
            pipe: false,
        };
        if format.is_none() {
            (&opened.rest).take(HEAD).read_to_end(&mut opened.head)?;
            opened.format = Format::detect(&opened.head);
        }
        if opened.format.is_none() {
            opened.nearest = Format::nearest(&opened.head);
        }
        match opened.rest.rewind() {
            Ok(()) => opened.head.clear(),
            Err(_) => opened.pipe = true,
        }
        Ok(opened)
    }
}

/// A trace under way.
pub(crate) struct TraceFeed {
    source: Fitted<Reader<FileLines>>,
    read: Rc<Cell<u64>>,
    total: u64,
    path: PathBuf,
}

impl TraceFeed {
    /// Opens the trace for a device of so many bytes in sectors of so many.
    pub(crate) fn open(
        description: &TraceDescription,
        bytes: u64,
        sector: u64,
    ) -> Result<Self, TraceFileError> {
        let path = &description.file;
        let in_file = |error| TraceFileError::File {
            path: path.clone(),
            error,
        };
        let opened = Opened::new(path, description.format).map_err(in_file)?;
        let format = opened.format.ok_or_else(|| TraceFileError::UnknownFormat {
            path: path.clone(),
            nearest: opened.nearest.clone(),
        })?;
        if let Some(why) = description.read_again().filter(|_| opened.pipe) {
            let path = path.clone();
            return Err(TraceFileError::Pipe { path, why });
        }
        let total = opened.rest.metadata().map_err(in_file)?.len();
        let read = Rc::new(Cell::new(0));
        let reader = |opened| {
            let lines = FileLines::new(opened, read.clone());
            Reader::from_lines(lines, format, description.options.clone())
        };
        let content = |error| TraceFileError::Content {
            path: path.clone(),
            error,
        };
        let fit = match description.fit {
            FitRule::Refuse => Fit::Refuse,
            FitRule::Wrap => Fit::Wrap,
            FitRule::Scale(Some(span)) => Fit::Scale { span },
            FitRule::Scale(None) => Fit::Scale {
                span: {
                    let again = Opened::new(path, Some(format)).map_err(in_file)?;
                    let survey = Survey::of(&mut reader(again)).map_err(content)?;
                    survey.end.max(1)
                },
            },
        };
        let target = Target {
            sector,
            bytes,
            fit,
            time_scale: description.time_scale,
        };
        let source = Fitted::new(reader(opened), target).map_err(content)?;
        read.set(0);
        Ok(Self {
            source,
            read,
            total: total.saturating_mul(description.options.passes.get()),
            path: path.clone(),
        })
    }
}

impl Source for TraceFeed {
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        self.source.next()
    }
}

impl Feed for TraceFeed {
    fn draw(&mut self, into: &mut Vec<Request>) -> Result<(), WorkloadError> {
        for _ in 0..BATCH {
            let Some(request) = self.source.next()? else {
                break;
            };
            into.push(request);
        }
        Ok(())
    }

    fn share_done(&self) -> f64 {
        match self.total {
            // The length of a pipe is unknown.
            0 => 0.0,
            total => self.read.get() as f64 / total as f64,
        }
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn notes(&self) -> Vec<String> {
        let counts = self.source.source().counts();
        let adjusted = self.source.adjusted();
        let notes = [
            (
                counts.other_units,
                "requests to other units were left out".to_string(),
            ),
            (
                counts.empty,
                "requests of length 0 were left out".to_string(),
            ),
            (
                counts.backwards,
                format!(
                    "requests came earlier than the one before them, by {} ns at most, and took its time",
                    counts.backwards_max
                ),
            ),
            (
                adjusted.rounded,
                format!(
                    "requests were rounded out to whole sectors, {} bytes in all",
                    adjusted.rounded_bytes
                ),
            ),
            (
                adjusted.moved,
                "requests were moved to lie on the device".to_string(),
            ),
            (
                adjusted.cut,
                format!(
                    "requests longer than the device were cut, {} bytes in all",
                    adjusted.cut_bytes
                ),
            ),
        ];
        notes
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open(
        text: &[u8],
        fit: FitRule,
        format: Option<Format>,
    ) -> Result<TraceFeed, TraceFileError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let description = TraceDescription {
            file: file.path().into(),
            format,
            options: Options::default(),
            fit,
            time_scale: 1.0,
        };
        TraceFeed::open(&description, 1 << 20, 512)
    }

    const SPC: &[u8] = b"0,0,512,W,0\n0,4095,1000,R,0.5\n";

    #[test]
    fn a_trace_is_fitted_and_what_changed_is_said() {
        let mut feed = open(SPC, FitRule::Wrap, None).unwrap();
        let offsets: Vec<u64> = std::iter::from_fn(|| feed.next().unwrap())
            .map(|r| r.offset)
            .collect();
        assert_eq!(
            (offsets, feed.share_done()),
            (vec![0, (1 << 20) - 1024], 1.0)
        );
        assert_eq!(
            feed.notes(),
            [
                "1 requests were rounded out to whole sectors, 24 bytes in all",
                "1 requests were moved to lie on the device"
            ]
        );
        let mut scaled = open(SPC, FitRule::Scale(None), None).unwrap();
        let last = std::iter::from_fn(|| scaled.next().unwrap())
            .last()
            .unwrap();
        assert!(
            last.offset + last.length <= 1 << 20 && last.offset > 1 << 19,
            "{last:?}"
        );
    }

    #[test]
    fn a_line_that_never_ends_is_an_error_with_its_number() {
        let text = [b"0,0,512,W,0\n".as_slice(), &vec![b'7'; 1 << 20]].concat();
        let mut feed = open(&text, FitRule::Wrap, None).unwrap();
        feed.next().unwrap();
        assert_eq!(
            feed.next().unwrap_err().to_string(),
            "line 2: longer than 4096 bytes"
        );
    }

    #[test]
    fn lines_of_a_file_are_those_of_its_text() {
        use nandlab_workload::trace::Text;
        for text in [
            "",
            "\n",
            "a",
            "a\n",
            "a\r\n\nb",
            &"x".repeat(MAX_LINE),
            &format!("{}\r\n", "x".repeat(MAX_LINE)),
            &"x".repeat(MAX_LINE + 1),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let opened = Opened::new(file.path(), None).unwrap();
            let mut ours = FileLines::new(opened, Rc::default());
            let mut theirs = Text::from(text.as_bytes());
            loop {
                let a = ours.line();
                let b = theirs.line();
                assert_eq!(a, b);
                if matches!(b, Ok(None) | Err(_)) {
                    break;
                }
            }
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_in_words() {
        let error = |text: &[u8], format| {
            open(text, FitRule::Refuse, format)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(error(b"hello\n", None).contains(": found no request of a known format"));
        assert!(error(b"", None).contains("expected MSR, blkparse, fio or SPC"));
        let mut feed = open(b"0,1,512,Q,0\n", FitRule::Refuse, Some(Format::Spc)).unwrap();
        let error = TraceFileError::Content {
            path: "t.csv".into(),
            error: feed.next().unwrap_err(),
        };
        assert_eq!(
            error.to_string(),
            "t.csv:1:9: Opcode: found \"Q\", expected R or W"
        );
    }
}
