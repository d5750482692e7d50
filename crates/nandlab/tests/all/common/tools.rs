//! Programs of the host that a test runs: what is missing is named with its Debian package.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Where file system tools live, which ordinary users do not search.
const ADMINISTRATORS: &str = "/usr/sbin:/sbin";

/// The full path of a program; fails naming its package.
pub fn find(package: &str, program: &str) -> PathBuf {
    let search = format!(
        "{}:{ADMINISTRATORS}",
        std::env::var("PATH").unwrap_or_default()
    );
    std::env::split_paths(&search)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} not found; install it: apt-get install {package}"))
}

/// Runs a program to its end.
pub fn run(package: &str, program: &str, arguments: &[&str]) -> Output {
    Command::new(find(package, program))
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Runs a program that must succeed; gives what it printed.
pub fn succeed(package: &str, program: &str, arguments: &[&str]) -> String {
    let output = run(package, program, arguments);
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{printed}",
        output.status
    );
    printed
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test is plain text")
}
