//! The Debian packages that tests need: checked by what they bring, installed where something is
//! missing.

use crate::{Outcome, run};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The file that a test looks for, and the package that brings it.
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
    ("/usr/bin/bsdtar", "libarchive-tools"),
    ("/usr/sbin/nftl_format", "mtd-utils"),
    ("/usr/bin/mksquashfs", "squashfs-tools"),
    ("/usr/bin/mkimage", "u-boot-tools"),
    ("/usr/bin/dtc", "device-tree-compiler"),
    ("/usr/bin/genromfs", "genromfs"),
    ("/usr/sbin/mkfs.exfat", "exfatprogs"),
    ("/usr/sbin/mkntfs", "ntfs-3g"),
    ("/usr/sbin/mkfs.xfs", "xfsprogs"),
    ("/sbin/mkfs.btrfs", "btrfs-progs"),
    ("/usr/bin/mkfs.erofs", "erofs-utils"),
    ("/usr/sbin/cryptsetup", "cryptsetup-bin"),
    ("/usr/bin/genisoimage", "genisoimage"),
    ("/usr/sbin/sgdisk", "gdisk"),
    ("/usr/sbin/sfdisk", "fdisk"),
    ("/usr/bin/mkbootimg", "mkbootimg"),
    ("/usr/bin/img2simg", "android-sdk-libsparse-utils"),
    ("/usr/bin/cpio", "cpio"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/bzip2", "bzip2"),
    ("/usr/bin/zstd", "zstd"),
    ("/usr/bin/make", "make"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/lib/x86_64-linux-gnu/libc.a", "libc6-dev"),
    ("/usr/include/sys/acl.h", "libacl1-dev"),
    ("/usr/bin/git", "git"),
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/time", "time"),
    ("/var/lib/dpkg/info/rustc-web.list", "rustc-web"),
    ("/var/lib/dpkg/info/cargo-web.list", "cargo-web"),
    ("/var/lib/dpkg/info/rust-web-src.list", "rust-web-src"),
];

/// Packages for the quick set: programs that read or write image files, and a C compiler.
pub const QUICK: &[&str] = &[
    "dosfstools",
    "mtools",
    "e2fsprogs",
    "f2fs-tools",
    "mtd-utils",
    "squashfs-tools",
    "u-boot-tools",
    "device-tree-compiler",
    "genromfs",
    "exfatprogs",
    "ntfs-3g",
    "xfsprogs",
    "btrfs-progs",
    "erofs-utils",
    "cryptsetup-bin",
    "genisoimage",
    "gdisk",
    "fdisk",
    "mkbootimg",
    "android-sdk-libsparse-utils",
    "cpio",
    "xz-utils",
    "zstd",
    "gcc",
    "libc6-dev",
];

/// The tools that build for other processors: a compiler with the source of its library.
pub const PORTABLE: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];

/// Installs what is missing of everything.
pub fn ensure() -> Outcome {
    install(NEEDED)
}

/// Installs what is missing of these packages.
pub fn ensure_some(packages: &[&str]) -> Outcome {
    install(
        &NEEDED
            .iter()
            .filter(|(_, package)| packages.contains(package))
            .copied()
            .collect::<Vec<_>>(),
    )
}

/// apt-get refuses to run twice at a time.
static APT: Mutex<()> = Mutex::new(());

/// Installs what is missing of these files, each with the package that brings it.
pub fn install(needed: &[(&str, &str)]) -> Outcome {
    let _one = APT.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = || {
        needed
            .iter()
            .filter(|(file, _)| !present(file))
            .map(|&(_, package)| package)
            .collect::<Vec<_>>()
    };
    if missing().is_empty() {
        return Ok(());
    }
    let hint = format!(
        "apt-get install --no-install-recommends {}",
        missing().join(" ")
    );
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!(
            "missing programs, and no apt-get to install them with; on Debian: {hint}"
        ));
    }
    let apt = |words: &[&str]| {
        let mut command = if is_root() {
            Command::new("apt-get")
        } else {
            Command::new("sudo")
        };
        if !is_root() {
            command.arg("apt-get");
        }
        run(command.env("DEBIAN_FRONTEND", "noninteractive").args(words))
    };
    // The real kernel is taken out of its package, which needs the lists even where nothing is to
    // be installed.
    apt(&["update"])?;
    // What is there and does not go with a package that comes is taken away by apt-get. In a second
    // round it comes back, in a version that does.
    for _ in 0..2 {
        let words = [
            &["install", "--yes", "--no-install-recommends"][..],
            &missing(),
        ]
        .concat();
        apt(&words).map_err(|why| format!("{why}; by hand: {hint}"))?;
    }
    match needed.iter().find(|(file, _)| !present(file)) {
        Some((file, package)) => Err(format!(
            "{file} is not there, although apt-get has installed {package}"
        )),
        None => Ok(()),
    }
}

/// Merged and unmerged /usr alike.
fn present(file: &str) -> bool {
    Path::new(file).exists()
        || Path::new("/usr")
            .join(file.trim_start_matches('/'))
            .exists()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
        .unwrap_or(false)
}
