//! The house rules that a compiler does not see. Each rule says why it is there.

mod blank;
mod packages;
mod rooms;
mod source;

use crate::{Outcome, metadata, root};
use std::fs;
use std::path::{Path, PathBuf};

pub use rooms::Room;

/// Broken rules, each with its place.
type Findings = Vec<String>;

/// The verb.
pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    let rooms = rooms()?;
    let mut findings = Findings::new();
    let packages = metadata::read(root())?;
    rooms::check(&rooms, &packages, &root().join("crates"), &mut findings);
    packages::licences(&packages, &mut findings);
    packages::duplicates(&packages, &mut findings);
    match metadata::read(&root().join("fuzz")) {
        Ok(packages) => packages::licences(&packages, &mut findings),
        Err(why) => findings.push(format!("fuzz: {why}")),
    }
    source::check(&read_sources()?, &rooms, &mut findings);
    if findings.is_empty() {
        return Ok(());
    }
    let count = findings.len();
    Err(format!("{count} findings\n  {}", findings.join("\n  ")))
}

/// The table of ARCHITECTURE.md.
pub fn rooms() -> Result<Vec<Room>, String> {
    rooms::parse(&read(&root().join("ARCHITECTURE.md"))?)
}

/// All Rust files of the checkout, by their path in it.
fn read_sources() -> Result<Vec<(String, String)>, String> {
    let mut files = Vec::new();
    for dir in ["book", "crates", "fuzz", "xtask"] {
        walk(&root().join(dir), &mut files)?;
    }
    files.sort();
    files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(root()).unwrap_or(file);
            Ok((name.display().to_string(), read(file)?))
        })
        .collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}
