//! The header that every node begins with, and what makes a node sound.

use super::{BLOCK, INLINE_MAX, INODE, le32, le64};
use core::fmt;
use nandlab_ubi::format::{Expected, crc};

/// Bytes of the header.
pub const HEADER: u32 = 24;
/// Bytes of a padding node.
pub const PAD: u32 = 28;
/// Sequence numbers end before this.
pub const SQNUM_LIMIT: u64 = 0xFFFF_FFFF_FF00_0000;
/// The first word of each node.
pub const MAGIC: u32 = 0x0610_1831;

/// A field that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found:#x}, expected {expected}")]
pub struct Fault {
    /// The name of the field or structure.
    pub what: &'static str,
    /// The value that was found.
    pub found: u64,
    /// What it should be.
    pub expected: Expected,
}

impl Fault {
    /// A field that breaks a rule.
    pub fn rule(what: &'static str, found: impl Into<u64>, expected: &'static str) -> Self {
        Self {
            what,
            found: found.into(),
            expected: Expected::Rule(expected),
        }
    }

    /// A field that should have another value.
    pub fn value(what: &'static str, found: impl Into<u64>, expected: impl Into<u64>) -> Self {
        Self {
            what,
            found: found.into(),
            expected: Expected::Value(expected.into()),
        }
    }

    /// Refuses a field unless it fits the rule.
    pub(crate) fn unless(
        fits: bool,
        what: &'static str,
        found: impl Into<u64>,
        expected: &'static str,
    ) -> Result<(), Self> {
        match fits {
            true => Ok(()),
            false => Err(Self::rule(what, found, expected)),
        }
    }
}

macro_rules! kinds {
    ($($variant:ident = $number:literal $text:literal;)*) => {
        /// The type of a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("A node of type `", $text, "`.")] $variant = $number,)*
        }

        impl Kind {
            fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// As messages call it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

kinds! {
    Inode = 0 "inode";
    Data = 1 "data";
    Dent = 2 "directory entry";
    Xent = 3 "attribute entry";
    Truncation = 4 "truncation";
    Pad = 5 "padding";
    Super = 6 "superblock";
    Master = 7 "master";
    Ref = 8 "reference";
    Index = 9 "index";
    Commit = 10 "commit start";
    Orphans = 11 "orphans";
    Auth = 12 "authentication";
    Signature = 13 "signature";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    /// The lengths that a node of this type may have, in a logical block of `leb` bytes.
    fn lengths(self, leb: u32, fanout: u32) -> (u32, u32) {
        match self {
            Self::Inode => (INODE, INODE + INLINE_MAX),
            Self::Data => (48, 48 + BLOCK),
            Self::Dent | Self::Xent => (56, 312),
            Self::Truncation => (56, 56),
            Self::Pad => (PAD, PAD),
            Self::Super => (4096, 4096),
            Self::Master => (512, 512),
            Self::Ref => (64, 64),
            Self::Index => (48, 28 + 20 * fanout),
            Self::Commit => (32, 32),
            Self::Orphans => (40, leb),
            Self::Auth => (HEADER + 1, HEADER + 64),
            Self::Signature => (64, leb),
        }
    }
}

/// Where a node stands among those that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The node stands alone.
    None,
    /// In a group that goes on behind it.
    Inside,
    /// The last of its group.
    Last,
}

/// The common header of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts everything that is written.
    pub sqnum: u64,
    /// Bytes of the whole node.
    pub len: u32,
    /// The type of the node behind it.
    pub kind: Kind,
    /// The place of the node in its group.
    pub group: Group,
}

/// Whether nothing was written here.
pub fn is_erased(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}

impl Header {
    /// Reads the header of a node that has `room` bytes at most. The checksum is not looked at.
    pub(crate) fn parse(bytes: &[u8], room: u32, leb: u32, fanout: u32) -> Result<Self, Fault> {
        Fault::unless(
            bytes.len() >= HEADER as usize,
            "the room for a node",
            room,
            "24 or more",
        )?;
        let magic = le32(bytes, 0);
        if magic != MAGIC {
            return Err(Fault::value("the magic number of a node", magic, MAGIC));
        }
        let Some(kind) = Kind::from_number(bytes[20]) else {
            return Err(Fault::rule("the type of a node", bytes[20], "0 to 13"));
        };
        let len = le32(bytes, 16);
        let (least, most) = kind.lengths(leb, fanout);
        let fits = (least..=most).contains(&len) && len <= room;
        Fault::unless(
            fits,
            "the length of a node",
            len,
            "one that its type may have",
        )?;
        let group = match bytes[21] {
            1 => Group::Inside,
            2 => Group::Last,
            _ => Group::None,
        };
        let sqnum = le64(bytes, 8);
        Ok(Self {
            sqnum,
            len,
            kind,
            group,
        })
    }
}

/// The node that `bytes` begin with: its header, and all of its bytes. In logical blocks of `leb`
/// bytes, with index nodes of `fanout` branches.
pub fn node(bytes: &[u8], leb: u32, fanout: u32) -> Result<(Header, &[u8]), Fault> {
    let room = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let header = Header::parse(bytes, room, leb, fanout)?;
    let whole = &bytes[..header.len as usize];
    let found = crc(&whole[8..]);
    let expected = le32(whole, 4);
    match found == expected {
        true => Ok((header, whole)),
        false => Err(Fault::value("the checksum of a node", found, expected)),
    }
}
