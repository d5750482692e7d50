//! Where results go: the terminal, a file for machines, a file for people.

use crate::failure::Failure;
use nandlab_lab::result::RunResult;
use nandlab_lab::{Outcome, report, table};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Options that say where results go.
#[derive(Debug, clap::Args)]
pub struct Output {
    /// Write the results as JSON, a list with one entry a run; "-" is standard output, in place of
    /// the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with figures, one page that needs nothing but itself
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl Output {
    /// Refuses files that cannot be written, before hours are spent on what goes into them.
    pub fn check(&self) -> Result<(), Failure> {
        let files = self
            .json
            .iter()
            .chain(&self.report)
            .filter(|path| path.as_path() != Path::new("-"));
        files.into_iter().try_for_each(|path| {
            let opened = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path);
            opened.map(|_| ()).map_err(|error| failed(path, error))
        })
    }

    /// Writes the outcomes wherever they are asked for.
    pub fn write(&self, outcomes: &[Outcome]) -> Result<(), Failure> {
        let on_stdout = self.json.as_deref() == Some(Path::new("-"));
        if !on_stdout {
            print(&table::compare(outcomes))?;
        }
        if let Some(path) = &self.json {
            let results: Vec<&RunResult> = outcomes.iter().map(|outcome| &outcome.result).collect();
            let text =
                serde_json::to_string(&results).map_err(|error| failed(path, error.into()))? + "\n";
            if on_stdout {
                print(&text)?
            } else {
                save(path, &text)?
            }
        }
        if let Some(path) = &self.report {
            let results: Vec<RunResult> = outcomes
                .iter()
                .map(|outcome| outcome.result.clone())
                .collect();
            let costs: Vec<_> = outcomes.iter().map(|outcome| outcome.cost).collect();
            let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
            save(path, &report::html(&names.join(", "), &results, &costs))?;
        }
        for outcome in outcomes {
            outcome
                .notes
                .iter()
                .for_each(|note| eprintln!("nandlab: {}: {note}", outcome.result.name));
            if let Some(reason) = &outcome.result.host.first_failure {
                let failed = outcome.result.host.failed;
                eprintln!(
                    "nandlab: {}: {failed} requests were refused, the first: {reason}",
                    outcome.result.name
                );
            }
        }
        Ok(())
    }
}

/// Writes to standard output; a reader that has gone away is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(Path::new("standard output"), error))
        }
        _ => Ok(()),
    }
}

/// Writes a file.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| failed(path, error))
}

/// An output that could not be written.
pub fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::Output {
        path: path.into(),
        error,
    }
}
