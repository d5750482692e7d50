//! The test programs of the workspace, several at once. Cargo runs one after the other, and a
//! program whose last test waits for a guest leaves the other processors idle.

use crate::{Outcome, cargo, root};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The crates whose tests take longest, the longest first. The order decides when a program starts
/// and nothing else.
const LONGEST: &[&str] = &[
    "nandlab", "ext", "image", "ubifs", "f2fs", "ubi", "jffs2", "ftl", "exec", "capi", "lab",
    "fat", "papers",
];

/// The variable that long tests read; `nandlab_testkit::share` has it too.
pub const WHOLE: &str = "NANDLAB_WHOLE";

/// A program that prints nothing for so long hangs. The longest test of a sample takes a minute or
/// two, and some minutes on a slow machine.
const SILENCE: Duration = Duration::from_secs(20 * 60);

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// The folder of its crate, where cargo would run it.
    folder: PathBuf,
    path: PathBuf,
}

/// Builds all test programs and runs as many at a time as there are processors, since the tests
/// that count a guest's instructions bear no more. Each runs one test at a time. Prints what a
/// program printed when it ends. A program that hangs is killed, and its last line names the test.
/// With `whole`, long tests do all of their work instead of a sample, ignored ones run too, and no
/// program is killed.
pub fn run(whole: bool) -> Outcome {
    let mut programs = build()?;
    programs.sort_by_key(|program| place(&program.folder));
    let queue = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(program) = next(&queue) {
                    if let Err(why) = program.run(whole, begin) {
                        locked(&failed).push(format!("{}: {why}", program.path.display()));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed tests:\n  {}", failed.join("\n  "))),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next(queue: &Mutex<VecDeque<Program>>) -> Option<Program> {
    locked(queue).pop_front()
}

/// The place of a crate among the longest, or behind them.
fn place(folder: &Path) -> usize {
    let is_of = |name: &&str| folder.ends_with(name);
    let found = LONGEST.iter().position(is_of);
    found.unwrap_or(LONGEST.len())
}

/// The words for all tests, with what they need. One build of all packages shares their
/// dependencies; a build of one package wants other features of them.
pub const ALL: &[&str] = &["--workspace", "--lib", "--bins", "--tests"];

/// Runs `cargo build` with these words, and returns its messages.
pub fn built(words: &[&str]) -> Result<String, String> {
    let mut command = cargo();
    command
        .current_dir(root())
        .stderr(Stdio::inherit())
        .args(["build", "--message-format=json-render-diagnostics"])
        .args(words);
    let built = command.output();
    let built = built.map_err(|why| format!("cargo build: {why}"))?;
    match built.status.success() {
        true => Ok(String::from_utf8_lossy(&built.stdout).into_owned()),
        false => Err(format!("cargo build: {}", built.status)),
    }
}

fn build() -> Result<Vec<Program>, String> {
    let programs = programs(&built(ALL)?);
    match programs.is_empty() {
        true => Err("cargo build: named no test program".into()),
        false => Ok(programs),
    }
}

/// The messages in what cargo printed.
pub fn messages(printed: &str) -> impl Iterator<Item = Value> {
    let lines = printed.lines();
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// The test programs in what cargo printed.
fn programs(printed: &str) -> Vec<Program> {
    let is_test = |message: &Value| message["profile"]["test"] == true;
    messages(printed)
        .filter(is_test)
        .filter_map(program)
        .collect()
}

fn program(message: Value) -> Option<Program> {
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(Program {
        folder: manifest.parent()?.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}

impl Program {
    /// Runs it as cargo does, and prints its output. The first program began at `first`.
    fn run(&self, whole: bool, first: Instant) -> Outcome {
        let (output, kept) = tempfile::tempfile()
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|why| why.to_string())?;
        let errors = output.try_clone().map_err(|why| why.to_string())?;
        let begin = Instant::now();
        let mut command = Command::new(&self.path);
        if whole {
            command.env(WHOLE, "1").arg("--include-ignored");
        }
        let mut child = command
            .arg("--test-threads=1")
            .current_dir(&self.folder)
            .env("CARGO", cargo().get_program())
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|why| why.to_string())?;
        let ended = end(&mut child, &kept, (!whole).then_some(SILENCE));
        self.print(kept, begin.elapsed(), first.elapsed())
            .map_err(|why| why.to_string())?;
        let status = ended.map_err(|why| why.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(status.to_string()),
        }
    }

    /// Prints in one piece: other programs may end at the same time.
    fn print(&self, mut output: File, took: Duration, since: Duration) -> io::Result<()> {
        io::Seek::rewind(&mut output)?;
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{}: {} s; {} s since the first program began",
            self.path.display(),
            took.as_secs(),
            since.as_secs()
        )?;
        io::copy(&mut output, &mut out)?;
        out.flush()
    }
}

/// Waits for the end of a program, and kills it if it prints nothing for so long.
fn end(child: &mut Child, output: &File, silence: Option<Duration>) -> io::Result<ExitStatus> {
    let mut length = 0;
    let mut printed = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let now = output.metadata()?.len();
        if now != length {
            length = now;
            printed = Instant::now();
        }
        if silence.is_some_and(|silence| printed.elapsed() > silence) {
            child.kill()?;
            child.wait()?;
            let seconds = printed.elapsed().as_secs();
            let why = format!("killed, since it printed nothing for {seconds} s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_named_and_the_longest_come_first() {
        let message = |folder: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/{folder}/Cargo.toml",
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
            .replace('\n', "")
        };
        let messages = [
            message("sim", true, r#""/t/sim""#),
            message("nandlab", false, r#""/t/nandlab""#),
            message("nandlab", true, r#""/t/all""#),
            message("proc", true, "null"),
            r#"{"reason":"build-finished","success":true}"#.into(),
        ];
        let mut found = programs(&messages.join("\n"));
        found.sort_by_key(|program| place(&program.folder));
        let paths = found.iter().map(|program| program.path.to_str().unwrap());
        assert_eq!(paths.collect::<Vec<_>>(), ["/t/all", "/t/sim"]);
        assert_eq!(found[0].folder, Path::new("/w/crates/nandlab"));
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let program = |path: &str| Program {
            folder: "/".into(),
            path: path.into(),
        };
        let run = |path: &str| program(path).run(false, Instant::now());
        run("/bin/true").unwrap();
        assert_eq!(run("/bin/false").unwrap_err(), "exit status: 1");
        run("/no/such/program").unwrap_err();
    }

    #[test]
    fn a_program_that_prints_nothing_for_too_long_is_killed() {
        let run = |program: &str, silence: Option<Duration>| {
            let output = tempfile::tempfile().unwrap();
            let mut command = Command::new("sh");
            let command = command.args(["-c", program]);
            let mut child = command.stdout(output.try_clone().unwrap()).spawn().unwrap();
            end(&mut child, &output, silence)
        };
        let killed = run("exec sleep 1000", Some(Duration::ZERO)).unwrap_err();
        let killed = killed.to_string();
        assert!(killed.starts_with("killed, since"), "{killed}");
        assert!(run("sleep 0.1", None).unwrap().success());
        let patient = Some(Duration::from_secs(1000));
        assert!(run("echo words; sleep 0.1", patient).unwrap().success());
    }
}
