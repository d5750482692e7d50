//! Which events of a series happen: the fault plan of one place.
//!
//! *Promises* that the n-th event, counted from zero, is decided by the plan and by n alone, so
//! that a repeated run meets the same faults. *Knows nothing of* what the events are.

use crate::{chance, mix};
use alloc::collections::BTreeSet;

/// Decides event by event; see [`fires`](Schedule::fires).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    rule: Rule,
    seen: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    First(u64),
    From(u64),
    Listed(BTreeSet<u64>),
    Random { seed: u64, rate: f64 },
}

impl Schedule {
    /// Schedules every event, from the first one.
    pub fn always() -> Self {
        Self::from_nth(0)
    }

    /// Schedules no event at all.
    pub fn never() -> Self {
        Self::first(0)
    }

    /// The first `count` events: a fault that goes away.
    pub fn first(count: u64) -> Self {
        Self::new(Rule::First(count))
    }

    /// Event `n` and all that follow it: a fault that stays.
    pub fn from_nth(n: u64) -> Self {
        Self::new(Rule::From(n))
    }

    /// Schedules event `n` and no other.
    pub fn nth(n: u64) -> Self {
        Self::listed([n])
    }

    /// Schedules the events with the given numbers.
    pub fn listed(events: impl IntoIterator<Item = u64>) -> Self {
        Self::new(Rule::Listed(events.into_iter().collect()))
    }

    /// Each event on its own with probability `rate`.
    pub fn random(seed: u64, rate: f64) -> Self {
        Self::new(Rule::Random { seed, rate })
    }

    fn new(rule: Rule) -> Self {
        Self { rule, seen: 0 }
    }

    /// One more event: whether it happens.
    pub fn fires(&mut self) -> bool {
        let n = self.seen;
        self.seen += 1;
        match &self.rule {
            Rule::First(count) => n < *count,
            Rule::From(first) => n >= *first,
            Rule::Listed(events) => events.contains(&n),
            Rule::Random { seed, rate } => chance(mix(*seed, n), *rate),
        }
    }

    /// How many events there have been.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn hits(mut schedule: Schedule, events: u64) -> Vec<u64> {
        (0..events).filter(|_| schedule.fires()).collect()
    }

    #[test]
    fn each_rule_picks_its_events() {
        assert_eq!(hits(Schedule::always(), 3), [0, 1, 2]);
        assert_eq!(hits(Schedule::never(), 3), []);
        assert_eq!(hits(Schedule::first(2), 4), [0, 1]);
        assert_eq!(hits(Schedule::from_nth(2), 4), [2, 3]);
        assert_eq!(hits(Schedule::nth(2), 4), [2]);
        assert_eq!(hits(Schedule::listed([3, 0, 9]), 5), [0, 3]);
    }

    #[test]
    fn random_events_repeat_with_their_seed_and_keep_to_their_rate() {
        let seven = hits(Schedule::random(7, 0.1), 10_000);
        assert_eq!(seven, hits(Schedule::random(7, 0.1), 10_000));
        assert_ne!(seven, hits(Schedule::random(8, 0.1), 10_000));
        assert!(
            (800..1200).contains(&seven.len()),
            "{} of 10000 at one in ten",
            seven.len()
        );
    }
}
