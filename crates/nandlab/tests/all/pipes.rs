//! Traces that come through a pipe.

use crate::command::{Lab, SMALL};
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

/// MSR lines, several times as many as are looked at to tell the format.
fn trace(requests: u64) -> String {
    let heading = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n".to_string();
    let line = |number: u64| {
        let time = 128_166_372_003_061_629 + number;
        let sector = number * 37 % 9000;
        format!("{time},usr,0,Write,{},512,41286\n", sector * 512)
    };
    heading + &(0..requests).map(line).collect::<String>()
}

/// A pipe with a name, and a program that writes into it.
fn pipe(lab: &Lab, name: &'static str, program: &[&str]) -> thread::JoinHandle<()> {
    let path = lab.path(name);
    _ = fs::remove_file(&path);
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("coreutils is essential in Debian").success());
    let mut writer = Command::new(program[0]);
    writer.args(&program[1..]).current_dir(lab.path("."));
    thread::spawn(move || {
        let to = fs::OpenOptions::new().write(true).open(path).unwrap();
        // A reader that refuses the trace ends the writer.
        writer.stdout(to).stderr(Stdio::null()).status().unwrap();
    })
}

#[test]
fn a_trace_through_a_pipe_is_replayed_whole() {
    let lab = Lab::new();
    lab.write("s.toml", SMALL.as_bytes());
    lab.write("t.csv", trace(4096).as_bytes());
    let zipped = Command::new("gzip")
        .arg("-k")
        .arg(lab.path("t.csv"))
        .status();
    assert!(zipped.expect("gzip is essential in Debian").success());
    let replay = ["replay", "pipe", "--stack", "s.toml", "--json", "-"];
    let options = [&[][..], &["--set", "workload.format=msr"]];
    for options in options {
        let replay = [&replay[..], options].concat();
        fs::copy(lab.path("t.csv"), lab.path("pipe")).unwrap();
        let (expected, _) = lab.exits(0, &replay);
        assert!(expected.contains("\"requests\":4096") || expected.contains("4096"));
        for program in [&["cat", "t.csv"][..], &["gzip", "-dc", "t.csv.gz"]] {
            let writer = pipe(&lab, "pipe", program);
            let (found, _) = lab.exits(0, &replay);
            writer.join().unwrap();
            assert!(found == expected, "{program:?}");
        }
        fs::remove_file(lab.path("pipe")).unwrap();
    }
}

#[test]
fn a_pipe_that_would_be_read_twice_is_refused_by_name() {
    let lab = Lab::new();
    lab.write("s.toml", SMALL.as_bytes());
    lab.write("t.csv", trace(4096).as_bytes());
    let replay = ["replay", "pipe", "--stack", "s.toml"];
    for options in [
        &["--set", "workload.passes=2"][..],
        &["--set", "workload.fit=scale"],
    ] {
        let writer = pipe(&lab, "pipe", &["cat", "t.csv"]);
        let words = "pipe: found a pipe, which can be read once";
        lab.refuses(&[&replay[..], options].concat(), words);
        writer.join().unwrap();
    }
    // Refused before it is opened.
    let again = [&replay[..], &["--stack", "s.toml"]].concat();
    lab.refuses(&again, "expected a file for several runs");
}
