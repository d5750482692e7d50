//! The mutation score of the code that reads and writes formats and that recovers: a tool breaks
//! one line, and some test must fail.
//!
//! `.cargo/mutants.toml` says which files. The tool breaks them in a clone of the last commit: a
//! run that stops early leaves the checkout as it is.

use crate::test::SLOW;
use crate::{Outcome, cargo, programs, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The part of all mutants that a run tries by default.
const SAMPLE: &str = "0/100";
/// The part that `test whole` tries: few enough for some minutes, on a slow machine too.
const FEW: &str = "0/3000";
/// The least share of mutants that tests find, in percent. A ratchet: raise it when they find more.
const LEAST: usize = 90;
/// The least share of a few. Any change of the code changes which these are, and two mutants tell
/// little: this finds tests that no longer run.
const LEAST_OF_FEW: usize = 50;
/// Seconds after which the tests of a mutant hang: many times what they take.
const SECONDS_MAX: &str = "400";
/// Where the page of survivors lies.
const PAGE: &str = "docs/mutants.md";
/// The tool, with the version that the numbers come from.
const TOOL: (&str, &str) = ("cargo-mutants", "27.1.0");

/// `mutants`: tries a sample. `mutants K/N` tries each N-th mutant, from the K-th on.
pub fn run(words: &[String]) -> Outcome {
    let part = match words {
        [] => SAMPLE,
        [part] => part.as_str(),
        _ => return Err("expected nothing, or a part such as 3/100".into()),
    };
    let missed = judge(&tried(part)?, LEAST)?;
    explained(&missed)
}

/// Tries a few, as a part of `test whole`.
pub fn run_few() -> Outcome {
    judge(&tried(FEW)?, LEAST_OF_FEW).map(|_| ())
}

/// Tries each mutant of a part; gives the folder with the lists of their fates.
fn tried(part: &str) -> Result<PathBuf, String> {
    install(TOOL.0, TOOL.1)?;
    let tree = clone()?;
    // Lists of an earlier run must not count if this one does not begin.
    let found = emptied("found")?;
    let mut command = cargo();
    command
        .current_dir(&tree)
        .env("CARGO_TARGET_DIR", folder().join("target"))
        .env("PATH", path()?)
        .env(programs::WHOLE, "1")
        // The first failure will do.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command.args(["mutants", "--in-place", "--workspace", "--baseline", "skip"]);
    command.args(["--timeout", SECONDS_MAX]);
    command.args(["--shard", part, "--sharding", "round-robin", "--output"]);
    command.arg(&found);
    command.args(["--", "--lib", "--tests", "--", "--skip", SLOW]);
    // It fails if a mutant survives; its lists say which.
    _ = crate::run(&mut command);
    Ok(found.join("mutants.out"))
}

fn folder() -> PathBuf {
    root().join("target/mutants")
}

/// The search path with the tools before all else.
fn path() -> Result<std::ffi::OsString, String> {
    let own = [folder().join("tools/bin")];
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = own.into_iter().chain(env::split_paths(&rest));
    env::join_paths(all).map_err(|why| why.to_string())
}

/// Builds a tool unless it is there in this version. It waits for the compiler most of its time,
/// so that optimising it takes longer than it saves.
fn install(name: &str, version: &str) -> Outcome {
    let verb = name.strip_prefix("cargo-").unwrap_or(name);
    let mut asked = cargo();
    asked.env("PATH", path()?).args([verb, "--version"]);
    let printed = asked.stderr(Stdio::null()).output();
    if printed.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(version)) {
        return Ok(());
    }
    let mut command = cargo();
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.args(["install", "--debug", "--locked", "--root"]);
    command.arg(folder().join("tools"));
    crate::run(command.args([name, "--version", version]))
}

/// A part of the folder, without what an earlier run left there.
fn emptied(name: &str) -> Result<PathBuf, String> {
    let part = folder().join(name);
    if part.exists() {
        fs::remove_dir_all(&part).map_err(|why| format!("{}: {why}", part.display()))?;
    }
    Ok(part)
}

/// A fresh clone of the last commit.
fn clone() -> Result<PathBuf, String> {
    let tree = emptied("tree")?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet"]).arg(root()).arg(&tree);
    crate::run(&mut git)?;
    Ok(tree)
}

/// Prints the score, and gives the survivors. It fails if the score is below `least` percent.
fn judge(found: &Path, least: usize) -> Result<Vec<String>, String> {
    let list = |name: &str| -> Result<Vec<String>, String> {
        let path = found.join(name);
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(text.lines().map(without_place).collect())
    };
    let caught = list("caught.txt")?.len() + list("timeout.txt")?.len();
    let missed = list("missed.txt")?;
    let all = caught + missed.len();
    if all == 0 {
        return Err("found no mutants in this part, expected at least one".into());
    }
    println!("{caught} of {all} mutants found, {} survive", missed.len());
    missed.iter().for_each(|mutant| println!("  {mutant}"));
    match caught * 100 < all * least {
        true => Err(format!("found fewer than {least} % of the mutants")),
        false => Ok(missed),
    }
}

/// Fails if a survivor has no reason on the page.
fn explained(missed: &[String]) -> Outcome {
    let page = root().join(PAGE);
    let page = fs::read_to_string(&page).map_err(|why| format!("{}: {why}", page.display()))?;
    let unexplained = missed.iter().filter(|mutant| !page.contains(&***mutant));
    let unexplained: Vec<&str> = unexplained.map(String::as_str).collect();
    if unexplained.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{PAGE} has no reason for these survivors:\n  {}",
        unexplained.join("\n  ")
    ))
}

/// A mutant without line and column, which move: `crates/fat/src/table.rs: replace + with -`.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    let file = parts.next().unwrap_or_default();
    let what = parts.nth(2).unwrap_or_default();
    format!("{file}:{what}")
}
