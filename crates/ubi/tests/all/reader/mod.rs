//! ubi_reader, installed once from PyPI into an environment of its own below the target directory.
//! Needs Debian's python3-venv.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "ubi_reader==0.8.16";

/// One of its programs.
pub fn program(name: &str) -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ubi_reader");
    let program = venv.join("bin").join(name);
    if !program.exists() {
        let made = Command::new("python3")
            .arg("-m")
            .arg("venv")
            .arg(&venv)
            .status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "python3 -m venv failed: install the Debian package python3-venv"
        );
        let installed = Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", PACKAGE])
            .status()
            .unwrap();
        assert!(installed.success(), "pip could not install {PACKAGE}");
    }
    program
}

/// The volumes that it extracts from an image, by their names.
pub fn volumes(image: &[u8], peb_bytes: u32) -> BTreeMap<String, Vec<u8>> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("image");
    let target = scratch.path().join("target");
    std::fs::write(&file, image).unwrap();
    let mut command = Command::new(program("ubireader_extract_images"));
    let output = command
        .args(["--peb-size", &peb_bytes.to_string(), "--output-dir"])
        .arg(&target)
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let entries = std::fs::read_dir(target.join("image"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let named = entries.map(|path| {
        let name = path
            .file_stem()
            .unwrap()
            .to_string_lossy()
            .split_once("_vol-")
            .expect("img-SEQUENCE_vol-NAME")
            .1
            .to_owned();
        (name, std::fs::read(&path).unwrap())
    });
    named.collect()
}
