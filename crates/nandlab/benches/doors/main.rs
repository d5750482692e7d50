//! States a second for each door to the power-cut explorer, beside the test runner of littlefs, in
//! one run.
//!
//! Each command runs whole and on one processor, so that its seconds on the wall count the time of
//! all its processes. A state of ours is a chip after a cut, with the layer attached, everything
//! read, and a few writes behind. One of the runner's is a cut and what its test does after it.
//! `$LITTLEFS` names a checkout of littlefs in which `make test-runner` ran; both littlefs rows are
//! built of it. Needs gcc, make, python3 and taskset.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// Rounds of each command; the shortest counts.
const ROUNDS: u32 = 3;

fn main() {
    let scratch = tempfile::tempdir().expect("a directory for programs");
    let at = scratch.path();
    println!("| door | what runs | states | seconds | states a second |\n|---|---|---:|---:|---:|");
    let everywhere = root().join("experiments/cut-everywhere.toml");
    row(
        "Rust",
        "a page map",
        &crash(None, &everywhere, "2000"),
        &ours,
    );
    if let Some(littlefs) = std::env::var_os("LITTLEFS").map(PathBuf::from) {
        row("C, library", "littlefs", &library(at, &littlefs), &counted);
    } else {
        eprintln!("littlefs is not measured: $LITTLEFS names no checkout of it");
    }
    for (language, program) in [("c", "layer"), ("python", "layer.py")] {
        let folder = at.join(language);
        succeed(
            nandlab()
                .args(["new-layer", "--language", language])
                .arg(&folder),
        );
        if language == "c" {
            succeed(Command::new("make").arg("-sC").arg(&folder));
        }
        let experiment = folder.join("layer.toml");
        let command = crash(Some(&folder.join(program)), &experiment, "400");
        row(
            &format!("program, {language}"),
            "a block map",
            &command,
            &ours,
        );
    }
    if let Some(littlefs) = std::env::var_os("LITTLEFS").map(PathBuf::from) {
        let runner = littlefs.join("runners/test_runner").display().to_string();
        let tests = ["-Plinear", "-Gnand", "test_dirs", "test_files"];
        let words = [vec![runner], tests.map(String::from).to_vec()].concat();
        row("its own runner", "littlefs", &words, &losses);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn nandlab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nandlab"))
}

/// The explorer on one thread, with its report on standard output.
fn crash(program: Option<&Path>, experiment: &Path, cuts: &str) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let mut words = vec![
        env!("CARGO_BIN_EXE_nandlab").into(),
        "crash".into(),
        text(experiment),
    ];
    words.extend(["--threads", "1", "--json", "-", "--cuts", cuts].map(String::from));
    words.extend(
        program
            .into_iter()
            .flat_map(|path| ["--exec".into(), text(path)]),
    );
    words
}

/// The exploration of littlefs behind `nandlab.h`, as our tests have it.
fn library(at: &Path, littlefs: &Path) -> Vec<String> {
    let build = ["build", "--release", "-p", "nandlab-capi"];
    succeed(Command::new(env!("CARGO")).current_dir(root()).args(build));
    let capi = root().join("crates/capi");
    let program = at.join("littlefs-cuts");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2", "-w"])
        .args(["-DLFS_NO_DEBUG", "-DLFS_NO_WARN", "-DLFS_NO_ERROR"])
        .arg(format!("-I{}", capi.join("include").display()))
        .arg(format!("-I{}", littlefs.display()))
        .args(
            ["cuts.c", "littlefs_glue.c", "littlefs_cuts.c"]
                .map(|name| capi.join("tests/c").join(name)),
        )
        .args(["lfs.c", "lfs_util.c"].map(|name| littlefs.join(name)))
        .arg(root().join("target/release/libnandlab_capi.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program);
    succeed(&mut cc);
    vec![program.display().to_string()]
}

/// Runs a command some times, and prints its row.
fn row(door: &str, what: &str, words: &[String], states: &dyn Fn(&str) -> u64) {
    let mut best = f64::INFINITY;
    let mut found = 0;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let output = succeed(Command::new("taskset").args(["-c", "0"]).args(words));
        best = best.min(begun.elapsed().as_secs_f64());
        found = states(&String::from_utf8_lossy(&output.stdout));
    }
    assert!(found > 0, "{door}: no states");
    let rate = found as f64 / best;
    println!("| {door} | {what} | {found} | {best:.2} | {rate:.0} |");
}

/// States in a report of ours.
fn ours(printed: &str) -> u64 {
    let report: Value = serde_json::from_str(printed).expect("a report in JSON");
    ["states", "second_level_states"]
        .map(|key| report[key].as_u64().expect("a count"))
        .iter()
        .sum()
}

/// States that the exploration of littlefs counts.
fn counted(printed: &str) -> u64 {
    let line = printed
        .lines()
        .find_map(|line| line.strip_prefix("states "));
    line.and_then(|count| count.parse().ok())
        .expect("a line `states N`")
}

/// Power losses that the runner of littlefs lists.
fn losses(printed: &str) -> u64 {
    printed
        .lines()
        .filter(|line| line.starts_with("powerloss "))
        .count() as u64
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}",
        output.status
    );
    output
}
