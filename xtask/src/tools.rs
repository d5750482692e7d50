//! The table of what image tools lose.

use crate::{Outcome, cargo, packages, root};

/// Makes the whole table; `cargo xtask test` makes our part of it only.
pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    packages::ensure()?;
    let mut command = cargo();
    command
        .current_dir(root())
        .env("NANDLAB_TOOLS", root().join("docs/tools.md"));
    crate::run(command.args([
        "test",
        "--package",
        "nandlab",
        "--test",
        "all",
        "slow::tools_kernel",
    ]))
}
