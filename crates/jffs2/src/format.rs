//! What lies where in a node, in either byte order.
//!
//! *Promises.* A node that is decoded has had its own checksum checked, and its lengths fit each
//! other; what it encodes, it decodes to the same. *Knows nothing of* erase blocks and of what
//! nodes mean together. Source: include/uapi/linux/jffs2.h and fs/jffs2/summary.h of Linux.

/// The first half word of every node.
pub(crate) const MAGIC: u16 = 0x1985;
/// At the end of a block that has a summary.
pub(crate) const SUMMARY_MAGIC: u32 = 0x0285_1885;
/// Bytes of a node's head: magic, kind, length, checksum.
pub(crate) const HEAD: usize = 12;
/// Bytes of an inode node before its data.
pub(crate) const INODE: usize = 68;
/// Bytes of a directory entry before its name.
pub(crate) const DIRENT: usize = 40;
/// Bytes of an attribute before its name.
pub(crate) const XATTR: usize = 32;
/// Bytes of a reference from an inode to an attribute.
pub(crate) const XREF: usize = 28;
/// Bytes of a summary before its entries.
pub(crate) const SUMMARY: usize = 32;
/// Bytes of the marker after a summary: its place in the block, and its magic.
pub(crate) const SUMMARY_MARKER: usize = 8;
/// The longest name of a directory entry, and the longest symbolic link.
pub(crate) const NAME_MAX: usize = 254;
/// What an erased block's spare area says of it, before the byte order: kind and length.
pub(crate) const MARKER_OOB: usize = 8;
/// Bytes of memory that Linux maps at once; a data node covers part of one such page.
pub const PAGE: u32 = 4096;

/// Kinds of nodes. The two upper bits say what becomes of a node whose kind is not known.
pub(crate) mod kind {
    /// What nodes have that count; cleared in place when a node does not any more.
    pub const ACCURATE: u16 = 0x2000;
    pub const COMPAT: u16 = 0xC000;
    pub const INCOMPAT: u16 = 0xC000;
    pub const RO_COMPAT: u16 = 0x8000;
    pub const COPY: u16 = 0x4000;
    pub const DIRENT: u16 = 0xE001;
    pub const INODE: u16 = 0xE002;
    pub const CLEANMARKER: u16 = 0x2003;
    pub const PADDING: u16 = 0x2004;
    pub const SUMMARY: u16 = 0x2006;
    pub const XATTR: u16 = 0xE008;
    pub const XREF: u16 = 0xE009;
}

/// The order of bytes in a number: that of the machine that writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endian {
    /// The least significant byte comes first.
    #[default]
    Little,
    /// The most significant byte comes first.
    Big,
}

impl Endian {
    pub(crate) fn get16(self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self == Self::Little {
            u16::from_le_bytes(word)
        } else {
            u16::from_be_bytes(word)
        }
    }

    pub(crate) fn get32(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Self::Little {
            u32::from_le_bytes(word)
        } else {
            u32::from_be_bytes(word)
        }
    }

    pub(crate) fn put16(self, bytes: &mut [u8], at: usize, value: u16) {
        let word = if self == Self::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        };
        bytes[at..at + 2].copy_from_slice(&word);
    }

    pub(crate) fn put32(self, bytes: &mut [u8], at: usize, value: u32) {
        let word = if self == Self::Little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        };
        bytes[at..at + 4].copy_from_slice(&word);
    }
}

/// The checksum of the format: CRC-32 from zero, without the final inversion.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    hasher.update(bytes);
    !hasher.finalize()
}

/// The next multiple of four, where nodes begin.
pub(crate) const fn pad(len: u32) -> u32 {
    len.saturating_add(3) & !3
}

/// What the first bytes of a node say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: u16,
    pub len: u32,
}

/// What stands where a node might begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Node(Head),
    /// Nodes begin with another half word.
    NoMagic,
    /// Magic, but the checksum is not the head's.
    BadHead,
}

impl Head {
    /// The checksum is that of a node that counts, also where the node does not any more.
    pub fn read(endian: Endian, bytes: &[u8; HEAD]) -> Place {
        if endian.get16(bytes, 0) != MAGIC {
            return Place::NoMagic;
        }
        let kind = endian.get16(bytes, 2);
        let len = endian.get32(bytes, 4);
        let mut checked = [0; 8];
        checked.copy_from_slice(&bytes[..8]);
        endian.put16(&mut checked, 2, kind | kind::ACCURATE);
        if crc(&checked) == endian.get32(bytes, 8) && len as usize >= HEAD {
            Place::Node(Self { kind, len })
        } else {
            Place::BadHead
        }
    }

