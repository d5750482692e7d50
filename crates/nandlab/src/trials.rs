//! What `run` and `replay` share: experiments checked, explained, run one after another, and
//! reported side by side.

use crate::failure::{Failure, Status};
use crate::output::{Output, print_table, writable};
use crate::progress::Bar;
use nandlab_lab::{Experiment, Outcome, run, table};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Options of every trial.
#[derive(Debug, clap::Args)]
pub struct Trials {
    /// Override a setting of every description, e.g. chip.size="1 GiB" or ftl.victim=cost-benefit
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the workload and of the chip's faults: the same as --set run.seed=N --set
    /// chip.seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print every setting with its origin, and run nothing
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    output: Output,
}

impl Trials {
    /// Overrides, in the order in which they apply.
    pub fn overrides(&self) -> Vec<String> {
        let seeds = self
            .seed
            .iter()
            .flat_map(|seed| [format!("run.seed={seed}"), format!("chip.seed={seed}")]);
        self.set.iter().cloned().chain(seeds).collect()
    }

    /// Runs the experiments, which are made from these files, or explains them.
    pub fn execute(
        &self,
        experiments: &[Experiment],
        inputs: &[PathBuf],
    ) -> Result<Status, Failure> {
        if self.explain {
            let explained: Vec<String> = experiments
                .iter()
                .map(|e| format!("{}\n{}", e.name, table::settings(&e.settings)))
                .collect();
            print_table(&explained.join("\n"))?;
            return Ok(Status::Done);
        }
        let mut pipes: Vec<&Path> = Vec::new();
        for path in experiments.iter().filter_map(|one| one.workload.file()) {
            // The first run leaves nothing for the second.
            if pipes.contains(&path) {
                return Err(Failure::Pipe(path.into()));
            }
            if path.metadata().is_ok_and(|m| m.file_type().is_fifo()) {
                pipes.push(path);
            }
        }
        let saves = experiments
            .iter()
            .filter_map(|one| one.stack.chip.save.as_ref());
        saves.into_iter().try_for_each(|path| writable(path))?;
        let targets = self.output.open(inputs)?;
        let outcomes = experiments
            .iter()
            .map(trial)
            .collect::<Result<Vec<Outcome>, Failure>>()?;
        targets.write(&outcomes)?;
        Ok(if outcomes.iter().any(|outcome| outcome.problem) {
            Status::Problem
        } else {
            Status::Done
        })
    }
}

fn trial(experiment: &Experiment) -> Result<Outcome, Failure> {
    let bar = Bar::new(&experiment.name);
    Ok(run(experiment, &mut |progress| bar.show(progress))?)
}
