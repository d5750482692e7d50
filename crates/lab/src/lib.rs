//! Runs experiments and says what came of them.

mod cost;
pub mod cut;
pub mod experiment;
mod feed;
pub mod play;
pub mod report;
pub mod result;
pub mod run;
pub mod table;
mod trace_file;
pub mod verdict;
pub mod workload;

pub use experiment::Experiment;
pub use run::{Outcome, Progress, RunError, run};
