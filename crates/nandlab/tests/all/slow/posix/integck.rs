//! integck of mtd-utils, which mounts its file system anew and looks at all that it wrote.

use nandlab_testkit::mtd_utils;
use nandlab_testkit::tools::{self, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Libraries of the package that integck needs.
const LIBRARIES: [&str; 4] = ["common.c", "libubi.c", "libmtd.c", "libmtd_legacy.c"];

fn compile(sources: &Path, into: &Path) {
    let options =
        "-O2 -w -D_GNU_SOURCE -DPACKAGE_VERSION=\"\" -DVERSION=\"\" -DHAVE_EXECINFO_H -Iinclude";
    let mut gcc = tools::command("gcc", "gcc");
    gcc.current_dir(sources).args(options.split(' '));
    gcc.arg("tests/fs-tests/integrity/integck.c");
    gcc.args(LIBRARIES.map(|name| format!("lib/{name}")));
    succeed(gcc.arg("-o").arg(into.join("integck")));
    let source = into.join("remount.c");
    fs::write(&source, include_str!("remount.c")).unwrap();
    let mut gcc = tools::command("gcc", "gcc");
    gcc.args(["-O2", "-shared", "-fPIC", "-o"]);
    succeed(gcc.arg(into.join("remount.so")).arg(&source));
}

fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = tools::printed(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{printed}",
        output.status
    );
}

/// Runs integck on a stack, so many times over; gives the number of mounts.
pub fn run(description: &str, repeats: u32) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    for directory in ["sources", "mnt"] {
        fs::create_dir(at(directory)).unwrap();
    }
    mtd_utils::unpack(&at("sources"), 1, "*.[ch]");
    compile(&at("sources"), scratch.path());
    fs::write(at("stack.toml"), description).unwrap();
    let script = at("remount");
    fs::write(&script, include_str!("remount.sh")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = env!("CARGO_BIN_EXE_nandlab");
    let remount = |verb| succeed(Command::new(&script).arg(verb).env("NANDLAB", program));
    remount("mount");
    let mut integck = Command::new(at("integck"));
    integck.args(["-e", "-n", &repeats.to_string(), text(&at("mnt"))]);
    integck.env("LD_PRELOAD", at("remount.so"));
    integck.env("REMOUNT", &script).env("NANDLAB", program);
    succeed(&mut integck);
    remount("umount");
    let failed = fs::read_to_string(at("failed")).unwrap_or_default();
    assert_eq!(failed, "", "a server failed");
    fs::read_to_string(at("mounts")).unwrap().lines().count()
}
