//! `nandlab replay`: a trace on one or several stacks, side by side.

use crate::failure::{Failure, Status};
use crate::trials::Trials;
use nandlab_lab::Experiment;
use nandlab_stack::Document;
use std::path::PathBuf;

/// Replay a block trace on stacks and compare what came of it
#[derive(Debug, clap::Args)]
#[command(after_help = "The trace replaces the [workload] of each description; --set workload.fit=wrap and the like say more about it.")]
pub struct Args {
    /// MSR Cambridge CSV, blkparse text, fio iolog or SPC; told by its content
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// A description of a stack, in TOML; give several to compare them
    #[arg(long = "stack", required = true, value_name = "STACK.toml")]
    stacks: Vec<PathBuf>,
    #[command(flatten)]
    trials: Trials,
}

impl Args {
    /// Replays it.
    pub fn execute(self) -> Result<Status, Failure> {
        let (overrides, trace) = (self.trials.overrides(), self.trace.to_string_lossy());
        let take = |path: &PathBuf| {
            let mut document = Document::read(path, &overrides)?;
            document.replace("workload", &[("type", "trace"), ("file", &trace)]);
            Ok(Experiment::take(document)?)
        };
        let experiments = self.stacks.iter().map(take).collect::<Result<Vec<_>, Failure>>()?;
        self.trials.execute(&experiments)
    }
}
