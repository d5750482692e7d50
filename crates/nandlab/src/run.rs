//! `nandlab run`: experiments, side by side.

use crate::failure::{Failure, Status};
use crate::layer::Exec;
use crate::trials::Trials;
use nandlab_stack::Document;
use std::path::PathBuf;

/// Run experiments and compare what came of them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Experiments: a stack, a workload and how it is run, in TOML
    #[arg(required = true, value_name = "EXPERIMENT.toml")]
    experiments: Vec<PathBuf>,
    #[command(flatten)]
    exec: Exec,
    #[command(flatten)]
    trials: Trials,
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let overrides = self.trials.overrides();
        let mut inputs = Vec::new();
        let take = |path: &PathBuf| {
            let document = Document::read(path, &overrides)?;
            inputs.extend(document.files());
            self.exec.take(document)
        };
        let experiments = self
            .experiments
            .iter()
            .map(take)
            .collect::<Result<Vec<_>, Failure>>()?;
        self.trials.execute(&experiments, &inputs)
    }
}
