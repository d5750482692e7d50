//! What a command costs, whole, from its start to its end: GNU time tells, so that it is the same for ours and for theirs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Of the round that was shortest on the wall.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Seconds.
    pub wall: f64,
    /// Seconds of all threads and of the children.
    pub processor: f64,
    /// MB of the process that held most.
    pub memory: f64,
}

/// The best of some rounds, before each of which something is made ready.
pub fn cost(rounds: u32, ready: &dyn Fn(), command: &dyn Fn() -> Vec<String>) -> Cost {
    let one = || {
        ready();
        run(&command())
    };
    let first = one();
    (1..rounds).map(|_| one()).fold(first, |best, new| if new.wall < best.wall { new } else { best })
}

fn run(words: &[String]) -> Cost {
    let told = tempfile::NamedTempFile::new().expect("a file");
    let start = Instant::now();
    let mut time = Command::new("/usr/bin/time");
    time.args(["-f", "%U %S %M", "-o"]).arg(told.path()).args(words).stdin(Stdio::null());
    let output = time.output().unwrap_or_else(|error| panic!("/usr/bin/time: {error}: apt-get install time"));
    let wall = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}: {said}", words.join(" "), output.status);
    let figures = std::fs::read_to_string(told.path()).expect("a file of ours");
    let figures: Vec<f64> = figures.split_whitespace().map(|figure| figure.parse().expect("a number")).collect();
    Cost { wall, processor: figures[0] + figures[1], memory: figures[2] * 1024.0 / 1e6 }
}

/// Words of a command.
pub fn words<const N: usize>(words: [&dyn AsRef<std::ffi::OsStr>; N]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect()
}

/// A script of the shell, whose time is that of its children.
pub fn script(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(String::from).to_vec()
}

/// Bytes of a file.
pub fn length(path: &Path) -> u64 {
    std::fs::metadata(path).expect("an image was made").len()
}
