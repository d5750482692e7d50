//! A benchmark as a list planned in advance: single calls, and passes of which each item becomes
//! calls when its turn comes.
//!
//! *Promises.* Calls come in the order in which they were planned, each under the phase it was
//! planned for. Making one allocates nothing once the longest item was made.

use super::{Calls, Contents, FileCall, FileId};
use alloc::{collections::VecDeque, string::String};

/// What is done between phases, outside of a benchmark's stopwatch: opening and removing files.
pub(crate) const SET_UP: &str = "set-up";

/// A step of a script, planned or under way.
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
    item: Calls,
    phase: &'static str,
    items: u64,
    items_done: u64,
}

impl<P: Copy> Script<P> {
    pub(crate) fn new() -> Self {
        Self {
            steps: VecDeque::new(),
            item: Calls::new(),
            phase: SET_UP,
            items: 0,
            items_done: 0,
        }
    }

    pub(crate) fn calls(&mut self, phase: &'static str, calls: impl IntoIterator<Item = FileCall>) {
        let steps = calls.into_iter().map(|call| (phase, Step::Call(call)));
        self.steps.extend(steps);
    }

    /// Plans `count` items of `pass`, numbered from 0.
    pub(crate) fn pass(&mut self, phase: &'static str, pass: P, count: u64) {
        self.items += count;
        let next = 0;
        let step = Step::Pass { pass, next, count };
        self.steps.push_back((phase, step));
    }

    /// The next call. `make` appends the calls of one item of a pass.
    fn next(&mut self, mut make: impl FnMut(P, u64, &mut Calls)) -> Option<FileCall> {
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

    /// How many of the items were made, 0 to 1.
    fn share_done(&self) -> f64 {
        self.items_done as f64 / self.items.max(1) as f64
    }
}

/// What the items of a script are, and what its files are called.
pub(crate) trait Benchmark {
    /// Tells the passes of the script apart.
    type Pass: Copy;

    /// Appends the calls of an item of `pass`. Items come in order, the first is number 0.
    fn item(&mut self, pass: Self::Pass, number: u64, calls: &mut Calls);

    fn name(&self, file: FileId) -> String;

    fn group(&self, _: FileId) -> &'static str {
        "files"
    }
}

/// A benchmark that follows its script. [`scripted!`] makes a stream of calls of it.
#[derive(Clone, Debug)]
pub(crate) struct Scripted<B: Benchmark> {
    script: Script<B::Pass>,
    contents: Contents,
    benchmark: B,
}

impl<B: Benchmark> Scripted<B> {
    /// The benchmark, at the start of its script.
    pub(crate) fn new(script: Script<B::Pass>, contents: Contents, benchmark: B) -> Self {
        Self {
            script,
            contents,
            benchmark,
        }
    }

    pub(crate) fn next(&mut self) -> Option<FileCall> {
        let Self {
            script, benchmark, ..
        } = self;
        script.next(|pass, number, calls| benchmark.item(pass, number, calls))
    }

    pub(crate) fn benchmark(&self) -> &B {
        &self.benchmark
    }

    pub(crate) fn contents(&self) -> Contents {
        self.contents
    }

    pub(crate) fn share_done(&self) -> f64 {
        self.script.share_done()
    }

    /// The phase of the last call.
    pub(crate) fn phase(&self) -> &'static str {
        self.script.phase
    }
}

/// Implements [`FileCalls`](super::FileCalls) for a public wrapper of a [`Scripted`] benchmark,
/// whose passes and state stay private.
macro_rules! scripted {
    ($stream:ident) => {
        impl Iterator for $stream {
            type Item = $crate::files::FileCall;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next()
            }
        }

        impl $crate::files::FileCalls for $stream {
            fn name(&self, file: $crate::files::FileId) -> alloc::string::String {
                $crate::files::Benchmark::name(self.0.benchmark(), file)
            }

            fn contents(&self) -> $crate::files::Contents {
                self.0.contents()
            }

            fn share_done(&self) -> f64 {
                self.0.share_done()
            }

            fn phase(&self) -> &'static str {
                self.0.phase()
            }

            fn group(&self, file: $crate::files::FileId) -> &'static str {
                $crate::files::Benchmark::group(self.0.benchmark(), file)
            }
        }
    };
}
pub(crate) use scripted;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn calls_come_as_planned_each_under_its_phase() {
        let mut script = Script::new();
        script.calls(SET_UP, [FileCall::Sync]);
        script.pass("first", 10, 2);
        script.pass("empty", 0, 0);
        script.pass("second", 20, 1);
        script.calls("second", [FileCall::Sync]);
        let mut found = Vec::new();
        let compute = |instructions| FileCall::Compute { instructions };
        while let Some(call) =
            script.next(|pass, n, calls| calls.extend([compute(pass + n), compute(0)]))
        {
            found.push((script.phase, call));
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
