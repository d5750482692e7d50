//! The programs of the host that the oracle runs or takes into the guest: where they are, what they
//! need, which Debian package has them.

use crate::OracleError;
use crate::error::At;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs the oracle itself cannot do without, with their Debian packages.
const NEEDED: [(&str, &str); 9] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("depmod", "kmod"),
    ("dpkg", "dpkg"),
    ("apt-get", "apt"),
    ("apt-cache", "apt"),
    ("ldd", "libc-bin"),
    ("setpriv", "util-linux"),
    ("gcc", "gcc"),
];

/// Packages of programs that tests like to take along or to have modules built with, by the
/// beginning of the program's name.
const LIKED: [(&str, &str); 14] = [
    ("mkfs.f2fs", "f2fs-tools"),
    ("fsck.f2fs", "f2fs-tools"),
    ("dump.f2fs", "f2fs-tools"),
    ("mkfs.ext", "e2fsprogs"),
    ("fsck.ext", "e2fsprogs"),
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("mkfs.", "dosfstools"),
    ("fsck.", "dosfstools"),
    ("ubi", "mtd-utils"),
    ("nand", "mtd-utils"),
    ("nftl", "mtd-utils"),
    ("make", "make"),
    ("flash", "mtd-utils"),
];

/// Directories searched after the user's `PATH`, which often lacks the administrator's.
const ALWAYS: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";

/// Fails for the first needed program that is missing.
pub fn require_all() -> Result<(), OracleError> {
    NEEDED
        .iter()
        .try_for_each(|(name, _)| locate(name).map(drop))
}

/// The full path of a program.
pub fn locate(name: &str) -> Result<PathBuf, OracleError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(std::env::split_paths(OsStr::new(ALWAYS)))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| missing(Path::new(name)))
}

/// The error for a program that is not there, with the command that brings it.
pub fn missing(program: &Path) -> OracleError {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let needed = NEEDED.iter().find(|(needed, _)| *needed == name);
    let package = needed.or_else(|| LIKED.iter().find(|(prefix, _)| name.starts_with(prefix)));
    let remedy = match package {
        Some((_, package)) => format!("install it: apt-get install {package}"),
        None => format!(
            "`apt-file search {}` names the Debian package that has it",
            program.display()
        ),
    };
    OracleError::MissingProgram {
        program: program.display().to_string(),
        remedy,
    }
}

/// Runs a program to its end, in English, and returns what it printed.
pub fn run(command: &mut Command) -> Result<String, OracleError> {
    let line = format!("{command:?}");
    let failed = |status, stderr| OracleError::Program {
        command: line.clone(),
        status,
        stderr,
    };
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed("not started".into(), error.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            output.status.to_string(),
            String::from_utf8_lossy(&output.stderr).trim().into(),
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The shared libraries of a program, loader included; none for a static program or a script.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, OracleError> {
    let output = Command::new(locate("ldd")?)
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .at(program)?;
    // ldd fails for what has no libraries, which is no failure here.
    parse_ldd(&String::from_utf8_lossy(&output.stdout)).map_err(|library| {
        OracleError::MissingLibrary {
            program: program.into(),
            library,
        }
    })
}

/// Reads `name => path (address)` and `path (address)` lines; a library that is not found is the
/// error.
fn parse_ldd(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        if place == "not found" {
            return Err(line.split(' ').next().unwrap_or(line).into());
        }
        if let Some((path, _)) = place
            .split_once(" (")
            .filter(|(path, _)| path.starts_with('/'))
        {
            found.push(path.into());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        for (program, package) in [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("/usr/sbin/mkfs.f2fs", "f2fs-tools"),
            ("/sbin/mkfs.vfat", "dosfstools"),
        ] {
            let message = missing(Path::new(program)).to_string();
            assert!(
                message.contains(&format!("apt-get install {package}")),
                "{message}"
            );
        }
        assert!(
            missing(Path::new("/opt/unheard-of"))
                .to_string()
                .contains("apt-file search /opt/unheard-of")
        );
        assert!(matches!(
            locate("no-such-program-anywhere"),
            Err(OracleError::MissingProgram { .. })
        ));
    }

    #[test]
    fn libraries_are_read_from_ldd_and_missing_ones_named() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(
            parse_ldd(text),
            Ok(vec!["/lib/libc.so.6".into(), "/lib64/ld.so.2".into()])
        );
        assert_eq!(parse_ldd("\tnot a dynamic executable\n"), Ok(vec![]));
        assert_eq!(
            parse_ldd("\tlibz.so.1 => not found\n"),
            Err("libz.so.1".into())
        );
    }

    #[test]
    fn a_failing_program_is_reported_with_its_complaint() {
        let error = run(Command::new("sh").args(["-c", "echo woe >&2; exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("woe"),
            "{error}"
        );
    }
}
