//! `--exec`: a program in place of the translation layer of an experiment.

use crate::failure::Failure;
use nandlab_exec::Program;
use nandlab_lab::{Experiment, workload::Workloads};
use nandlab_stack::{Document, Registry};
use std::path::PathBuf;

/// The translation layer of an experiment, if it is a program.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// Put this program in place of the translation layer that the experiment names
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<PathBuf>,
}

impl Exec {
    /// Takes an experiment out of a document. An experiment cannot name a program by itself: only
    /// the command line starts one.
    pub fn take(&self, mut document: Document) -> Result<Experiment, Failure> {
        let Some(path) = &self.exec else {
            return Ok(Experiment::take(document)?);
        };
        document.replace("ftl", &[("scheme", "program")]);
        let registry = Registry::standard().with_scheme(Program::new(path));
        Ok(Experiment::take_with(
            document,
            &registry,
            &Workloads::standard(),
        )?)
    }
}
