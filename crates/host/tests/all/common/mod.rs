//! What the tests of this crate share.

pub mod client;
pub mod ram;

use nandlab_host::SharedDisk;
use ram::{Probe, watched_ram};
use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

pub const MIB: u64 = 1 << 20;

/// A shared RAM disk of so many bytes, and its probe.
pub fn ram_disk(sector: u32, bytes: u64) -> (SharedDisk, Arc<Probe>) {
    let (ram, probe) = watched_ram(sector, bytes / u64::from(sector));
    (SharedDisk::new(Box::new(ram)), probe)
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8 + 1)
        .flat_map(|word| nandlab_sim::mix(seed, word).to_le_bytes())
        .take(bytes)
        .collect()
}

/// Runs a tool to its end; fails naming the Debian package where it is missing.
pub fn run(package: &str, program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", search_path())
        .output();
    output.unwrap_or_else(|error| {
        panic!("{program}: {error}; this test needs the Debian package {package}")
    })
}

/// Runs a tool that must succeed; gives what it printed.
pub fn expect_success(package: &str, program: &str, arguments: &[&str]) -> String {
    let output = run(package, program, arguments);
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{printed}",
        output.status
    );
    printed
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test is plain text")
}

/// The file system tools live where ordinary users do not look.
fn search_path() -> String {
    format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    )
}
