//! Formatting, lints and the links of the documentation.

use crate::{Outcome, cargo, root};
use std::process::{Command, Stdio};

/// Runs rustfmt, clippy and rustdoc; each warning is an error. Clippy also refuses what the stated
/// minimal Rust does not have (`incompatible_msrv`).
pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    component("fmt", "rustfmt")?;
    component("clippy", "clippy")?;
    crate::run(
        cargo()
            .current_dir(root())
            .args(["fmt", "--all", "--check"]),
    )?;
    for other in ["fuzz", "book", "crates/capi/tools"] {
        crate::run(
            cargo()
                .current_dir(root().join(other))
                .args(["fmt", "--check"]),
        )?;
    }
    let clippy = "clippy --locked --workspace --all-targets -- -D warnings";
    crate::run(cargo().current_dir(root()).args(clippy.split(' ')))?;
    let doc = "doc --locked --workspace --no-deps --document-private-items";
    let mut command = cargo();
    command
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-Dwarnings");
    crate::run(command.args(doc.split(' ')))
}

fn component(verb: &str, name: &str) -> Outcome {
    let mut command = cargo();
    command.args([verb, "--version"]);
    match quietly(&mut command) {
        Ok(()) => Ok(()),
        Err(why) => Err(format!(
            "cargo {verb}: {why}; install it by `rustup component add {name}`"
        )),
    }
}

fn quietly(command: &mut Command) -> Outcome {
    let reported = command
        .stdin(Stdio::null())
        .output()
        .map_err(|why| why.to_string())?;
    if reported.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&reported.stderr).trim().to_owned())
}
