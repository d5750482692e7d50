//! How to explore, and why an exploration may fail.

use crate::workload::part;
use nandlab_mtd::LayerError;
use nandlab_sim::with_defaults;
use std::str::FromStr;

with_defaults! {
    /// The extent of an exploration.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Plan {
        /// Chooses moments, fates, and the operations after each recovery.
        pub seed: u64 = 1,
        /// Which cuts of the run.
        pub cuts: Cuts = Cuts::All,
        /// States for each chip operation that is cut in two.
        pub words: u32 = 4,
        /// Which cuts are followed by a cut during recovery.
        pub second: SecondLevel = SecondLevel::Every(16),
        /// Changes that the host makes after each recovery, before a flush.
        pub changes: u32 = 3,
        /// Worker threads; 0 for one a core.
        pub threads: usize = 0,
        /// Violations reported in full.
        pub listed: usize = 20,
        /// States to spend on shrinking the first violation; 0 to leave it as it is.
        pub shrink_states: u64 = 20_000,
    }
}

/// Which cuts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Before, within and after every chip operation.
    All,
    /// This many states, spread evenly over the run.
    Sample(u64),
}

impl Cuts {
    /// The share of one of several runs.
    pub(crate) fn of_run(self, run: u64, runs: u64) -> Self {
        match self {
            Self::All => Self::All,
            Self::Sample(n) => Self::Sample(part(run + 1, runs, n) - part(run, runs, n)),
        }
    }
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => number
                .parse()
                .map(Self::Sample)
                .map_err(|_| format!("found `{number}`, expected `all` or a number of states")),
        }
    }
}

/// Which recoveries are cut again, at every one of their chip operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondLevel {
    /// No second power cut is made.
    Off,
    /// One recovery in this many, chosen by the seed; 0 for none.
    Every(u64),
}

/// An exploration that could not be made: not a verdict on the layer.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// The layer cannot be formatted.
    #[error("formatting: {0}")]
    Format(#[source] LayerError),
    /// The chip's contents lie in a backing store, so it cannot be forked.
    #[error(transparent)]
    Fork(#[from] nandlab_nand::ForkError),
    /// The worker threads could not be started.
    #[error("starting {0} threads: {1}")]
    Threads(usize, #[source] rayon::ThreadPoolBuildError),
    /// A state cannot be built, since the stack fails on the way to it.
    #[error("state {id} cannot be built: {why}")]
    Unbuilt {
        /// The name of the state.
        id: String,
        /// The violation on the way.
        why: String,
    },
    /// The caller could not take a state.
    #[error("state {0}: {1}")]
    Taken(String, #[source] LayerError),
    /// The name is of a state that this run does not have.
    #[error("state {id}: {what} {found}, expected {expected}")]
    NoSuchState {
        /// The id that no state has.
        id: String,
        /// What is out of range.
        what: &'static str,
        /// The value that was given.
        found: usize,
        /// What the run has.
        expected: String,
    },
}
