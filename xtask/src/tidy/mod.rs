//! The house rules that a compiler does not see. Each rule says why it is there.

mod blank;
mod packages;
mod plain;
mod rooms;
mod source;

use crate::{Outcome, metadata, root};
use std::fs;
use std::path::{Path, PathBuf};

pub use rooms::Room;

/// Broken rules, each with its place.
type Findings = Vec<String>;

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
    let sources = read_sources()?;
    source::check(&sources, &rooms, &mut findings);
    plain::check(&sources, &mut findings);
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
pub fn read_sources() -> Result<Vec<(String, String)>, String> {
    let mut files = Vec::new();
    for dir in ["book", "crates", "fuzz", "xtask"] {
        walk(&root().join(dir), "rs", &mut files)?;
    }
    texts(files)
}

/// The documents that readers start with, and the pages of the book, by their path.
pub fn read_documents() -> Result<Vec<(String, String)>, String> {
    let first = ["README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY"];
    let mut files: Vec<PathBuf> = first
        .iter()
        .map(|name| root().join(format!("{name}.md")))
        .collect();
    walk(&root().join("docs"), "md", &mut files)?;
    texts(files)
}

fn texts(mut files: Vec<PathBuf>) -> Result<Vec<(String, String)>, String> {
    files.sort();
    files
        .iter()
        .map(|file| {
            let name = file.strip_prefix(root()).unwrap_or(file);
            Ok((name.display().to_string(), read(file)?))
        })
        .collect()
}

fn walk(dir: &Path, end: &str, found: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            walk(&path, end, found)?;
        } else if path.extension().is_some_and(|e| e == end) {
            found.push(path);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}
