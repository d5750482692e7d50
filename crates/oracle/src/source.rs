//! Source archives of Debian's packages, for tests that judge by their material.
//!
//! *Promises.* An archive is downloaded once, by apt from the mirror that the host uses, and kept
//! in the cache directory. Its checksum is verified before it is kept. A host without apt or
//! without a mirror is an error that says what is missing.

use crate::error::At;
use crate::{OracleError, cache, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The part of apt that downloads one file and verifies its checksum. It is in no search path.
const HELPER: &str = "/usr/lib/apt/apt-helper";

/// Returns the path of a source archive, for example `NAME_1.0.orig.tar.gz`. The archive lies in
/// the mirror beside the binary package `package`, which apt has to know. `sha256` is in
/// hexadecimal digits.
///
/// Fails when apt does not know the package, or when the download fails or has another checksum.
pub fn archive(package: &str, file: &str, sha256: &str) -> Result<PathBuf, OracleError> {
    kept(&cache::directory()?, package, file, sha256)
}

fn kept(root: &Path, package: &str, file: &str, sha256: &str) -> Result<PathBuf, OracleError> {
    let recipe = format!("1 {file} {sha256}");
    let open = |place: &Path| Some(place.join(file)).filter(|path| path.is_file());
    cache::kept(root, "source", &recipe, open, |into| {
        download(into, package, file, sha256)
    })
}

fn download(into: &Path, package: &str, file: &str, sha256: &str) -> Result<(), OracleError> {
    let failed = |found: String| OracleError::Package {
        package: file.into(),
        found,
    };
    let directory = directory(package)?.ok_or_else(|| {
        let advice = "is this Debian, and `apt-get update` done?";
        failed(format!("apt names no mirror of {package}; {advice}"))
    })?;
    if !Path::new(HELPER).is_file() {
        return Err(tools::missing(Path::new("apt-get")));
    }
    // The helper writes beside the file. Only a whole file takes its place.
    let aside = into.join("partial");
    let mut helper = Command::new(HELPER);
    helper
        .args(["-q", "download-file"])
        .arg(format!("{directory}/{file}"))
        .arg(&aside)
        .arg(format!("SHA256:{sha256}"));
    let fetched = tools::run(&mut helper);
    let advice = "the host has to reach the Debian mirror of its apt";
    fetched.map_err(|error| failed(format!("not downloaded; {advice}: {error}")))?;
    fs::rename(&aside, into.join(file)).at(&aside)
}

/// The address of the directory in which the host's mirror keeps a package.
fn directory(package: &str) -> Result<Option<String>, OracleError> {
    let apt = tools::locate("apt-get")?;
    let printed = tools::run(Command::new(apt).args(["download", "--print-uris", package]))?;
    Ok(parse_uris(&printed))
}

/// Reads the directory of the first file of `'ADDRESS' NAME BYTES CHECKSUM`.
fn parse_uris(printed: &str) -> Option<String> {
    let address = printed.lines().find_map(|line| line.strip_prefix('\''))?;
    let address = address.split('\'').next()?;
    let parts = address.rsplit_once('/')?;
    Some(parts.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirrors_directory_is_read_from_apt() {
        let printed =
            "'http://mirror/debian/pool/main/n/name/name_1_amd64.deb' name_1.deb 5 SHA256:00\n";
        let found = parse_uris(printed);
        assert_eq!(
            found.as_deref(),
            Some("http://mirror/debian/pool/main/n/name")
        );
        assert_eq!(parse_uris(""), None);
        assert_eq!(parse_uris("E: no such package\n"), None);
    }

    #[test]
    fn a_kept_archive_is_not_downloaded_again() {
        let root = tempfile::tempdir().unwrap();
        let recipe = "1 name.tar 00";
        let open = |place: &Path| Some(place.join("name.tar")).filter(|path| path.is_file());
        let build = |into: &Path| fs::write(into.join("name.tar"), "text").at(into);
        let built = cache::kept(root.path(), "source", recipe, open, build).unwrap();
        let found = kept(root.path(), "no-such-package", "name.tar", "00").unwrap();
        assert_eq!(found, built);
    }
}
