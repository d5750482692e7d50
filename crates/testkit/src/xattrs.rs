//! Extended attributes of a tree, as the kernel lists them and as we see them.

use crate::tools;
use nandlab_vfs::{FileSystem, tree};
use std::collections::{BTreeMap, BTreeSet};

/// Values by path, from the root `.` on, and name.
pub type Attributes = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// Shell: sends the attributes below a directory under a key. Needs [`program`] as `/xattrs`.
pub const FUNCTION: &str =
    "attributes() { /xattrs $1 >/tmp/attributes && send $2-attributes /tmp/attributes; }\n";

/// Compiles the guest's program `/xattrs`.
pub fn program() -> Vec<u8> {
    tools::compiled(include_str!("xattrs.c"))
}

/// Parses what a guest sent.
pub fn sent(bytes: &[u8]) -> Attributes {
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

/// Lists the attributes of a file system of ours.
pub fn seen<F: FileSystem + ?Sized>(fs: &mut F) -> Attributes {
    let mut all = Attributes::new();
    for (path, entry) in tree::snapshot(fs).unwrap() {
        let path = match &*path {
            b"" => b".".to_vec(),
            path => [b"./", path].concat(),
        };
        let named = entry
            .xattrs
            .into_iter()
            .map(|(name, value)| ((path.clone(), name), value));
        all.extend(named);
    }
    all
}

/// Describes every difference in two lines, with the value's length and the sum of its bytes.
pub fn differences(expected: &Attributes, found: &Attributes) -> String {
    let mut text = String::new();
    for key in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
        let values = [('-', expected.get(key)), ('+', found.get(key))];
        if values[0].1 == values[1].1 {
            continue;
        }
        let [path, name] =
            [&key.0, &key.1].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        for (sign, value) in values {
            let sum = value.map(|value| (value.len(), sum(value)));
            text += &format!("{sign} {path} {name} {sum:?}\n");
        }
    }
    text
}

fn sum(value: &[u8]) -> u64 {
    value.iter().map(|byte| u64::from(*byte)).sum()
}
