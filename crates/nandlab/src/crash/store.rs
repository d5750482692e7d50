//! A file of finished cells, so that a matrix goes on where it stopped.

use crate::failure::Failure;
use nandlab_crash::CrashReport;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// A finished cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explored {
    /// The name of the cell.
    pub cell: String,
    /// The task.
    pub asked: Asked,
    /// The result.
    pub report: CrashReport,
}

/// Everything that a report depends on. A change of one part makes another exploration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The version of nandlab.
    pub version: String,
    /// The description of the cell in TOML.
    pub description: String,
    /// Settings laid over it.
    pub overrides: Vec<String>,
    /// Operations of the workload at most.
    pub operations: usize,
    /// The extent of the exploration.
    pub plan: String,
}

/// Finished cells, a line of JSON each. Without a file it remembers nothing.
pub struct Store {
    known: Vec<Explored>,
    file: Option<(PathBuf, File)>,
}

impl Store {
    /// Opens a store, or begins one. Leaves out a last line without an end, which an interrupted
    /// command wrote.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            let known = Vec::new();
            return Ok(Self { known, file: None });
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| failed(path, error))?;
        let (known, whole) = read(path, &file)?;
        file.set_len(whole).map_err(|error| failed(path, error))?;
        let file = Some((path.into(), file));
        Ok(Self { known, file })
    }

    /// The report of the same task, if the store has it.
    pub fn known(&self, asked: &Asked) -> Option<CrashReport> {
        let mut known = self.known.iter();
        let explored = known.find(|explored| explored.asked == *asked)?;
        Some(explored.report.clone())
    }

    /// Remembers a finished cell.
    pub fn keep(&mut self, explored: &Explored) -> Result<(), Failure> {
        let is_known = self.known(&explored.asked).is_some();
        let Some((path, file)) = self.file.as_mut().filter(|_| !is_known) else {
            return Ok(());
        };
        let line = serde_json::to_string(explored).map_err(|e| failed(path, e.into()))? + "\n";
        let written = file.write_all(line.as_bytes());
        written.map_err(|error| failed(path, error))
    }
}

/// The finished cells of a file, and the bytes of its whole lines.
fn read(path: &Path, file: &File) -> Result<(Vec<Explored>, u64), Failure> {
    let mut known = Vec::new();
    let mut whole = 0;
    let mut lines = BufReader::new(file);
    loop {
        let mut line = String::new();
        let length = lines.read_line(&mut line);
        let length = length.map_err(|error| failed(path, error))?;
        if !line.ends_with('\n') {
            return Ok((known, whole));
        }
        known.push(serde_json::from_str(&line).map_err(|error| Failure::Store {
            path: path.into(),
            line: known.len() + 1,
            error,
        })?);
        whole += length as u64;
    }
}

fn failed(path: &Path, error: io::Error) -> Failure {
    let path = path.into();
    Failure::Output { path, error }
}
