//! Builds the crates below `stack` for processors and machines without an operating system.
//!
//! Debian has the compiler with the source of its library, which no other registry that CI may
//! use has: so `core` and `alloc` are built here.

use crate::{Outcome, packages, root, tidy};
use std::process::Command;

/// 32 bits without 64-bit atomics; a browser.
const TARGETS: &[&str] = &["thumbv7m-none-eabi", "wasm32-unknown-unknown"];
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";

pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    packages::ensure_some(packages::PORTABLE)?;
    let mut command = Command::new(CARGO);
    command
        .current_dir(root())
        .env("RUSTC", RUSTC)
        // Lets a stable compiler build its own library.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", root().join("target/portable"));
    command.args(["check", "--locked", "-Zbuild-std=core,alloc"]);
    // Without the optimised dependencies of the development profile.
    command.args(["--release", "--config", "profile.release.opt-level=0"]);
    for target in TARGETS {
        command.args(["--target", target]);
    }
    for room in tidy::rooms()?.iter().filter(|room| room.no_std) {
        command.arg(format!("--package=nandlab-{}", room.name));
    }
    crate::run(&mut command)
}
