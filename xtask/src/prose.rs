//! The prose linter: textlint over the documents and over the comments of all sources, with the
//! rules of `xtask/prose`.

use crate::tidy::{read_documents, read_sources};
use crate::{Outcome, packages, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that npm installs the linter from.
const INSTALLED_FROM: [&str; 2] = ["package.json", "package-lock.json"];
/// The most findings of each rule, in documents and in comments. A ratchet: lower it when they
/// become fewer.
const MOST: &[(&str, usize, usize)] = &[
    ("named-subject", 0, 1390),
    ("passive", 430, 4295),
    ("plain-words", 0, 0),
    ("repeated", 0, 0),
    ("sentence-words", 0, 2),
];

/// Findings of one rule, each with its place.
type Findings = BTreeMap<String, Vec<String>>;

/// `prose`: fails if a rule has more findings than its ratchet. `prose list` prints all findings.
pub fn run(words: &[String]) -> Outcome {
    let lists = match words {
        [] => false,
        [one] if one == "list" => true,
        _ => return Err("expected nothing, or `list`".into()),
    };
    install()?;
    let documents = lint(&documents()?)?;
    let comments = lint(&comments()?)?;
    if lists {
        for places in documents.values().chain(comments.values()) {
            places.iter().for_each(|place| println!("{place}"));
        }
    }
    let mut broken = Vec::new();
    for (rule, in_documents, in_comments) in MOST {
        broken.extend(judge(rule, "documents", &documents, *in_documents));
        broken.extend(judge(rule, "comments", &comments, *in_comments));
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("\n"))
    }
}

/// Prints the count of a rule; returns an error message if it is above the ratchet.
fn judge(rule: &str, whose: &str, findings: &Findings, most: usize) -> Option<String> {
    let places = findings.get(rule).map_or(&[][..], Vec::as_slice);
    let found = places.len();
    println!("{rule:15} {found:5} in {whose}, at most {most}");
    (found > most).then(|| {
        let first = &places[..found.min(20)];
        format!(
            "{found} findings of {rule} in {whose}, at most {most} may be; `cargo xtask prose \
             list` shows all:\n  {}",
            first.join("\n  ")
        )
    })
}

/// The folder of the linter and of the comments that it reads.
fn folder() -> PathBuf {
    root().join("target/prose")
}

/// Installs the linter with npm, in the versions of the lock file, unless it is there.
fn install() -> Outcome {
    packages::install(&[("/usr/bin/npm", "npm")])?;
    let ours = root().join("xtask/prose");
    let installed = folder().join("node_modules/.package-lock.json");
    let is_same =
        |name: &&str| fs::read(ours.join(name)).ok() == fs::read(folder().join(name)).ok();
    if installed.exists() && INSTALLED_FROM.iter().all(is_same) {
        return Ok(());
    }
    let failed = |why: std::io::Error| format!("{}: {why}", folder().display());
    fs::create_dir_all(folder()).map_err(failed)?;
    for name in INSTALLED_FROM {
        fs::copy(ours.join(name), folder().join(name)).map_err(failed)?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(folder());
    crate::run(npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))
}

fn documents() -> Result<Vec<PathBuf>, String> {
    let documents = read_documents()?;
    Ok(documents.iter().map(|(name, _)| name.into()).collect())
}

/// Writes the comments of each source as a document of its own.
fn comments() -> Result<Vec<PathBuf>, String> {
    let top = folder().join("comments");
    let failed = |why: std::io::Error| format!("{}: {why}", top.display());
    if top.exists() {
        fs::remove_dir_all(&top).map_err(failed)?;
    }
    for (name, text) in read_sources()? {
        let file = top.join(format!("{name}.md"));
        let parent = file.parent().unwrap_or(&top);
        fs::create_dir_all(parent).map_err(failed)?;
        fs::write(&file, prose_of(&text)).map_err(failed)?;
    }
    Ok(vec![top])
}

