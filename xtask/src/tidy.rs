//! The house rules that a compiler does not see. Each rule says why it is there.

use crate::{Outcome, root};
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may depend on, besides outside crates: the arrows of the architecture.
const ARROWS: &[(&str, &[&str])] = &[
    ("sim", &[]),
    ("mtd", &["sim"]),
    ("block", &["sim"]),
    ("jbd", &["sim", "block"]),
    ("nand", &["sim", "mtd"]),
    ("ftl", &["sim", "mtd", "block"]),
    ("vfs", &["sim"]),
    ("pagecache", &["vfs"]),
    ("xattr", &["vfs"]),
    ("fat", &["sim", "vfs", "block"]),
    ("ext", &["sim", "vfs", "block", "jbd", "xattr"]),
    ("f2fs", &["sim", "vfs", "block", "xattr"]),
    ("jffs2", &["sim", "mtd", "vfs", "xattr"]),
    ("ubi", &["mtd", "block"]),
    ("workload", &["sim", "vfs", "block"]),
    ("crash", &["sim", "mtd", "block", "nand", "vfs", "workload"]),
    (
        "stack",
        &[
            "sim",
            "mtd",
            "block",
            "nand",
            "ftl",
            "vfs",
            "pagecache",
            "fat",
            "ext",
            "f2fs",
            "jffs2",
            "ubi",
            "workload",
        ],
    ),
    (
        "lab",
        &[
            "sim",
            "mtd",
            "block",
            "nand",
            "ftl",
            "vfs",
            "pagecache",
            "fat",
            "ext",
            "f2fs",
            "jffs2",
            "ubi",
            "workload",
            "crash",
            "stack",
        ],
    ),
    (
        "host",
        &["sim", "block", "vfs", "pagecache", "xattr", "stack"],
    ),
    (
        "image",
        &[
            "sim", "mtd", "block", "ftl", "vfs", "fat", "ext", "f2fs", "jffs2", "ubi",
        ],
    ),
    ("oracle", &[]),
    ("testkit", &["sim", "mtd", "block", "nand", "vfs", "oracle"]),
    (
        "nandlab",
        &[
            "sim", "mtd", "block", "nand", "ftl", "vfs", "fat", "ext", "f2fs", "jffs2", "workload",
            "crash", "stack", "lab", "host", "image",
        ],
    ),
];

/// Crates that know no operating system: a run of theirs is a pure function.
const PURE: &[&str] = &[
    "sim",
    "mtd",
    "block",
    "jbd",
    "nand",
    "ftl",
    "vfs",
    "pagecache",
    "xattr",
    "fat",
    "ext",
    "f2fs",
    "jffs2",
    "ubi",
    "workload",
];

/// What makes a run depend on more than its inputs.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "HashMap",
    "HashSet",
    "thread_rng",
    "std::fs",
    "std::thread",
];

/// The one file with `unsafe`, and its reason is in it.
const UNSAFE: &[&str] = &["crates/sim/src/prefetch.rs"];

/// Lines of a source file without its tests. A ratchet: lower it when the largest shrinks.
const LINES_MAX: usize = 520;

/// The verb.
pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    let mut findings = Vec::new();
    arrows(&mut findings)?;
    for file in sources()? {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file
            .strip_prefix(root())
            .unwrap_or(&file)
            .display()
            .to_string();
        source(&name, &text, &mut findings);
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} findings\n  {}",
            findings.len(),
            findings.join("\n  ")
        ))
    }
}

fn arrows(findings: &mut Vec<String>) -> Outcome {
    for (name, allowed) in ARROWS {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        // Development dependencies may point anywhere: tests stand outside the layers.
        let body = text.split("[dependencies]").nth(1).unwrap_or_default();
        for line in body.lines().take_while(|l| !l.starts_with('[')) {
            if let Some(on) = line
                .strip_prefix("nandlab-")
                .and_then(|l| l.split([' ', '.', '=']).next())
                && !allowed.contains(&on)
            {
                findings.push(format!("crates/{name}/Cargo.toml: {name} must not depend on {on}: data flows one way down the layers"));
            }
        }
    }
    for entry in fs::read_dir(root().join("crates"))
        .map_err(|e| e.to_string())?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !ARROWS.iter().any(|(known, _)| *known == name) {
            findings.push(format!(
                "crates/{name}: not in the list of arrows; say what it may depend on"
            ));
        }
    }
    Ok(())
}

fn source(name: &str, text: &str, findings: &mut Vec<String>) {
    if !text.starts_with("//!") && !text.starts_with("#![") {
        findings.push(format!(
            "{name}:1: no module header; say what the module is for"
        ));
    }
    let code = text.split("\n#[cfg(test)]").next().unwrap_or(text);
    let lines = code.lines().count();
    if lines > LINES_MAX {
        findings.push(format!(
            "{name}: {lines} lines, at most {LINES_MAX}: a second idea may have moved in"
        ));
    }
    let in_src = |crate_name: &str| name.starts_with(&format!("crates/{crate_name}/src/"));
    for (i, line) in code
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim_start().starts_with("//"))
    {
        if PURE.iter().any(|c| in_src(c))
            && let Some(word) = IMPURE.iter().find(|w| line.contains(**w))
        {
            findings.push(format!(
                "{name}:{}: {word} below the lab: a run must be a function of its inputs",
                i + 1
            ));
        }
        if line.contains("unsafe ") && !UNSAFE.contains(&name) && !name.starts_with("xtask/") {
            findings.push(format!(
                "{name}:{}: unsafe outside the one place that has a reason",
                i + 1
            ));
        }
        if !name.starts_with("xtask/")
            && (line.contains("todo!(") || line.contains("unimplemented!("))
        {
            findings.push(format!("{name}:{}: a stub", i + 1));
        }
    }
}

fn sources() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for dir in ["crates", "xtask"] {
        walk(&root().join(dir), &mut found)?;
    }
    found.sort();
    Ok(found)
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
