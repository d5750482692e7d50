//! The Python package: built into an environment of its own, its types and its stubs checked, its
//! tests run, with the notebooks and the other examples.

use crate::{Outcome, packages, root, run};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The programs that make an environment.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/python3", "python3"),
    ("/var/lib/dpkg/info/python3-venv.list", "python3-venv"),
];
/// The packages that the tests need, in the versions with which they passed.
const REQUIREMENTS: &str = "requirements.txt";

/// `python`: everything. Words go to pytest.
pub fn run_tests(words: &[String]) -> Outcome {
    packages::install(NEEDED)?;
    prepare()?;
    run(program("maturin").args(["develop", "--quiet"]))?;
    run(&mut program("mypy"))?;
    run(program("stubtest").args(["nandlab._nandlab", "--ignore-disjoint-bases"]))?;
    run(program("pytest").args(["-q", "-n", "auto"]).args(words))
}

/// Makes the environment, unless it has these packages.
fn prepare() -> Outcome {
    let wanted = root().join("python").join(REQUIREMENTS);
    let installed = folder().join(REQUIREMENTS);
    let failed = |why: std::io::Error| format!("{}: {why}", folder().display());
    if installed.exists() && fs::read(&installed).ok() == fs::read(&wanted).ok() {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(folder()))?;
    run(program("pip")
        .args(["install", "--quiet", "--requirement"])
        .arg(&wanted))?;
    fs::copy(&wanted, &installed).map(drop).map_err(failed)
}

fn folder() -> PathBuf {
    root().join("target/python")
}

/// A program of the environment.
fn program(name: &str) -> Command {
    let mut command = Command::new(folder().join("bin").join(name));
    command
        .current_dir(root())
        .env("VIRTUAL_ENV", folder());
    command
}
