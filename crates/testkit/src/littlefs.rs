//! littlefs, as a package registry has it.

use crate::tools;
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
    let text = String::from_utf8(output.stdout).unwrap();
    let mut paths = text.split("\"manifest_path\":\"").skip(1);
    let path = paths.find_map(|rest| {
        rest.split('"')
            .next()
            .filter(|path| path.contains("littlefs2-sys"))
    });
    let manifest = Path::new(path.expect("the tools of capi name littlefs2-sys"));
    manifest.parent().unwrap().join("littlefs")
}
