//! Experiments and what comes of them.

use crate::arrow::Table;
use crate::failure::{DescriptionError, RunError, guarded, raised, stop};
use crate::plugin::Description;
use arrow_array::{ArrayRef, Float32Array, Float64Array, UInt32Array, UInt64Array};
use nandlab_lab::result::{ChipMap, Point, RunResult};
use nandlab_lab::{Progress, run};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use std::sync::Arc;

/// An experiment whose every key was checked.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Experiment(pub nandlab_lab::Experiment);

#[pymethods]
impl Experiment {
    /// An experiment of a description: its text, its name in messages, the directory at which
    /// relative paths begin, overrides as `section.key=value`, and layers and workloads of Python.
    #[new]
    fn new(description: Description) -> PyResult<Self> {
        let experiment = description
            .parts()
            .and_then(|(document, registry, workloads)| {
                nandlab_lab::Experiment::take_with(document, &registry, &workloads)
            });
        let refused = |error| raised(DescriptionError::new_err, &error);
        experiment.map(Self).map_err(refused)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Every setting in effect: key, value and origin.
    #[getter]
    fn settings(&self) -> Vec<(String, String, String)> {
        let settings = self.0.settings.iter();
        let row = |one: &nandlab_lab::result::Setting| {
            (one.key.clone(), one.value.clone(), one.origin.clone())
        };
        settings.map(row).collect()
    }

    /// Runs the experiment. `progress` is called with the phase and the share of it that is done.
    /// Other threads of Python go on meanwhile.
    fn run(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Outcome> {
        guarded(py, || {
            let mut watch = |at: Progress| tell(progress.as_ref(), at);
            let outcome = run(&self.0, &mut watch);
            let outcome = outcome.map_err(|error| raised(RunError::new_err, &error))?;
            Ok(Outcome(outcome))
        })
    }
}

/// Passes progress on. What the callback raises, Ctrl-C among it, ends the run.
pub fn tell(progress: Option<&Py<PyAny>>, at: Progress) {
    let told = Python::attach(|py| {
        py.check_signals()?;
        match progress {
            Some(callback) => callback.call1(py, (at.phase, at.share)).map(drop),
            None => Ok(()),
        }
    });
    told.unwrap_or_else(|error| stop(error));
}

/// What a run came to.
#[pyclass(frozen, module = "nandlab._nandlab")]
pub struct Outcome(nandlab_lab::Outcome);

#[pymethods]
impl Outcome {
    /// The result as JSON, byte for byte as the command writes it.
    #[getter]
    fn json(&self) -> PyResult<String> {
        let text = serde_json::to_string(&self.0.result);
        text.map_err(|error| raised(RunError::new_err, &error))
    }

    /// The same without series, histograms and the chip's blocks, which are most of it. Other
    /// threads of Python go on meanwhile.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || {
            let mut result = RunResult {
                series: Vec::new(),
                chip: ChipMap::default(),
                ..self.0.result.clone()
            };
            for row in &mut result.host.operations {
                row.latency.buckets.clear();
            }
            let text = serde_json::to_string(&result);
            text.map_err(|error| raised(RunError::new_err, &error))
        })
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }

    #[getter]
    fn problem(&self) -> bool {
        self.0.problem
    }

    #[getter]
    fn wall_s(&self) -> f64 {
        self.0.cost.wall_s
    }

    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.0.cost.peak_bytes
    }

    /// Progress over virtual time.
    fn series(&self) -> PyResult<Table> {
        Table::new(series(&self.0.result.series))
    }

    /// Requests by latency: the upper end of each bucket, and the requests in it.
    fn histogram(&self, operation: &str) -> PyResult<Table> {
        let row = self.0.result.operation(operation);
        let row = row.ok_or_else(|| PyKeyError::new_err(operation.to_owned()))?;
        let (ends, counts): (Vec<u64>, Vec<u64>) = row.latency.buckets.iter().copied().unzip();
        Table::new(vec![
            ("up_to_ns", Arc::new(UInt64Array::from(ends)) as ArrayRef),
            ("requests", Arc::new(UInt64Array::from(counts))),
        ])
    }

    /// The blocks of the chip at the end.
    fn chip(&self) -> PyResult<Table> {
        Table::new(chip(&self.0.result))
    }
}

fn series(points: &[Point]) -> Vec<(&'static str, ArrayRef)> {
    let numbers = |of: fn(&Point) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(points.iter().map(of)))
    };
    let at = points.iter().map(|point| point.at_ns);
    let written = numbers(|point| point.written_per_s);
    let read = numbers(|point| point.read_per_s);
    let amplification = numbers(|point| point.write_amplification.unwrap_or(f64::NAN));
    vec![
        ("at_ns", Arc::new(UInt64Array::from_iter_values(at))),
        ("written_per_s", written),
        ("read_per_s", read),
        ("write_amplification", amplification),
    ]
}

fn chip(result: &RunResult) -> Vec<(&'static str, ArrayRef)> {
    let map = &result.chip;
    vec![
        ("erases", Arc::new(Float32Array::from(map.erases.clone()))),
        ("valid", Arc::new(Float32Array::from(map.valid.clone()))),
        ("bad", Arc::new(UInt32Array::from(map.bad.clone()))),
    ]
}
