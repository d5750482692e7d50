//! One message for each kind of mistake, in `messages.txt`: the input that provokes it and what the
//! command prints.

use crate::command::Lab;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/messages.txt");
/// Set to write the messages anew.
const WRITE: &str = "NANDLAB_MESSAGES";
/// Kinds of mistakes that the snapshot has at least.
const KINDS: usize = 50;

/// A mistake: its input, the command, and what the snapshot has after that.
struct Case<'a> {
    input: Vec<&'a str>,
    command: &'a str,
    printed: String,
}

impl<'a> Case<'a> {
    fn parse(text: &'a str) -> Self {
        let mut input = Vec::new();
        let mut lines = text.trim_end().lines();
        let command = loop {
            let line = lines.next().expect("a case has a command");
            match line.strip_prefix("$ ") {
                Some(command) => break command,
                None => input.push(line),
            }
        };
        let printed = lines.fold(String::new(), |all, line| all + line + "\n");
        Self {
            input,
            command,
            printed,
        }
    }

    /// Writes the files, prepares the rest and runs the command.
    fn run(&self) -> Output {
        let lab = Lab::new();
        let mut file = None;
        for line in &self.input[1..] {
            if let Some(name) = line.strip_prefix("> ") {
                lab.write(name, b"");
                file = Some((name, String::new()));
            } else if let Some(script) = line.strip_prefix("% ") {
                let output = shell(&lab.path(""), script);
                assert!(output.status.success(), "{script}: {output:?}");
            } else {
                let (name, text) = file.as_mut().expect("text follows the name of a file");
                text.push_str(line);
                text.push('\n');
                lab.write(name, text.as_bytes());
            }
        }
        shell(&lab.path(""), self.command)
    }
}

/// Runs a script in a directory, with the command in front of all other programs.
fn shell(dir: &Path, script: &str) -> Output {
    let command = Path::new(env!("CARGO_BIN_EXE_nandlab"));
    let bin = command.parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .env("PATH", format!("{bin}:{path}:/usr/sbin:/sbin"))
        .output()
        .unwrap()
}

/// What the snapshot has of an outcome. Refuses panics, and output of a command that failed.
fn printed(case: &Case<'_>, output: &Output) -> String {
    let title = case.input[0];
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    let status = output.status.code().expect("the command exits by itself");
    assert!(output.stdout.is_empty(), "{title}: {output:?}");
    assert!(matches!(status, 1 | 2), "{title}: {output:?}");
    let is_ours = message.starts_with("nandlab: ") && message.lines().count() == 1;
    let is_usage = message.starts_with("error: ") && message.contains("try '--help'");
    assert!(is_ours || is_usage, "{title}: {message}");
    let lines = message.lines().filter(|line| !line.is_empty());
    let mut text = lines.fold(String::new(), |all, line| all + line + "\n");
    writeln!(text, "exit status {status}").unwrap();
    text
}

#[test]
fn each_kind_of_mistake_has_the_message_of_the_snapshot() {
    let snapshot = std::fs::read_to_string(SNAPSHOT).unwrap();
    let mut parts = snapshot.split("\n# ");
    let mut found = parts.next().unwrap().to_owned();
    let cases: Vec<Case<'_>> = parts.map(Case::parse).collect();
    assert!(cases.len() >= KINDS, "{} kinds", cases.len());
    let mut differences = String::new();
    for case in &cases {
        let now = printed(case, &case.run());
        if now != case.printed {
            let title = case.input[0];
            write!(
                differences,
                "{title}: expected\n{}found\n{now}",
                case.printed
            )
            .unwrap();
        }
        let input = case.input.join("\n");
        write!(found, "\n# {input}\n$ {}\n{now}", case.command).unwrap();
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(SNAPSHOT, found).unwrap();
    } else {
        assert!(differences.is_empty(), "{differences}");
    }
}
