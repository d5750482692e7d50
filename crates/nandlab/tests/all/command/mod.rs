//! The command in a directory of its own.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A device that runs quickly.
pub const SMALL: &str = "[chip]\npreset = \"slc-2k\"\nblocks = 256\npages-per-block = 16\n";

/// A directory with files, and the command in it.
pub struct Lab(tempfile::TempDir);

impl Lab {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where a file lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn nandlab(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nandlab"))
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    /// Runs the command, which must exit with `status`; gives standard output and standard error.
    pub fn exits(&self, status: i32, args: &[&str]) -> (String, String) {
        let output = self.nandlab(args);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let out = text(&output.stdout);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {out}{err}");
        (out, err)
    }

    /// Runs the command, which must refuse its input with one line that holds `expected`.
    pub fn refuses(&self, args: &[&str], expected: &str) {
        let (out, err) = self.exits(2, args);
        assert!(out.is_empty(), "{args:?}: {out}");
        assert!(
            err.starts_with("nandlab: ") && err.contains(expected) && err.lines().count() == 1,
            "{args:?}: expected {expected}, found {err}"
        );
    }
}
