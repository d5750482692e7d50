//! The run loop: builds the stack, writes what is to be there before, serves the workload in
//! virtual time, measures.
//!
//! *Closed loop*: as many slots as the queue is deep, each with its own time; the earliest goes
//! next, and a request is issued when its slot is free. *Open loop*: a request is issued when it
//! arrives, or when one of a limited number of slots is free; its latency counts from its arrival.
//!
//! Memory does not depend on the number of requests. A request costs nothing beyond the stack's own
//! work but the arithmetic here: no allocation, two dynamic calls to the device.

mod again;
mod chip_map;
mod driven;
mod driven_flash;
mod error;
mod files;
mod flash;
mod measure;
mod meter;
mod payload;
mod series;
mod slots;
mod snapshot;
mod steady;

pub use again::{Again, run_again};
pub use error::{Explained, RunError, Stopped};
pub use files::{
    Below, FilesOutcome, Latency, Live, PhaseOutcome, Traffic, live, run_calls, run_files,
    run_unproven,
};
pub use measure::{Run, measure, precondition};
pub use steady::Steady;

use crate::experiment::Experiment;
use crate::result::{Cost, RunResult, Setting};
use crate::workload::Decided;
use flash::Measured;
use measure::WATCH_EVERY;
use nandlab_stack::Stack;
use std::time::Instant;

/// A run's result, and what surrounds it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured; a function of the experiment alone.
    pub result: RunResult,
    /// What it cost to find out.
    pub cost: Cost,
    /// What a reader of the result should know.
    pub notes: Vec<String>,
    /// Whether something went wrong that the result has to be read with: refused requests, a steady
    /// state that never came.
    pub problem: bool,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is going on.
    pub phase: &'static str,
    /// Share of the phase done, 0 to 1.
    pub share: f64,
}

/// Runs an experiment; `watch` is notified of progress from time to time.
pub fn run(experiment: &Experiment, watch: &mut dyn FnMut(Progress)) -> Result<Outcome, RunError> {
    if let Some(files) = experiment.workload.files() {
        return Ok(run_files(experiment, files, false, watch)?.outcome);
    }
    let began = Instant::now();
    let options = &experiment.run;
    let mut stack = Stack::build(&experiment.stack)?;
    let clock = stack.clock.clone();
    let device = stack.disk()?;
    let geometry = *device.geometry();
    precondition(device, &clock, options, watch)?;
    let sector = u64::from(geometry.sector);
    let workload = &experiment.workload;
    let (mut feed, decided) = workload.open(geometry.bytes(), sector, options.seed)?;
    let measured = measure(device, &clock, &mut *feed, options, watch)?;
    stack.close()?;
    let mut notes = feed.notes();
    if !measured.steady {
        notes.push(
            "write amplification never became steady: everything was measured, from the first \
             request on"
                .into(),
        );
    }
    let result = RunResult {
        name: experiment.name.clone(),
        settings: with_decided(experiment, decided),
        ..measured.result
    };
    let problem = result.host.failed > 0 || !measured.steady;
    Ok(Outcome {
        result,
        cost: crate::cost::since(began),
        notes,
        problem,
    })
}

/// The settings, with those that the device decided.
fn with_decided(experiment: &Experiment, decided: Decided) -> Vec<Setting> {
    let decided = decided.into_iter().map(|(key, value)| Setting {
        key,
        value,
        origin: "default".into(),
    });
    experiment.settings.iter().cloned().chain(decided).collect()
}

#[cfg(test)]
mod tests;
