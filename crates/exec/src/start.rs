//! The files that a layer or a file system of your own begins with. They work as they are.

/// A file to begin with.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its name in the folder.
    pub name: &'static str,
    /// The text of the file.
    pub text: &'static str,
    /// True for a program.
    pub runs: bool,
}

const fn file(name: &'static str, text: &'static str) -> File {
    let runs = false;
    File { name, text, runs }
}

/// A stack and a workload for the layer.
const EXPERIMENT: File = file("layer.toml", include_str!("../start/layer.toml"));

/// A layer in C: `make`, then `nandlab crash --exec ./layer layer.toml`.
pub const C: [File; 6] = [
    file("layer.c", include_str!("../start/layer.c")),
    EXPERIMENT,
    file("Makefile", include_str!("../start/Makefile")),
    file("nandlab.h", include_str!("../../capi/include/nandlab.h")),
    file("nandlab_exec.h", include_str!("../clients/nandlab_exec.h")),
    file("nandlab_exec.c", include_str!("../clients/nandlab_exec.c")),
];

/// The client for Python.
const PYTHON_CLIENT: File = file(
    "nandlab_exec.py",
    include_str!("../clients/nandlab_exec.py"),
);

/// A layer in Python: `nandlab crash --exec ./layer.py layer.toml`.
pub const PYTHON: [File; 3] = [
    File {
        name: "layer.py",
        text: include_str!("../start/layer.py"),
        runs: true,
    },
    EXPERIMENT,
    PYTHON_CLIENT,
];

/// A file system in Python: `nandlab crash --exec-files ./files.py files.toml`.
pub const PYTHON_FILES: [File; 3] = [
    File {
        name: "files.py",
        text: include_str!("../start/files.py"),
        runs: true,
    },
    file("files.toml", include_str!("../start/files.toml")),
    PYTHON_CLIENT,
];
