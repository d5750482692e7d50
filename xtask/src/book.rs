//! The book and its generated page.

use crate::{Outcome, cargo, packages, root};
use std::process::Command;

/// Checks the links of all documents and builds the book into `target/book`.
///
/// mdBook is a workspace of its own, so that no other verb builds it.
pub fn run(words: &[String]) -> Outcome {
    tool(words, &[])
}

/// Writes docs/images/readme.png, the first screen of the README as Chromium shows it.
pub fn front(words: &[String]) -> Outcome {
    tool(words, &["--", "front"])?;
    packages::install(&[("/usr/bin/chromium", "chromium")])?;
    let mut chromium = Command::new("chromium");
    chromium.current_dir(root()).args([
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--window-size=900,1080",
        "--screenshot=docs/images/readme.png",
        "target/book-front/readme.html",
    ]);
    crate::run(&mut chromium)
}

fn tool(words: &[String], arguments: &[&str]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    crate::run(
        cargo()
            .current_dir(root().join("book"))
            .env("CARGO_TARGET_DIR", root().join("target/book-tool"))
            .args(["run", "--quiet", "--locked"])
            .args(arguments),
    )
}

/// Writes docs/reference.md; a test compares it.
pub fn reference(words: &[String]) -> Outcome {
    written(words, "NANDLAB_REFERENCE", "nandlab-lab", "reference")
}

/// Writes docs/images/wear.svg; a test compares it.
pub fn picture(words: &[String]) -> Outcome {
    written(words, "NANDLAB_PICTURE", "nandlab", "slow::picture")
}

/// Runs a test that writes what it compares if a variable is set.
fn written(words: &[String], variable: &str, package: &str, test: &str) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    let mut command = cargo();
    command.current_dir(root()).env(variable, "1");
    crate::run(command.args(["test", "--package", package, "--test", "all", test]))
}
