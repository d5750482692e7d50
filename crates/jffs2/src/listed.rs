//! Nodes that a mount does not see: behind the erased bytes with which a block begins, and in the
//! list of a block without being there.
//!
//! An interrupted erase leaves such blocks, too. Nothing in them counts then, so that each node is
//! compared with what the mount knows. *Works on* inodes with their newest nodes.

use crate::{
    Endian, Finding, Holds, Jffs2, Jffs2Error,
    broken::Broken,
    format::{
        DIRENT, HEAD, Head, INODE, Place, RawDirent, RawInode, RawXattr, SUMMARY_MARKER, crc, kind,
        pad,
    },
    holds::Seen,
    summary::{self, Entry},
};
use alloc::vec::Vec;
use nandlab_mtd::Mtd;

impl<M: Mtd> Jffs2<M> {
    /// What is lost with a whole node in a block that is taken for empty.
    pub(crate) fn passed_over(
        &mut self,
        at: u32,
        kind: u16,
        node: &[u8],
        seen: &mut Seen,
    ) -> Result<Holds, Jffs2Error> {
        match kind {
            kind::INODE => self.newer_contents(node),
            kind::DIRENT | kind::XATTR | kind::XREF => self.holds(at, kind, node, seen),
            _ => Ok(Holds::Nothing),
        }
    }

    /// Bytes of a file, or attributes of an inode, that a node has newer than the mount.
    fn newer_contents(&mut self, node: &[u8]) -> Result<Holds, Jffs2Error> {
        let fixed = node.first_chunk::<INODE>();
        let raw = fixed.and_then(|fixed| RawInode::read(self.flash.endian, fixed));
        let Some(raw) = raw.filter(|raw| self.links(raw.ino) > 0) else {
            return Ok(Holds::Nothing);
        };
        let ino = raw.ino;
        let inode = match self.load(ino) {
            Ok(inode) => inode,
            Err(error @ Jffs2Error::Flash(_)) => return Err(error),
            Err(_) => return Ok(Holds::Fields { ino }),
        };
        if raw.version > inode.version || inode.metadata.is_none() && !inode.is_file() {
            return Ok(Holds::Fields { ino });
        }
        let end = raw.offset.saturating_add(raw.covers()).min(inode.size);
        let mut at = raw.offset;
        let mut pieces = Vec::new();
        while at < end {
            let next = inode.tree.at_or_after(at);
            let next = next.filter(|next| next.start < end);
            pieces.push((at, next));
            at = next.map_or(end, |next| next.end.min(end));
        }
        let mut lost = Vec::new();
        for (at, fragment) in pieces {
            match fragment {
                Some(fragment) if self.read_head(fragment.node, ino)?.version >= raw.version => {
                    if fragment.start > at {
                        lost.push((at, fragment.start));
                    }
                }
                Some(fragment) => lost.push((at, fragment.end.min(end))),
                None => lost.push((at, end)),
            }
        }
        if lost.is_empty() {
            return Ok(Holds::Nothing);
        }
        Ok(Holds::Contents {
            ino,
            lost,
            older: Vec::new(),
            torn: false,
        })
    }

    /// What is wrong with the list of a block: it cannot be right, or it names nodes that are not
    /// there or are others. Inodes' nodes are read when the inode is.
    pub(crate) fn not_as_listed(
        &mut self,
        block: u32,
        bytes: &[u8],
        seen: &mut Seen,
    ) -> Result<Vec<Finding>, Jffs2Error> {
        let e = self.flash.endian;
        let start = block * self.space.block_bytes;
        let mut findings = Vec::new();
        let Some((at, entries)) = self.list_of(bytes) else {
            return Ok(findings);
        };
        if entries.is_none() {
            findings.push(Finding::List { at: start + at });
        }
        for entry in entries.unwrap_or_default() {
            let (at, _) = entry.place();
            let (what, holds) = match presence(e, bytes, &entry) {
                Presence::AsListed => continue,
                Presence::Other => {
                    let holds = Holds::Unknown { torn: false };
                    ("not what the list of its erase block says", holds)
                }
                Presence::Gone { erased } => {
                    let holds = self.promised(start + at, &entry, erased, seen)?;
                    ("not there, but in the list of its erase block", holds)
                }
            };
            if holds != Holds::Nothing {
                findings.push(Finding::Node {
                    at: start + at,
                    kind: entry.kind(),
                    what,
                    holds,
                });
            }
        }
        Ok(findings)
    }

