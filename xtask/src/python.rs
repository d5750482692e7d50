//! The Python package: built into an environment of its own, its types and its stubs checked, its
//! tests run, with the notebooks and the other examples. Or its figures measured.

use crate::{Outcome, packages, programs, root, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that make an environment.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/python3", "python3"),
    ("/var/lib/dpkg/info/python3-venv.list", "python3-venv"),
];
/// The packages that the tests need, in the versions with which they passed.
const REQUIREMENTS: &str = "requirements.txt";
/// The name of the compiled half.
const LIBRARY: &str = "_nandlab";
/// Measures instead of testing.
const FIGURES: &str = "--figures";

/// `python`: everything. Words go to pytest.
pub fn run_tests(words: &[String]) -> Outcome {
    if words.iter().any(|word| word == FIGURES) {
        prepare()?;
        return measure();
    }
    test(&["--package", "nandlab-python", "--lib"], words)
}

/// The same, with the library from the build of all test programs.
pub fn run_with_programs() -> Outcome {
    test(programs::ALL, &[])
}

fn test(build: &[&str], words: &[String]) -> Outcome {
    prepare()?;
    install(&library(&programs::built(build)?)?)?;
    run(&mut program("mypy"))?;
    run(program("stubtest").args(["nandlab._nandlab", "--ignore-disjoint-bases"]))?;
    run(program("pytest").args(["-q", "-n", "auto"]).args(words))
}

/// The compiled half of the package in what cargo printed.
fn library(printed: &str) -> Result<PathBuf, String> {
    let messages = programs::messages(printed);
    let mut ours = messages.filter(|message| message["target"]["name"] == LIBRARY);
    let file = ours.find_map(|message| Some(message["filenames"][0].as_str()?.into()));
    file.ok_or_else(|| format!("cargo build: named no library {LIBRARY}"))
}

/// Puts the library beside the modules in Python, and lets the environment find both there. The
/// package's description comes from maturin, which makes the package for everybody else.
fn install(library: &Path) -> Outcome {
    let half = root()
        .join("python/nandlab")
        .join(format!("{LIBRARY}.abi3.so"));
    let failed = |why: std::io::Error| format!("{}: {why}", half.display());
    // Not into a file that a running Python has open.
    fs::remove_file(&half)
        .or_else(|why| match why.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(why),
        })
        .map_err(failed)?;
    fs::copy(library, &half).map_err(failed)?;
    let packages = site_packages(&folder())?;
    let path = packages.join("nandlab.pth");
    let modules = root().join("python").display().to_string();
    fs::write(&path, modules).map_err(|why| format!("{}: {why}", path.display()))?;
    run(program("maturin")
        .args(["pep517", "write-dist-info", "--metadata-directory"])
        .arg(&packages))?;
    write_command()
}

/// Writes the command `nandlab` of the environment, as pip would.
fn write_command() -> Outcome {
    let programs = folder().join("bin");
    let command = programs.join("nandlab");
    let text = format!(
        "#!{}\n\
         import sys\n\
         from importlib.metadata import entry_points\n\
         (command,) = entry_points(group=\"console_scripts\", name=\"nandlab\")\n\
         sys.exit(command.load()())\n",
        programs.join("python").display()
    );
    fs::write(&command, text)
        .and_then(|()| fs::set_permissions(&command, Permissions::from_mode(0o755)))
        .map_err(|why| format!("{}: {why}", command.display()))
}

/// Makes the environment, unless it has these packages.
pub fn prepare() -> Outcome {
    packages::install(NEEDED)?;
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

/// Builds the wheel, installs it alone, and measures it with the packages of the tests.
fn measure() -> Outcome {
    let wheels = root().join("target/wheels");
    let alone = root().join("target/python-alone");
    for old in [&wheels, &alone] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|why| format!("{}: {why}", old.display()))?;
        }
    }
    run(program("maturin")
        .args(["build", "--profile", "dist", "--quiet", "--out"])
        .arg(&wheels))?;
    let wheel = only_file(&wheels)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&alone))?;
    run(Command::new(alone.join("bin/pip"))
        .args(["install", "--quiet"])
        .arg(&wheel))?;
    let python = alone.join("bin/python");
    // The file's directory has the package of the tests, which is not optimised.
    run(program("python")
        .env("PYTHONPATH", site_packages(&alone)?)
        .args(["-P", "python/figures.py"])
        .args([&wheel, &python]))
}

fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut files = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    match (files.next(), files.next()) {
        (Some(Ok(file)), None) => Ok(file.path()),
        _ => Err(format!("{}: expected one file", folder.display())),
    }
}

/// The packages of an environment.
fn site_packages(environment: &Path) -> Result<PathBuf, String> {
    Ok(only_file(&environment.join("lib"))?.join("site-packages"))
}

fn folder() -> PathBuf {
    root().join("target/python")
}

/// A program of the environment.
fn program(name: &str) -> Command {
    let mut command = Command::new(folder().join("bin").join(name));
    command.current_dir(root()).env("VIRTUAL_ENV", folder());
    command
}
