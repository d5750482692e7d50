//! Tells a sink about every request and how it ended. *Knows nothing of* time or of where the trace
//! goes.

use crate::{BlockError, Hook, Hooked, Request};

/// A request and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The request as the caller made it.
    pub request: Request,
    /// What came of it.
    pub outcome: Result<(), BlockError>,
}

/// Hands events to a function.
#[derive(Clone, Debug)]
pub struct Sink<F>(F);

/// A device that reports every request to `F`.
pub type Tracer<D, F> = Hooked<D, Sink<F>>;

impl<D, F: FnMut(&Event)> Hooked<D, Sink<F>> {
    /// Calls `sink` after each request.
    pub fn new(inner: D, sink: F) -> Self {
        Self::with(inner, Sink(sink))
    }
}

impl<F: FnMut(&Event)> Hook for Sink<F> {
    fn after(
        &mut self,
        request: &Request,
        outcome: Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        (self.0)(&Event {
            request: *request,
            outcome,
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, Lba, Op, Ram};
    use alloc::vec::Vec;

    #[test]
    fn the_sink_sees_each_request_with_its_outcome_in_order() {
        let mut events = Vec::new();
        let mut disk = Tracer::new(Ram::new(512, 8), |event: &Event| events.push(*event));
        disk.write(Lba(2), &[0; 1024]).unwrap();
        disk.discard(Lba(8), 1).unwrap_err();
        disk.flush().unwrap();
        let event = |op, lba, sectors, outcome| Event {
            request: Request {
                op,
                lba: Lba(lba),
                sectors,
            },
            outcome,
        };
        let outside = Err(BlockError::OutOfRange {
            lba: Lba(8),
            count: 1,
            sectors: 8,
        });
        assert_eq!(
            events,
            [
                event(Op::Write, 2, 2, Ok(())),
                event(Op::Discard, 8, 1, outside),
                event(Op::Flush, 0, 0, Ok(()))
            ]
        );
    }
}
