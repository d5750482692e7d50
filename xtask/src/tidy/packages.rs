//! Licences and duplicate versions of the packages that the workspace uses.

use super::Findings;
use crate::metadata::Package;
use std::collections::BTreeMap;

/// Licences whose code may be linked into a program under MIT or Apache-2.0.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that are built in two versions, and why we cannot choose one.
const TWICE: &[(&str, &str)] = &[
    ("crypto-common", "as digest"),
    ("digest", "crc-fast uses 0.10, sha2 0.11"),
    (
        "getrandom",
        "tempfile uses 0.4; arrow, in the Python package, uses 0.2 and 0.3",
    ),
    ("miniz_oxide", "deflate uses 0.9; png, in tests, uses 0.8"),
    ("r-efi", "as getrandom"),
    (
        "syn",
        "the derives of clap, serde and thiserror use 3, of fuser 2",
    ),
];

/// Reports licences that are not on the list.
pub fn licences(packages: &[Package], findings: &mut Findings) {
    for package in packages {
        let Package { name, version, .. } = package;
        match &package.licence {
            None => findings.push(format!("{name} {version}: the manifest names no licence")),
            Some(licence) if !allowed(licence) => {
                findings.push(format!("{name} {version}: licence {licence} is refused"));
            }
            Some(_) => {}
        }
    }
}

/// Reports packages in several versions without a reason, and reasons without such a package.
pub fn duplicates(packages: &[Package], findings: &mut Findings) {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions
            .entry(&package.name)
            .or_default()
            .push(&package.version);
    }
    versions.retain(|_, found| found.len() > 1);
    for (name, found) in &versions {
        if !TWICE.iter().any(|(known, _)| known == name) {
            findings.push(format!(
                "{name}: built in versions {}; use one, or say in xtask why not",
                found.join(" and ")
            ));
        }
    }
    for (name, _) in TWICE {
        if !versions.contains_key(name) {
            findings.push(format!(
                "{name}: built in one version; take it off xtask's list"
            ));
        }
    }
}

/// Whether an SPDX expression leaves a choice that is on the list.
fn allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any(&mut rest) && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> bool {
    let mut verdict = all(rest);
    while skip(rest, "OR") {
        verdict |= all(rest);
    }
    verdict
}

fn all(rest: &mut &[&str]) -> bool {
    let mut verdict = one(rest);
    while skip(rest, "AND") {
        verdict &= one(rest);
    }
    verdict
}

fn one(rest: &mut &[&str]) -> bool {
    if skip(rest, "(") {
        return any(rest) & skip(rest, ")");
    }
    let Some((licence, after)) = rest.split_first() else {
        return false;
    };
    *rest = after;
    if !skip(rest, "WITH") {
        return LICENCES.contains(licence);
    }
    let Some((exception, after)) = rest.split_first() else {
        return false;
    };
    *rest = after;
    LICENCES.contains(&format!("{licence} WITH {exception}").as_str())
}

fn skip(rest: &mut &[&str], word: &str) -> bool {
    let found = rest.first() == Some(&word);
    if found {
        *rest = &rest[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            licence: licence.map(str::to_owned),
            folder: "".into(),
            paths: Vec::new(),
        }
    }

    #[test]
    fn a_choice_is_enough_and_a_condition_is_not() {
        for licence in [
            "MIT",
            "Unlicense/MIT",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allowed(licence), "{licence}");
        }
        for licence in [
            "",
            "GPL-3.0",
            "GPL-2.0-only WITH Linux-syscall-note",
            "MIT AND GPL-2.0-or-later",
            "LGPL-2.1 OR AGPL-3.0",
            "(MIT OR GPL-3.0) AND (AGPL-3.0)",
            "MIT GPL-3.0",
            "(MIT",
        ] {
            assert!(!allowed(licence), "{licence}");
        }
    }

    #[test]
    fn a_refused_licence_is_named_with_its_package() {
        let packages = [
            package("a", "1.0.0", Some("GPL-3.0")),
            package("b", "2.0.0", None),
            package("c", "3.0.0", Some("MIT")),
        ];
        let mut findings = Findings::new();
        licences(&packages, &mut findings);
        let expected = [
            "a 1.0.0: licence GPL-3.0 is refused",
            "b 2.0.0: the manifest names no licence",
        ];
        assert_eq!(findings, expected);
    }

    #[test]
    fn duplicates_and_stale_reasons_are_found() {
        let mut packages = vec![
            package("a", "1.0.0", None),
            package("a", "2.0.0", None),
            package("syn", "2.0.0", None),
        ];
        for (name, _) in TWICE.iter().filter(|(name, _)| *name != "syn") {
            packages.push(package(name, "1.0.0", None));
            packages.push(package(name, "2.0.0", None));
        }
        let mut findings = Findings::new();
        duplicates(&packages, &mut findings);
        let expected = [
            "a: built in versions 1.0.0 and 2.0.0; use one, or say in xtask why not",
            "syn: built in one version; take it off xtask's list",
        ];
        assert_eq!(findings, expected);
    }
}
