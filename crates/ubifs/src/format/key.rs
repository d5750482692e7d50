//! Keys: which inode a node belongs to, and what it is of that inode.

use super::{Fault, le32};
use core::fmt;

/// What of an inode a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// The inode node of the file itself.
    Inode,
    /// A block of its contents.
    Data,
    /// A name in the directory.
    Dent,
    /// The entry of an extended attribute.
    Xent,
}

/// A key. Keys are ordered as the index is: by inode, kind, and value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

/// Bits of a key's value.
const VALUE_BITS: u32 = 29;
const VALUE_MASK: u32 = (1 << VALUE_BITS) - 1;

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{:#x}",
            self.inode(),
            self.0 as u32 >> VALUE_BITS,
            self.value()
        )
    }
}

impl Key {
    /// The least of all.
    pub const FIRST: Self = Self(0);
    /// The greatest of all.
    pub const LAST: Self = Self(u64::MAX);

    /// A key of an inode.
    pub fn new(inode: u32, kind: KeyKind, value: u32) -> Self {
        let low = (kind as u32) << VALUE_BITS | value & VALUE_MASK;
        Self(u64::from(inode) << 32 | u64::from(low))
    }

    /// The key of the inode itself.
    pub fn of_inode(inode: u32) -> Self {
        Self::new(inode, KeyKind::Inode, 0)
    }

    /// The first and the last key that an inode may have.
    pub fn range(inode: u32) -> (Self, Self) {
        let first = u64::from(inode) << 32;
        (Self(first), Self(first | u64::from(u32::MAX)))
    }

    /// The first and the last key of one kind that an inode may have.
    pub fn kind_range(inode: u32, kind: KeyKind) -> (Self, Self) {
        (
            Self::new(inode, kind, 0),
            Self::new(inode, kind, VALUE_MASK),
        )
    }

    /// Reads a key at a byte of a node.
    pub fn parse(bytes: &[u8], at: usize) -> Result<Self, Fault> {
        let low = le32(bytes, at + 4);
        let key = Self(u64::from(le32(bytes, at)) << 32 | u64::from(low));
        let number = low >> VALUE_BITS;
        Fault::unless(number < 4, "the type of a key", number, "0 to 3")?;
        Ok(key)
    }

    /// Returns the number of the inode.
    pub fn inode(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the kind of node that has this key.
    pub fn kind(self) -> KeyKind {
        match self.0 as u32 >> VALUE_BITS {
            0 => KeyKind::Inode,
            1 => KeyKind::Data,
            2 => KeyKind::Dent,
            _ => KeyKind::Xent,
        }
    }

    /// The second word: kind and value.
    pub(crate) fn low(self) -> u32 {
        self.0 as u32
    }

    /// The block of the file, or the hash of the name.
    pub fn value(self) -> u32 {
        self.0 as u32 & VALUE_MASK
    }

    /// Whether several nodes may have this key.
    pub fn is_hashed(self) -> bool {
        self.kind() >= KeyKind::Dent
    }
}

/// How the names of directory entries become values of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHash {
    /// The hash R5 of ReiserFS, the default.
    R5,
    /// The first four bytes: for tests of colliding names.
    Test,
}

impl KeyHash {
    /// The value of a name.
    pub fn of(self, name: &[u8]) -> u32 {
        let hash = match self {
            Self::R5 => name.iter().fold(0, |hash: u32, byte| {
                let byte = i32::from(*byte as i8);
                let sum = hash.wrapping_add((byte << 4) as u32);
                sum.wrapping_add((byte >> 4) as u32).wrapping_mul(11)
            }),
            Self::Test => {
                let mut first = [0; 4];
                let len = name.len().min(4);
                first[..len].copy_from_slice(&name[..len]);
                u32::from_le_bytes(first)
            }
        };
        // The least values are positions in a listing.
        match hash & VALUE_MASK {
            small @ ..=2 => small + 3,
            hash => hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_inode_then_kind_then_value() {
        let keys = [
            Key::of_inode(1),
            Key::new(1, KeyKind::Data, 0),
            Key::new(1, KeyKind::Data, 9),
            Key::new(1, KeyKind::Dent, 3),
            Key::new(1, KeyKind::Xent, 3),
            Key::of_inode(2),
        ];
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(keys[4].kind(), KeyKind::Xent);
        assert_eq!((keys[4].inode(), keys[4].value()), (1, 3));
    }

    #[test]
    fn bytes_of_names_count_as_signed() {
        // (97 * 16 + 6) * 11.
        assert_eq!(KeyHash::R5.of(b"a"), 17138);
        // (-16 - 1) * 11, of which 29 bits are kept.
        assert_eq!(KeyHash::R5.of(b"\xFF"), (1 << 29) - 187);
        assert_eq!(KeyHash::R5.of(b""), 3);
        assert_eq!(KeyHash::Test.of(b"abcdefg"), KeyHash::Test.of(b"abcdzzz"));
    }
}
