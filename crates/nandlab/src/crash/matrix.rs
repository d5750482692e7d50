//! `nandlab crash --matrix`: many stacks, one table, and a file that remembers finished cells.

use super::store::{Asked, Explored, Store};
use super::{Args, write};
use crate::failure::{Failure, Status};
use crate::output::{Target, note};
use crate::progress::Bar;
use nandlab_crash::{CrashReport, Plan};
use nandlab_lab::cut::Prepared;
use nandlab_lab::cut::matrix::{Cell, Matrix, OURS};
use nandlab_lab::{Experiment, Progress};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Explores every selected cell that the store does not have. Refuses before the work what cannot
/// be explored or written.
pub fn explore(args: &Args) -> Result<Status, Failure> {
    let inputs: Vec<PathBuf> = args.experiment.iter().chain(&args.store).cloned().collect();
    let tasks = selected(args)?;
    let tasks = tasks.iter().map(|cell| Task::new(args, cell));
    let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
    if let Some(directory) = &args.keep {
        return keep(&tasks, directory);
    }
    let target = args.target(&inputs)?;
    let mut store = Store::open(args.store.as_deref())?;
    let bar = Bar::new("matrix");
    let mut done = Vec::new();
    let all = tasks.len() as f64;
    for (number, task) in tasks.iter().enumerate() {
        let show = |within| {
            bar.show(Progress {
                phase: "cutting",
                share: (number as f64 + within) / all,
            });
        };
        let explored = task.explored(&store, &show)?;
        store.keep(&explored)?;
        done.push(explored);
    }
    drop(bar);
    report(&done, target)
}

/// Keeps the states of each cell in a directory of the cell's name.
fn keep(tasks: &[Task], directory: &Path) -> Result<Status, Failure> {
    for task in tasks {
        let subject = (&task.prepared, &task.plan);
        super::keep(&task.cell, subject, &directory.join(&task.cell))
            .map_err(|failure| named(&task.cell, failure))?;
    }
    Ok(Status::Done)
}

/// A cell that can be explored.
struct Task {
    cell: String,
    asked: Asked,
    prepared: Prepared,
    plan: Plan,
}

impl Task {
    fn new(args: &Args, cell: &Cell) -> Result<Self, Failure> {
        let (prepared, plan) =
            prepared(args, cell).map_err(|failure| named(&cell.name, failure))?;
        Ok(Self {
            cell: cell.name.clone(),
            asked: asked(args, cell, &plan),
            prepared,
            plan,
        })
    }

    /// The report, from the store or new.
    fn explored(&self, store: &Store, show: &(dyn Fn(f64) + Sync)) -> Result<Explored, Failure> {
        let progress = |done, all: u64| show(done as f64 / all.max(1) as f64);
        let report = match store.known(&self.asked) {
            Some(report) => report,
            None => self
                .prepared
                .explore(&self.plan, &progress)
                .map_err(|error| named(&self.cell, error.into()))?,
        };
        Ok(Explored {
            cell: self.cell.clone(),
            asked: self.asked.clone(),
            report,
        })
    }
}

fn named(cell: &str, failure: Failure) -> Failure {
    Failure::Cell {
        cell: cell.into(),
        failure: failure.into(),
    }
}

/// The one cell that `--only` selects, to make one of its states again.
pub fn one(args: &Args) -> Result<(Prepared, Plan), Failure> {
    match &selected(args)?[..] {
        [cell] => prepared(args, cell),
        cells => Err(Failure::OneCell(cells.len())),
    }
}

/// The cell whose name is as `--only` says, or all whose names contain it.
fn selected(args: &Args) -> Result<Vec<Cell>, Failure> {
    let matrix = match &args.experiment {
        None => Matrix::parse("matrices/stacks.toml of nandlab", OURS)?,
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Failure::Input {
                path: path.clone(),
                error,
            })?;
            Matrix::parse(&path.display().to_string(), &text)?
        }
    };
    let Some(only) = &args.only else {
        return Ok(matrix.cells);
    };
    let is_exact = matrix.cells.iter().any(|cell| cell.name == *only);
    let fits = |cell: &Cell| match is_exact {
        true => cell.name == *only,
        false => cell.name.contains(&**only),
    };
    let cells: Vec<Cell> = matrix.cells.into_iter().filter(fits).collect();
    if cells.is_empty() {
        return Err(Failure::NoCell(only.clone()));
    }
    Ok(cells)
}

fn prepared(args: &Args, cell: &Cell) -> Result<(Prepared, Plan), Failure> {
    let directory = args.experiment.as_deref().and_then(Path::parent);
    let document = cell.document(directory.unwrap_or(Path::new("")), &args.overrides())?;
    let experiment = Experiment::take(document)?;
    let plan = args.plan(&experiment);
    Ok((Prepared::new(&experiment, args.ops)?, plan))
}

/// The task of a cell. The number of threads is no part of it.
fn asked(args: &Args, cell: &Cell, plan: &Plan) -> Asked {
    let threads = 0;
    Asked {
        version: env!("CARGO_PKG_VERSION").into(),
        description: cell.text.clone(),
        overrides: args.overrides(),
        operations: args.ops,
        plan: format!(
            "{:?}",
            Plan {
                threads,
                ..plan.clone()
            }
        ),
    }
}

fn report(done: &[Explored], target: Option<Target>) -> Result<Status, Failure> {
    let violations: u64 = done.iter().map(|cell| cell.report.violations_total).sum();
    write(&done, &table(done), target)?;
    for cell in done.iter().filter(|cell| cell.report.violations_total > 0) {
        note(format_args!(
            "{}: {}\nmake a state again with: --matrix --only '{}' --id ID",
            cell.cell, cell.report, cell.cell
        ));
    }
    Ok(if violations == 0 {
        Status::Done
    } else {
        Status::Problem
    })
}

/// A row for each cell, as Markdown.
fn table(done: &[Explored]) -> String {
    let mut text = String::new();
    let heads = [
        "cell",
        "runs",
        "states",
        "distinct",
        "violations",
        "recovery: median (ms)",
        "p99",
        "longest",
        "state of the longest",
    ];
    writeln!(text, "| {} |", heads.join(" | ")).unwrap();
    writeln!(text, "|---{}|", "|---:".repeat(7) + "|---").unwrap();
    for Explored { cell, report, .. } in done {
        let recovery = match &report.recovery {
            None => "| | | ".to_owned(),
            Some(times) => {
                let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
                let [median, p99, max] = [times.median_ns, times.p99_ns, times.max_ns].map(ms);
                format!("{median} | {p99} | {max} | `{}`", times.slowest)
            }
        };
        let states = report.states + report.second_level_states;
        let runs = report.runs;
        let distinct = report.distinct_states;
        let violations = report.violations_total;
        writeln!(
            text,
            "| {cell} | {runs} | {states} | {distinct} | {violations} | {recovery} |"
        )
        .unwrap();
    }
    let sum = |count: fn(&CrashReport) -> u64| -> u64 {
        done.iter().map(|cell| count(&cell.report)).sum()
    };
    writeln!(
        text,
        "\n{} cells: {} states, {} distinct, {} violations",
        done.len(),
        sum(|report| report.states + report.second_level_states),
        sum(|report| report.distinct_states),
        sum(|report| report.violations_total)
    )
    .unwrap();
    text
}
