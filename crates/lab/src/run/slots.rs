//! When a request is issued: the arithmetic of closed and open loops.

use crate::experiment::{Depth, RunOptions};
use nandlab_sim::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The times at which requests in flight complete.
pub struct Slots {
    /// Virtual time of arrival 0; none in a closed loop.
    origin: Option<Nanos>,
    flight: Flight,
}

enum Flight {
    /// One at a time, free at this time.
    One(Nanos),
    /// Several; the earliest first.
    Many(BinaryHeap<Reverse<Nanos>>),
    Unlimited,
}

impl Slots {
    /// All free, from `now` on.
    pub fn new(options: &RunOptions, now: Nanos) -> Self {
        let flight = match options.depth {
            Depth::Unlimited => Flight::Unlimited,
            Depth::Limited(depth) if depth.get() == 1 => Flight::One(now),
            Depth::Limited(depth) => Flight::Many((0..depth.get()).map(|_| Reverse(now)).collect()),
        };
        Self {
            origin: options.open_loop.then_some(now),
            flight,
        }
    }

    /// When the next request is issued, and from when its latency counts. It takes the slot that is
    /// free first.
    #[inline]
    pub fn issue(&mut self, arrival: Nanos) -> (Nanos, Nanos) {
        let free = match &self.flight {
            Flight::One(free) => *free,
            Flight::Many(heap) => heap.peek().map_or(0, |slot| slot.0),
            Flight::Unlimited => 0,
        };
        match self.origin {
            None => (free, free),
            Some(origin) => {
                let arrival = origin.saturating_add(arrival);
                (arrival.max(free), arrival)
            }
        }
    }

    /// The request issued last completes at `end`.
    #[inline]
    pub fn complete(&mut self, end: Nanos) {
        match &mut self.flight {
            Flight::One(free) => *free = end,
            Flight::Many(heap) => {
                if let Some(mut slot) = heap.peek_mut() {
                    // The heap is put in order when the slot goes out of scope.
                    slot.0 = end;
                }
            }
            Flight::Unlimited => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{MeasureFrom, Precondition};
    use std::num::NonZeroU32;

    /// Issue and completion of requests that take so long, each arriving so late.
    fn play(
        depth: Option<u32>,
        open_loop: bool,
        requests: &[(Nanos, Nanos)],
    ) -> Vec<(Nanos, Nanos, Nanos)> {
        let options = RunOptions {
            open_loop,
            depth: depth
                .and_then(NonZeroU32::new)
                .map_or(Depth::Unlimited, Depth::Limited),
            precondition: Precondition::None,
            precondition_overwrites: 0,
            precondition_zero: false,
            measure_from: MeasureFrom::Start,
            series_interval: 1,
            seed: 1,
        };
        let mut slots = Slots::new(&options, 100);
        let play = requests.iter().map(|&(arrival, takes)| {
            let (start, from) = slots.issue(arrival);
            slots.complete(start + takes);
            (start, from, start + takes)
        });
        play.collect()
    }

    #[test]
    fn a_closed_loop_issues_when_its_earliest_slot_is_free() {
        let requests = [(0, 10), (0, 3), (0, 4), (0, 1)];
        assert_eq!(
            play(Some(1), false, &requests),
            [
                (100, 100, 110),
                (110, 110, 113),
                (113, 113, 117),
                (117, 117, 118)
            ]
        );
        assert_eq!(
            play(Some(2), false, &requests),
            [
                (100, 100, 110),
                (100, 100, 103),
                (103, 103, 107),
                (107, 107, 108)
            ]
        );
    }

    #[test]
    fn an_open_loop_counts_from_arrival_and_waits_for_a_slot() {
        let requests = [(0, 10), (2, 10), (30, 1)];
        assert_eq!(
            play(None, true, &requests),
            [(100, 100, 110), (102, 102, 112), (130, 130, 131)]
        );
        assert_eq!(
            play(Some(1), true, &requests),
            [(100, 100, 110), (110, 102, 120), (130, 130, 131)]
        );
        assert_eq!(
            play(Some(2), true, &[(0, 10), (2, 10), (3, 1)])[2],
            (110, 103, 111)
        );
    }
}
