//! Power cuts and papers.

use crate::experiment::{Experiment, tell};
use crate::failure::{DescriptionError, RunError, guarded, raised};
use nandlab_crash::{Cuts, Plan, SecondLevel};
use nandlab_lab::Progress;
use nandlab_lab::cut::Prepared;
use nandlab_papers::{ALL, Size};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// Cuts the power everywhere in an experiment, and judges each recovery. Returns the report as
/// JSON, byte for byte as the command writes it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a call from Python names each")]
#[pyo3(signature = (experiment, cuts, words, second, operations, threads, progress))]
pub fn crash(
    py: Python<'_>,
    experiment: &Experiment,
    cuts: &str,
    words: Option<u32>,
    second: u64,
    operations: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let cuts: Cuts = cuts.parse().map_err(DescriptionError::new_err)?;
    let experiment = &experiment.0;
    let plan = Plan {
        seed: experiment.run.seed,
        cuts,
        words: words.unwrap_or(Plan::default().words),
        second: SecondLevel::Every(second),
        threads,
        ..Plan::default()
    };
    guarded(py, || {
        let prepared = Prepared::new(experiment, operations)
            .map_err(|error| raised(DescriptionError::new_err, &error))?;
        let watch = |done: u64, all: u64| {
            let at = Progress {
                phase: "cutting",
                share: done as f64 / all as f64,
            };
            tell(progress.as_ref(), at);
        };
        let report = prepared
            .explore(&plan, &watch)
            .map_err(|error| raised(RunError::new_err, &error))?;
        serde_json::to_string(&report).map_err(|error| raised(RunError::new_err, &error))
    })
}

/// Reproduces a paper. Returns its rows, claims, assumptions and tables as JSON.
#[pyfunction]
#[pyo3(signature = (name, size, progress))]
pub fn paper(
    py: Python<'_>,
    name: &str,
    size: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let found = ALL.iter().find(|paper| paper.id == name);
    let names: Vec<&str> = ALL.iter().map(|paper| paper.id).collect();
    let paper = found.ok_or_else(|| unknown("paper", name, &names))?;
    let sizes: Vec<&str> = Size::ALL.iter().map(|(name, _)| *name).collect();
    let found = Size::ALL.iter().find(|(name, _)| *name == size);
    let size = found.ok_or_else(|| unknown("size", size, &sizes))?.1;
    guarded(py, || {
        let watch = |at: Progress| tell(progress.as_ref(), at);
        let done = paper
            .reproduce(size, &watch)
            .map_err(|error| raised(RunError::new_err, &error))?;
        done.json()
            .map_err(|error| raised(RunError::new_err, &error))
    })
}

fn unknown(what: &str, found: &str, expected: &[&str]) -> PyErr {
    let expected = expected.join(", ");
    PyKeyError::new_err(format!("{what}: found {found}, expected one of {expected}"))
}
