//! `nandlab paper`: papers reproduced.

use crate::failure::{Failure, Status};
use crate::output::{Target, distinct, failed, print_table};
use crate::progress::Bar;
use nandlab_lab::table;
use nandlab_papers::{ALL, Paper, Size};
use std::path::{Path, PathBuf};

/// Reproduce a paper: its numbers beside ours, its claims judged, everything assumed declared
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A paper, "all", or "list" for their names
    #[arg(value_name = "NAME|all|list", value_parser = names())]
    name: String,
    /// How large the runs are, where the published sizes take long (f2fs): small for a quick look,
    /// usual for minutes, published for the published sizes
    #[arg(long, value_name = "SIZE", default_value = "usual", value_parser = sizes())]
    size: String,
    /// Write rows, claims, assumptions and tables as JSON, one object a paper and line; "-" is
    /// standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with figures, one page that needs nothing but itself; of several papers,
    /// FILE-NAME.html each
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn names() -> clap::builder::PossibleValuesParser {
    ALL.iter()
        .map(|paper| paper.id)
        .chain(["all", "list"])
        .collect::<Vec<_>>()
        .into()
}

fn sizes() -> clap::builder::PossibleValuesParser {
    Size::ALL.map(|(name, _)| name).into()
}

impl Args {
    fn size(&self) -> Size {
        let found = Size::ALL.iter().find(|(name, _)| *name == self.size);
        found.map(|(_, size)| *size).unwrap_or_default()
    }

    pub fn execute(self) -> Result<Status, Failure> {
        if self.name == "list" {
            let rows = ALL
                .iter()
                .map(|paper| [paper.id.to_string(), paper.title.to_string()]);
            print_table(&table::words(["name", "paper"], rows))?;
            return Ok(Status::Done);
        }
        let wanted: Vec<&Paper> = ALL
            .iter()
            .filter(|paper| self.name == "all" || paper.id == self.name)
            .collect();
        let open = |path: &PathBuf| Target::open(path, &[]);
        let target = self.json.as_ref().map(open).transpose()?;
        let size = self.size();
        let mut reports = Vec::new();
        for paper in &wanted {
            let path = self.report.as_ref();
            let path = path.map(|path| report_path(path, paper.id, wanted.len()));
            if let Some(path) = &path {
                distinct(path, &self.json)?;
            }
            let open = |path: PathBuf| Target::file(&path, &[]);
            reports.push(path.map(open).transpose()?);
        }
        let on_stdout = target.as_ref().is_some_and(Target::is_stdout);
        let mut json = String::new();
        for (paper, report) in wanted.iter().zip(reports) {
            let bar = Bar::new(paper.id);
            let done = paper.reproduce(size, &|progress| bar.show(progress))?;
            drop(bar);
            if !on_stdout {
                print_table(&done.text())?;
            }
            let line = done
                .json()
                .map_err(|error| failed(Path::new("JSON"), error.into()))?;
            json = json + &line + "\n";
            if let Some(report) = report {
                report.write(&done.html())?;
            }
        }
        if let Some(target) = target {
            target.write(&json)?;
        }
        Ok(Status::Done)
    }
}

/// Where the report of one of several goes.
fn report_path(path: &Path, id: &str, several: usize) -> PathBuf {
    if several == 1 {
        return path.into();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{id}.html"))
}