    pub fn write(self, endian: Endian, bytes: &mut [u8]) {
        endian.put16(bytes, 0, MAGIC);
        endian.put16(bytes, 2, self.kind);
        endian.put32(bytes, 4, self.len);
        endian.put32(bytes, 8, crc(&bytes[..8]));
    }

    pub fn is_accurate(self) -> bool {
        self.kind & kind::ACCURATE != 0
    }
}

/// A version of an inode, with a range of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawInode {
    pub ino: u32,
    pub version: u32,
    pub mode: u32,
    pub uid: u16,
    pub gid: u16,
    /// The inode's length as of this version.
    pub isize: u32,
    pub atime: u32,
    pub mtime: u32,
    pub ctime: u32,
    /// Where the data begin in the file.
    pub offset: u32,
    /// Bytes of the data in the node.
    pub csize: u32,
    /// Bytes of the data in the file.
    pub dsize: u32,
    pub compr: u8,
    pub usercompr: u8,
    pub flags: u16,
    pub data_crc: u32,
}

impl RawInode {
    /// Whether the collector may have made one of the two from the other. Linux keeps the version of
    /// a hole that is overwritten in part, and writes the inode's fields of that time
    /// (`jffs2_garbage_collect_hole`).
    pub fn is_copy_of(&self, other: &Self) -> bool {
        let hole =
            |raw: &Self| (raw.compr == crate::compress::ZERO).then_some((raw.offset, raw.dsize));
        self == other || hole(self).is_some() && hole(self) == hole(other)
    }

    /// None where the checksum is not the node's own.
    pub fn read(e: Endian, bytes: &[u8; INODE]) -> Option<Self> {
        (crc(&bytes[..INODE - 8]) == e.get32(bytes, 64)).then(|| Self {
            ino: e.get32(bytes, 12),
            version: e.get32(bytes, 16),
            mode: e.get32(bytes, 20),
            uid: e.get16(bytes, 24),
            gid: e.get16(bytes, 26),
            isize: e.get32(bytes, 28),
            atime: e.get32(bytes, 32),
            mtime: e.get32(bytes, 36),
            ctime: e.get32(bytes, 40),
            offset: e.get32(bytes, 44),
            csize: e.get32(bytes, 48),
            dsize: e.get32(bytes, 52),
            compr: bytes[56],
            usercompr: bytes[57],
            flags: e.get16(bytes, 58),
            data_crc: e.get32(bytes, 60),
        })
    }

    /// The node without its data, which `csize` and `data_crc` describe.
    pub fn write(&self, e: Endian) -> [u8; INODE] {
        let mut bytes = [0; INODE];
        Head {
            kind: kind::INODE,
            len: (INODE as u32).saturating_add(self.csize),
        }
        .write(e, &mut bytes);
        for (at, value) in [
            (12, self.ino),
            (16, self.version),
            (20, self.mode),
            (28, self.isize),
            (32, self.atime),
            (36, self.mtime),
        ] {
            e.put32(&mut bytes, at, value);
        }
        for (at, value) in [
            (40, self.ctime),
            (44, self.offset),
            (48, self.csize),
            (52, self.dsize),
            (60, self.data_crc),
        ] {
            e.put32(&mut bytes, at, value);
        }
        for (at, value) in [(24, self.uid), (26, self.gid), (58, self.flags)] {
            e.put16(&mut bytes, at, value);
        }
        (bytes[56], bytes[57]) = (self.compr, self.usercompr);
        let checksum = crc(&bytes[..INODE - 8]);
        e.put32(&mut bytes, 64, checksum);
        bytes
    }

    /// Bytes of the file that the node speaks of. There were writers that exchanged the two lengths
    /// of a hole.
    pub fn covers(&self) -> u32 {
        if self.compr == crate::compress::ZERO && self.dsize == 0 {
            self.csize
        } else {
            self.dsize
        }
    }
}

/// A name in a directory, or that there is none any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawDirent {
    /// The inode number of the directory.
    pub pino: u32,
    /// Counted in the directory.
    pub version: u32,
    /// What is named; 0: nothing.
    pub ino: u32,
    /// When the directory changed.
    pub mctime: u32,
    pub name_len: u8,
    /// The type, as the upper four bits of a mode.
    pub kind: u8,
    pub name_crc: u32,
}

