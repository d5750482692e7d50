//! The bytes of fast commits: tags in the last blocks of the journal (Linux
//! `fs/ext4/fast_commit.h`), little-endian.
//!
//! *Promises.* Views never panic. A writer leaves no tag across the end of a block. *Knows nothing
//! of* the order of tags, nor of the volume.

use crate::{
    extent_nodes::{ENTRY, Extent, HEADER, Node},
    format::{INODE_OLD, le16, le32},
};
use alloc::vec::Vec;
use nandlab_jbd::crc32c;

/// Bytes before a tag's value: its kind, and the length of the value.
pub(crate) const HEAD: usize = 4;

mod kind {
    pub const ADD_RANGE: u16 = 1;
    pub const DEL_RANGE: u16 = 2;
    pub const CREATE: u16 = 3;
    pub const LINK: u16 = 4;
    pub const UNLINK: u16 = 5;
    pub const INODE: u16 = 6;
    pub const PAD: u16 = 7;
    pub const TAIL: u16 = 8;
    pub const HEAD: u16 = 9;
}

/// A tag as it lies in a block: its value is inside the block, and may be anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    /// Byte of the block at which the tag lies.
    pub at: usize,
    pub kind: u16,
    pub value: &'a [u8],
}

impl Raw<'_> {
    /// The byte behind the tag.
    pub fn end(&self) -> usize {
        self.at + HEAD + self.value.len()
    }
}

/// The tag at a byte of a block; none where it does not fit.
pub(crate) fn raw(block: &[u8], at: usize) -> Option<Raw<'_>> {
    let head = block.get(at..at + HEAD)?;
    let value = at + HEAD;
    let value = block.get(value..value + usize::from(le16(head, 2)))?;
    let kind = le16(head, 0);
    Some(Raw { at, kind, value })
}

/// A change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Create,
    Link,
    Unlink,
}

/// A tag whose value has a length that its kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag<'a> {
    /// Blocks of an inode.
    AddRange {
        inode: u32,
        extent: Extent,
    },
    /// Blocks that an inode has lost.
    DelRange {
        inode: u32,
        first: u32,
        count: u32,
    },
    Name {
        change: Change,
        parent: u32,
        inode: u32,
        name: &'a [u8],
    },
    /// The inode without its map of blocks.
    Inode {
        inode: u32,
        bytes: &'a [u8],
    },
    Pad,
    /// The end of a fast commit.
    Tail {
        tid: u32,
        sum: u32,
    },
    /// The beginning of the first fast commit of a transaction.
    Head {
        features: u32,
        tid: u32,
    },
}

/// Why a tag makes no sense: the wrong field, its value, the values that it may have.
pub(crate) type Wrong = (&'static str, u64, &'static str);

impl<'a> Tag<'a> {
    pub fn parse(raw: Raw<'a>) -> Result<Self, Wrong> {
        let value = raw.value;
        let sized = |exactly: usize, expected| match value.len() == exactly {
            true => Ok(()),
            false => Err(("length of a tag", value.len() as u64, expected)),
        };
        let least = |least: usize, expected| match value.len() >= least {
            true => Ok(()),
            false => Err(("length of a tag", value.len() as u64, expected)),
        };
        Ok(match raw.kind {
            kind::ADD_RANGE => {
                sized(4 + ENTRY, "16 bytes for blocks of an inode")?;
                Self::AddRange {
                    inode: le32(value, 0),
                    extent: extent(&value[4..]),
                }
            }
            kind::DEL_RANGE => {
                sized(12, "12 bytes for lost blocks of an inode")?;
                Self::DelRange {
                    inode: le32(value, 0),
                    first: le32(value, 4),
                    count: le32(value, 8),
                }
            }
            kind::CREATE | kind::LINK | kind::UNLINK => {
                least(9, "9 bytes or more for a name")?;
                Self::Name {
                    change: match raw.kind {
                        kind::CREATE => Change::Create,
                        kind::LINK => Change::Link,
                        _ => Change::Unlink,
                    },
                    parent: le32(value, 0),
                    inode: le32(value, 4),
                    name: &value[8..],
                }
            }
            kind::INODE => {
                least(4 + INODE_OLD as usize, "132 bytes or more for an inode")?;
                Self::Inode {
                    inode: le32(value, 0),
                    bytes: &value[4..],
                }
            }
            kind::PAD => Self::Pad,
            kind::TAIL => {
                least(8, "8 bytes or more for a tail")?;
                Self::Tail {
                    tid: le32(value, 0),
                    sum: le32(value, 4),
                }
            }
            kind::HEAD => {
                least(8, "8 bytes or more for a head")?;
                Self::Head {
                    features: le32(value, 0),
                    tid: le32(value, 4),
                }
            }
            other => return Err(("kind of a tag", other.into(), "1 to 9")),
        })
    }
}

/// The extent in a tag, which has the form of an entry of a leaf.
fn extent(entry: &[u8]) -> Extent {
    let mut leaf = [0; HEADER + ENTRY];
    leaf[HEADER..].copy_from_slice(entry);
    Node(&leaf).extent(0)
}

/// Puts the tags of one fast commit together.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    block: usize,
    tid: u32,
}

impl Writer {
    pub fn new(block: usize, tid: u32) -> Self {
        let bytes = Vec::new();
        Self { bytes, block, tid }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes up to the end of the block.
    fn left(&self) -> usize {
        self.block - self.bytes.len() % self.block
    }

    fn push(&mut self, kind: u16, length: usize, parts: &[&[u8]]) {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((length as u16).to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend(*part));
    }

    /// Pads the block if a tag and the padding behind it do not fit.
    fn make_room(&mut self, length: usize) {
        let left = self.left();
        if left < HEAD + length + HEAD {
            self.push(kind::PAD, left - HEAD, &[]);
            self.bytes
                .resize(self.bytes.len().next_multiple_of(self.block), 0);
        }
    }

    fn tag(&mut self, kind: u16, parts: &[&[u8]]) {
        let length = parts.iter().map(|part| part.len()).sum();
        self.make_room(length);
        self.push(kind, length, parts);
    }

    /// The first tag of a transaction's fast commits.
    pub fn head(&mut self) {
        let tid = self.tid.to_le_bytes();
        self.tag(kind::HEAD, &[&[0; 4], &tid]);
    }

    pub fn add_range(&mut self, inode: u32, extent: Extent) {
        self.tag(kind::ADD_RANGE, &[&inode.to_le_bytes(), &extent.bytes()]);
    }

    pub fn name(&mut self, change: Change, parent: u32, inode: u32, name: &[u8]) {
        let kind = match change {
            Change::Create => kind::CREATE,
            Change::Link => kind::LINK,
            Change::Unlink => kind::UNLINK,
        };
        self.tag(kind, &[&parent.to_le_bytes(), &inode.to_le_bytes(), name]);
    }

    pub fn inode(&mut self, inode: u32, bytes: &[u8]) {
        self.tag(kind::INODE, &[&inode.to_le_bytes(), bytes]);
    }

    /// Ends the fast commit with its tail, which takes the rest of the block.
    pub fn end(mut self) -> Vec<u8> {
        self.make_room(8);
        let tid = self.tid.to_le_bytes();
        let length = self.left() - HEAD;
        self.push(kind::TAIL, length, &[&tid]);
        let sum = crc32c(0, &self.bytes).to_le_bytes();
        self.bytes.extend(sum);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(self.block), 0);
        self.bytes
    }
}
