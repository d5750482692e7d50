//! `--exec` and `--exec-files`: a program in place of an experiment's translation layer or file
//! system.

use crate::failure::Failure;
use nandlab_exec::{FileProgram, Program};
use nandlab_lab::{Experiment, workload::Workloads};
use nandlab_stack::{Document, Registry};
use std::path::PathBuf;

/// The translation layer or the file system of an experiment, if it is a program.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// Put this program in place of the translation layer that the experiment names
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<PathBuf>,
    /// Put this program in place of the file system that the experiment names; it lies on flash
    #[arg(long, value_name = "PROGRAM", conflicts_with = "exec")]
    exec_files: Option<PathBuf>,
}

impl Exec {
    /// Takes an experiment out of a document. An experiment cannot name a program by itself: only
    /// the command line starts one.
    pub fn take(&self, mut document: Document) -> Result<Experiment, Failure> {
        let mut registry = Registry::standard();
        if let Some(path) = &self.exec {
            document.replace("ftl", &[("scheme", "program")]);
            registry = registry.with_scheme(Program::new(path));
        }
        if let Some(path) = &self.exec_files {
            document.replace("fs", &[("type", "program")]);
            registry = registry.with_file_system(FileProgram::new(path));
        }
        Ok(Experiment::take_with(
            document,
            &registry,
            &Workloads::standard(),
        )?)
    }
}