impl RawDirent {
    /// None where the checksum is not the node's own.
    pub fn read(e: Endian, bytes: &[u8; DIRENT]) -> Option<Self> {
        (crc(&bytes[..DIRENT - 8]) == e.get32(bytes, 32)).then(|| Self {
            pino: e.get32(bytes, 12),
            version: e.get32(bytes, 16),
            ino: e.get32(bytes, 20),
            mctime: e.get32(bytes, 24),
            name_len: bytes[28],
            kind: bytes[29],
            name_crc: e.get32(bytes, 36),
        })
    }

    /// The node without its name, which `name_len` and `name_crc` describe.
    pub fn write(&self, e: Endian) -> [u8; DIRENT] {
        let mut bytes = [0; DIRENT];
        Head {
            kind: kind::DIRENT,
            len: DIRENT as u32 + u32::from(self.name_len),
        }
        .write(e, &mut bytes);
        for (at, value) in [
            (12, self.pino),
            (16, self.version),
            (20, self.ino),
            (24, self.mctime),
            (36, self.name_crc),
        ] {
            e.put32(&mut bytes, at, value);
        }
        (bytes[28], bytes[29]) = (self.name_len, self.kind);
        let checksum = crc(&bytes[..DIRENT - 8]);
        e.put32(&mut bytes, 32, checksum);
        bytes
    }
}

/// An extended attribute, which several inodes may refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawXattr {
    pub xid: u32,
    pub version: u32,
    pub prefix: u8,
    pub name_len: u8,
    pub value_len: u16,
    pub data_crc: u32,
}

impl RawXattr {
    /// Bytes after the fixed part: the name, a zero, the value.
    pub fn data_len(&self) -> usize {
        usize::from(self.name_len) + 1 + usize::from(self.value_len)
    }

    /// None where the checksum is not the node's own.
    pub fn read(e: Endian, bytes: &[u8; XATTR]) -> Option<Self> {
        (crc(&bytes[..XATTR - 4]) == e.get32(bytes, 28)).then(|| Self {
            xid: e.get32(bytes, 12),
            version: e.get32(bytes, 16),
            prefix: bytes[20],
            name_len: bytes[21],
            value_len: e.get16(bytes, 22),
            data_crc: e.get32(bytes, 24),
        })
    }

    /// The node without its data.
    pub fn write(&self, e: Endian) -> [u8; XATTR] {
        let mut bytes = [0; XATTR];
        Head {
            kind: kind::XATTR,
            len: pad((XATTR + self.data_len()) as u32),
        }
        .write(e, &mut bytes);
        for (at, value) in [(12, self.xid), (16, self.version), (24, self.data_crc)] {
            e.put32(&mut bytes, at, value);
        }
        (bytes[20], bytes[21]) = (self.prefix, self.name_len);
        e.put16(&mut bytes, 22, self.value_len);
        let checksum = crc(&bytes[..XATTR - 4]);
        e.put32(&mut bytes, 28, checksum);
        bytes
    }
}

/// That an inode has an attribute, or (odd number) has it no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawXref {
    pub ino: u32,
    pub xid: u32,
    pub seqno: u32,
}

impl RawXref {
    /// None where the checksum is not the node's own.
    pub fn read(e: Endian, bytes: &[u8; XREF]) -> Option<Self> {
        (crc(&bytes[..XREF - 4]) == e.get32(bytes, 24)).then(|| Self {
            ino: e.get32(bytes, 12),
            xid: e.get32(bytes, 16),
            seqno: e.get32(bytes, 20),
        })
    }

    pub fn write(&self, e: Endian) -> [u8; XREF] {
        let mut bytes = [0; XREF];
        Head {
            kind: kind::XREF,
            len: XREF as u32,
        }
        .write(e, &mut bytes);
        for (at, value) in [(12, self.ino), (16, self.xid), (20, self.seqno)] {
            e.put32(&mut bytes, at, value);
        }
        let checksum = crc(&bytes[..XREF - 4]);
        e.put32(&mut bytes, 24, checksum);
        bytes
    }
}

/// The head of a block's list of contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawSummary {
    /// Bytes of the whole node.
    pub len: u32,
    /// The number of entries in the summary.
    pub count: u32,
    /// Bytes of the block's clean marker.
    pub marker: u32,
    /// Bytes of padding nodes in the block.
    pub padded: u32,
    pub data_crc: u32,
}

