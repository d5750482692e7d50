//! A block's list of its nodes, written when it is full, so that a mount need not read the whole
//! block.
//!
//! *Promises.* Entries read from a list are in the order of their places, do not overlap and lie
//! before the list. *Knows nothing of* the medium. Source: fs/jffs2/summary.c.

use crate::format::{
    self, DIRENT, Endian, HEAD, Head, INODE, Place, RawDirent, RawInode, RawSummary, RawXattr,
    SUMMARY, SUMMARY_MAGIC, SUMMARY_MARKER, XATTR, XREF, kind,
};
use alloc::vec::Vec;

/// Bytes of a list beside its entries.
pub(crate) const FRAME: u32 = (SUMMARY + SUMMARY_MARKER) as u32;
/// Bytes of an entry for an inode or an attribute.
pub(crate) const INODE_ENTRY: u32 = 18;
/// Bytes of an entry for a name, without the name.
pub(crate) const DIRENT_ENTRY: u32 = 24;
/// Bytes of an entry for a reference to an attribute.
pub(crate) const XREF_ENTRY: u32 = 6;

/// The list of the block that is being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    bytes: Vec<u8>,
    count: u32,
    padded: u32,
    /// Something is in the block that a list cannot name.
    disabled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Inode {
        ino: u32,
        version: u32,
        at: u32,
        len: u32,
    },
    Dirent {
        raw: RawDirent,
        name: Vec<u8>,
        at: u32,
        len: u32,
    },
    Xattr {
        xid: u32,
        at: u32,
        len: u32,
    },
    Xref {
        at: u32,
    },
}

impl Entry {
    pub fn place(&self) -> (u32, u32) {
        match self {
            Self::Inode { at, len, .. }
            | Self::Dirent { at, len, .. }
            | Self::Xattr { at, len, .. } => (*at, *len),
            Self::Xref { at } => (*at, XREF as u32),
        }
    }

    /// The kind of node that the entry names.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Inode { .. } => kind::INODE,
            Self::Dirent { .. } => kind::DIRENT,
            Self::Xattr { .. } => kind::XATTR,
            Self::Xref { .. } => kind::XREF,
        }
    }
}

impl Collected {
    pub fn reset(&mut self) {
        self.bytes.clear();
        (self.count, self.padded, self.disabled) = (0, 0, false);
    }

    pub fn disable(&mut self) {
        self.disabled = true;
    }

    /// Whether a list of this block can be written.
    pub fn is_usable(&self) -> bool {
        !self.disabled
    }

    /// Bytes of the entries.
    pub fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub fn add_padding(&mut self, bytes: u32) {
        self.padded += bytes;
    }

    /// Another node of the block, `at` from its beginning.
    pub fn add(&mut self, e: Endian, node: &[u8], at: u32) {
        let Some(Place::Node(head)) = node.first_chunk::<HEAD>().map(|head| Head::read(e, head))
        else {
            return self.disable();
        };
        let start = self.bytes.len();
        match head.kind {
            kind::INODE => {
                let Some(raw) = node
                    .first_chunk::<INODE>()
                    .and_then(|node| RawInode::read(e, node))
                else {
                    return self.disable();
                };
                self.put(e, head.kind, &[raw.ino, raw.version, at, head.len]);
            }
            kind::DIRENT => {
                let raw = node
                    .first_chunk::<DIRENT>()
                    .and_then(|node| RawDirent::read(e, node));
                let Some((raw, name)) = raw.and_then(|raw| {
                    Some((raw, node.get(DIRENT..DIRENT + usize::from(raw.name_len))?))
                }) else {
                    return self.disable();
                };
                self.put(
                    e,
                    head.kind,
                    &[head.len, at, raw.pino, raw.version, raw.ino],
                );
                self.bytes.extend([raw.name_len, raw.kind]);
                self.bytes.extend(name);
            }
            kind::XATTR => {
                let Some(raw) = node
                    .first_chunk::<XATTR>()
                    .and_then(|node| RawXattr::read(e, node))
                else {
                    return self.disable();
                };
                self.put(e, head.kind, &[raw.xid, raw.version, at, head.len]);
            }
            kind::XREF => self.put(e, head.kind, &[at]),
            kind::PADDING => return self.add_padding(head.len),
            _ => return self.disable(),
        }
        debug_assert!(self.bytes.len() > start);
        self.count += 1;
    }

    fn put(&mut self, e: Endian, kind: u16, words: &[u32]) {
        let start = self.bytes.len();
        self.bytes.resize(start + 2 + 4 * words.len(), 0);
        e.put16(&mut self.bytes, start, kind);
        for (index, word) in words.iter().enumerate() {
            e.put32(&mut self.bytes, start + 2 + 4 * index, *word);
        }
    }

    /// The whole node for the rest of a block, from `at` on, `len` bytes of it; nothing where there
    /// is no space, or nothing to list.
    pub fn node(&self, e: Endian, marker: u32, at: u32, len: u32) -> Option<Vec<u8>> {
        if self.disabled || self.count == 0 || len < FRAME + self.len() {
            return None;
        }
        let mut node = alloc::vec![0xFF; len as usize];
        node[SUMMARY..SUMMARY + self.bytes.len()].copy_from_slice(&self.bytes);
        let end = len as usize - SUMMARY_MARKER;
        e.put32(&mut node, end, at);
        e.put32(&mut node, end + 4, SUMMARY_MAGIC);
        let data_crc = format::crc(&node[SUMMARY..]);
        let head = RawSummary {
            len,
            count: self.count,
            marker,
            padded: self.padded,
            data_crc,
        };
        node[..SUMMARY].copy_from_slice(&head.write(e));
        Some(node)
    }
}

