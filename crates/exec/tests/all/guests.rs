//! Programs for the tests.

use nandlab_exec::{Program, start};
use nandlab_testkit::tools;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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

/// A layer in C of the tests.
pub fn c_of_the_tests(name: &str, scratch: &Path) -> Program {
    let text = fs::read_to_string(source(name)).unwrap();
    let is_layer = |old: &str| old == start::C[0].text;
    changed(name, scratch, |old| {
        if is_layer(old) {
            text.clone()
        } else {
            old.to_owned()
        }
    })
}

/// A layer in Python of the tests, under a name of its own.
pub fn python_of_the_tests(file: &str, name: &str, scratch: &Path) -> Program {
    let folder = scratch.join(format!("folder-of-{name}"));
    begun(&start::PYTHON, &folder, str::to_owned);
    let program = folder.join(name);
    fs::copy(source(file), &program).unwrap();
    Program::new(program)
}
