//! One line, one format: which request it records, if any.

use super::{Action, Fault, Format, blkparse, fio, msr, spc};
use crate::Op;
use core::ops::Range;
use nandlab_sim::Nanos;

/// Extents end below this, so that no later sum overflows.
const MAX_END: u64 = 1 << 63;

/// What a line records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The request's time on the trace's own clock.
    pub time: Nanos,
    /// Where in the line the unit is named: the disk, device, ASU or file that the offset counts
    /// in.
    pub unit: Range<usize>,
    /// The operation of the request.
    pub op: Op,
    /// First byte within the unit.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
    /// The request asks for a flush before it (preflush, barrier).
    pub flush_before: bool,
    /// The request is to be durable when it completes (force unit access, barrier).
    pub flush_after: bool,
}

impl Event {
    /// A request without flushes of its own.
    pub(super) fn new(time: Nanos, unit: Range<usize>, op: Op, offset: u64, length: u64) -> Self {
        Self {
            time,
            unit,
            op,
            offset,
            length,
            flush_before: false,
            flush_after: false,
        }
    }

    pub(super) fn flush(time: Nanos, unit: Range<usize>) -> Self {
        Self::new(time, unit, Op::Flush, 0, 0)
    }

    /// Refuses an extent whose end cannot be added to; `at` is where its offset stands.
    pub(super) fn in_bounds(self, at: usize) -> Result<Option<Self>, Fault> {
        match self.offset.checked_add(self.length) {
            Some(end) if end < MAX_END => Ok(Some(self)),
            _ => Err(Fault {
                at,
                field: "offset and length",
                expected: "an extent that ends below 2^63 bytes",
            }),
        }
    }
}

/// A parser of one trace. It allocates nothing.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Format,
    action: Action,
    fio: fio::State,
    blkparse: blkparse::State,
}

impl Parser {
    /// At the start of a trace; `action` matters for blkparse text only.
    pub fn new(format: Format, action: Action) -> Self {
        Self {
            format,
            action,
            fio: fio::State::default(),
            blkparse: blkparse::State::default(),
        }
    }

    /// Back to the start of the trace.
    pub fn reset(&mut self) {
        *self = Self::new(self.format, self.action);
    }

    /// What `line`, without its newline, records; none for blank lines, headings, summaries, other
    /// actions.
    #[inline]
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Event>, Fault> {
        match self.format {
            Format::Msr => msr::line(line),
            Format::Blkparse => self.blkparse.line(line, self.action),
            Format::Fio => self.fio.line(line),
            Format::Spc => spc::line(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Reader;
    use crate::{Source, WorkloadError};
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    pub(super) const FORMATS: [Format; 4] =
        [Format::Msr, Format::Blkparse, Format::Fio, Format::Spc];

    /// Bytes that come near to being a trace, so that parsers are led deep before they meet
    /// something odd.
    fn near_trace() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            "[0-9]{1,22}",
            "[0-9]{1,12}\\.[0-9]{0,12}",
            "[RWDFSMANB]{1,4}",
            "[ ,\t\r\n+\\[\\]]",
            Just("\n".into()),
            Just(",".into()),
            Just(" ".into()),
            Just("8,0".into()),
            Just(" + ".into()),
            Just("Read".into()),
            Just("write".into()),
            Just("wait".into()),
            Just("fio version 2 iolog\n".into()),
            Just("fio version 3 iolog\n".into()),
            Just("CPU0 (sda):\n".into()),
        ];
        proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat().into_bytes())
    }

    fn read_all(bytes: &[u8]) -> Result<(), TestCaseError> {
        Format::detect(bytes);
        for format in FORMATS {
            let mut reader = Reader::new(bytes, format, crate::trace::Options::default());
            let mut last = 0;
            for _ in 0..=3 * bytes.len() {
                match reader.next() {
                    Ok(None)
                    | Err(WorkloadError::NoRequests { .. } | WorkloadError::Lines { .. }) => break,
                    Ok(Some(r)) => {
                        prop_assert!(
                            r.at >= last
                                && r.offset.checked_add(r.length).is_some()
                                && (r.length == 0) == (r.op == Op::Flush)
                        );
                        last = r.at;
                    }
                    Err(_) => (),
                }
            }
            let counts = *reader.counts();
            prop_assert!(counts.lines <= 1 + bytes.iter().filter(|&&b| b == b'\n').count() as u64);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read_all(&bytes)?;
        }

        #[test]
        fn near_traces_never_panic(bytes in near_trace()) {
            read_all(&bytes)?;
        }
    }

    #[test]
    fn a_parser_survives_every_prefix_and_every_changed_byte() {
        let samples: [&[u8]; 4] = [
            b"128166372003061629,usr,0,Read,7014609920,24576,41286",
            b"  8,0    3      11     0.009507758   697  Q FWFS 223490 + 56 [jbd2/sda1-8]",
            b"fio version 3 iolog\n100 /dev/sda write 4096 8192",
            b"0,20941264,8192,W,0.551706",
        ];
        for sample in samples {
            for at in 0..sample.len() {
                read_all(&sample[..at]).unwrap();
                for byte in [0, b' ', b',', b'9', b'-', b'\n', 0xff] {
                    let mut changed = vec![0; sample.len()];
                    changed.copy_from_slice(sample);
                    changed[at] = byte;
                    read_all(&changed).unwrap();
                }
            }
        }
    }
}
