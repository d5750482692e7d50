//! Programs for the tests.

use nandlab_exec::{FileProgram, Program, start};
use nandlab_testkit::{tools, vendored};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes what a layer begins with, changed by `change`, into a new folder.
fn begun(files: &[start::File], into: &Path, change: impl Fn(&str) -> String) {
    fs::create_dir(into).unwrap();
    for file in files {
        let path = into.join(file.name);
        fs::write(&path, change(file.text)).unwrap();
        if file.runs {
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
}

/// Compiles the layer in C of a folder, with the client, warnings as errors.
fn compiled(folder: &Path) -> Program {
    tools::command("gcc", "cc");
    let mut make = tools::command("make", "make");
    make.arg("-C")
        .arg(folder)
        .arg("CFLAGS=-std=c99 -O1 -g -Wall -Wextra -Werror");
    let output = make.output().unwrap();
    assert!(output.status.success(), "make: {}", tools::printed(&output));
    Program::new(folder.join("layer"))
}

/// The layer in C that users begin with, changed by `change`.
pub fn changed(name: &str, scratch: &Path, change: impl Fn(&str) -> String) -> Program {
    let folder = scratch.join(name);
    begun(&start::C, &folder, change);
    compiled(&folder)
}

/// The layer in C that users begin with.
pub fn c(scratch: &Path) -> Program {
    changed("c", scratch, str::to_owned)
}

/// The layer in Python that users begin with.
pub fn python(scratch: &Path) -> Program {
    let folder = scratch.join("python");
    begun(&start::PYTHON, &folder, str::to_owned);
    Program::new(folder.join("layer.py"))
}

/// A source of the tests.
fn source(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/guests");
    folder.join(name)
}

/// Replaces one text by a source of the tests.
fn in_place_of(replaced: &str, name: &str) -> impl Fn(&str) -> String {
    let text = fs::read_to_string(source(name)).unwrap();
    move |old| match old == replaced {
        true => text.clone(),
        false => old.to_owned(),
    }
}

/// A layer in C of the tests.
pub fn c_of_the_tests(name: &str, scratch: &Path) -> Program {
    changed(name, scratch, in_place_of(start::C[0].text, name))
}

/// A layer in Python of the tests, under a name of its own.
pub fn python_of_the_tests(file: &str, name: &str, scratch: &Path) -> Program {
    let folder = scratch.join(format!("folder-of-{name}"));
    begun(&start::PYTHON, &folder, str::to_owned);
    let program = folder.join(name);
    fs::copy(source(file), &program).unwrap();
    Program::new(program)
}

/// The file system in Python that users begin with, changed by `change`.
pub fn files(scratch: &Path, change: impl Fn(&str) -> String) -> FileProgram {
    let folder = scratch.join("files");
    begun(&start::PYTHON_FILES, &folder, change);
    FileProgram::new(folder.join("files.py"))
}

/// A file system in Python of the tests.
pub fn files_of_the_tests(file: &str, scratch: &Path) -> FileProgram {
    files(scratch, in_place_of(start::PYTHON_FILES[0].text, file))
}

/// A C compiler that finds the client and the chip's header.
fn compiler() -> Command {
    let mut cc = tools::command("gcc", "cc");
    cc.args(["-std=c99", "-O2"])
        .arg(format!("-I{}", here("capi/include")))
        .arg(format!("-I{}", here("exec/clients")));
    cc
}

fn here(path: &str) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    crates.join(path).display().to_string()
}

fn compile(cc: &mut Command) {
    let output = cc.output().unwrap();
    assert!(output.status.success(), "cc: {}", tools::printed(&output));
}

const STRICT: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

/// littlefs with its glue.
pub fn littlefs_guest(scratch: &Path) -> FileProgram {
    let littlefs = vendored::littlefs();
    let program = scratch.join("littlefs-guest");
    compile(
        compiler()
            .args(STRICT)
            .args(["-DLFS_NO_DEBUG", "-DLFS_NO_WARN", "-DLFS_NO_ERROR"])
            .arg(format!("-isystem{}", littlefs.display()))
            .arg(format!("-I{}", here("capi/tests/c")))
            .arg(here("exec/guests/littlefs.c"))
            .arg(here("capi/tests/c/littlefs_glue.c"))
            .arg(here("exec/clients/nandlab_exec.c"))
            .args(["lfs.c", "lfs_util.c"].map(|name| littlefs.join(name)))
            .arg("-o")
            .arg(&program),
    );
    FileProgram::new(program)
}

/// FatFs with its glue, above the layer in C that users begin with.
pub fn fatfs_guest(scratch: &Path) -> FileProgram {
    let fatfs = vendored::fatfs();
    let parts = ["ff", "ffunicode"].map(|name| {
        let part = scratch.join(name).with_extension("o");
        let source = fatfs.join(name).with_extension("c");
        // FatFs has warnings of its own.
        compile(
            compiler()
                .args(["-w", "-c"])
                .arg(source)
                .arg("-o")
                .arg(&part),
        );
        part
    });
    let program = scratch.join("fatfs-guest");
    compile(
        compiler()
            .args(STRICT)
            .arg(format!("-isystem{}", fatfs.display()))
            .arg(format!("-I{}", here("exec/start")))
            .arg(here("exec/guests/fatfs.c"))
            .arg(here("exec/clients/nandlab_exec.c"))
            .args(parts)
            .arg("-o")
            .arg(&program),
    );
    FileProgram::new(program)
}
