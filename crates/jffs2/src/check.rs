//! What is wrong with a medium.
//!
//! *Promises.* Every block is read whole, every node's checksums are looked at, every byte of every
//! file is read. Nothing is written. *Bounded:* so many findings, one block and one node's data.

use crate::{
    Jffs2, Jffs2Error,
    compress::ZERO,
    format::{
        DIRENT, HEAD, Head, INODE, Place, RawDirent, RawInode, RawSummary, RawXattr, RawXref,
        SUMMARY, XATTR, XREF, crc, kind, pad,
    },
    inode::{KIND_DIRECTORY, ROOT},
    names::type_of,
    space::State,
};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use nandlab_mtd::Mtd;
use nandlab_vfs::{
    FileType,
    report::{self, Severity},
};

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// Bytes that are neither erased nor a node.
    #[error("byte {at:#x}: {len} bytes that are no node")]
    Garbage {
        /// Where they begin.
        at: u32,
        /// How many.
        len: u32,
    },
    /// A checksum in a node is wrong.
    #[error("byte {at:#x}: node of kind {kind:#06x}: {what}{}", if *counts { "" } else { ", but the node does not count any more" })]
    Node {
        /// Where the node is.
        at: u32,
        /// Its kind.
        kind: u16,
        /// What is wrong.
        what: &'static str,
        /// Whether anything is to be seen of it.
        counts: bool,
    },
    /// A name of an inode that is not there.
    #[error(
        "inode {dir}: name {:?} of inode {ino}, which has no node",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Dangling {
        /// The directory.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: u32,
    },
    /// A directory has a name too many.
    #[error(
        "inode {dir}: name {:?} of directory {ino}, which has another one",
        alloc::string::String::from_utf8_lossy(name)
    )]
    TwoNames {
        /// The directory in which it is.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: u32,
    },
    /// A directory lies below itself.
    #[error(
        "inode {dir}: name {:?} leads back to directory {ino}, which is above it",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Cycle {
        /// The directory in which the name is.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// The directory above.
        ino: u32,
    },
    /// A name gives a directory a second parent. The type in the name hides it from a mount.
    #[error(
        "inode {dir}: name {:?} of directory {ino}, which lies in directory {first} too",
        alloc::string::String::from_utf8_lossy(name)
    )]
    TwoParents {
        /// The directory in which the name is.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: u32,
        /// The other directory.
        first: u32,
    },
    /// A name tells another type than its inode.
    #[error(
        "inode {dir}: name {:?} of inode {ino} has type {found}, expected {expected}",
        alloc::string::String::from_utf8_lossy(name)
    )]
    Type {
        /// The directory.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: u32,
        /// The type in the name.
        found: u8,
        /// The type of the inode.
        expected: u8,
    },
    /// A name that no path can hold: `.`, `..`, empty, or with a slash or a NUL in it.
    #[error("byte {at:#x}: inode {dir}: name \"{}\" of inode {ino} is no name of a file: it cannot be listed or opened", name.escape_ascii())]
    Name {
        /// Where the node is.
        at: u32,
        /// The directory.
        dir: u32,
        /// The name.
        name: Vec<u8>,
        /// What it names.
        ino: u32,
    },
    /// A node with the right checksum that is longer than the rest of its erase block.
    #[error(
        "byte {at:#x}: node of {len} bytes crosses the end of its erase block of {block} bytes"
    )]
    CrossesBlock {
        /// Where the node is.
        at: u32,
        /// Its length.
        len: u32,
        /// Bytes of an erase block.
        block: u32,
    },
    /// An inode or its contents cannot be read.
    #[error("inode {ino}: {error}")]
    Unreadable {
        /// The inode.
        ino: u32,
        /// What is wrong.
        error: Jffs2Error,
    },
    /// A file is shorter than its newest version says.
    #[error("inode {ino}: {found} bytes, its newest version says {expected}")]
    Short {
        /// The inode.
        ino: u32,
        /// What there is.
        found: u32,
        /// What there should be.
        expected: u32,
    },
}

impl Finding {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::TwoNames { .. } => Severity::Note,
            Self::Garbage { .. } | Self::Node { counts: false, .. } => Severity::Waste,
            Self::Node { .. }
            | Self::Dangling { .. }
            | Self::Cycle { .. }
            | Self::TwoParents { .. }
            | Self::Type { .. }
            | Self::Name { .. }
            | Self::CrossesBlock { .. }
            | Self::Unreadable { .. }
            | Self::Short { .. } => Severity::Damage,
        }
    }
}

