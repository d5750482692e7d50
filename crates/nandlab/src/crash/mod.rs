//! `nandlab crash`: the power cut everywhere in an experiment, or in each cell of a matrix.

mod matrix;
mod store;

use crate::failure::{Failure, Status};
use crate::layer::Exec;
use crate::output::{Target, note, print};
use crate::progress::Bar;
use nandlab_crash::{Cuts, Id, Plan, SecondLevel};
use nandlab_lab::cut::Prepared;
use nandlab_lab::{Experiment, Progress};
use nandlab_stack::Document;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Cut the power everywhere in an experiment, recover, and judge what is left
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Operations are served one after another; their arrival times and run.queue-depth play no part. \
                        After a cut each sector must hold what it held at the last flush that returned, or something newer. \
                        With a file system ([fs]) its files are judged instead, by what its mode promises. \
                        Exit status: 0 nothing wrong, 1 violations, 2 bad input."
)]
pub struct Args {
    /// A stack and a workload, in TOML; with --matrix a matrix, if not the one that comes along
    #[arg(value_name = "EXPERIMENT.toml", required_unless_present = "matrix")]
    experiment: Option<PathBuf>,
    /// Explore a matrix of stacks, and print a table with a row for each
    #[arg(long)]
    matrix: bool,
    /// Only the cell of this name, or all cells whose names contain it
    #[arg(long, value_name = "TEXT", requires = "matrix")]
    only: Option<String>,
    /// Remember finished cells in this file, and leave out those that it has
    #[arg(long, value_name = "FILE", requires = "matrix")]
    store: Option<PathBuf>,
    /// Which cuts: "all" (before, within and after every chip operation), or so many states spread
    /// over the run
    #[arg(long, value_name = "all|N", default_value = "all")]
    cuts: Cuts,
    /// States for each chip operation that is cut in two
    #[arg(long, value_name = "N", default_value_t = Plan::default().words)]
    words: u32,
    /// Cut every Nth recovery again, at all of its chip operations; 0 none
    #[arg(long, value_name = "N", default_value_t = 16)]
    second: u64,
    /// Operations of the workload at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    ops: usize,
    /// Worker threads; 0 one a core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Make one state again, by the name that a report gives it, with the same experiment,
    /// overrides and seed
    #[arg(long, value_name = "ID")]
    id: Option<Id>,
    /// Keep states as files in this directory instead, for another judge: each distinct state after
    /// one cut, or the one of --id. The file is the part of the disk on which the file system lies,
    /// after the recovery of the translation layer, or a dump of the chip
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "store"])]
    keep: Option<PathBuf>,
    #[command(flatten)]
    exec: Exec,
    /// Override a setting of the description, e.g. chip.blocks=64
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the cuts, the workload and the chip's faults: the same as --set run.seed=N --set
    /// chip.seed=N
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the report as JSON; "-" is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// Explores, or makes one state again.
    pub fn execute(self) -> Result<Status, Failure> {
        let Some(path) = self.experiment.as_ref().filter(|_| !self.matrix) else {
            return match &self.id {
                Some(id) => {
                    let (prepared, plan) = matrix::one(&self)?;
                    self.again((&prepared, &plan), id, self.target(&[])?)
                }
                None => matrix::explore(&self),
            };
        };
        let document = Document::read(path, &self.overrides())?;
        let inputs = document.files();
        let experiment = self.exec.take(document)?;
        let target = self.target(&inputs)?;
        let prepared = Prepared::new(&experiment, self.ops)?;
        if prepared.cut_short {
            note(format_args!(
                "{}: the first {} operations of the workload (--ops gives another number)",
                experiment.name, self.ops
            ));
        }
        let plan = self.plan(&experiment);
        match (&self.id, &self.keep) {
            (Some(id), _) => self.again((&prepared, &plan), id, target),
            (None, Some(directory)) => keep(&experiment.name, (&prepared, &plan), directory),
            (None, None) => explore(&experiment.name, (&prepared, &plan), target),
        }
    }

    /// Makes one state again, and judges it or keeps it.
    fn again(
        &self,
        (prepared, plan): (&Prepared, &Plan),
        id: &Id,
        target: Option<Target>,
    ) -> Result<Status, Failure> {
        let Some(directory) = &self.keep else {
            return again((prepared, plan), id, target);
        };
        make(directory)?;
        let path = prepared.keep(plan, id, directory)?;
        print(&format!("{}\n", path.display()))?;
        Ok(Status::Done)
    }

    fn overrides(&self) -> Vec<String> {
        let seeds = self
            .seed
            .iter()
            .flat_map(|seed| [format!("run.seed={seed}"), format!("chip.seed={seed}")]);
        self.set.iter().cloned().chain(seeds).collect()
    }

    fn plan(&self, experiment: &Experiment) -> Plan {
        Plan {
            seed: experiment.run.seed,
            cuts: self.cuts,
            words: self.words,
            second: SecondLevel::Every(self.second),
            threads: self.threads,
            ..Plan::default()
        }
    }

    fn target(&self, inputs: &[PathBuf]) -> Result<Option<Target>, Failure> {
        let json = self.json.as_ref();
        json.map(|path| Target::open(path, inputs)).transpose()
    }
}

/// Keeps the states of an experiment, or of a cell, in a directory.
fn keep(
    name: &str,
    (prepared, plan): (&Prepared, &Plan),
    directory: &Path,
) -> Result<Status, Failure> {
    make(directory)?;
    let count = prepared.keep_all(plan, directory)?;
    print(&format!(
        "{name}: {count} states in {}\n",
        directory.display()
    ))?;
    Ok(Status::Done)
}

fn make(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| Failure::Output {
        path: directory.into(),
        error,
    })
}

fn explore(
    name: &str,
    (prepared, plan): (&Prepared, &Plan),
    target: Option<Target>,
) -> Result<Status, Failure> {
    let bar = Bar::new(name);
    let begun = Instant::now();
    let share = |done, all| {
        bar.show(Progress {
            phase: "cutting",
            share: done as f64 / all as f64,
        })
    };
    let report = prepared.explore(plan, &share)?;
    drop(bar);
    let states = report.states + report.second_level_states;
    let seconds = begun.elapsed().as_secs_f64();
    write(&report, &report.to_string(), target)?;
    note(format_args!(
        "{name}: {states} states in {seconds:.1} s, {:.0} a second",
        states as f64 / seconds
    ));
    Ok(if report.violations_total == 0 {
        Status::Done
    } else {
        Status::Problem
    })
}

fn again(
    (prepared, plan): (&Prepared, &Plan),
    id: &Id,
    target: Option<Target>,
) -> Result<Status, Failure> {
    let violation = prepared.replay(plan, id)?;
    let text = violation
        .as_ref()
        .map_or_else(|| format!("{id}  nothing wrong\n"), ToString::to_string);
    write(&violation, &text, target)?;
    Ok(if violation.is_none() {
        Status::Done
    } else {
        Status::Problem
    })
}

fn write(value: &impl Serialize, text: &str, target: Option<Target>) -> Result<(), Failure> {
    if !target.as_ref().is_some_and(Target::is_stdout) {
        print(text)?;
    }
    target.map_or(Ok(()), |target| target.json(value))
}
