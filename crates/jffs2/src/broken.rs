//! Nodes whose head is damaged, known by their other checksums.
//!
//! *Promises.* A node is taken only if a checksum that covers all its fields is right once the head
//! is put right: magic, kind and length follow from the fields behind it. *Knows nothing of* the
//! medium. Linux passes such nodes by.

use crate::{
    compress::ZERO,
    format::{DIRENT, Endian, HEAD, Head, INODE, MAGIC, RawDirent, RawInode, crc, kind},
};

/// A node behind a damaged head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken<'a> {
    Inode {
        raw: RawInode,
        len: u32,
    },
    Name {
        raw: RawDirent,
        name: &'a [u8],
        len: u32,
    },
}

impl<'a> Broken<'a> {
    /// Reads what begins here, if it was a node that counted.
    pub fn read(e: Endian, bytes: &'a [u8]) -> Option<Self> {
        inode(e, bytes).or_else(|| name(e, bytes))
    }

    /// Bytes of the whole node.
    pub fn len(&self) -> u32 {
        match self {
            Self::Inode { len, .. } | Self::Name { len, .. } => *len,
        }
    }

    pub fn kind(&self) -> u16 {
        match self {
            Self::Inode { .. } => kind::INODE,
            Self::Name { .. } => kind::DIRENT,
        }
    }
}

/// The fixed part of a node with a new head; nothing if the kind says that the node was given up.
fn with_head<const N: usize>(e: Endian, bytes: &[u8], kind: u16, len: u32) -> Option<[u8; N]> {
    let mut fixed = *bytes.first_chunk::<N>()?;
    if e.get16(&fixed, 2) == kind & !kind::ACCURATE {
        return None;
    }
    Head { kind, len }.write(e, &mut fixed[..HEAD]);
    Some(fixed)
}

fn inode<'a>(e: Endian, bytes: &[u8]) -> Option<Broken<'a>> {
    let fixed = bytes.first_chunk::<INODE>()?;
    let ino = e.get32(fixed, 12);
    let stored = e.get32(fixed, 48);
    let is_hole = fixed[56] == ZERO;
    let whole = (INODE as u32).checked_add(stored);
    let lens = [
        whole.filter(|len| *len as usize <= bytes.len()),
        is_hole.then_some(INODE as u32),
    ];
    if ino == 0 {
        return None;
    }
    lens.into_iter().flatten().find_map(|len| {
        let fixed = with_head::<INODE>(e, bytes, kind::INODE, len)?;
        let raw = RawInode::read(e, &fixed)?;
        Some(Broken::Inode { raw, len })
    })
}

fn name(e: Endian, bytes: &[u8]) -> Option<Broken<'_>> {
    let fixed = bytes.first_chunk::<DIRENT>()?;
    let name = bytes.get(DIRENT..DIRENT + usize::from(fixed[28]))?;
    if e.get32(fixed, 12) == 0 || name.is_empty() {
        return None;
    }
    let len = (DIRENT + name.len()) as u32;
    // Most bytes are no node: checksums are worked out only where a part of the head is right.
    let likely =
        e.get16(fixed, 0) == MAGIC || e.get16(fixed, 2) == kind::DIRENT || e.get32(fixed, 4) == len;
    if !likely {
        return None;
    }
    let fixed = with_head::<DIRENT>(e, bytes, kind::DIRENT, len)?;
    let raw = RawDirent::read(e, &fixed).filter(|raw| crc(name) == raw.name_crc)?;
    Some(Broken::Name { raw, name, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn nodes(e: Endian) -> [Vec<u8>; 2] {
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
            name_len: 4,
            name_crc: crc(b"name"),
            ..Default::default()
        };
        [
            [&inode.write(e)[..], data].concat(),
            [&name.write(e)[..], b"name"].concat(),
        ]
    }

    #[test]
    fn any_damage_of_a_head_is_seen_through_and_no_other() {
        for e in [Endian::Little, Endian::Big] {
            for node in nodes(e) {
                let sound = Broken::read(e, &node);
                assert!(sound.is_some_and(|found| found.len() as usize == node.len()));
                for at in 0..node.len() * 8 {
                    let mut node = node.clone();
                    node[at / 8] ^= 1 << (at % 8);
                    // An inode's checksum does not cover its data and their checksum.
                    let data =
                        node.len() > INODE && (at / 8 >= INODE || (60..64).contains(&(at / 8)));
                    let seen = at / 8 < HEAD || data;
                    let found = Broken::read(e, &node);
                    let marked = e.get16(&node, 2) & kind::ACCURATE == 0;
                    assert_eq!(found.is_some(), seen && !marked, "bit {at} of {sound:?}");
                    if seen && !marked {
                        assert_eq!(
                            found.map(|found| found.len()),
                            sound.map(|found| found.len())
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_node_is_not_taken_for_one() {
        for bytes in [&[0; 200][..], &[0xFF; 200], b"short", &[]] {
            assert_eq!(Broken::read(Endian::Little, bytes), None);
        }
    }
}
