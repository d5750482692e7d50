//! A stream's outline, by reading it once: how much, how far, how long.

use crate::{Op, Request, Source, WorkloadError};
use nandlab_sim::Nanos;

/// What a stream amounts to. `end` is the span that [`Fit::Scale`](crate::Fit::Scale) needs, and
/// the size of the smallest device that holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests: reads, writes, flushes, discards.
    pub requests: [u64; 4],
    /// Bytes read, written, flushed (always 0), discarded; saturating.
    pub bytes: [u64; 4],
    /// The byte after the last one touched.
    pub end: u64,
    /// Arrival of the last request.
    pub duration: Nanos,
}

impl Survey {
    /// Reads `source` to its end.
    pub fn of(source: &mut dyn Source) -> Result<Self, WorkloadError> {
        let mut survey = Self::default();
        while let Some(request) = source.next()? {
            survey.add(&request);
        }
        Ok(survey)
    }

    /// Takes one more request into account.
    pub fn add(&mut self, request: &Request) {
        let row = match request.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard => 3,
        };
        self.requests[row] += 1;
        self.bytes[row] = self.bytes[row].saturating_add(request.length);
        self.end = self.end.max(request.offset.saturating_add(request.length));
        self.duration = self.duration.max(request.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, Options, Reader};

    #[test]
    fn counts_what_passed() {
        let text = b"fio version 3 iolog\n0 a write 4096 8192\n5 a read 0 512\n9 a sync\n";
        let survey =
            Survey::of(&mut Reader::new(&text[..], Format::Fio, Options::default())).unwrap();
        let expected = Survey {
            requests: [1, 1, 1, 0],
            bytes: [512, 8192, 0, 0],
            end: 12288,
            duration: 9000,
        };
        assert_eq!(survey, expected);
    }
}
