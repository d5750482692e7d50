//! Nodes as they lie on a medium, every one of them, whether or not a mount would count it: for
//! those who look for what has been, or do not know yet what they look at.
//!
//! *Promises.* No bytes make it fail or read outside them; what is no node is passed in steps of
//! four bytes. Checksums are checked and reported, not demanded. *Knows nothing of* blocks and
//! trees.

use crate::{
    Endian,
    compress::ZERO,
    format::{
        DIRENT, HEAD, Head, INODE, MAGIC, Place, RawDirent, RawInode, RawXattr, RawXref, SUMMARY,
        XATTR, XREF, crc, kind, pad,
    },
};
use core::ops::Range;

/// A node that the survey found, intact or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it begins in the bytes.
    pub at: usize,
    /// The length of the node in bytes.
    pub len: usize,
    /// Its kind as it stands there.
    pub kind: u16,
    /// Whether it was ever marked in place as not counting any more.
    pub obsolete: bool,
    /// Whether all its checksums are right, and all of it is there.
    pub sound: bool,
    /// What it says; where the checksum of its fields is wrong, nothing.
    pub what: What,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A version of an inode, with a part of its contents.
    Inode {
        /// The inode number that the node belongs to.
        ino: u32,
        /// Of that inode; the highest counts.
        version: u32,
        /// File type and permission bits.
        mode: u32,
        /// The user and group id.
        owner: (u16, u16),
        /// Bytes of the file as of this version.
        size: u32,
        /// The time of modification in seconds since 1970.
        mtime: u32,
        /// Where the contents begin in the file, and how many bytes of it they are.
        range: (u32, u32),
        /// How they are compressed.
        compr: u8,
        /// Where they are in the bytes.
        data: Range<usize>,
    },
    /// A name, or that it is gone.
    Name {
        /// The inode number of the directory.
        dir: u32,
        /// Of that directory; of each name the highest counts.
        version: u32,
        /// What it names; 0 for nothing any more.
        ino: u32,
        /// When, in seconds since 1970.
        time: u32,
        /// The type, as the upper four bits of a mode.
        kind: u8,
        /// Where the name is in the bytes.
        name: Range<usize>,
    },
    /// An extended attribute with its value.
    Attribute {
        /// The number of the attribute node.
        xid: u32,
        /// The version of the attribute, which grows with each write.
        version: u32,
        /// Where name, a zero and value are in the bytes.
        data: Range<usize>,
    },
    /// That an inode has an attribute, or not any more.
    Reference {
        /// The inode number that has the attribute.
        ino: u32,
        /// The number of the attribute node.
        xid: u32,
        /// The highest counts; an odd one ends it.
        seqno: u32,
    },
    /// A block's list of its nodes.
    Summary,
    /// What an erased block begins with.
    CleanMarker,
    /// Nothing, to fill a page.
    Padding,
    /// Of a kind that is not known, or damaged.
    Unknown,
}

/// Every node in some bytes, which begin where an erase block does.
pub fn survey(endian: Endian, bytes: &[u8]) -> impl Iterator<Item = Seen> {
    let magic = endian_magic(endian);
    let mut at = 0;
    core::iter::from_fn(move || {
        while let Some(skip) = bytes
            .get(at..)
            .and_then(|rest| memchr::memmem::find(rest, &magic))
        {
            at += skip.next_multiple_of(4);
            if !skip.is_multiple_of(4) {
                continue;
            }
            if let Place::Node(found) = Head::read(endian, bytes.get(at..)?.first_chunk::<HEAD>()?)
                && let Some(node) = bytes.get(at..at.saturating_add(found.len as usize))
            {
                let seen = seen(endian, at, found, node);
                at += pad(found.len) as usize;
                return Some(seen);
            }
            at += 4;
        }
        None
    })
}

/// The header of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where it begins in the bytes.
    pub at: usize,
    /// The length that it states, in bytes. The node may end behind the bytes.
    pub len: u32,
    /// The kind that it states.
    pub kind: u16,
}

/// Every header with a right checksum at a multiple of four bytes, also those inside other nodes.
/// This is the quick search for JFFS2 in bytes that may be anything.
pub fn headers(endian: Endian, bytes: &[u8]) -> impl Iterator<Item = Header> {
    let magic = endian_magic(endian);
    let mut from = 0;
    core::iter::from_fn(move || {
        while let Some(skip) = bytes
            .get(from..)
            .and_then(|rest| memchr::memmem::find(rest, &magic))
        {
            let at = from + skip;
            from = at + 2;
            let head = bytes.get(at..)?.first_chunk::<HEAD>()?;
            if at.is_multiple_of(4)
                && let Place::Node(found) = Head::read(endian, head)
            {
                return Some(Header {
                    at,
                    len: found.len,
                    kind: found.kind,
                });
            }
        }
        None
    })
}

fn endian_magic(endian: Endian) -> [u8; 2] {
    match endian {
        Endian::Little => MAGIC.to_le_bytes(),
        Endian::Big => MAGIC.to_be_bytes(),
    }
}

