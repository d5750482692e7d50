//! `nandlab replay`: traces on one or several stacks, side by side.

use crate::failure::{Failure, Status};
use crate::trials::Trials;
use nandlab_lab::Experiment;
use nandlab_stack::Document;
use std::path::{Path, PathBuf};

/// Replay block traces on stacks and compare what came of it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each trace replaces the [workload] of each description; --set workload.fit=wrap and the like say more about it."
)]
pub struct Args {
    /// MSR Cambridge CSV, blkparse text, fio iolog or SPC; detected by its content. Give several to
    /// replay each of them
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// A description of a stack, in TOML; give several to compare them
    #[arg(long = "stack", required = true, value_name = "STACK.toml")]
    stacks: Vec<PathBuf>,
    #[command(flatten)]
    trials: Trials,
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let overrides = self.trials.overrides();
        let mut inputs = Vec::new();
        let mut take = |trace: &Path, stack: &PathBuf| {
            let mut document = Document::read(stack, &overrides)?;
            document.replace(
                "workload",
                &[("type", "trace"), ("file", &trace.to_string_lossy())],
            );
            inputs.extend(document.files());
            let mut experiment = Experiment::take(document)?;
            if self.traces.len() > 1 {
                let trace = trace.file_stem().unwrap_or(trace.as_os_str());
                experiment.name = format!("{} on {}", trace.display(), experiment.name);
            }
            Ok(experiment)
        };
        let pairs = self
            .traces
            .iter()
            .flat_map(|trace| self.stacks.iter().map(move |stack| (trace, stack)));
        let experiments = pairs
            .map(|(trace, stack)| take(trace, stack))
            .collect::<Result<Vec<_>, Failure>>()?;
        self.trials.execute(&experiments, &inputs)
    }
}
