//! What a command costs, whole, from its start to its end: GNU time tells, so that it is the same
//! for ours and for theirs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Of the round that was shortest on the wall.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall time in seconds.
    pub wall: f64,
    /// Seconds of all threads and of the children.
    pub processor: f64,
    /// MB of the process that held most.
    pub memory: f64,
}

/// What is measured: what is made ready before, and a command.
pub struct Side<'a> {
    pub rounds: u32,
    pub ready: &'a dyn Fn(),
    pub command: &'a dyn Fn() -> Vec<String>,
}

/// The best of some rounds of each, in turn, so that what else the machine does meets both.
pub fn in_turn(sides: [Side<'_>; 2]) -> [Cost; 2] {
    let mut best = [None::<Cost>; 2];
    for round in 0..sides.iter().map(|side| side.rounds).max().unwrap_or(0) {
        for (side, best) in sides
            .iter()
            .zip(&mut best)
            .filter(|(side, _)| round < side.rounds)
        {
            (side.ready)();
            let new = run(&(side.command)());
            *best = Some(best.filter(|best| best.wall <= new.wall).unwrap_or(new));
        }
    }
    best.map(|best| best.expect("at least one round"))
}

fn run(words: &[String]) -> Cost {
    let reported = tempfile::NamedTempFile::new().expect("a file");
    let start = Instant::now();
    let mut time = Command::new("/usr/bin/time");
    time.args(["-f", "%U %S %M", "-o"])
        .arg(reported.path())
        .args(words)
        .stdin(Stdio::null());
    let output = time
        .output()
        .unwrap_or_else(|error| panic!("/usr/bin/time: {error}: apt-get install time"));
    let wall = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {}: {said}",
        words.join(" "),
        output.status
    );
    let figures = std::fs::read_to_string(reported.path()).expect("a file of ours");
    let figures: Vec<f64> = figures
        .split_whitespace()
        .map(|figure| figure.parse().expect("a number"))
        .collect();
    Cost {
        wall,
        processor: figures[0] + figures[1],
        memory: figures[2] * 1024.0 / 1e6,
    }
}

/// Words of a command.
pub fn words<const N: usize>(words: [&dyn AsRef<std::ffi::OsStr>; N]) -> Vec<String> {
    words
        .iter()
        .map(|word| word.as_ref().to_string_lossy().into_owned())
        .collect()
}

/// A script of the shell, whose time is that of its children.
pub fn script(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(String::from).to_vec()
}

/// Bytes of a file.
pub fn length(path: &Path) -> u64 {
    std::fs::metadata(path).expect("an image was made").len()
}
