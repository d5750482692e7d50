//! A trace as a [`Source`]: one address range, times that start at 0 and never run backwards,
//! nothing lost uncounted.

use super::lines::Text;
use super::units::Placement;
use super::{Action, Event, Format, LineError, Lines, MAX_LINE, Parser, Units};
use crate::{Op, Request, Source, WorkloadError};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use nandlab_sim::{Nanos, with_defaults};

with_defaults! {
    /// How to read a trace.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Which action of blkparse text counts.
        pub action: Action = Action::default(),
        /// Traces of several disks.
        pub units: Units = Units::default(),
        /// How often to read it; each pass starts when the last request of the pass before has
        /// arrived.
        pub passes: NonZeroU64 = NonZeroU64::MIN,
    }
}

/// What became of the lines, over all passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that were read so far.
    pub lines: u64,
    /// Requests given out. A preflush or forced write of blkparse text makes more than one of a
    /// line.
    pub requests: u64,
    /// Lines that hold no request: blank lines, headings, summaries, other actions.
    pub ignored: u64,
    /// Requests skipped because their unit was not chosen.
    pub other_units: u64,
    /// Requests skipped because their length is 0.
    pub empty: u64,
    /// Requests earlier than the one before them; they keep their place and take its time.
    pub backwards: u64,
    /// By how much at most, in nanoseconds.
    pub backwards_max: Nanos,
}

/// A trace being read.
///
/// After an error in a line the next call goes on with the line behind it; after an error of
/// [`Lines`] it tries again.
#[derive(Clone, Debug)]
pub struct Reader<L> {
    lines: L,
    parser: Parser,
    placement: Placement,
    time: Timeline,
    counts: Counts,
    /// Line number within this pass.
    number: u64,
    passes_left: u64,
    /// Requests before this pass.
    before_pass: u64,
    /// The rest of a line that made several requests, last one first.
    pending: Vec<Request>,
}

impl<'a> Reader<Text<'a>> {
    /// Reads a trace in memory.
    pub fn new(text: &'a [u8], format: Format, options: Options) -> Self {
        Self::from_lines(Text::from(text), format, options)
    }
}

impl<L: Lines> Reader<L> {
    /// Reads a trace from wherever lines come from.
    pub fn from_lines(lines: L, format: Format, options: Options) -> Self {
        Self {
            lines,
            parser: Parser::new(format, options.action),
            placement: Placement::new(options.units),
            time: Timeline::default(),
            counts: Counts::default(),
            number: 0,
            passes_left: options.passes.get() - 1,
            before_pass: 0,
            pending: Vec::with_capacity(2),
        }
    }

    /// What became of the lines so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// At the end of a pass: whether another one begins.
    fn turn(&mut self) -> Result<bool, WorkloadError> {
        let Counts {
            lines,
            ignored,
            other_units,
            empty,
            requests,
            ..
        } = self.counts;
        if requests == self.before_pass {
            return Err(WorkloadError::NoRequests {
                lines,
                ignored,
                other_units,
                empty,
            });
        }
        if self.passes_left == 0 {
            return Ok(false);
        }
        self.lines
            .rewind()
            .map_err(|error| WorkloadError::Lines { line: 1, error })?;
        self.passes_left -= 1;
        (self.before_pass, self.number) = (requests, 0);
        self.parser.reset();
        self.time.restart();
        Ok(true)
    }

    /// Gives out `data`, and around it the flushes that its event asks for.
    #[inline]
    fn emit(&mut self, event: &Event, data: Request) -> Request {
        self.counts.requests += 1;
        if !(event.flush_before || event.flush_after) {
            return data;
        }
        if event.flush_after {
            self.pending.push(Request::flush(data.at));
        }
        if event.flush_before {
            self.pending.push(data);
            return Request::flush(data.at);
        }
        data
    }
}

