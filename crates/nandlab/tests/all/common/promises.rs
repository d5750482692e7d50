//! What a file system has promised by a moment, and whether a tree found after a power cut keeps
//! it.
//!
//! A promise counts from the moment at which the test heard of it. The guest speaks only after its
//! call has returned, so that this moment is never too early.

use nandlab_oracle::{Manifest, manifest::Kind};
use nandlab_sim::Nanos;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, path::Path};

/// Bytes of each version of the file that is replaced by rename.
const CONFIG_BYTES: usize = 6000;
/// Names that a cut may leave in the root beside what was promised: work in progress, and what file
/// systems put there.
const OTHERS: [&str; 7] = [
    ".",
    "./lost+found",
    "./churn",
    "./config",
    "./config.new",
    "./loose",
    "./brief",
];

/// A promise that a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A file of `bytes` bytes of the noise from `offset` on is there for ever.
    Kept {
        name: String,
        offset: usize,
        bytes: usize,
    },
    /// The file `config` has this version or a later one.
    Config(usize),
    /// The file is removed for good.
    Gone(String),
}

impl What {
    /// Reads what the guest says after the file system's type.
    pub fn parse(said: &str) -> Option<Self> {
        let words: Vec<&str> = said.split(' ').collect();
        Some(match words[..] {
            ["kept", name, offset, bytes] => Self::Kept {
                name: name.into(),
                offset: offset.parse().ok()?,
                bytes: bytes.parse().ok()?,
            },
            ["config", version] => Self::Config(version.parse().ok()?),
            ["gone", name] => Self::Gone(name.into()),
            _ => return None,
        })
    }
}

/// A promise, and the chip's time at which it was heard.
#[derive(Clone, Debug)]
pub struct Promise {
    pub at: Nanos,
    pub what: What,
}

/// Every promise given by `t` that `tree` breaks, and every file in it that nobody made; in words.
/// `steps` is how many steps there were to be.
pub fn broken(
    promises: &[Promise],
    t: Nanos,
    tree: &Manifest,
    noise: &[u8],
    steps: usize,
) -> Vec<String> {
    let hash = |offset: usize, bytes: usize| {
        Sha256::digest(&noise[offset..offset + bytes])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let file = |name: &str| match tree
        .get(Path::new(&format!("./{name}")))
        .map(|entry| &entry.kind)
    {
        Some(Kind::File { size, sha256 }) => Some((*size as usize, sha256.clone())),
        _ => None,
    };
    let mut found = Vec::new();
    for Promise { what, .. } in promises.iter().filter(|promise| promise.at <= t) {
        let kept = match what {
            What::Kept {
                name,
                offset,
                bytes,
            } => file(name) == Some((*bytes, hash(*offset, *bytes))),
            What::Config(version) => {
                let found = file("config");
                (*version..=steps).any(|version| {
                    found == Some((CONFIG_BYTES, hash(version * 1000, CONFIG_BYTES)))
                })
            }
            What::Gone(name) => !tree.contains_key(Path::new(&format!("./{name}"))),
        };
        if !kept {
            found.push(format!("promised {what:?}"));
        }
    }
    let made = |path: &str| {
        let stem = path.trim_end_matches(|c: char| c.is_ascii_digit());
        OTHERS.contains(&stem) || stem == "./kept"
    };
    found.extend(
        tree.keys()
            .map(|path| path.to_string_lossy())
            .filter(|path| !made(path))
            .map(|path| format!("unknown {path}")),
    );
    found
}

/// How many promises of each sort, for reports.
pub fn summary(promises: &[Promise]) -> String {
    let mut sorts = BTreeMap::new();
    for promise in promises {
        let sort = match promise.what {
            What::Kept { .. } => "kept",
            What::Config(_) => "config",
            What::Gone(_) => "gone",
        };
        *sorts.entry(sort).or_insert(0) += 1;
    }
    format!("{sorts:?}")
}
