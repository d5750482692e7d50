//! The commands in the README and in the book: each runs, and prints what the page shows.
//!
//! A fence `console` holds commands after `$ ` and below each what it prints, standard error
//! included. In the shown output, `...` stands for any part of a line, and alone on a line for any
//! lines. A command without shown output must only end well; `(exit status N)` as the last line
//! says that it must not. The fences of a page run one after another in one directory, in which
//! the checkout's directories are visible. Fences `console,whole` take long: `cargo xtask test
//! whole` runs them. Not run are fences `console,ignore`, and `cargo xtask` and `cargo install`,
//! which build.

use nandlab_testkit::share::is_whole;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories of the checkout that commands name.
const VISIBLE: [&str; 3] = ["experiments", "traces", "docs"];

/// A command, where it is, and the lines that the page shows below it.
#[derive(Debug, PartialEq)]
struct Step {
    line: usize,
    command: String,
    shown: Vec<String>,
}

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// The README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The commands of a page's fences that run.
fn steps(text: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let mut fence: Option<&str> = None;
    for (line, number) in text.lines().zip(1..) {
        if let Some(info) = line.strip_prefix("```") {
            fence = if fence.is_none() { Some(info) } else { None };
            continue;
        }
        let is_run = match fence {
            Some("console") => true,
            Some("console,whole") => is_whole(),
            _ => false,
        };
        if !is_run {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            found.push(Step {
                line: number,
                command: command.into(),
                shown: Vec::new(),
            });
            continue;
        }
        let step = found.last_mut().expect("a fence begins with a command");
        if step.command.ends_with('\\') {
            step.command.push('\n');
            step.command.push_str(line);
        } else {
            step.shown.push(line.into());
        }
    }
    found.retain(|step| {
        let builds = ["cargo xtask ", "cargo install "];
        !builds.iter().any(|start| step.command.starts_with(start))
    });
    found
}

/// Whether a printed line is as shown.
fn same_line(shown: &str, printed: &str) -> bool {
    let parts: Vec<&str> = shown.split("...").collect();
    let [first, middle @ .., last] = &parts[..] else {
        return shown.trim_end() == printed.trim_end();
    };
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.trim_end().ends_with(last.trim_end())
}

/// Whether printed lines are as shown.
fn same(shown: &[String], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], printed) => printed.is_empty(),
        ([any, rest @ ..], _) if any == "..." => {
            (0..=printed.len()).any(|skipped| same(rest, &printed[skipped..]))
        }
        ([line, rest @ ..], [found, after @ ..]) => same_line(line, found) && same(rest, after),
        _ => false,
    }
}

/// Runs a step; returns what is wrong.
fn run(step: &Step, directory: &Path) -> Result<(), String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_nandlab"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let command = step.command.replace("cargo run --release -- ", "nandlab ");
    let output = Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {{ {command}\n}} 2>&1")])
        .current_dir(directory)
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut shown = step.shown.clone();
    while shown.last().is_some_and(String::is_empty) {
        shown.pop();
    }
    let status = shown
        .last()
        .and_then(|line| line.strip_prefix("(exit status ")?.strip_suffix(')'))
        .map_or(0, |status| status.parse().expect("a number"));
    if status != 0 {
        shown.pop();
    }
    if output.status.code() != Some(status) {
        return Err(format!("ended with {}\n{printed}", output.status));
    }
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    if shown.is_empty() || same(&shown, &lines) {
        return Ok(());
    }
    Err(format!(
        "printed something else than the page shows:\n{printed}"
    ))
}

/// Runs all commands of a page; returns what is wrong.
fn check(page: &Path) -> Vec<String> {
    let steps = steps(&fs::read_to_string(page).unwrap());
    let directory = tempfile::tempdir().unwrap();
    for name in VISIBLE {
        symlink(root().join(name), directory.path().join(name)).unwrap();
    }
    let name = page.strip_prefix(root()).unwrap().display();
    let findings = steps.iter().filter_map(|step| {
        let why = run(step, directory.path()).err()?;
        let Step { line, command, .. } = step;
        Some(format!("{name}:{line}: $ {command}\n{why}"))
    });
    findings.collect()
}

#[test]
fn every_command_of_the_readme_and_the_book_prints_what_the_page_shows() {
    let only = std::env::var("NANDLAB_PAGE").unwrap_or_default();
    let pages = pages();
    let chosen = pages
        .iter()
        .filter(|page| page.display().to_string().contains(&only));
    let findings: Vec<String> = chosen.flat_map(|page| check(page)).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_page_that_shows_something_else_is_found() {
    let text = "```console\n$ echo a \\\n  b\na ... b\n$ false\n(exit status 1)\n```\n\
        ```console,ignore\n$ reboot\n```\n```console\n$ cargo xtask test\n```\n";
    let found = steps(text);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].line, &*found[0].command), (2, "echo a \\\n  b"));
    let directory = tempfile::tempdir().unwrap();
    assert!(
        run(&found[0], directory.path())
            .unwrap_err()
            .contains("a b")
    );
    assert_eq!(run(&found[1], directory.path()), Ok(()));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let printed = ["time 3 ms", "a", "b", "end"];
    assert!(same(&lines("time ... ms\n...\nend"), &printed));
    assert!(!same(&lines("time ... ms\n...\nend\n..."), &printed[..3]));
    assert!(!same(&lines("time ... s\n..."), &["time 3 minutes"]));
}