impl<L: Lines> Source for Reader<L> {
    fn next(&mut self) -> Result<Option<Request>, WorkloadError> {
        if let Some(request) = self.pending.pop() {
            self.counts.requests += 1;
            return Ok(Some(request));
        }
        loop {
            let in_lines = |error| WorkloadError::Lines {
                line: self.number + 1,
                error,
            };
            let Some(line) = self.lines.line().map_err(in_lines)? else {
                if self.turn()? {
                    continue;
                }
                return Ok(None);
            };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > MAX_LINE {
                return Err(in_lines(LineError::TooLong));
            }
            self.number += 1;
            self.counts.lines += 1;
            let located =
                |fault: super::Fault| WorkloadError::Trace(fault.in_line(self.number, line));
            let Some(event) = self.parser.line(line).map_err(located)? else {
                self.counts.ignored += 1;
                continue;
            };
            // Names of units contain delimiters.
            let of_unit = |fault: super::Fault| {
                WorkloadError::Trace(fault.at_token(self.number, &line[event.unit.clone()]))
            };
            let Some(base) = self.placement.base(line, &event).map_err(of_unit)? else {
                self.counts.other_units += 1;
                continue;
            };
            if event.length == 0 && event.op != Op::Flush {
                self.counts.empty += 1;
                continue;
            }
            let at = self.time.arrival(event.time, &mut self.counts);
            let offset = if event.op == Op::Flush {
                0
            } else {
                base + event.offset
            };
            return Ok(Some(self.emit(
                &event,
                Request {
                    op: event.op,
                    at,
                    offset,
                    length: event.length,
                },
            )));
        }
    }
}

/// The trace's clock turned into the stream's.
#[derive(Clone, Debug, Default)]
struct Timeline {
    /// The trace's time of this pass's first request.
    origin: Option<Nanos>,
    /// The stream's time at which this pass began.
    base: Nanos,
    last: Nanos,
}

impl Timeline {
    fn restart(&mut self) {
        (self.origin, self.base) = (None, self.last);
    }

