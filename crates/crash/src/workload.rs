//! The operations of an exploration, and its runs.

use nandlab_sim::mix;

/// Where part `i` of `parts` equal parts of `all` begins.
pub(crate) fn part(i: u64, parts: u64, all: u64) -> u64 {
    (u128::from(i) * u128::from(all) / u128::from(parts)) as u64
}

/// A member of each of `parts` equal parts of `all`, so that no stretch goes unseen. `pick` chooses.
pub(crate) fn spread(parts: u64, all: u64, pick: u64) -> impl Iterator<Item = u64> {
    (0..parts).map(move |i| {
        let first = part(i, parts, all);
        first + mix(pick, i) % (part(i + 1, parts, all) - first)
    })
}

/// Host operations, and runs of some of them.
///
/// A run is a subsequence of the operations. So the name of a state, which lists the operations
/// that its run keeps, makes a state of any run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload<Op> {
    /// All operations.
    pub ops: Vec<Op>,
    /// The operations of each run, by their places, ascending. One run of everything if there are
    /// none.
    pub runs: Vec<Vec<usize>>,
    /// So many operations begin every run. Only the first run has cuts in them.
    pub shared: usize,
}

impl<Op: Clone> Workload<Op> {
    /// One run of all operations.
    pub fn whole(ops: &[Op]) -> Self {
        Self {
            ops: ops.to_vec(),
            runs: Vec::new(),
            shared: 0,
        }
    }

    /// The number of runs.
    pub(crate) fn count(&self) -> usize {
        self.runs.len().max(1)
    }

    /// The places that a run keeps; none if it keeps all.
    pub(crate) fn kept(&self, run: usize) -> Option<&Vec<usize>> {
        self.runs.get(run)
    }

    /// The operations of a run.
    pub(crate) fn run(&self, run: usize) -> Vec<Op> {
        match self.kept(run) {
            None => self.ops.clone(),
            Some(kept) => kept.iter().map(|&place| self.ops[place].clone()).collect(),
        }
    }
}
