//! The crash explorer: cuts the power everywhere in a run, recovers from each state, and judges
//! what is left.
//!
//! *Promises.* For each chosen moment the chip is built exactly as a cut at that moment may leave
//! it, the stack is attached from this chip alone, an [`Oracle`] compares what it finds with what
//! the host had been promised by then, the host goes on writing, and (second level) the power is
//! cut again during all this. Whatever goes wrong, refusals, panics and endless loops included, is
//! a [`Violation`] whose name ([`Id`]) makes the same state again; the first one is shrunk to few
//! host operations. A report is a function of subject, operations and plan: threads and wall time
//! have no part in it.
//!
//! *Works on* any [`Subject`]; [`Disk`] makes one of every block layer, [`Files`] one of a file
//! system on it.
//!
//! *Knows nothing of* which stack it is: `described` alone does.
//!
//! | module | its one idea |
//! |---|---|
//! | `subject` | what is explored, and who judges: two traits |
//! | `life` | from power-up to the last operation, with times |
//! | `cut`, `id` | where the power can go; the name of a state |
//! | `walk` | the states of a life, one after another |
//! | `explore` | a whole exploration, in parallel |
//! | `shrink` | the smallest case |
//! | `disk`, `flushed` | block layers, and their oracle |
//! | `files` | file systems on block layers, and their oracle |
//! | `described` | an experiment as a subject |
//! | `outcome` | the report, as data and as text |

mod cut;
mod described;
mod disk;
mod explore;
pub mod files;
mod flushed;
mod id;
mod life;
mod outcome;
mod shrink;
mod subject;
mod walk;

pub use cut::{Cut, Phase};
pub use described::{Described, DescribedPart, PrepareError, Prepared};
pub use disk::{Disk, DiskOp, Layer, operations};
pub use explore::{explore, explore_watched, replay};
pub use files::{FileOp, Files, FlashFiles};
pub use flushed::FlushedOrNewer;
pub use id::{Id, IdError};
pub use outcome::{CrashReport, Smallest, Violation};
pub use subject::{Failure, GoOn, Kind, Oracle, Subject};

use std::str::FromStr;

/// How to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Chooses moments, fates and how the host goes on.
    pub seed: u64,
    /// Which cuts of the run.
    pub cuts: Cuts,
    /// States for each operation that is cut in two.
    pub words: u32,
    /// Cuts during recovery.
    pub second: SecondLevel,
    /// Changes that the host makes after each recovery, before a flush.
    pub changes: u32,
    /// Worker threads; 0: one a core.
    pub threads: usize,
    /// Violations told in full.
    pub listed: usize,
    /// States that may be spent on shrinking the first violation; 0: not shrunk.
    pub shrink_states: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            cuts: Cuts::All,
            words: 4,
            second: SecondLevel::Every(16),
            changes: 3,
            threads: 0,
            listed: 20,
            shrink_states: 20_000,
        }
    }
}

/// Which cuts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Before, within and after every chip operation.
    All,
    /// So many states, spread evenly over the run.
    Sample(u64),
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
    /// None.
    Off,
    /// One in so many, by chance; 0 none.
    Every(u64),
}

/// An exploration that could not be made: not a verdict on the stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrashError {
    /// There is no stack to begin with.
    #[error("formatting: {0}")]
    Format(String),
    /// The chip's contents lie in a backing store.
    #[error(transparent)]
    Fork(#[from] nandlab_nand::ForkError),
    /// No worker threads were to be had.
    #[error("starting {0} threads: {1}")]
    Threads(usize, String),
    /// The run that the name speaks of is another one.
    #[error("state {id}: {what} {found}, expected {expected}")]
    NoSuchState {
        /// The name.
        id: String,
        /// What is out of range.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What the run has.
        expected: String,
    },
}