fn seen(endian: Endian, at: usize, head: Head, node: &[u8]) -> Seen {
    let (what, sound) = read(endian, at, head, node).unwrap_or((What::Unknown, false));
    Seen {
        at,
        len: node.len(),
        kind: head.kind,
        obsolete: !head.is_accurate(),
        sound,
        what,
    }
}

/// The fields of a node as they were before it was marked in place: the checksum is of those.
fn fixed<const N: usize>(endian: Endian, node: &[u8]) -> Option<[u8; N]> {
    let mut fixed = *node.first_chunk::<N>()?;
    let found = endian.get16(&fixed, 2);
    endian.put16(&mut fixed, 2, found | kind::ACCURATE);
    Some(fixed)
}

/// What a node says, and whether the rest of it is sound.
fn read(endian: Endian, at: usize, head: Head, node: &[u8]) -> Option<(What, bool)> {
    let part = |from: usize, len: usize| {
        let sum = node.get(from..from + len).map(crc);
        (
            at + from..at + from + if sum.is_some() { len } else { 0 },
            sum,
        )
    };
    Some(match head.kind | kind::ACCURATE {
        kind::INODE => {
            let raw = RawInode::read(endian, &fixed::<INODE>(endian, node)?)?;
            let stored = if raw.compr == ZERO {
                0
            } else {
                raw.csize as usize
            };
            let (data, sum) = part(INODE, stored);
            let what = What::Inode {
                ino: raw.ino,
                version: raw.version,
                mode: raw.mode,
                owner: (raw.uid, raw.gid),
                size: raw.isize,
                mtime: raw.mtime,
                range: (raw.offset, raw.covers()),
                compr: raw.compr,
                data,
            };
            (what, raw.compr == ZERO || sum == Some(raw.data_crc))
        }
        kind::DIRENT => {
            let raw = RawDirent::read(endian, &fixed::<DIRENT>(endian, node)?)?;
            let (name, sum) = part(DIRENT, raw.name_len.into());
            (
                What::Name {
                    dir: raw.pino,
                    version: raw.version,
                    ino: raw.ino,
                    time: raw.mctime,
                    kind: raw.kind,
                    name,
                },
                sum == Some(raw.name_crc),
            )
        }
        kind::XATTR => {
            let raw = RawXattr::read(endian, &fixed::<XATTR>(endian, node)?)?;
            let (data, sum) = part(XATTR, raw.data_len());
            (
                What::Attribute {
                    xid: raw.xid,
                    version: raw.version,
                    data,
                },
                sum == Some(raw.data_crc),
            )
        }
        kind::XREF => {
            let raw = RawXref::read(endian, &fixed::<XREF>(endian, node)?)?;
            (
                What::Reference {
                    ino: raw.ino,
                    xid: raw.xid,
                    seqno: raw.seqno,
                },
                true,
            )
        }
        kind::SUMMARY => (What::Summary, node.len() >= SUMMARY),
        kind::CLEANMARKER => (What::CleanMarker, true),
        kind::PADDING => (What::Padding, true),
        _ => (What::Unknown, true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn nodes_are_found_among_anything_and_their_damage_is_reported() {
        for endian in [Endian::Little, Endian::Big] {
            let data = b"contents";
            let inode = RawInode {
                ino: 7,
                version: 3,
                isize: 8,
                dsize: 8,
                csize: 8,
                data_crc: crc(data),
                ..Default::default()
            };
            let name = RawDirent {
                pino: 1,
                version: 2,
                ino: 7,
                name_len: 1,
                name_crc: crc(b"n"),
                ..Default::default()
            };
            let mut bytes = vec![0x5A; 20];
            bytes.extend(
                [
                    &inode.write(endian)[..],
                    data,
                    &name.write(endian)[..],
                    b"n\xFF\xFF\xFF",
                ]
                .concat(),
            );
            bytes.extend([0xFF; 30]);
            let found: Vec<Seen> = survey(endian, &bytes).collect();
            let What::Inode {
                ino: 7,
                data: range,
                ..
            } = found[0].what.clone()
            else {
                panic!("{:?}", found[0])
            };
            assert_eq!(
                (&bytes[range], found[0].sound, found[0].obsolete),
                (&data[..], true, false)
            );
            assert!(
                matches!(&found[1].what, What::Name { ino: 7, name, .. } if &bytes[name.clone()] == b"n")
            );
            assert_eq!(found.len(), 2);
            let marked = if endian == Endian::Little {
                20 + 3
            } else {
                20 + 2
            };
            bytes[marked] &= !0x20;
            assert!(matches!(
                survey(endian, &bytes).next(),
                Some(Seen {
                    obsolete: true,
                    sound: true,
                    what: What::Inode { .. },
                    ..
                })
            ));
            bytes[20 + INODE] ^= 1;
            assert!(!survey(endian, &bytes).next().unwrap().sound);
            bytes[20 + 20] ^= 1;
            assert_eq!(survey(endian, &bytes).next().unwrap().what, What::Unknown);
        }
    }
}
