//! File systems in C that packages of the registry carry.

use crate::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The source of littlefs, from the crate littlefs2-sys.
pub fn littlefs() -> PathBuf {
    package("littlefs2-sys").join("littlefs")
}

/// The source of FatFs, from the crate fatfs-embedded.
pub fn fatfs() -> PathBuf {
    package("fatfs-embedded").join("fatfs/source")
}

/// The folder of a package that the tools of capi name.
fn package(name: &str) -> PathBuf {
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
            .filter(|path| path.contains(&format!("/{name}-")))
    });
    let manifest = Path::new(path.unwrap_or_else(|| panic!("no {name} in the tools of capi")));
    manifest.parent().unwrap().into()
}
