//! The kernel's UBI with fastmap, which Debian's kernel is built without: a module made from
//! Debian's package of the kernel's sources, downloaded once (140 MB, of which UBI's part is kept).

use nandlab_oracle::Oracle;
use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

/// Where UBI is in the package's archive, and the package.
const PART: &str = "drivers/mtd/ubi";
const HEADERS: [&str; 4] = ["ubi.h", "ubi-media.h", "wl.h", "debug.h"];

pub fn module(oracle: &Oracle) -> Vec<u8> {
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(kept(oracle)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("\"fastmap-wl.c\"", "\"fastmap-wl.inc\"");
        let renamed = name
            .strip_suffix(".c")
            .map_or(name.clone(), |stem| format!("{stem}.inc"));
        if HEADERS.contains(&name.as_str()) || name.ends_with(".c") {
            sources.insert(renamed, text);
        }
    }
    sources.insert("ubi_fastmap.c".into(), include_str!("module.c").into());
    let sources: Vec<(&str, &str)> = sources
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let mut modules = oracle
        .modules(&sources)
        .unwrap_or_else(|error| panic!("{error}"));
    modules.remove("ubi_fastmap").expect("the module")
}

/// The directory with UBI's sources of the series that the oracle's kernel is of.
fn kept(oracle: &Oracle) -> PathBuf {
    let series: Vec<&str> = oracle.kernel_release().split('.').take(2).collect();
    let package = format!("linux-source-{}", series.join("."));
    let place = cache().join(format!("ubi-of-{package}"));
    if place.is_dir() {
        return place;
    }
    fs::create_dir_all(cache()).unwrap();
    let scratch = tempfile::tempdir_in(cache()).unwrap();
    let script = format!(
        "apt-get download -q {package} && dpkg-deb --fsys-tarfile {package}_*.deb | tar x --wildcards '*/{package}.tar.xz' &&
         find . -name {package}.tar.xz -exec tar xJf '{{}}' --wildcards '*/{PART}/*' ';' && test -f {package}/{PART}/fastmap.c"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(scratch.path())
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{package} cannot be had with apt-get (is this Debian, and `apt-get update` done?): {said}"
    );
    let found = scratch.path().join(&package).join(PART);
    // Another process may have been quicker.
    fs::rename(&found, &place).unwrap_or_else(|error| assert!(place.is_dir(), "{error}"));
    place
}

/// Where the oracle keeps its things.
fn cache() -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base =
        set("NANDLAB_CACHE").or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("nandlab")));
    base.or_else(|| set("HOME").map(|home| home.join(".cache/nandlab")))
        .expect("a cache directory")
        .join("oracle")
}
