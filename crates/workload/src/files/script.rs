//! A benchmark as a list planned in advance: single calls, and passes of which each item becomes
//! calls when its turn comes.
//!
//! *Promises.* Calls come in the order in which they were planned, each under the phase it was
//! planned for. Making one allocates nothing once the longest item was made.

use super::FileCall;
use alloc::collections::VecDeque;

/// What is done between phases, outside of a benchmark's stopwatch: opening and removing files.
pub(crate) const SET_UP: &str = "set-up";

/// What comes next.
#[derive(Clone, Debug)]
enum Step<P> {
    Call(FileCall),
    /// So many items, from `next` on.
    Pass {
        pass: P,
        next: u64,
        count: u64,
    },
}

/// A plan, and how far it was carried out. `P` says what the items of a pass are.
#[derive(Clone, Debug)]
pub(crate) struct Script<P> {
    steps: VecDeque<(&'static str, Step<P>)>,
    /// Calls of the item that is under way.
    item: VecDeque<FileCall>,
    phase: &'static str,
    items: u64,
    items_done: u64,
}

impl<P: Copy> Script<P> {
    /// Nothing planned.
    pub(crate) fn new() -> Self {
        Self {
            steps: VecDeque::new(),
            item: VecDeque::new(),
            phase: SET_UP,
            items: 0,
            items_done: 0,
        }
    }

    /// Plans one call.
    pub(crate) fn call(&mut self, phase: &'static str, call: FileCall) {
        self.steps.push_back((phase, Step::Call(call)));
    }

    /// Plans `count` items of `pass`, numbered from 0.
    pub(crate) fn pass(&mut self, phase: &'static str, pass: P, count: u64) {
        self.items += count;
        self.steps.push_back((
            phase,
            Step::Pass {
                pass,
                next: 0,
                count,
            },
        ));
    }

    /// The next call. `make` appends the calls of one item of a pass.
    pub(crate) fn next(
        &mut self,
        mut make: impl FnMut(P, u64, &mut VecDeque<FileCall>),
    ) -> Option<FileCall> {
        loop {
            if let Some(call) = self.item.pop_front() {
                return Some(call);
            }
            let (phase, step) = self.steps.front_mut()?;
            self.phase = phase;
            match step {
                Step::Pass { pass, next, count } if *next < *count => {
                    make(*pass, *next, &mut self.item);
                    *next += 1;
                    self.items_done += 1;
                }
                Step::Pass { .. } => drop(self.steps.pop_front()),
                Step::Call(call) => {
                    let call = *call;
                    self.steps.pop_front();
                    return Some(call);
                }
            }
        }
    }

    /// The phase of the last call.
    pub(crate) fn phase(&self) -> &'static str {
        self.phase
    }

    /// How many of the items were made, 0 to 1.
    pub(crate) fn share_done(&self) -> f64 {
        self.items_done as f64 / self.items.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn calls_come_as_planned_each_under_its_phase() {
        let mut script = Script::new();
        script.call(SET_UP, FileCall::Sync);
        script.pass("first", 10, 2);
        script.pass("empty", 0, 0);
        script.pass("second", 20, 1);
        script.call("second", FileCall::Sync);
        let mut found = Vec::new();
        let compute = |instructions| FileCall::Compute { instructions };
        while let Some(call) =
            script.next(|pass, n, calls| calls.extend([compute(pass + n), compute(0)]))
        {
            found.push((script.phase(), call));
        }
        let item = |phase, instructions| [(phase, compute(instructions)), (phase, compute(0))];
        let passes = [item("first", 10), item("first", 11), item("second", 20)].concat();
        assert_eq!(found[1..7], passes);
        assert_eq!(
            (found[0], found[7], found.len()),
            ((SET_UP, FileCall::Sync), ("second", FileCall::Sync), 8)
        );
        assert_eq!(script.share_done(), 1.0);
    }

    #[test]
    fn a_pass_of_items_without_calls_ends() {
        let mut script = Script::new();
        script.pass("idle", (), 1000);
        assert_eq!(script.next(|(), _, _| ()), None);
    }
}