impl Finding {
    /// The byte of the flash where it is, if it is one place.
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Garbage { at, .. }
            | Self::Node { at, .. }
            | Self::Name { at, .. }
            | Self::CrossesBlock { at, .. } => Some(u64::from(*at)),
            _ => None,
        }
    }
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        self.severity()
    }
}

/// What a check found.
pub type Report = report::Report<Finding, Totals>;

/// What a check counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes on the medium, those too that do not count any more.
    pub nodes: u64,
    /// Inodes with a name.
    pub inodes: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

impl<M: Mtd> Jffs2<M> {
    /// Looks at everything. What a mount has repaired already is among the findings; mount
    /// read-only to have nothing repaired.
    pub fn check(&mut self) -> Result<Report, Jffs2Error> {
        self.check_all(true)
    }

    /// Looks at everything but the bytes that files' nodes hold once they are unpacked: whoever
    /// reads those anyway is told of them.
    pub fn check_structure(&mut self) -> Result<Report, Jffs2Error> {
        self.check_all(false)
    }

    /// Returns what a mount found in names: it leaves these entries out without an error.
    pub fn noted(&self) -> &Report {
        &self.noted
    }

    /// Returns a node that crosses the end of its erase block. Such a medium must not be written:
    /// its nodes may have been written for larger blocks.
    pub fn crossing_node(&mut self) -> Result<Option<Finding>, Jffs2Error> {
        let mut report = Report::default();
        self.check_blocks(&mut report)?;
        let crosses = |finding: &Finding| matches!(finding, Finding::CrossesBlock { .. });
        Ok(report.findings.into_iter().find(crosses))
    }

    fn check_blocks(&mut self, report: &mut Report) -> Result<(), Jffs2Error> {
        let mut bytes = vec![0; self.space.block_bytes as usize];
        for block in 0..self.flash.blocks() {
            if self.flash.is_bad(block)? {
                continue;
            }
            let start = block * self.space.block_bytes;
            self.flash.read(start, &mut bytes)?;
            self.check_block(start, &bytes, report);
        }
        Ok(())
    }

    fn check_all(&mut self, unpack: bool) -> Result<Report, Jffs2Error> {
        let mut report = self.noted.clone();
        self.check_blocks(&mut report)?;
        let named: Vec<u32> = self
            .known
            .iter()
            .filter(|(_, known)| known.links > 0)
            .map(|(ino, _)| *ino)
            .collect();
        let mut kinds = BTreeMap::new();
        for ino in named {
            report.inodes += 1;
            match self.check_inode(ino, unpack, &mut report) {
                Ok(kind) => _ = kinds.insert(ino, type_of(kind)),
                Err(error @ Jffs2Error::Flash(_)) => return Err(error),
                Err(error) => report.add(Finding::Unreadable { ino, error }),
            }
            self.let_go();
        }
        self.check_names(&kinds, &mut report)?;
        Ok(report)
    }

    fn check_block(&self, start: u32, bytes: &[u8], report: &mut Report) {
        let mut at = 0;
        while at + HEAD <= bytes.len() {
            let rest = &bytes[at..];
            let erased = rest.iter().take_while(|byte| **byte == 0xFF).count() & !3;
            // Padding too short for a node is zeros.
            let zeros = rest.iter().take_while(|byte| **byte == 0).count() & !3;
            if erased > 0 || zeros > 0 {
                at += erased.max(zeros);
                continue;
            }
            let place = start + at as u32;
            let node = rest
                .first_chunk::<HEAD>()
                .map(|head| Head::read(self.flash.endian, head));
            match node {
                Some(Place::Node(head)) if head.len as usize <= rest.len() => {
                    report.nodes += 1;
                    let wrong = self.wrong_in(head, &rest[..head.len as usize]);
                    if let Some(what) = wrong.filter(|_| head.is_accurate()) {
                        let counts = self
                            .space
                            .get(place)
                            .is_some_and(|node| node.state != State::Obsolete);
                        report.add(Finding::Node {
                            at: place,
                            kind: head.kind,
                            what,
                            counts,
                        });
                    }
                    at += pad(head.len) as usize;
                }
                _ => {
                    // Garbage is found in steps of four bytes.
                    match (report.findings.last_mut(), node) {
                        (Some(Finding::Garbage { at, len }), _) if *at + *len == place => *len += 4,
                        (_, Some(Place::Node(head))) => report.add(Finding::CrossesBlock {
                            at: place,
                            len: head.len,
                            block: self.space.block_bytes,
                        }),
                        _ => report.add(Finding::Garbage { at: place, len: 4 }),
                    }
                    at += 4;
                }
            }
        }
    }

