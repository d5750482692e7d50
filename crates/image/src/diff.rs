//! What differs between two trees.
//!
//! *Promises.* Every path that is in only one of them, and of every other what of it differs, in
//! the order of the paths. Contents are compared byte by byte, a little at a time.

use crate::error::{Result, Shown};
use crate::sink::STEP;
use crate::tree::{Data, Entry, Tree, order};
use serde::Serialize;
use std::cmp::Ordering;

/// A difference between two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The path at which the trees differ.
    pub path: Shown,
    /// Only in the first, only in the second, or in both.
    pub side: Side,
    /// What differs of an entry that is in both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Only in the first tree.
    First,
    /// Only in the second.
    Second,
    /// The entry is in both trees.
    Both,
}

/// What is not compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored {
    /// Times; without it to the nanosecond.
    pub times: bool,
    /// Ignores owners and permissions.
    pub owners: bool,
}

/// The differences of two ordered trees.
pub fn diff(first: &Tree, second: &Tree, ignored: Ignored) -> Result<Vec<Difference>> {
    let mut all = Vec::new();
    let mut a = first.entries.iter().peekable();
    let mut b = second.entries.iter().peekable();
    let only = |entry: &Entry, side| Difference {
        path: Shown::path(&entry.path),
        side,
        what: Vec::new(),
    };
    loop {
        let next = match (a.peek(), b.peek()) {
            (None, None) => return Ok(all),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((one, _)), Some((other, _))) => order(&one.path, &other.path),
        };
        match next {
            Ordering::Less => all.extend(a.next().map(|(entry, _)| only(entry, Side::First))),
            Ordering::Greater => all.extend(b.next().map(|(entry, _)| only(entry, Side::Second))),
            Ordering::Equal => {
                let (Some(one), Some(other)) = (a.next(), b.next()) else {
                    continue;
                };
                let what = unlike(one, other, ignored)?;
                if !what.is_empty() {
                    all.push(Difference {
                        path: Shown::path(&one.0.path),
                        side: Side::Both,
                        what,
                    });
                }
            }
        }
    }
}

fn unlike(
    (a, a_data): &(Entry, Data),
    (b, b_data): &(Entry, Data),
    ignored: Ignored,
) -> Result<Vec<String>> {
    let mut what = Vec::new();
    let mut note = |name: &str, a: String, b: String| {
        if a != b {
            what.push(format!("{name} {a}, {b}"));
        }
    };
    note(
        "kind",
        format!("{:?}", a.node.kind()),
        format!("{:?}", b.node.kind()),
    );
    if !ignored.owners {
        note("mode", format!("{:04o}", a.mode), format!("{:04o}", b.mode));
        note(
            "owner",
            format!("{}:{}", a.uid, a.gid),
            format!("{}:{}", b.uid, b.gid),
        );
    }
    if !ignored.times {
        let time = |entry: &Entry| format!("{}.{:09}", entry.mtime.secs, entry.mtime.nanos);
        note("time", time(a), time(b));
    }
    for (name, value) in &a.xattrs {
        match b.xattrs.iter().find(|(other, _)| other == name) {
            None => note("attribute", Shown(name.clone()).to_string(), "none".into()),
            Some((_, other)) if other != value => note(
                "attribute",
                Shown(name.clone()).to_string(),
                "another value".into(),
            ),
            Some(_) => {}
        }
    }
    let new = b
        .xattrs
        .iter()
        .filter(|(name, _)| !a.xattrs.iter().any(|(other, _)| other == name));
    new.for_each(|(name, _)| note("attribute", "none".into(), Shown(name.clone()).to_string()));
    if a.node.kind() == b.node.kind() {
        if a.size() != b.size() {
            note("length", a.size().to_string(), b.size().to_string());
        } else if a.node != b.node {
            what.push(format!("{:?}, {:?}", a.node, b.node));
        } else if let Some(at) = first_difference(a_data, b_data, a.size())? {
            what.push(format!("contents from byte {at}"));
        }
    }
    Ok(what)
}

fn first_difference(a: &Data, b: &Data, size: u64) -> Result<Option<u64>> {
    let mut one = vec![0; STEP];
    let mut other = vec![0; STEP];
    for at in (0..size).step_by(STEP) {
        let len = STEP.min((size - at) as usize);
        if !a.touches(at, at + len as u64) && !b.touches(at, at + len as u64) {
            continue;
        }
        a.read(at, &mut one[..len])?;
        b.read(at, &mut other[..len])?;
        if one[..len] != other[..len] {
            let within = one
                .iter()
                .zip(&other)
                .position(|(a, b)| a != b)
                .unwrap_or(0);
            return Ok(Some(at + within as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;

    #[test]
    fn differences_are_named_and_equal_entries_are_not() {
        let tree = |entries: &[(&str, Node, u16)]| {
            let mut tree = Tree::default();
            for (path, node, mode) in entries {
                tree.push(
                    Entry {
                        node: node.clone(),
                        mode: *mode,
                        ..Entry::directory(path.as_bytes())
                    },
                    Data::default(),
                );
            }
            tree.normalize().unwrap();
            tree
        };
        let a = tree(&[
            ("both", Node::Fifo, 0o600),
            ("left", Node::Fifo, 0),
            ("mode", Node::Fifo, 0o600),
            ("size", Node::File { size: 5 }, 0),
        ]);
        let b = tree(&[
            ("both", Node::Fifo, 0o600),
            ("mode", Node::Fifo, 0o644),
            ("right", Node::Fifo, 0),
            ("size", Node::File { size: 6 }, 0),
        ]);
        let found: Vec<String> = diff(&a, &b, Ignored::default())
            .unwrap()
            .iter()
            .map(|one| format!("{} {:?} {:?}", one.path, one.side, one.what))
            .collect();
        let expected = [
            "/left First []",
            "/mode Both [\"mode 0600, 0644\"]",
            "/right Second []",
            "/size Both [\"length 5, 6\"]",
        ];
        assert_eq!(found, expected);
    }
}
