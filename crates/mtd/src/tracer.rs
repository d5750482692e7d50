//! Tells a sink about every request and how it ended. *Knows nothing of* time or of where the trace
//! goes.

use crate::{Hook, Hooked, Outcome, Request};

/// A request and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The request as the caller made it.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// Hands events to a function.
#[derive(Clone, Debug)]
pub struct Sink<F>(F);

/// An array that reports every request to `F`.
pub type Tracer<M, F> = Hooked<M, Sink<F>>;

impl<M, F: FnMut(&Event)> Hooked<M, Sink<F>> {
    /// Calls `sink` after each request.
    pub fn new(inner: M, sink: F) -> Self {
        Self::with(inner, Sink(sink))
    }
}

impl<F: FnMut(&Event)> Hook for Sink<F> {
    fn after(&mut self, request: &Request, outcome: Outcome) -> Outcome {
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
    use crate::{Block, Corrected, Image, ImageFormat, Issued, Layout, Mtd, MtdError, Page};
    use alloc::{vec, vec::Vec};

    #[test]
    fn the_sink_sees_each_request_with_its_outcome_in_order() {
        let format = ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block: 4,
            layout: Layout::LinuxSmallPage,
            ecc: None,
        };
        let mut events = Vec::new();
        let mut array = Tracer::new(
            Image::new(vec![0xFF; format.bytes(2) as usize], format).unwrap(),
            |event: &Event| events.push(*event),
        );
        array.program(Page(3), &[], &[0]).unwrap();
        array.fence(Issued(5));
        array.copy(Page(3), Page(9), &mut [], &[]).unwrap_err();
        array.erase(Block(1)).unwrap();
        let good = Ok(Corrected::default());
        let expected = [
            (
                Request::Program {
                    page: Page(3),
                    data: false,
                },
                good,
            ),
            (Request::Fence(Issued(5)), good),
            (
                Request::Copy {
                    from: Page(3),
                    to: Page(9),
                },
                Err(MtdError::OutOfRange(Page(9))),
            ),
            (Request::Erase(Block(1)), good),
        ];
        assert_eq!(
            events,
            expected.map(|(request, outcome)| Event { request, outcome })
        );
    }
}
