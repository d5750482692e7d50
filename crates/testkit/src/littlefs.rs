//! littlefs, as a package registry has it.

use crate::tools;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C source that the crate littlefs2-sys carries.
pub fn source() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/tools");
    let output = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", tools::printed(&output));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages
        .iter()
        .find(|p| p["name"] == "littlefs2-sys")
        .unwrap();
    let manifest = Path::new(found["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().join("littlefs")
}