    /// What is wrong with a node whose head is right.
    fn wrong_in(&self, head: Head, node: &[u8]) -> Option<&'static str> {
        let e = self.flash.endian;
        match head.kind {
            kind::INODE => {
                let Some(raw) = node
                    .first_chunk::<INODE>()
                    .and_then(|fixed| RawInode::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let data = if raw.compr == ZERO {
                    Some(&[][..])
                } else {
                    node.get(INODE..INODE + raw.csize as usize)
                };
                let Some(data) = data else {
                    return Some("length of the data");
                };
                (raw.compr != ZERO && crc(data) != raw.data_crc).then_some("checksum of the data")
            }
            kind::DIRENT => {
                let Some(raw) = node
                    .first_chunk::<DIRENT>()
                    .and_then(|fixed| RawDirent::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let Some(name) = node.get(DIRENT..DIRENT + usize::from(raw.name_len)) else {
                    return Some("length of the name");
                };
                (crc(name) != raw.name_crc).then_some("checksum of the name")
            }
            kind::XATTR => {
                let Some(raw) = node
                    .first_chunk::<XATTR>()
                    .and_then(|fixed| RawXattr::read(e, fixed))
                else {
                    return Some("checksum of the node");
                };
                let Some(data) = node.get(XATTR..XATTR + raw.data_len()) else {
                    return Some("length of the attribute");
                };
                (crc(data) != raw.data_crc).then_some("checksum of the attribute")
            }
            kind::XREF => {
                let whole = node
                    .first_chunk::<XREF>()
                    .is_some_and(|fixed| RawXref::read(e, fixed).is_some());
                (!whole).then_some("checksum of the node")
            }
            kind::SUMMARY => {
                let raw = node
                    .first_chunk::<SUMMARY>()
                    .and_then(|fixed| RawSummary::read(e, fixed));
                raw.is_none_or(|raw| crc(&node[SUMMARY..]) != raw.data_crc)
                    .then_some("checksum of the list")
            }
            _ => None,
        }
    }

    fn check_inode(
        &mut self,
        ino: u32,
        unpack: bool,
        report: &mut Report,
    ) -> Result<FileType, Jffs2Error> {
        let inode = self.load(ino)?;
        let (kind, size, metadata) = (inode.kind, inode.size, inode.metadata);
        if kind == FileType::File {
            report.bytes += u64::from(size);
            if let Some(at) = metadata {
                let expected = self.read_head(at, ino)?.isize;
                if expected > size {
                    report.add(Finding::Short {
                        ino,
                        found: size,
                        expected,
                    });
                }
            }
            if unpack {
                self.read_all(ino, size)?;
            }
        }
        for name in self.list_attributes(ino)? {
            self.get_attribute(ino, &name)?;
        }
        debug_assert!(ino != ROOT || kind == FileType::Directory || self.links(ROOT) == 1);
        Ok(kind)
    }

    /// Compares the names in all directories with the types of their inodes. A mount trusts the
    /// type in a name.
    fn check_names(
        &mut self,
        kinds: &BTreeMap<u32, u8>,
        report: &mut Report,
    ) -> Result<(), Jffs2Error> {
        let mut parents = BTreeMap::new();
        let directories = kinds.iter().filter(|(_, kind)| **kind == KIND_DIRECTORY);
        for dir in directories.map(|(ino, _)| *ino) {
            for dent in self.load(dir)?.dents.from(0) {
                let (name, ino) = (&dent.name, dent.ino);
                // An inode that cannot be read is reported by itself.
                let Some(&expected) = kinds.get(&ino) else {
                    continue;
                };
                if dent.kind != expected {
                    report.add(Finding::Type {
                        dir,
                        name: name.to_vec(),
                        ino,
                        found: dent.kind,
                        expected,
                    });
                }
                if expected == KIND_DIRECTORY
                    && let Some(first) = parents.insert(ino, dir)
                {
                    report.add(Finding::TwoParents {
                        dir,
                        name: name.to_vec(),
                        ino,
                        first,
                    });
                }
            }
            self.let_go();
        }
        Ok(())
    }

    /// Reads what the nodes of a file hold; holes need no reading.
    fn read_all(&mut self, ino: u32, size: u32) -> Result<(), Jffs2Error> {
        let mut at = 0;
        let mut data = Vec::new();
        while let Some(fragment) = self
            .load(ino)?
            .tree
            .at_or_after(at)
            .filter(|fragment| fragment.start < size)
        {
            let from = fragment.start.max(at);
            at = fragment.end.min(from.saturating_add(crate::PAGE));
            if self.read_head(fragment.node, ino)?.compr == ZERO {
                at = fragment.end;
                continue;
            }
            data.resize((at - from) as usize, 0);
            self.read_range(ino, from, &mut data)?;
        }
        Ok(())
    }
}