    /// Where the list of a block begins, if Linux believes it. Its entries, if they are possible.
    fn list_of(&self, bytes: &[u8]) -> Option<(u32, Option<Vec<Entry>>)> {
        let e = self.flash.endian;
        let last = bytes.last_chunk::<SUMMARY_MARKER>()?;
        let at = summary::start(e, last, bytes.len() as u32)?;
        let node = &bytes[at as usize..];
        summary::whole(e, node)?;
        let entries = summary::read(e, node, at).map(|(_, entries)| entries);
        Some((at, entries))
    }

    /// What is lost with a node of which only its entry in a list is left. `erased`: its place is
    /// erased, as an interrupted erase leaves it.
    fn promised(
        &mut self,
        at: u32,
        entry: &Entry,
        erased: bool,
        seen: &mut Seen,
    ) -> Result<Holds, Jffs2Error> {
        let unknown = Holds::Unknown { torn: false };
        Ok(match entry {
            Entry::Inode { .. } => Holds::Nothing,
            Entry::Dirent { raw, name, .. } => {
                let node = [&raw.write(self.flash.endian)[..], name].concat();
                self.holds(at, kind::DIRENT, &node, seen)?
            }
            Entry::Xattr { xid, .. } => match self.xattrs.missing(*xid) {
                Some(ino) => Holds::Attribute { ino },
                None if erased || self.xattrs.knows_value(*xid) => Holds::Nothing,
                None => unknown,
            },
            // The list does not say of which inode it is; a value without one does.
            Entry::Xref { .. } if !erased || self.xattrs.has_orphans() => unknown,
            Entry::Xref { .. } => Holds::Nothing,
        })
    }
}

/// What is in the place of a node that a list names.
enum Presence {
    /// The node. Damage behind its head is another finding.
    AsListed,
    /// A node with other fields than the list says. Linux believes the list in part.
    Other,
    /// No such node.
    Gone { erased: bool },
}

fn presence(e: Endian, bytes: &[u8], entry: &Entry) -> Presence {
    let (at, len) = entry.place();
    let node = bytes.get(at as usize..).unwrap_or_default();
    let head = match node.first_chunk::<HEAD>().map(|head| Head::read(e, head)) {
        Some(Place::Node(head)) => head,
        // Linux believes the list, and drops the node when it reads it.
        _ if Broken::read(e, node).is_some() => return Presence::Other,
        _ => {
            let place = node.iter().take(len as usize);
            let erased = place.copied().all(|byte| byte == 0xFF);
            return Presence::Gone { erased };
        }
    };
    // The checksums of a node that was marked in place are those from before.
    let is_kind = head.kind | kind::ACCURATE == entry.kind();
    let as_listed = !head.is_accurate() || pad(head.len) == pad(len) && agrees(e, node, entry);
    if is_kind && as_listed {
        Presence::AsListed
    } else {
        Presence::Other
    }
}

/// Whether the fields of a node are those of its entry. Fields that cannot be read are another
/// finding.
fn agrees(e: Endian, node: &[u8], entry: &Entry) -> bool {
    match entry {
        Entry::Inode { ino, version, .. } => {
            let fixed = node.first_chunk();
            let raw = fixed.and_then(|fixed| RawInode::read(e, fixed));
            raw.is_none_or(|raw| raw.ino == *ino && raw.version == *version)
        }
        Entry::Dirent { raw, name, .. } => {
            let fixed = node.first_chunk();
            let found = fixed.and_then(|fixed| RawDirent::read(e, fixed));
            found.is_none_or(|found| {
                let place = DIRENT..DIRENT + usize::from(found.name_len);
                let whole = node.get(place).filter(|name| crc(name) == found.name_crc);
                let fields = |raw: &RawDirent| (raw.pino, raw.version, raw.ino, raw.kind);
                fields(&found) == fields(raw) && whole.is_none_or(|found| found == &name[..])
            })
        }
        Entry::Xattr { xid, .. } => {
            let fixed = node.first_chunk();
            let raw = fixed.and_then(|fixed| RawXattr::read(e, fixed));
            raw.is_none_or(|raw| raw.xid == *xid)
        }
        Entry::Xref { .. } => true,
    }
}
