//! Coverage-guided fuzzing of what reads media: libFuzzer around the runs of `fuzz/`, on the stable
//! compiler.
//!
//! The instrumentation is a pass of LLVM that every rustc has; sanitizers, which only nightly has,
//! would find little in code without `unsafe`.

use crate::{Outcome, cargo, root};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USAGE: &str = "expected TARGET EXECUTIONS [SEED] or TARGET FILE: \
    one of jffs2, ubi, ubifs, f2fs, ext, fat, image, \
    and how many runs, or an input to run again; or abuse RUNS [SEED]";
const TARGETS: &[&str] = &["jffs2", "ubi", "ubifs", "f2fs", "ext", "fat", "image"];

/// Counters at every edge. What comparisons compare is not traced: it takes two thirds of the time,
/// and the numbers that matter are in the language of the inputs.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";
/// Seconds on the wall after which a run counts as one that does not end: a hundred thousand times
/// the usual. A directory that is a hundred times as long takes a quarter of a second, and a busy
/// machine twenty times that.
const SECONDS_MAX: u32 = 60;
/// Bytes of an input at most: some sixty edits.
const INPUT_BYTES_MAX: u32 = 512;
/// Of the whole process, corpus and coverage included; what a run may take is in each target.
const PROCESS_MIB_MAX: u32 = 1024;
/// Lines of a finding on the screen.
const TAIL: usize = 60;

pub fn run(words: &[String]) -> Outcome {
    let (target, what, seed) = match words {
        [target, what] => (target, what, "1"),
        [target, what, seed] => (target, what, seed.as_str()),
        _ => return Err(USAGE.into()),
    };
    if target == "abuse" {
        return abuse(what, seed);
    }
    if !TARGETS.contains(&target.as_str()) {
        return Err(format!("{target}: {USAGE}"));
    }
    let program = build(target)?;
    let keep = keep();
    if Path::new(what).is_file() {
        return crate::run(Command::new(program).args(limits()).arg(what));
    }
    let executions: u64 = what.parse().map_err(|_| format!("{what}: {USAGE}"))?;
    let seed: u32 = seed
        .parse()
        .map_err(|_| format!("{seed}: expected a number as seed"))?;
    let corpus = keep.join("corpus").join(target);
    let found = keep.join("found").join(target);
    for dir in [&corpus, &found] {
        std::fs::create_dir_all(dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    }
    let mut command = Command::new(program);
    command
        .args(limits())
        .arg(format!("-runs={executions}"))
        .arg(format!("-seed={seed}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(corpus);
    watch(&mut command, target)
}

/// Runs the verbs of the command line on damaged images.
fn abuse(runs: &str, seed: &str) -> Outcome {
    // With the checks that a test build has, such as that of overflow.
    crate::run(cargo().args(["build", "--locked", "--package", "nandlab"]))?;
    let keep = keep();
    let mut command = cargo();
    command
        .current_dir(root().join("fuzz"))
        .env("CARGO_TARGET_DIR", keep.join("plain"));
    let words = [
        "run",
        "--locked",
        "--release",
        "--bin",
        "abuse",
        "--features",
        "abuse",
        "--",
    ];
    command.args(words).arg(program()).args([runs, seed]);
    crate::run(command.arg(keep.join("found").join("abuse")))
}

fn limits() -> [String; 2] {
    [
        format!("-timeout={SECONDS_MAX}"),
        format!("-rss_limit_mb={PROCESS_MIB_MAX}"),
    ]
}

/// Where programs, inputs worth keeping and findings lie.
fn keep() -> PathBuf {
    target().join("fuzz")
}

/// The command line, as the development profile builds it.
fn program() -> PathBuf {
    target().join("debug").join("nandlab")
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn build(target: &str) -> Result<PathBuf, String> {
    if Command::new("c++")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        return Err(
            "no C++ compiler, which libFuzzer needs; on Debian: apt-get install g++".into(),
        );
    }
    let host = host()?;
    let mut command = cargo();
    command
        .current_dir(root().join("fuzz"))
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", keep());
    // With a target named, programs that only run during the build are built without coverage.
    command.args([
        "build",
        "--locked",
        "--release",
        "--bin",
        target,
        "--features",
        target,
        "--target",
        &host,
    ]);
    crate::run(&mut command)?;
    Ok(keep().join(host).join("release").join(target))
}

fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let reported = Command::new(rustc)
        .arg("-vV")
        .output()
        .map_err(|why| format!("rustc: {why}"))?;
    let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
    reported
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "rustc -vV names no host".into())
}

/// What libFuzzer tells, of which the last counts.
#[derive(Default)]
struct Reported {
    features: String,
    heap: String,
    executions: String,
    rate: String,
    slowest: String,
    resident: String,
    input: Option<String>,
}

impl Reported {
    fn hear(&mut self, line: &str) {
        let after = |key: &str| line.split_once(key).map(|(_, rest)| rest.trim().to_owned());
        let places = [
            ("stat::number_of_executed_units:", &mut self.executions),
            ("stat::average_exec_per_sec:", &mut self.rate),
            ("stat::slowest_unit_time_sec:", &mut self.slowest),
            ("stat::peak_rss_mb:", &mut self.resident),
            ("heap of one run:", &mut self.heap),
        ];
        for (key, place) in places {
            if let Some(value) = after(key) {
                *place = value;
            }
        }
        if let Some(features) = after(" ft: ") {
            self.features = features.split(' ').next().unwrap_or_default().into();
        }
        self.input = after("Test unit written to ").or(self.input.take());
    }
}

fn watch(command: &mut Command, target: &str) -> Outcome {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| format!("{target}: {why}"))?;
    let mut reported = Reported::default();
    let mut tail = VecDeque::new();
    for line in BufReader::new(child.stderr.take().ok_or("no pipe to the fuzzer")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line.map_err(|why| why.to_string())?).into_owned();
        reported.hear(&line);
        // The fuzzer says so at powers of two.
        if line.contains("pulse") {
            eprintln!("{line}");
        }
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    let status = child.wait().map_err(|why| format!("{target}: {why}"))?;
    if !status.success() {
        tail.iter().for_each(|line| eprintln!("{line}"));
    }
    println!(
        "{target}: executions {}, {} a second, slowest {} s, features {}",
        reported.executions, reported.rate, reported.slowest, reported.features
    );
    println!(
        "{target}: heap of one run {}; process {} MiB",
        reported.heap, reported.resident
    );
    match (status.success(), reported.input) {
        (true, _) => {
            println!("{target}: findings none");
            Ok(())
        }
        (false, Some(input)) => Err(format!(
            "a finding; again by: cargo xtask fuzz {target} {input}"
        )),
        (false, None) => Err(format!("{target}: {status}")),
    }
}
