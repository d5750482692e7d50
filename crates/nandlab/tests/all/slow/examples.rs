//! The example programs: they run, and the crash explorer finds nothing wrong. The line that a
//! header tells the reader to change is there once.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const EXAMPLES: [&str; 3] = ["my_ftl", "my_fs", "cut_power"];

/// The directory of the built examples.
fn examples() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // With the whole workspace, dependencies have the features of the build that made this
        // test, so that nothing is compiled twice.
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace"])
            .args(EXAMPLES.map(|example| format!("--example={example}")))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "the examples do not compile");
        PathBuf::from(env!("CARGO_BIN_EXE_nandlab")).with_file_name("examples")
    })
}

/// What an example prints. It runs in a directory of its own, because it may write a report.
fn output_of(example: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(examples().join(example))
        .current_dir(&dir)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {printed}{errors}");
    printed
}

/// Lines of code, without comments, that hold `part`.
fn lines_with(source: &str, part: &str) -> usize {
    let code = source.lines().filter(|line| !line.starts_with("//!"));
    code.filter(|line| line.contains(part)).count()
}

#[test]
fn a_layer_of_ones_own_survives_every_cut() {
    assert!(output_of("my_ftl").contains("violations  0\n"));
    let source = include_str!("../../../examples/my_ftl.rs");
    assert_eq!(lines_with(source, "fence"), 1);
}

#[test]
fn a_file_system_of_ones_own_survives_every_cut() {
    assert!(output_of("my_fs").contains("violations  0\n"));
    let source = include_str!("../../../examples/my_fs.rs");
    assert_eq!(lines_with(source, "sequence % self.slots"), 1);
}

#[test]
fn only_a_rule_left_out_loses_data() {
    let printed = output_of("cut_power");
    let (sound, broken) = printed.split_once("Some(FlushWithoutSync)").unwrap();
    assert!(sound.contains("violations  0\n"));
    assert!(broken.contains("smallest case: 2 host operations"));
}
