//! Results stay as they are: `results.txt` has a digest of each experiment's and each paper's
//! numbers. A change that moves one shows it there.
//!
//! ```console
//! NANDLAB_RESULTS=1 NANDLAB_WHOLE=1 cargo test -p nandlab -- --include-ignored slow::results \
//!     slow::picture slow::paper
//! ```
//!
//! writes the digests anew.

use super::picture;
use crate::command::Lab;
use nandlab_testkit::share::is_whole;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/slow/results.txt");
/// Set to write the digests anew.
const WRITE: &str = "NANDLAB_RESULTS";
/// One test at a time writes the file.
static WRITING: Mutex<()> = Mutex::new(());

fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(KEPT).unwrap();
    let line = |line: &str| {
        let (digest, name) = line.split_once("  ").expect("a digest and a name");
        (name.to_owned(), digest.to_owned())
    };
    text.lines().map(line).collect()
}

fn write(name: &str, digest: String) {
    let _one = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut kept = read();
    kept.insert(name.to_owned(), digest);
    let text = kept.iter().fold(String::new(), |mut text, (name, digest)| {
        writeln!(text, "{digest}  {name}").unwrap();
        text
    });
    std::fs::write(KEPT, text).unwrap();
}

/// Keys of settings and words. A new key or another sentence changes no result.
const WORDS: [&str; 8] = [
    "settings",
    "assumptions",
    "what",
    "title",
    "about",
    "heads",
    "statement",
    "evidence",
];

fn drop_words(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !WORDS.contains(&&key[..]));
            fields.values_mut().for_each(drop_words);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_words),
        _ => {}
    }
}

/// Compares numbers with those that were there when `results.txt` was written.
pub fn assert_kept(name: &str, mut result: Value) {
    drop_words(&mut result);
    let digest = Sha256::digest(result.to_string());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os(WRITE).is_some() {
        return write(name, digest);
    }
    let kept = read().remove(name);
    assert_eq!(
        kept.as_deref(),
        Some(&digest[..]),
        "{name} has other numbers than when results.txt was written; if they are meant, set {WRITE}"
    );
}

const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

/// Takes half a minute.
const LONGEST: &str = "uniform-8GiB.toml";

/// The experiments that come along, but those that only cut the power.
fn experiments() -> Vec<String> {
    let names = std::fs::read_dir(EXPERIMENTS).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".toml") && !name.starts_with("crash-"))
        .collect();
    names.sort();
    names
}

#[test]
fn experiments_have_the_numbers_that_they_had() {
    let lab = Lab::new();
    let experiments = experiments();
    let is_drawn = |name: &str| picture::SHOWN.iter().any(|(file, _)| *file == name);
    let is_run = |name: &&String| !is_drawn(name) && (is_whole() || *name != LONGEST);
    for name in experiments.iter().filter(is_run) {
        let path = format!("{EXPERIMENTS}/{name}");
        let args = ["run", &path, "--json", "-"];
        let (json, _) = lab.exits(0, &args);
        let runs: Vec<Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(runs.len(), 1, "{name}");
        runs.into_iter().for_each(|run| assert_kept(name, run));
    }
    let digests = read();
    let mut names = digests.keys().filter(|name| !name.starts_with("paper "));
    let gone = names.find(|name| !experiments.contains(name));
    assert_eq!(gone, None, "results.txt names what is no experiment");
}