/// Where the list of a block begins, if its last bytes say that there is one.
pub(crate) fn start(e: Endian, last: &[u8; SUMMARY_MARKER], block_bytes: u32) -> Option<u32> {
    let at = e.get32(last, 0);
    let room = block_bytes.checked_sub(at)?;
    (e.get32(last, 4) == SUMMARY_MAGIC && room >= FRAME && at.is_multiple_of(4)).then_some(at)
}

/// The entries of a list that begins at `at` of its block and ends with it, and the clean marker's
/// bytes. Nothing where anything is wrong with it.
pub(crate) fn read(e: Endian, node: &[u8], at: u32) -> Option<(u32, Vec<Entry>)> {
    let raw = whole(e, node)?;
    let mut rest = &node[SUMMARY..node.len() - SUMMARY_MARKER];
    let mut end = raw.marker;
    let mut entries = Vec::new();
    for _ in 0..raw.count {
        let entry;
        (entry, rest) = entry_of(e, rest)?;
        let (start, len) = entry.place();
        if start < end || !start.is_multiple_of(4) || len < HEAD as u32 {
            return None;
        }
        end = start.checked_add(format::pad(len))?;
        entries.push(entry);
    }
    (end <= at).then_some((raw.marker, entries))
}

/// The fixed part of a list whose checksums are right.
pub(crate) fn whole(e: Endian, node: &[u8]) -> Option<RawSummary> {
    let Place::Node(head) = Head::read(e, node.first_chunk::<HEAD>()?) else {
        return None;
    };
    let raw = RawSummary::read(e, node.first_chunk::<SUMMARY>()?)?;
    let is_whole = head.kind == kind::SUMMARY
        && raw.len as usize == node.len()
        && format::crc(&node[SUMMARY..]) == raw.data_crc;
    is_whole.then_some(raw)
}

fn entry_of(e: Endian, bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let kind = e.get16(bytes.first_chunk::<2>()?, 0);
    let word = |index: usize| e.get32(bytes, 2 + 4 * index);
    let after = |len: u32| bytes.get(len as usize..);
    Some(match kind {
        kind::INODE => {
            let rest = after(INODE_ENTRY)?;
            (
                Entry::Inode {
                    ino: word(0),
                    version: word(1),
                    at: word(2),
                    len: word(3),
                },
                rest,
            )
        }
        kind::DIRENT => {
            let rest = after(DIRENT_ENTRY)?;
            let name_len = bytes[22];
            let kind = bytes[23];
            let (name, rest) = rest.split_at_checked(name_len.into())?;
            let raw = RawDirent {
                pino: word(2),
                version: word(3),
                ino: word(4),
                mctime: 0,
                name_len,
                kind,
                name_crc: format::crc(name),
            };
            (
                Entry::Dirent {
                    raw,
                    name: name.to_vec(),
                    at: word(1),
                    len: word(0),
                },
                rest,
            )
        }
        kind::XATTR => {
            let rest = after(INODE_ENTRY)?;
            (
                Entry::Xattr {
                    xid: word(0),
                    at: word(2),
                    len: word(3),
                },
                rest,
            )
        }
        kind::XREF => {
            let rest = after(XREF_ENTRY)?;
            (Entry::Xref { at: word(0) }, rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_as_it_was_collected_and_no_flip_goes_unnoticed() {
        for e in [Endian::Little, Endian::Big] {
            let mut collected = Collected::default();
            let inode = RawInode {
                ino: 7,
                version: 2,
                ..Default::default()
            };
            collected.add(e, &inode.write(e), 12);
            let raw = RawDirent {
                pino: 1,
                version: 3,
                ino: 7,
                name_len: 5,
                kind: 8,
                name_crc: format::crc(b"hello"),
                mctime: 0,
            };
            collected.add(e, &[&raw.write(e)[..], b"hello"].concat(), 80);
            collected.add(
                e,
                &format::RawXref {
                    ino: 7,
                    xid: 1,
                    seqno: 2,
                }
                .write(e),
                128,
            );
            assert_eq!(collected.len(), INODE_ENTRY + DIRENT_ENTRY + 5 + XREF_ENTRY);
            let node = collected.node(e, 12, 1000, 200).unwrap();
            assert_eq!(start(e, node.last_chunk().unwrap(), 1200), Some(1000));
            let expected = alloc::vec![
                Entry::Inode {
                    ino: 7,
                    version: 2,
                    at: 12,
                    len: 68
                },
                Entry::Dirent {
                    raw,
                    name: b"hello".to_vec(),
                    at: 80,
                    len: 45
                },
                Entry::Xref { at: 128 },
            ];
            assert_eq!(read(e, &node, 1000), Some((12, expected)));
            assert_eq!(read(e, &node, 150), None, "entries behind the list");
            for bit in 0..node.len() * 8 {
                let mut node = node.clone();
                node[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read(e, &node, 1000), None, "bit {bit}");
            }
            assert_eq!(collected.node(e, 12, 1000, 60), None, "no space");
            let mut padding = [0; HEAD];
            let head = Head {
                kind: kind::PADDING,
                len: 12,
            };
            head.write(e, &mut padding);
            collected.add(e, &padding, 140);
            let node = collected.node(e, 12, 1000, 200).unwrap();
            assert_eq!(whole(e, &node).map(|raw| raw.padded), Some(12));
        }
    }
}
