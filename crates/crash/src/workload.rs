//! The operations of an exploration, and its runs.

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
