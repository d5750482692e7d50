//! Compiles and runs programs in C against this crate's libraries.

use nandlab_testkit::tools;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Returns the folder of this crate.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// How a program is linked to nandlab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Static,
    Shared,
}

/// The newest library of this crate beside the running test. Cargo builds it before the test.
fn library(link: Link) -> PathBuf {
    let end = match link {
        Link::Static => "a",
        Link::Shared => "so",
    };
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap();
    let entries = beside.read_dir().unwrap().map(|entry| entry.unwrap());
    let ours = entries.filter(|entry| {
        let name = entry.file_name().into_string().unwrap_or_default();
        name.starts_with("libnandlab_capi") && name.ends_with(&format!(".{end}"))
    });
    let newest = ours.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest
        .unwrap_or_else(|| panic!("no libnandlab_capi*.{end} in {}", beside.display()))
        .path()
}

/// Compiles and links sources, with warnings as errors in files of ours; gives the program.
pub fn compile(name: &str, link: Link, arguments: &[&str], into: &Path) -> PathBuf {
    let program = into.join(name);
    let library = library(link);
    let include = format!("-I{}", folder().join("include").display());
    let search = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let mut cc = tools::command("gcc", "cc");
    cc.args([
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
    ])
    .arg(include)
    .args(arguments)
    .arg(&library)
    .arg(search)
    .args(["-lpthread", "-ldl", "-lm", "-o"])
    .arg(&program);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "cc: {}", printed(&output));
    program
}

/// Runs a program to its end.
pub fn run(program: &Path) -> Output {
    std::process::Command::new(program).output().unwrap()
}

pub fn printed(output: &Output) -> String {
    tools::printed(output)
}

/// A source of the tests.
pub fn source(name: &str) -> String {
    folder().join("tests/c").join(name).display().to_string()
}
