//! What a path may hold after a power cut.

use nandlab_vfs::{FileSystem, path, tree};
use std::collections::BTreeMap;

/// What a path must hold after a cut. A file that is being changed may hold more than one thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// The file holds exactly these bytes.
    Holds(Vec<u8>),
    /// Anything: it may be there or not, whole or in part.
    Open,
    /// These bytes are at this path, at the other path, or at both.
    Either(String, Vec<u8>),
    /// The file begins with these bytes.
    Begins(Vec<u8>),
    /// Exactly these bytes, or nothing: a removal that is not durable yet.
    Gone(Vec<u8>),
    /// These bytes, or only so many of them: a truncation that is not durable yet.
    Cut(Vec<u8>, usize),
    /// As `Cut`, and any part behind the new length may be zeros: the data are overwritten in
    /// place.
    Zeroed(Vec<u8>, usize),
    /// At least so many of these bytes: an append that is not durable yet.
    Grown(usize, Vec<u8>),
}

/// What each path must hold.
pub type Expectations = BTreeMap<String, Expected>;

/// The contents of a file, or `None` if it cannot be read.
pub fn held(fs: &mut impl FileSystem, path: &str) -> Option<Vec<u8>> {
    let attr = path::resolve(fs, path.as_bytes()).ok()?;
    let data = tree::contents(fs, attr.ino);
    fs.forget(attr.ino, 1);
    data.ok()
}

/// Panics unless every path holds what is expected.
///
/// # Panics
/// If a path holds anything else.
pub fn assert_kept(fs: &mut impl FileSystem, expected: &Expectations, id: &str) {
    check(fs, expected, id, false);
}

/// The same after a repair, which may make a file as long as the blocks that are linked to it.
///
/// # Panics
/// If a path holds anything else.
pub fn assert_kept_repaired(fs: &mut impl FileSystem, expected: &Expectations, id: &str) {
    check(fs, expected, id, true);
}

fn check(fs: &mut impl FileSystem, expected: &Expectations, id: &str, repaired: bool) {
    for (path, expected) in expected {
        let found = held(fs, path);
        let elsewhere = match expected {
            Expected::Either(other, data) => held(fs, other).as_ref() == Some(data),
            _ => false,
        };
        assert!(
            elsewhere || expected.is_kept(found.as_deref(), repaired),
            "{id}: {path} holds {:?} bytes, expected {expected:.60?}",
            found.map(|data| data.len())
        );
    }
}

impl Expected {
    fn is_kept(&self, found: Option<&[u8]>, repaired: bool) -> bool {
        let Some(found) = found else {
            return matches!(self, Self::Open | Self::Gone(_));
        };
        match self {
            Self::Open => true,
            Self::Holds(data) | Self::Gone(data) | Self::Either(_, data) => found == data,
            Self::Begins(data) => found.starts_with(data),
            Self::Cut(data, size) => {
                let between = repaired && found.len() >= *size && data.starts_with(found);
                between || are(found, data, repaired) || are(found, &data[..*size], repaired)
            }
            Self::Zeroed(data, size) => {
                let is_zeroed = |(found, before): (&u8, &u8)| *found == 0 || found == before;
                found.starts_with(&data[..*size])
                    && (found.len() == *size
                        || found.len() == data.len()
                            && found.iter().zip(data).skip(*size).all(is_zeroed))
            }
            Self::Grown(least, data) => {
                let most = found.len().min(data.len());
                found.len() >= *least && are(found, &data[..most], repaired)
            }
        }
    }
}

/// Whether these are the bytes. After a repair, zeros may follow up to the end of the last block.
fn are(found: &[u8], data: &[u8], repaired: bool) -> bool {
    found.strip_prefix(data).is_some_and(|rest| {
        rest.is_empty() || repaired && rest.len() < 4096 && rest.iter().all(|byte| *byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expectation_takes_what_it_says_and_nothing_else() {
        let data = || b"abcdef".to_vec();
        let all: [Option<&[u8]>; 7] = [
            None,
            Some(b""),
            Some(b"abc"),
            Some(b"abc\0ef"),
            Some(b"abcd"),
            Some(b"abcdef"),
            Some(b"abcdefgh"),
        ];
        let cases = [
            (Expected::Holds(data()), vec![5]),
            (Expected::Open, vec![0, 1, 2, 3, 4, 5, 6]),
            (Expected::Either("other".into(), data()), vec![5]),
            (Expected::Begins(data()), vec![5, 6]),
            (Expected::Gone(data()), vec![0, 5]),
            (Expected::Cut(data(), 3), vec![2, 5]),
            (Expected::Zeroed(data(), 3), vec![2, 3, 5]),
            (Expected::Grown(4, data()), vec![4, 5]),
        ];
        for (expected, kept) in cases {
            let found: Vec<usize> = (0..all.len())
                .filter(|at| expected.is_kept(all[*at], false))
                .collect();
            assert_eq!(found, kept, "{expected:?}");
        }
        assert!(Expected::Cut(data(), 3).is_kept(Some(b"abcd"), true));
        assert!(Expected::Grown(4, data()).is_kept(Some(b"abcdef\0"), true));
        assert!(!Expected::Holds(data()).is_kept(Some(b"abcdef\0"), true));
    }
}
