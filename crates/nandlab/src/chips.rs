//! `nandlab chips`: the presets, with where their numbers come from.

use crate::failure::{Failure, Status};
use crate::output::print;
use nandlab_nand::preset;

/// List the chips that chip.preset names, and where their numbers come from
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let chips: Vec<String> = preset::ALL
            .iter()
            .map(|p| format!("{}\n    {}\n    {}\n", p.name, p.what, p.note))
            .collect();
        print(&chips.join("\n"))?;
        Ok(Status::Done)
    }
}
