//! Every test.

use crate::{Outcome, cargo, lint, packages, portable, root, tidy};

/// Test binaries that boot the real kernel, mount things, start a browser or run a whole
/// publication: all but the quick set.
const SLOW: &[&str] = &[
    "kernel",
    "nftl_kernel",
    "journaled_kernel",
    "f2fs_kernel",
    "jffs2_kernel",
    "jffs2_costs_kernel",
    "jffs2_load_kernel",
    "jffs2_merged_kernel",
    "jffs2_ops_kernel",
    "ubi_attach_kernel",
    "ubi_kernel",
    "paper",
    "crash_described",
    "camera_kernel",
    "camera_schemes_kernel",
    "iozone_kernel",
    "mounts",
    "lived",
    "mounted",
    "posix",
    "boots",
    "file_systems",
    "nbd_tools",
    "disk_file",
    "image_kernel",
    "tools_kernel",
    "report_browser",
];

/// `test`: everything. `test quick`: what takes two minutes or so.
pub fn run(words: &[String]) -> Outcome {
    match words {
        [] => everything(),
        [one] if one == "quick" => quick(),
        _ => Err("expected nothing, or `quick`".into()),
    }
}

fn everything() -> Outcome {
    tidy::run(&[])?;
    lint::run(&[])?;
    packages::ensure()?;
    portable::run(&[])?;
    crate::run(
        cargo()
            .current_dir(root())
            .args(["test", "--workspace", "--no-fail-fast"]),
    )
}

fn quick() -> Outcome {
    tidy::run(&[])?;
    packages::ensure_some(packages::QUICK)?;
    let mut command = cargo();
    command
        .current_dir(root())
        .args(["test", "--workspace", "--lib", "--bins"]);
    for name in quick_binaries()? {
        command.args(["--test", &name]);
    }
    crate::run(&mut command)
}

/// The integration tests of every crate, by name, without the slow ones.
fn quick_binaries() -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for member in std::fs::read_dir(root().join("crates"))
        .map_err(|e| e.to_string())?
        .flatten()
    {
        let Ok(tests) = std::fs::read_dir(member.path().join("tests")) else {
            continue;
        };
        for test in tests.flatten() {
            let path = test.path();
            if let (Some("rs"), Some(stem)) = (
                path.extension().and_then(|e| e.to_str()),
                path.file_stem().and_then(|s| s.to_str()),
            ) {
                names.push(stem.to_owned());
            }
        }
    }
    names.retain(|name| !SLOW.contains(&name.as_str()));
    names.sort();
    names.dedup();
    Ok(names)
}
