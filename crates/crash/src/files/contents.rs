//! A file's contents over time, and what of them may be found mixed.

/// What a cut tears apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes that are written whole.
    pub sector: usize,
    /// Bytes that are allocated whole.
    pub block: usize,
    /// A change of length may be there in part.
    pub by_parts: bool,
    /// What was not fsynced may be zeros.
    pub late: bool,
}

/// A file's contents after each of several operations; none while it was not there.
pub(super) struct Versions<'a> {
    pub of: Vec<Option<&'a [u8]>>,
    pub shape: Shape,
}

impl Versions<'_> {
    /// Each sector is that of one of the versions. Behind this one's end, up to the end of its last
    /// block, are zeros, or what a version has there: a file that is cut short leaves bytes in its
    /// last block as long as the medium has the old length.
    pub fn old_or_new(&self, found: &[u8]) -> Result<(), String> {
        if self.of.iter().flatten().any(|version| *version == found) {
            return Ok(());
        }
        let Shape { sector, block, .. } = self.shape;
        for (at, bytes) in (0..).step_by(sector).zip(found.chunks(sector)) {
            let block_start = at / block * block;
            let is_of = |version: &&[u8]| {
                let shared = version.len().saturating_sub(at).min(bytes.len());
                let is_left = |v: &&[u8]| {
                    v.get(at + shared..)
                        .is_some_and(|left| left.starts_with(&bytes[shared..]))
                };
                version.len() > block_start
                    && version
                        .get(at..at + shared)
                        .is_none_or(|held| *held == bytes[..shared])
                    && (bytes[shared..].iter().all(|byte| *byte == 0)
                        || self.of.iter().flatten().any(is_left))
            };
            let waits = || {
                let is_zero = bytes.iter().all(|byte| *byte == 0);
                self.shape.late && is_zero && !self.is_settled(at, bytes.len())
            };
            if !self.of.iter().flatten().any(is_of) && !waits() {
                return Err(format!(
                    "bytes {at} to {} are of no version allowed: {}",
                    at + bytes.len(),
                    self.origin(at, bytes)
                ));
            }
        }
        Ok(())
    }

    /// No version since the last fsync changes these bytes.
    fn is_settled(&self, at: usize, len: usize) -> bool {
        let mut parts = self
            .of
            .iter()
            .map(|version| version.and_then(|bytes| bytes.get(at..at + len)));
        let first = parts.next().flatten();
        first.is_some() && parts.all(|part| part == first)
    }

    /// The length is that of one of the versions.
    pub fn has_length(&self, found: &[u8]) -> Result<(), String> {
        let lengths: Vec<usize> = self
            .of
            .iter()
            .flatten()
            .map(|version| version.len())
            .collect();
        let grown = lengths
            .windows(2)
            .any(|pair| (pair[0]..=pair[1]).contains(&found.len()));
        if lengths.contains(&found.len()) || self.shape.by_parts && grown {
            return Ok(());
        }
        Err(format!("{} bytes long; allowed: {lengths:?}", found.len()))
    }

    /// Blocks that are the same in all versions are as they are there.
    pub fn agrees(&self, found: &[u8]) -> Result<(), String> {
        let block = self.shape.block;
        for (at, bytes) in (0..).step_by(block).zip(found.chunks(block)) {
            let Some(first) = self.common(at) else {
                continue;
            };
            if first != bytes {
                return Err(format!(
                    "bytes {at} to {} are not what was fsynced: {}",
                    at + bytes.len(),
                    self.origin(at, bytes)
                ));
            }
        }
        Ok(())
    }

    /// The block at `at` where all versions have the same.
    fn common(&self, at: usize) -> Option<Vec<u8>> {
        let part = |version: &Option<&[u8]>| {
            version
                .and_then(|v| v.get(at..(at + self.shape.block).min(v.len())))
                .map(<[u8]>::to_vec)
        };
        let first = self.of.first().and_then(part)?;
        let same = |version| part(version).as_ref() == Some(&first);
        self.of.iter().all(same).then_some(first)
    }

    /// What was found instead, in words.
    fn origin(&self, at: usize, bytes: &[u8]) -> String {
        let zeros = bytes.iter().all(|byte| *byte == 0);
        let what = if zeros {
            "zeros".into()
        } else {
            format!("{:02x?}..", &bytes[..bytes.len().min(12)])
        };
        let there = self
            .of
            .iter()
            .flatten()
            .filter_map(|version| version.get(at..(at + 4).min(version.len())));
        format!(
            "{what}; allowed: {:02x?}",
            there.collect::<std::collections::BTreeSet<_>>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        sector: 4,
        block: 8,
        by_parts: false,
        late: false,
    };

    fn versions<'a>(of: &[&'a [u8]]) -> Versions<'a> {
        Versions {
            of: of.iter().map(|version| Some(*version)).collect(),
            shape: SHAPE,
        }
    }

    #[test]
    fn sectors_are_of_one_version_each_and_zeros_only_where_a_block_was_part_full() {
        let both = versions(&[b"aaaaaa", b"bbbbbbbbbbbb"]);
        for (found, allowed) in [
            (&b"aaaabbbb"[..], true),
            (b"bbbbaa\0\0", true),
            // The first version over what a later one has behind its end.
            (b"aaaaaabb", true),
            (b"aaaaaaab", false),
            (b"aabbbbbb", false),
            (b"aaaabbbbbbbb", true),
            // The second block was never part of the first version.
            (b"aaaabbbb\0\0\0\0", false),
            (b"aaaaaaaa", false),
        ] {
            assert_eq!(both.old_or_new(found).is_ok(), allowed, "{found:?}");
        }
    }

    #[test]
    fn zeros_take_the_place_of_late_bytes_only() {
        let late = Versions {
            of: vec![Some(b"aaaabbbb"), Some(b"aaaacccc")],
            shape: Shape {
                late: true,
                ..SHAPE
            },
        };
        assert!(late.old_or_new(b"aaaa\0\0\0\0").is_ok());
        assert!(late.old_or_new(b"\0\0\0\0bbbb").is_err());
    }

    #[test]
    fn only_what_all_versions_have_in_common_is_required() {
        let both = versions(&[b"aaaaaaaabbbbbbbbcc", b"aaaaaaaaBBBBBBBBcccc"]);
        assert!(both.agrees(b"aaaaaaaa????????????").is_ok());
        assert!(both.agrees(b"aaaaaaa?????????????").is_err());
        let new = Versions {
            of: vec![None, Some(b"aaaa")],
            shape: SHAPE,
        };
        assert!(new.agrees(b"????").is_ok());
    }
}
