//! Every test.

use crate::{Outcome, book, cargo, lint, packages, portable, programs, prose, python, root, tidy};

/// The module of each crate's integration tests that holds its slow tests: they boot the real
/// kernel, mount, start a browser or reproduce a paper. Where a test lies decides, so that there is
/// no list to keep.
const SLOW: &str = "slow::";

/// `test`: everything. `test quick`: what takes two minutes or so.
pub fn run(words: &[String]) -> Outcome {
    match words {
        [] => everything(),
        [one] if one == "quick" => quick(),
        _ => Err("expected nothing, or `quick`".into()),
    }
}

fn everything() -> Outcome {
    tidy::run(&[])?;
    lint::run(&[])?;
    prose::run(&[])?;
    book::run(&[])?;
    packages::ensure()?;
    portable::run(&[])?;
    python::run_tests(&[])?;
    programs::run()?;
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
