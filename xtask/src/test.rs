//! Every test.

use crate::{
    Outcome, book, cargo, lint, mutants, packages, portable, programs, prose, python, root, tidy,
};
use std::panic::resume_unwind;
use std::thread;
use std::time::Instant;

/// The module of each crate's integration tests that holds its slow tests: they boot the real
/// kernel, mount, start a browser or reproduce a paper. Where a test lies decides, so that there is
/// no list to keep.
pub const SLOW: &str = "slow::";

/// `test`: long tests do a sample of their work, and ignored tests do not run. `test whole`: all of
/// both, and a few mutants. `test quick`: what takes two minutes or so.
pub fn run(words: &[String]) -> Outcome {
    match words {
        [] => everything(false),
        [one] if one == "whole" => everything(true),
        [one] if one == "quick" => quick(),
        _ => Err("expected nothing, `whole` or `quick`".into()),
    }
}

fn everything(whole: bool) -> Outcome {
    // Installing waits for the network, and leaves the processors to the checks.
    thread::scope(|scope| {
        let installed = scope.spawn(install);
        let checked = check();
        let installed = installed
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic));
        checked.and(installed)
    })?;
    timed("python", python::run_with_programs)?;
    timed("test programs", || programs::run(whole))?;
    timed("doctests", doctests)?;
    match whole {
        true => timed("mutants", mutants::run_few),
        false => Ok(()),
    }
}

fn check() -> Outcome {
    timed("tidy", || tidy::run(&[]))?;
    timed("lint", || lint::run(&[]))?;
    timed("prose", || prose::run(&[]))?;
    timed("book", || book::run(&[]))
}

fn install() -> Outcome {
    timed("packages", packages::ensure)?;
    timed("portable", || portable::run(&[]))?;
    timed("python's packages", python::prepare)
}

/// Runs a part, and prints how long it took.
fn timed(part: &str, run: impl FnOnce() -> Outcome) -> Outcome {
    let begin = Instant::now();
    let outcome = run();
    eprintln!("{part}: {} s", begin.elapsed().as_secs());
    outcome
}

fn doctests() -> Outcome {
    crate::run(
        cargo()
            .current_dir(root())
            .args(["test", "--workspace", "--doc", "--no-fail-fast"]),
    )
}

fn quick() -> Outcome {
    tidy::run(&[])?;
    packages::ensure_some(packages::QUICK)?;
    crate::run(cargo().current_dir(root()).args([
        "test",
        "--workspace",
        "--tests",
        "--",
        "--skip",
        SLOW,
    ]))
}
