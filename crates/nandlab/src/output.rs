//! Where results go: the terminal, a file for machines, a file for people.
//!
//! *Promises.* A target that cannot be written, or that is an input too, is refused before the
//! work. A file is as it was until the result is complete.

use crate::failure::Failure;
use crate::terminal;
use nandlab_image::words::visible;
use nandlab_lab::result::RunResult;
use nandlab_lab::{Outcome, report, table};
use nandlab_scratch::{Scratch, beside};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
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
    pub fn open(&self, inputs: &[PathBuf]) -> Result<Targets, Failure> {
        if let (Some(json), Some(report)) = (&self.json, &self.report) {
            distinct(report, [json])?;
        }
        let open = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| Target::open(path, inputs))
                .transpose()
        };
        Ok(Targets {
            json: open(&self.json)?,
            report: match &self.report {
                Some(path) => Some(Target::file(path, inputs)?),
                None => None,
            },
        })
    }
}

/// The open targets of an [`Output`].
pub struct Targets {
    json: Option<Target>,
    report: Option<Target>,
}

impl Targets {
    /// Writes the outcomes wherever they are asked for.
    pub fn write(self, outcomes: &[Outcome]) -> Result<(), Failure> {
        if !self.json.as_ref().is_some_and(Target::is_stdout) {
            print_table(&table::compare(outcomes))?;
        }
        if let Some(target) = self.json {
            let results: Vec<&RunResult> = outcomes.iter().map(|outcome| &outcome.result).collect();
            target.json(&results)?;
        }
        if let Some(target) = self.report {
            let results: Vec<RunResult> = outcomes
                .iter()
                .map(|outcome| outcome.result.clone())
                .collect();
            let costs: Vec<_> = outcomes.iter().map(|outcome| outcome.cost).collect();
            let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
            target.write(&report::html(&names.join(", "), &results, &costs))?;
        }
        for outcome in outcomes {
            outcome
                .notes
                .iter()
                .for_each(|words| note(format_args!("{}: {words}", outcome.result.name)));
            if let Some(reason) = &outcome.result.host.first_failure {
                let failed = outcome.result.host.failed;
                note(format_args!(
                    "{}: {failed} requests were refused, the first: {reason}",
                    outcome.result.name
                ));
            }
        }
        Ok(())
    }
}

/// Where one result goes.
pub struct Target {
    path: PathBuf,
    to: To,
}

enum To {
    Stdout,
    /// A device, a pipe, or a file with several names, which a rename would separate.
    Open(File),
    /// A file, and the path that the scratch file takes.
    Scratch(Scratch, PathBuf),
}

impl Target {
    /// Opens a target; "-" is standard output.
    pub fn open(path: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        if path == Path::new("-") {
            let path = "standard output".into();
            let to = To::Stdout;
            return Ok(Self { path, to });
        }
        Self::file(path, inputs)
    }

    /// Opens a target that is a file, whatever its name.
    pub fn file(path: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        distinct(path, inputs)?;
        let to = open(path).map_err(|error| failed(path, error))?;
        Ok(Self {
            path: path.into(),
            to,
        })
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// The file for what is written piece by piece before [`keep`](Self::keep).
    pub fn file_to_fill(&self) -> Result<File, Failure> {
        let file = match &self.to {
            To::Stdout => return Err(failed(&self.path, io::ErrorKind::Unsupported.into())),
            To::Open(file) => emptied(file).and_then(|()| file.try_clone()),
            To::Scratch(scratch, _) => scratch.as_file().try_clone(),
        };
        file.map_err(|error| failed(&self.path, error))
    }

    /// The file is whole: it takes its place.
    pub fn keep(self) -> Result<(), Failure> {
        match self.to {
            To::Stdout | To::Open(_) => Ok(()),
            To::Scratch(scratch, real) => Ok(scratch.persist(&real)?),
        }
    }

    /// Writes a value as a line of JSON.
    pub fn json(self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text =
            serde_json::to_string(value).map_err(|error| failed(&self.path, error.into()))?;
        self.write(&(text + "\n"))
    }

    /// Writes the whole result.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        let written = match self.to {
            To::Stdout => return put(text),
            To::Open(mut file) => emptied(&file).and_then(|()| file.write_all(text.as_bytes())),
            To::Scratch(scratch, real) => scratch
                .as_file()
                .write_all(text.as_bytes())
                .and_then(|()| scratch.persist(&real).map_err(|error| error.error)),
        };
        written.map_err(|error| failed(&self.path, error))
    }
}

/// Takes everything out of a regular file.
fn emptied(file: &File) -> io::Result<()> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => file.set_len(0),
        _ => Ok(()),
    }
}

/// Refuses a file that could not be written when the work is done.
pub fn writable(path: &Path) -> Result<(), Failure> {
    open(path).map(drop).map_err(|error| failed(path, error))
}

fn open(path: &Path) -> io::Result<To> {
    let old = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        old => Some(old?),
    };
    let Some(old) = old else {
        let scratch = beside(path).map_err(|error| error.error)?;
        return Ok(To::Scratch(scratch, path.into()));
    };
    let file = OpenOptions::new().write(true).open(path)?;
    if !old.is_file() || old.nlink() > 1 {
        return Ok(To::Open(file));
    }
    // A symbolic link stays one.
    let real = path.canonicalize()?;
    let scratch = beside(&real).map_err(|error| error.error)?;
    scratch.resemble(&file)?;
    Ok(To::Scratch(scratch, real))
}

/// Refuses a target that is one of the inputs, by whatever name.
pub fn distinct<'a>(
    target: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    let file = |path: &Path| path.metadata().ok().filter(Metadata::is_file);
    let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let own = file(target).map(number);
    let same = |input: &&PathBuf| {
        input.as_path() == target || own.is_some() && file(input).map(number) == own
    };
    match inputs.into_iter().find(same) {
        Some(input) => Err(Failure::SameFile {
            target: target.into(),
            input: input.clone(),
        }),
        None => Ok(()),
    }
}

/// Writes text for people to standard output, where a terminal obeys none of it.
pub fn print(text: &str) -> Result<(), Failure> {
    put(&visible(text))
}

/// The same of a table, or of other text whose characters are the command's own.
pub fn print_table(text: &str) -> Result<(), Failure> {
    print(&terminal::shown(text))
}

/// Writes a message to standard error, where a terminal obeys none of it.
pub fn note(message: std::fmt::Arguments<'_>) {
    // Nothing is left to report on when standard error is closed.
    _ = writeln!(io::stderr(), "nandlab: {}", visible(&message.to_string()));
}

/// Writes to standard output as it is; a reader that has gone away is no failure.
pub fn put(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(Path::new("standard output"), error))
        }
        _ => Ok(()),
    }
}

/// An output that could not be written.
pub fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::Output {
        path: path.into(),
        error,
    }
}