/// The comments that have lines of their own, on the lines where they are; other lines are empty.
fn prose_of(source: &str) -> String {
    let mut found = String::new();
    for line in source.lines() {
        let line = line.trim_start();
        let marked = line.strip_prefix("//");
        let comment = marked.map(|rest| rest.trim_start_matches(['/', '!']));
        found.push_str(comment.unwrap_or_default());
        found.push('\n');
    }
    found
}

/// Runs the linter over files and folders, given from the root.
fn lint(paths: &[PathBuf]) -> Result<Findings, String> {
    let rules = root().join("xtask/prose");
    let mut command = Command::new(folder().join("node_modules/.bin/textlint"));
    command
        .current_dir(root())
        .arg("--config")
        .arg(rules.join("textlintrc.json"))
        .arg("--rulesdir")
        .arg(rules.join("rules"))
        .args(["--format", "json"])
        .args(paths);
    let output = command.output().map_err(|why| format!("textlint: {why}"))?;
    // It ends with 1 if it has findings.
    if !matches!(output.status.code(), Some(0 | 1)) {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("textlint: {}: {why}", output.status));
    }
    let files: Vec<Value> = serde_json::from_slice(&output.stdout)
        .map_err(|why| format!("the output of textlint: {why}"))?;
    if files.is_empty() {
        return Err(format!("textlint read none of {paths:?}"));
    }
    Ok(sorted(&files))
}

fn sorted(files: &[Value]) -> Findings {
    let mut findings = Findings::new();
    for file in files {
        let path = file["filePath"].as_str().unwrap_or_default();
        let path = source_of(Path::new(path));
        for message in file["messages"].as_array().into_iter().flatten() {
            let line = &message["line"];
            let text = message["message"].as_str().unwrap_or_default();
            let place = format!("{path}:{line}: {text}");
            findings.entry(rule_of(message)).or_default().push(place);
        }
    }
    findings
}

/// The path of a document or of the source that comments are from, as seen from the root.
fn source_of(path: &Path) -> String {
    let top = folder().join("comments");
    match path.strip_prefix(&top) {
        Ok(comments) => comments.with_extension("").display().to_string(),
        Err(_) => path
            .strip_prefix(root())
            .unwrap_or(path)
            .display()
            .to_string(),
    }
}

/// The rule of a message. One rule of the linter does what two of ours do.
fn rule_of(message: &Value) -> String {
    let text = message["message"].as_str().unwrap_or_default();
    match message["ruleId"].as_str().unwrap_or_default() {
        "write-good" if text.ends_with("is repeated") => "repeated".into(),
        "write-good" => "passive".into(),
        rule => rule.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_keep_their_lines_and_code_is_left_out() {
        let source = "//! One.\nlet told = 1; // no\n    /// `two`\n    // Three,\n";
        assert_eq!(prose_of(source), " One.\n\n `two`\n Three,\n");
    }

    #[test]
    fn findings_are_sorted_by_rule_with_the_place_in_the_source() {
        let comments = folder().join("comments/a/b.rs.md");
        let files = serde_json::json!([
            { "filePath": comments, "messages": [
                { "ruleId": "write-good", "line": 3, "message": "\"on\" is repeated" },
                { "ruleId": "write-good", "line": 4, "message": "\"is cut\" may be passive voice" },
            ] },
            { "filePath": root().join("README.md"), "messages": [
                { "ruleId": "plain-words", "line": 5, "message": "x" },
            ] },
        ]);
        let found = sorted(files.as_array().unwrap());
        let expected = [
            ("passive", "a/b.rs:4: \"is cut\" may be passive voice"),
            ("plain-words", "README.md:5: x"),
            ("repeated", "a/b.rs:3: \"on\" is repeated"),
        ];
        let expected = expected.map(|(rule, place)| (rule.to_owned(), vec![place.to_owned()]));
        assert_eq!(found, Findings::from(expected));
    }
}
