//! The benchmarks.

use crate::{Outcome, cargo, root};

pub fn run(words: &[String]) -> Outcome {
    if !words.is_empty() {
        return Err("expected nothing".into());
    }
    crate::run(cargo().current_dir(root()).args([
        "bench",
        "--profile",
        "dist",
        "--workspace",
        "--benches",
    ]))
}
