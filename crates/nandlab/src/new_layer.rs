//! `nandlab new-layer`: a folder with a translation layer or a file system to begin with.

use crate::failure::{Failure, Status};
use crate::output::{failed, print};
use nandlab_exec::start::{self, File};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Begin a translation layer of your own: a folder with a layer that works, to be measured by
/// `nandlab run --exec` and cut by `nandlab crash --exec`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder that is not there yet
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The language of the layer
    #[arg(long, value_enum, default_value_t = Language::C)]
    language: Language,
    /// Begin a file system instead, in Python, for --exec-files
    #[arg(long, conflicts_with = "language")]
    files: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Language {
    C,
    Python,
}

impl Args {
    pub fn execute(self) -> Result<Status, Failure> {
        let (files, next): (&[File], _) = match self.language {
            _ if self.files => (
                &start::PYTHON_FILES,
                "nandlab crash --exec-files ./files.py files.toml",
            ),
            Language::C => (
                &start::C,
                "make, then nandlab crash --exec ./layer layer.toml",
            ),
            Language::Python => (&start::PYTHON, "nandlab crash --exec ./layer.py layer.toml"),
        };
        let folder = &self.folder;
        fs::create_dir(folder).map_err(|error| failed(folder, error))?;
        for file in files {
            let path = folder.join(file.name);
            let mode = if file.runs { 0o777 } else { 0o666 };
            let mut options = fs::OpenOptions::new();
            let made = options.write(true).create_new(true).mode(mode).open(&path);
            made.and_then(|mut made| std::io::Write::write_all(&mut made, file.text.as_bytes()))
                .map_err(|error| failed(&path, error))?;
        }
        print(&format!("{}: next: {next}\n", folder.display()))?;
        Ok(Status::Done)
    }
}
