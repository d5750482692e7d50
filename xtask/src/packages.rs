//! The Debian packages that tests need: checked by what they bring, installed where something is missing.

use crate::{Outcome, run};
use std::path::Path;
use std::process::Command;

/// What a test looks for, and the package that brings it.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/qemu-img", "qemu-utils"),
    ("/bin/busybox", "busybox-static"),
    ("/sbin/depmod", "kmod"),
    ("/sbin/mkfs.ext4", "e2fsprogs"),
    ("/sbin/mkfs.f2fs", "f2fs-tools"),
    ("/sbin/mkfs.vfat", "dosfstools"),
    ("/sbin/losetup", "mount"),
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/fio", "fio"),
    ("/usr/bin/mcopy", "mtools"),
];

/// Installs what is missing.
pub fn ensure() -> Outcome {
    let missing: Vec<&str> = NEEDED.iter().filter(|(file, _)| !present(file)).map(|&(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let hint = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("missing programs, and no apt-get to install them with; on Debian: {hint}"));
    }
    let apt = |words: &[&str]| {
        let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root() {
            command.arg("apt-get");
        }
        run(command.env("DEBIAN_FRONTEND", "noninteractive").args(words))
    };
    // The real kernel is taken out of its package, which needs the lists even where nothing is to be installed.
    apt(&["update"])?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&missing);
    apt(&words).map_err(|why| format!("{why}; by hand: {hint}"))
}

/// Merged and unmerged /usr alike.
fn present(file: &str) -> bool {
    Path::new(file).exists() || Path::new("/usr").join(file.trim_start_matches('/')).exists()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap_or(false)
}
