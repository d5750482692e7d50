//! The name spaces of extended attributes, and the rules for setting one.

use crate::acl;
use alloc::vec::Vec;
use nandlab_vfs::{Errno, NAME_MAX, SetXattr};

/// The longest value that Linux passes to a file system.
const VALUE_MAX: usize = 64 * 1024;

/// The name spaces of one format: the number that the medium stores, and the prefix of the name.
///
/// The prefix of an access list is its whole name.
#[derive(Clone, Copy, Debug)]
pub struct Space(pub &'static [(u8, &'static [u8])]);

impl Space {
    /// The name spaces that ext and F2FS store.
    pub const EXT: Self = Self(&[
        (1, b"user."),
        (2, acl::ACCESS),
        (3, acl::DEFAULT),
        (4, b"trusted."),
        (6, b"security."),
    ]);
    /// The name spaces that JFFS2 stores.
    pub const JFFS2: Self = Self(&[
        (1, b"user."),
        (2, b"security."),
        (3, acl::ACCESS),
        (4, acl::DEFAULT),
        (5, b"trusted."),
    ]);

    /// Splits a name into the number of its space and the name that the medium stores.
    pub fn split(self, name: &[u8]) -> Result<(u8, &[u8]), Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::Range);
        }
        let mut spaces = self.0.iter();
        let found = spaces.find_map(|(space, prefix)| {
            let rest = name.strip_prefix(*prefix)?;
            Some((*space, rest, acl::is_acl(prefix)))
        });
        match found {
            Some((space, rest, is_acl)) if rest.is_empty() == is_acl => Ok((space, rest)),
            _ => Err(Errno::NotSupported),
        }
    }

    /// Joins a space and a stored name; `None` if the space is unknown.
    pub fn join(self, space: u8, name: &[u8]) -> Option<Vec<u8>> {
        let (_, prefix) = self.0.iter().find(|(number, _)| *number == space)?;
        Some([*prefix, name].concat())
    }
}

/// Decides whether an attribute may be set to `value`, or removed where there is none.
pub fn check_set(value: Option<&[u8]>, expect: SetXattr, exists: bool) -> Result<(), Errno> {
    match (value, expect) {
        (Some(value), _) if value.len() > VALUE_MAX => Err(Errno::TooBig),
        (Some(_), SetXattr::Create) if exists => Err(Errno::Exists),
        (Some(_), SetXattr::Replace) | (None, _) if !exists => Err(Errno::NoData),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_and_join_again() {
        for spaces in [Space::EXT, Space::JFFS2] {
            for name in [&b"user.a"[..], b"trusted.b", b"security.c", acl::ACCESS] {
                let (space, rest) = spaces.split(name).unwrap();
                assert_eq!(spaces.join(space, rest).unwrap(), name);
            }
            for bad in [&b"user."[..], b"system.x", b"system.posix_acl_access2"] {
                assert_eq!(spaces.split(bad), Err(Errno::NotSupported));
            }
            assert_eq!(spaces.split(&[b'u'; 256]), Err(Errno::Range));
        }
    }

    #[test]
    fn an_attribute_is_set_only_as_expected() {
        let long = [0; VALUE_MAX + 1];
        let cases = [
            (Some(&b"v"[..]), SetXattr::Any, false, Ok(())),
            (Some(&long[..]), SetXattr::Any, false, Err(Errno::TooBig)),
            (Some(b"v"), SetXattr::Create, true, Err(Errno::Exists)),
            (Some(b"v"), SetXattr::Replace, false, Err(Errno::NoData)),
            (None, SetXattr::Any, false, Err(Errno::NoData)),
            (None, SetXattr::Any, true, Ok(())),
        ];
        for (value, expect, exists, outcome) in cases {
            assert_eq!(check_set(value, expect, exists), outcome);
        }
    }
}