impl RawSummary {
    /// None where the checksum is not the node's own.
    pub fn read(e: Endian, bytes: &[u8; SUMMARY]) -> Option<Self> {
        (crc(&bytes[..SUMMARY - 8]) == e.get32(bytes, 28)).then(|| Self {
            len: e.get32(bytes, 4),
            count: e.get32(bytes, 12),
            marker: e.get32(bytes, 16),
            padded: e.get32(bytes, 20),
            data_crc: e.get32(bytes, 24),
        })
    }

    pub fn write(&self, e: Endian) -> [u8; SUMMARY] {
        let mut bytes = [0; SUMMARY];
        Head {
            kind: kind::SUMMARY,
            len: self.len,
        }
        .write(e, &mut bytes);
        for (at, value) in [
            (12, self.count),
            (16, self.marker),
            (20, self.padded),
            (24, self.data_crc),
        ] {
            e.put32(&mut bytes, at, value);
        }
        let checksum = crc(&bytes[..SUMMARY - 8]);
        e.put32(&mut bytes, 28, checksum);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_kernels() {
        assert_eq!(crc(b"123456789"), 0x2dfd_2d88);
        assert_eq!((pad(0), pad(1), pad(4), pad(u32::MAX)), (0, 4, 4, !3));
    }

    #[test]
    fn every_node_reads_as_it_was_written_in_both_orders() {
        for e in [Endian::Little, Endian::Big] {
            let inode = RawInode {
                ino: 7,
                version: 9,
                mode: 0o100_644,
                uid: 1,
                gid: 2,
                isize: 3,
                atime: 4,
                mtime: 5,
                ctime: 6,
                ..Default::default()
            };
            let inode = RawInode {
                offset: 8192,
                csize: 10,
                dsize: 4096,
                compr: 6,
                usercompr: 1,
                flags: 2,
                data_crc: 77,
                ..inode
            };
            assert_eq!(RawInode::read(e, &inode.write(e)), Some(inode));
            let dirent = RawDirent {
                pino: 1,
                version: 2,
                ino: 3,
                mctime: 4,
                name_len: 5,
                kind: 8,
                name_crc: 9,
            };
            assert_eq!(RawDirent::read(e, &dirent.write(e)), Some(dirent));
            let xattr = RawXattr {
                xid: 1,
                version: 2,
                prefix: 5,
                name_len: 6,
                value_len: 700,
                data_crc: 8,
            };
            assert_eq!(RawXattr::read(e, &xattr.write(e)), Some(xattr));
            let xref = RawXref {
                ino: 1,
                xid: 2,
                seqno: 3,
            };
            assert_eq!(RawXref::read(e, &xref.write(e)), Some(xref));
            let summary = RawSummary {
                len: 100,
                count: 2,
                marker: 12,
                padded: 3,
                data_crc: 4,
            };
            assert_eq!(RawSummary::read(e, &summary.write(e)), Some(summary));
        }
    }

    #[test]
    fn a_node_that_does_not_count_any_more_keeps_its_checksum() {
        let mut bytes = RawXref::default().write(Endian::Little);
        let head = Head {
            kind: kind::XREF,
            len: XREF as u32,
        };
        let read =
            |bytes: &[u8; XREF]| Head::read(Endian::Little, bytes[..HEAD].try_into().unwrap());
        assert_eq!(read(&bytes), Place::Node(head));
        bytes[3] &= !0x20;
        assert_eq!(
            read(&bytes),
            Place::Node(Head {
                kind: kind::XREF & !kind::ACCURATE,
                ..head
            })
        );
        bytes[4] ^= 1;
        assert_eq!(read(&bytes), Place::BadHead);
        bytes[0] = 0;
        assert_eq!(read(&bytes), Place::NoMagic);
    }

    #[test]
    fn a_flipped_bit_in_any_field_is_noticed() {
        let inode = RawInode {
            ino: 7,
            csize: 10,
            dsize: 4096,
            ..Default::default()
        }
        .write(Endian::Little);
        // The checksum of the data is not the node's own business.
        for bit in (0..INODE * 8).filter(|bit| !(60 * 8..64 * 8).contains(bit)) {
            let mut bytes = inode;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RawInode::read(Endian::Little, &bytes), None, "bit {bit}");
        }
    }
}
