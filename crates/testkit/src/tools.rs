//! Programs of the host. A missing program fails the test and is named with its Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The search path, with the directories of the administrators' tools.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// Returns the full path of a program.
pub fn find(package: &str, program: &str) -> PathBuf {
    std::env::split_paths(&search_path())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} not found; install it: apt-get install {package}"))
}

/// Prepares a program, with messages in English.
pub fn command(package: &str, program: &str) -> Command {
    let mut command = Command::new(find(package, program));
    command.env("PATH", search_path()).env("LC_ALL", "C.UTF-8");
    command
}

/// Runs a program to its end.
pub fn run(package: &str, program: &str, arguments: &[&str]) -> Output {
    command(package, program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Returns what a program printed, standard output first.
pub fn printed(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

/// Runs a program that must succeed, and returns what it printed.
pub fn succeed(package: &str, program: &str, arguments: &[&str]) -> String {
    let output = run(package, program, arguments);
    let printed = printed(&output);
    let status = output.status;
    assert!(
        status.success(),
        "{program} {arguments:?}: {status}\n{printed}"
    );
    printed
}

/// Returns a path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is plain text")
}

/// Compiles a C program for a guest.
pub fn compiled(source: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["source.c", "program"].map(|name| dir.path().join(name));
    fs::write(&from, source).unwrap();
    let flags = ["-O2", "-Wall", "-Werror", "-static", "-o"];
    let files = [text(&to), text(&from)];
    succeed("gcc libc6-dev", "gcc", &[&flags[..], &files].concat());
    fs::read(to).unwrap()
}
