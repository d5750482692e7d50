//! Extended attributes, as the kernel tells them and as we see them.

use nandlab_vfs::{FileSystem, tree};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// By path, as of the root `.`, and name.
pub type Attributes = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// Shell: tells those below a directory, under a key.
pub const FUNCTION: &str =
    "attributes() { /xattrs $1 >/tmp/attributes && send $2-attributes /tmp/attributes; }\n";

/// The program `/xattrs` of the guest.
pub fn program() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["xattrs.c", "xattrs"].map(|name| dir.path().join(name));
    fs::write(&from, include_str!("../guest/xattrs.c")).unwrap();
    let compiled = Command::new("gcc")
        .args(["-O2", "-Wall", "-Werror", "-static", "-o"])
        .arg(&to)
        .arg(&from)
        .output();
    let compiled =
        compiled.unwrap_or_else(|error| panic!("gcc: {error}: apt-get install gcc libc6-dev"));
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    fs::read(to).unwrap()
}

/// What the kernel told.
pub fn told(bytes: &[u8]) -> Attributes {
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let value = |hex: &[u8]| {
        hex.chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    parts
        .chunks_exact(3)
        .map(|entry| ((entry[0].to_vec(), entry[1].to_vec()), value(entry[2])))
        .collect()
}

/// What we see.
pub fn seen(fs: &mut impl FileSystem) -> Attributes {
    let mut all = Attributes::new();
    for (path, entry) in tree::snapshot(fs).unwrap() {
        let path = if path.is_empty() {
            b".".to_vec()
        } else {
            [b"./", &*path].concat()
        };
        all.extend(
            entry
                .xattrs
                .into_iter()
                .map(|(name, value)| ((path.clone(), name), value)),
        );
    }
    all
}
