//! The packages of a workspace as `cargo metadata` describes them.

use crate::cargo;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A package of the workspace or one that it uses.
pub struct Package {
    /// The name in the manifest.
    pub name: String,
    /// The version in the manifest.
    pub version: String,
    /// The SPDX expression, if there is one.
    pub licence: Option<String>,
    /// The folder of the manifest.
    pub folder: PathBuf,
    /// The packages of ours that the manifest names.
    pub paths: Vec<PathDependency>,
}

/// A dependency that is named by its path.
pub struct PathDependency {
    /// The folder of its manifest.
    pub folder: PathBuf,
    /// Whether only tests, benchmarks and examples use it.
    pub dev: bool,
}

/// Returns all packages of the workspace in `folder`, on every platform, with all they use.
pub fn read(folder: &Path) -> Result<Vec<Package>, String> {
    let mut command = cargo();
    command
        .current_dir(folder)
        .args(["metadata", "--format-version", "1", "--locked"]);
    let reported = command
        .output()
        .map_err(|why| format!("cargo metadata: {why}"))?;
    if !reported.status.success() {
        let why = String::from_utf8_lossy(&reported.stderr);
        return Err(format!("cargo metadata: {}", why.trim()));
    }
    parse(&reported.stdout)
}

fn parse(json: &[u8]) -> Result<Vec<Package>, String> {
    let json: Value =
        serde_json::from_slice(json).map_err(|why| format!("cargo metadata: {why}"))?;
    Ok(list(&json["packages"]).iter().map(package).collect())
}

fn package(json: &Value) -> Package {
    let manifest = PathBuf::from(text(&json["manifest_path"]));
    Package {
        name: text(&json["name"]),
        version: text(&json["version"]),
        licence: json["license"].as_str().map(str::to_owned),
        folder: manifest.parent().unwrap_or(&manifest).to_owned(),
        paths: list(&json["dependencies"])
            .iter()
            .filter_map(path_dependency)
            .collect(),
    }
}

fn path_dependency(json: &Value) -> Option<PathDependency> {
    Some(PathDependency {
        folder: json["path"].as_str()?.into(),
        dev: json["kind"] == "dev",
    })
}

fn list(json: &Value) -> &[Value] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}