    #[inline]
    fn arrival(&mut self, time: Nanos, counts: &mut Counts) -> Nanos {
        let origin = *self.origin.get_or_insert(time);
        // Where the pass stands on the trace's clock; the difference saturates only after 584 years
        // of stream.
        let reached = origin.saturating_add(self.last - self.base);
        if time < reached {
            counts.backwards += 1;
            counts.backwards_max = counts.backwards_max.max(reached - time);
        } else {
            self.last = self.base.saturating_add(time - origin);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Unit;
    use alloc::string::ToString;

    fn all<L: Lines>(reader: &mut Reader<L>) -> Vec<Request> {
        core::iter::from_fn(|| reader.next().unwrap()).collect()
    }

    fn read(text: &str, format: Format, options: Options) -> (Vec<Request>, Counts) {
        let mut reader = Reader::new(text.as_bytes(), format, options);
        (all(&mut reader), *reader.counts())
    }

    fn request(op: Op, at: Nanos, offset: u64, length: u64) -> Request {
        Request {
            op,
            at,
            offset,
            length,
        }
    }

    const MSR: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
        128166372003061629,usr,0,Read,7014609920,24576,41286\r\n128166372016382155,usr,0,Write,2517696512,4096,703\r\n\r\n\
        128166372016382100,usr,0,Write,0,0,1\r\n128166372016382100,usr,0,Write,4096,4096,1";

    #[test]
    fn times_start_at_zero_and_never_run_backwards() {
        let (requests, counts) = read(MSR, Format::Msr, Options::default());
        let second = 1_332_052_600;
        let expected = [
            request(Op::Read, 0, 7_014_609_920, 24_576),
            request(Op::Write, second, 2_517_696_512, 4096),
            request(Op::Write, second, 4096, 4096),
        ];
        assert_eq!(requests, expected);
        assert_eq!(
            counts,
            Counts {
                lines: 6,
                requests: 3,
                ignored: 2,
                empty: 1,
                backwards: 1,
                backwards_max: 5500,
                ..Counts::default()
            }
        );
    }

    #[test]
    fn passes_follow_each_other_in_time() {
        let text = "fio version 3 iolog\n5 f read 0 512\n25 f write 512 512\n";
        let (requests, counts) = read(
            text,
            Format::Fio,
            Options {
                passes: NonZeroU64::new(3).unwrap(),
                ..Options::default()
            },
        );
        let times: Vec<Nanos> = requests.iter().map(|r| r.at).collect();
        assert_eq!(times, [0, 20_000, 20_000, 40_000, 40_000, 60_000]);
        assert_eq!((counts.lines, counts.requests, counts.ignored), (9, 6, 3));
    }

    #[test]
    fn forced_and_preflushed_writes_become_several_requests() {
        let text = "8,0 0 1 1.000000000 1 Q FWFS 8 + 8 [jbd2]\n8,0 0 2 1.000000001 1 Q WFS 16 + 8 [jbd2]\n8,0 0 3 1.000000002 1 Q R 0 + 1 [x]\n";
        let (requests, counts) = read(text, Format::Blkparse, Options::default());
        let write = |at, offset| request(Op::Write, at, offset, 4096);
        let flush = Request::flush;
        assert_eq!(
            requests,
            [
                flush(0),
                write(0, 4096),
                flush(0),
                write(1, 8192),
                flush(1),
                request(Op::Read, 2, 0, 512)
            ]
        );
        assert_eq!((counts.lines, counts.requests), (3, 6));
    }

    #[test]
    fn asus_can_be_chosen_or_stacked() {
        let text = "0,2,512,R,0.5\n1,4,1024,W,0.75\n0,3,512,r,1\n";
        let units = |units| {
            read(
                text,
                Format::Spc,
                Options {
                    units,
                    ..Options::default()
                },
            )
        };
        let (only, counts) = units(Units::Only("1".into()));
        assert_eq!(
            (only, counts.other_units),
            (Vec::from([request(Op::Write, 0, 2048, 1024)]), 2)
        );
        let sizes = [("0", 1 << 20), ("1", 1 << 20)].map(|(name, bytes)| Unit {
            name: name.into(),
            bytes,
        });
        let (stacked, _) = units(Units::Stacked(sizes.into()));
        assert_eq!(
            stacked[1],
            request(Op::Write, 250_000_000, (1 << 20) + 2048, 1024)
        );
        let mut single = Reader::new(text.as_bytes(), Format::Spc, Options::default());
        single.next().unwrap();
        let error = single.next().unwrap_err().to_string();
        assert!(
            error.starts_with(
                "line 2, column 1, unit: found \"1\", expected the same unit throughout"
            ),
            "{error}"
        );
    }

    #[test]
    fn an_unexpected_unit_is_named_in_full() {
        let mut reader = Reader::new(
            b"1,usr,0,Read,0,512\n1,usr,1,Read,0,512",
            Format::Msr,
            Options::default(),
        );
        reader.next().unwrap();
        let error = reader.next().unwrap_err().to_string();
        assert!(
            error.starts_with("line 2, column 3, unit: found \"usr,1\", expected"),
            "{error}"
        );
    }

    #[test]
    fn a_trace_without_requests_is_an_error() {
        let text = "8,0 0 1 1.0 1 G W 8 + 8 [x]\nCPU0 (sda):\n";
        let error = Reader::new(text.as_bytes(), Format::Blkparse, Options::default())
            .next()
            .unwrap_err();
        assert_eq!(
            error,
            WorkloadError::NoRequests {
                lines: 2,
                ignored: 2,
                other_units: 0,
                empty: 0
            }
        );
    }

    #[test]
    fn errors_name_line_column_and_field_and_reading_can_go_on() {
        let mut reader = Reader::new(
            b"0,1,512,R,0\n0,1,512,Q,0\n0,1,512,W,2",
            Format::Spc,
            Options::default(),
        );
        assert_eq!(reader.next().unwrap().unwrap().op, Op::Read);
        assert_eq!(
            reader.next().unwrap_err().to_string(),
            "line 2, column 9, Opcode: found \"Q\", expected R or W"
        );
        assert_eq!(reader.next().unwrap().unwrap().op, Op::Write);
        assert_eq!([reader.next(), reader.next()], [Ok(None), Ok(None)]);
    }

    #[test]
    fn a_line_too_long_is_an_error_with_its_number() {
        let text = [b"0,1,512,R,0\n".as_slice(), &[b'0'; 2 * MAX_LINE]].concat();
        let mut reader = Reader::new(&text, Format::Spc, Options::default());
        reader.next().unwrap();
        assert_eq!(
            reader.next().unwrap_err().to_string(),
            "line 2: longer than 4096 bytes"
        );
    }
}
