//! Checks that `include/nandlab.h` is the output of cbindgen for the sources.

use crate::build::{folder, printed};
use std::process::Command;

#[test]
fn the_header_is_made_from_the_sources() {
    let tools = folder().join("tools");
    let output = Command::new(env!("CARGO"))
        .current_dir(&tools)
        // Variables that cargo sets for tests would reach the other build.
        .env_remove("CARGO_TARGET_DIR")
        .args(["run", "--quiet", "--locked", "--"])
        .arg(folder())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let made = String::from_utf8(output.stdout).unwrap();
    let kept = std::fs::read_to_string(folder().join("include/nandlab.h")).unwrap();
    let command = "cd crates/capi/tools && cargo run -- .. > ../include/nandlab.h";
    assert!(
        made == kept,
        "include/nandlab.h is out of date; run: {command}"
    );
}
