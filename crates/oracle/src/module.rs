//! Modules of a test's own, built for the kernel that judges.
//!
//! The headers are Debian's packages for exactly that release, downloaded once and kept beside the
//! kernel; what was built of them is kept too, by the sources' text.

use crate::error::At;
use crate::kernel::{self, Kernel};
use crate::{OracleError, cache, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Written last into a directory that is whole.
const COMPLETE: &str = "complete";

/// Where Debian's header packages put their trees.
const TREES: &str = "usr/src";

/// Builds every `.c` file of `sources` (name, text) into a module of its name; the others are there
/// to be included.
pub fn build(
    root: &Path,
    kernel: &Kernel,
    sources: &[(&str, &str)],
) -> Result<BTreeMap<String, Vec<u8>>, OracleError> {
    let tree = headers(root, &kernel.release)?;
    let recipe = format!("2 {} {sources:?}", kernel.release);
    let built = cache::kept(root, "modules", &recipe, whole, |into| {
        compile(into, &tree, sources)
    })?;
    let read = |name: &str| {
        let path = built.join(name).with_extension("ko");
        Ok((
            name.trim_end_matches(".c").to_owned(),
            fs::read(&path).at(&path)?,
        ))
    };
    module_sources(sources)
        .map(|(name, _)| read(name))
        .collect()
}

/// The header tree of a release.
fn headers(root: &Path, release: &str) -> Result<PathBuf, OracleError> {
    let package = format!("linux-headers-{release}");
    let place = cache::kept(root, "headers", &format!("2 {package}"), whole, |into| {
        unpack(into, root, &package)
    })?;
    Ok(place.join(TREES).join(package))
}

fn whole(place: &Path) -> Option<PathBuf> {
    place.join(COMPLETE).is_file().then(|| place.to_path_buf())
}

fn module_sources<'a>(sources: &'a [(&str, &str)]) -> impl Iterator<Item = &'a (&'a str, &'a str)> {
    sources.iter().filter(|(name, _)| name.ends_with(".c"))
}

/// Downloads `package` and the packages of headers and build scripts that it stands on, and makes
/// one tree of them.
fn unpack(into: &Path, root: &Path, package: &str) -> Result<(), OracleError> {
    let gone = |error: OracleError| OracleError::Package {
        package: package.into(),
        found: format!(
            "not to be had ({error}); once the archive has a newer kernel, delete {} to get both",
            root.display()
        ),
    };
    let mut packages = BTreeSet::from([package.to_owned()]);
    let depends = tools::run(Command::new(tools::locate("apt-cache")?).args(["depends", package]))
        .map_err(gone)?;
    let depends = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    packages.extend(
        depends
            .filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-"))
            .map(String::from),
    );
    for package in &packages {
        let scratch = tempfile::tempdir_in(into).at(into)?;
        kernel::download(package, into, scratch.path()).map_err(gone)?;
    }
    // The tree names the one that it shares with other architectures by its full path once
    // installed.
    let makefile = into.join(TREES).join(package).join("Makefile");
    let text = fs::read_to_string(&makefile).at(&makefile)?;
    fs::write(&makefile, text.replace("/usr/src/", "../")).at(&makefile)?;
    complete(into)
}

fn compile(into: &Path, headers: &Path, sources: &[(&str, &str)]) -> Result<(), OracleError> {
    for (name, text) in sources {
        fs::write(into.join(name), text).at(into.join(name))?;
    }
    let objects: String = module_sources(sources)
        .map(|(name, _)| format!("obj-m += {}.o\n", name.trim_end_matches(".c")))
        .collect();
    fs::write(into.join("Kbuild"), objects).at(into)?;
    let mut make = Command::new(tools::locate("make")?);
    // Debian's default compiler is the one that built its kernel; the headers know it by a name
    // with a version.
    make.arg("-C")
        .arg(headers)
        .arg(format!("M={}", into.display()))
        .args(["CC=gcc", "KCFLAGS=-Werror", "modules"]);
    tools::locate("gcc")?;
    tools::run(&mut make)?;
    complete(into)
}

fn complete(place: &Path) -> Result<(), OracleError> {
    let path = place.join(COMPLETE);
    fs::write(&path, "").at(&path)
}
