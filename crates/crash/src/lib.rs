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

mod assert;
mod bench;
mod cut;
mod disk;
mod explore;
pub mod files;
mod id;
mod life;
mod outcome;
mod plan;
mod shrink;
mod subject;
mod walk;

pub use assert::{assert_found, assert_survives};
pub use cut::{Cut, Phase};
pub use disk::{Disk, DiskOp, FlushedOrNewer, Manner, Scrambled, Scrambler, operations};
pub use explore::{explore, explore_watched, replay};
pub use files::{FileOp, Files};
pub use id::{Id, IdError};
pub use outcome::{CrashReport, Smallest, Violation};
pub use plan::{CrashError, Cuts, Plan, SecondLevel};
pub use subject::{Failure, GoOn, Kind, Oracle, Subject};
