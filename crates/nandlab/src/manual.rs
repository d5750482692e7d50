//! `nandlab completions` and `nandlab man`: what the command knows of itself, for shells and for
//! readers.

use crate::failure::{Failure, Status};
use crate::output::{failed, put};
use clap_complete::Shell;
use std::path::PathBuf;

/// Print what makes a shell complete this command's words, e.g. for bash: source <(nandlab
/// completions bash)
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell that reads the completions
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn execute(self, mut command: clap::Command) -> Result<Status, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "nandlab", &mut text);
        put(&String::from_utf8_lossy(&text))?;
        Ok(Status::Done)
    }
}

/// Write the manual pages, one for each verb
#[derive(Debug, clap::Args)]
pub struct Man {
    /// A directory that is there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    pub fn execute(self, command: clap::Command) -> Result<Status, Failure> {
        clap_mangen::generate_to(command, &self.dir).map_err(|error| failed(&self.dir, error))?;
        Ok(Status::Done)
    }
}
