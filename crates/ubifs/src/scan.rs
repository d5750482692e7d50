//! The nodes of a logical block, one behind the other.
//!
//! *Promises.* [`clean`] takes blocks that were written to their ends: nodes, padding, and behind
//! them ones only. [`torn`] takes those in which a power cut may have torn the last write
//! (`fs/ubifs/recovery.c`), and drops what belonged to it. *Knows nothing of* what nodes mean.

use crate::error::Result;
use crate::format::{
    Fault, Geometry, Group, HEADER, Header, Kind, MAGIC, PAD, PADDING, align8, is_erased, le32,
    node,
};
use alloc::vec::Vec;

/// A node that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub offs: u32,
    pub header: Header,
}

/// The nodes of a block, and where the next one would begin.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub nodes: Vec<Found>,
    pub end: u32,
    /// The end of the last node or padding, not rounded to a whole write.
    pub used: u32,
}

/// What lies at a place.
enum Seen {
    Node(Header),
    Padding(u32),
    Erased,
    /// No node; nor padding.
    Garbage(Fault),
    /// A header, and a body that does not fit it.
    Corrupt(Fault),
}

/// How the end of a block is treated that may be torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Nodes stand alone: each counts by itself.
    Single,
    /// Groups are whole or not there.
    Grouped,
    /// What a torn least write holds was moved, and is still elsewhere.
    Moved,
}

/// Bytes of one write at most: what a power cut may tear. UBI tells only the least write; memories
/// that take single bytes are written by buffers.
fn write_bytes(here: &Geometry) -> u32 {
    const BUFFER: u32 = 64;
    if here.min_io == 8 {
        BUFFER
    } else {
        here.min_io
    }
}

fn look(bytes: &[u8], offs: u32, here: &Geometry) -> Seen {
    let rest = &bytes[offs as usize..];
    if rest.len() >= 4 && is_erased(&rest[..4]) {
        return Seen::Erased;
    }
    let fault = match node(rest, here.leb, here.fanout) {
        Ok((header, whole)) if header.kind == Kind::Pad => {
            let len = u64::from(PAD) + u64::from(le32(whole, HEADER as usize));
            if len <= rest.len() as u64 && len.is_multiple_of(8) {
                return Seen::Padding(len as u32);
            }
            return Seen::Garbage(Fault::rule(
                "the length of padding",
                len,
                "the rest of a write",
            ));
        }
        Ok((header, _)) => return Seen::Node(header),
        Err(fault) => fault,
    };
    let is_node = le32(rest, 0) == MAGIC;
    if is_node {
        return match rest.len() < HEADER as usize {
            true => Seen::Garbage(fault),
            false => Seen::Corrupt(fault),
        };
    }
    let padding = rest.iter().take(PAD as usize);
    match padding.take_while(|byte| **byte == PADDING).count() as u32 {
        len if len > 0 && len.is_multiple_of(8) => Seen::Padding(len),
        _ => Seen::Garbage(fault),
    }
}

/// Goes through a block up to the first place that is neither a node nor padding.
fn walk(bytes: &[u8], from: u32, here: &Geometry) -> (Scanned, Seen) {
    let mut scanned = Scanned {
        nodes: Vec::new(),
        end: from,
        used: from,
    };
    while scanned.end + 8 <= here.leb {
        match look(bytes, scanned.end, here) {
            Seen::Node(header) => {
                let offs = scanned.end;
                scanned.nodes.push(Found { offs, header });
                // A node at the very end may lack its padding.
                scanned.end = (offs + align8(header.len)).min(here.leb);
            }
            Seen::Padding(len) => scanned.end += len,
            other => return (scanned, other),
        }
    }
    (scanned, Seen::Erased)
}

fn erased_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().take_while(|byte| **byte == 0xFF).count() as u64
}

/// The nodes of a block that no power cut has torn.
pub(crate) fn clean(bytes: &[u8], lnum: u32, from: u32, here: &Geometry) -> Result<Scanned> {
    let (scanned, seen) = walk(bytes, from, here);
    let mut scanned = scanned;
    let end = scanned.end;
    scanned.used = end;
    match seen {
        Seen::Garbage(fault) | Seen::Corrupt(fault) => return Err(fault.at(lnum, end)),
        _ => {}
    }
    let behind = &bytes[end as usize..];
    if !is_erased(behind) {
        let at = u64::from(end) + erased_bytes(behind);
        let expected = "nothing behind the last node";
        return Err(Fault::rule("a byte that is not erased", at, expected).at(lnum, end));
    }
    let fits = end.is_multiple_of(here.min_io);
    let expected = "the end of a write";
    Fault::unless(fits, "the end of the last node", end, expected)
        .map_err(|fault| fault.at(lnum, end))?;
    Ok(scanned)
}

/// Whether `at` lies in the last write of the block.
fn is_last_write(bytes: &[u8], at: u32, here: &Geometry) -> bool {
    let behind = (at + 1).next_multiple_of(write_bytes(here));
    bytes.get(behind as usize..).is_none_or(is_erased)
}

/// Whether nothing was written behind a corrupt node.
fn is_last_node(bytes: &[u8], at: u32, here: &Geometry) -> bool {
    let unit = write_bytes(here);
    let erased_from = |from: u32| {
        let behind = from.next_multiple_of(unit) as usize;
        bytes.get(behind..).is_none_or(is_erased)
    };
    if erased_from(at + HEADER) {
        return true;
    }
    let rest = &bytes[at as usize..];
    match Header::parse(rest, here.leb - at, here.leb, here.fanout) {
        Ok(header) => erased_from(at + header.len),
        Err(_) => false,
    }
}

/// The nodes of a block whose last write may be torn.
pub(crate) fn torn(
    bytes: &[u8],
    lnum: u32,
    from: u32,
    here: &Geometry,
    ends: Ends,
) -> Result<Scanned> {
    let (mut scanned, seen) = walk(bytes, from, here);
    let at = scanned.end;
    let is_cut = match &seen {
        Seen::Garbage(_) => is_last_write(bytes, at, here),
        Seen::Corrupt(_) => is_last_node(bytes, at, here),
        _ => is_erased(&bytes[at as usize..]) || is_last_write(bytes, at, here),
    };
    if !is_cut {
        let fault = match seen {
            Seen::Garbage(fault) | Seen::Corrupt(fault) => fault,
            _ => {
                let at = u64::from(at) + erased_bytes(&bytes[at as usize..]);
                Fault::rule(
                    "a byte that is not erased",
                    at,
                    "nothing behind the last write",
                )
            }
        };
        return Err(fault.at(lnum, at));
    }
    let unit = at - at % here.min_io;
    match ends {
        Ends::Single => {}
        Ends::Grouped => scanned.drop_while(|node| node.header.group == Group::Inside),
        Ends::Moved => scanned.drop_beyond(unit),
    }
    scanned.used = scanned.end;
    scanned.end = scanned.end.next_multiple_of(here.min_io).min(here.leb);
    Ok(scanned)
}

impl Scanned {
    fn drop_while(&mut self, which: impl Fn(&Found) -> bool) {
        while let Some(node) = self.nodes.pop_if(|node| which(node)) {
            self.end = node.offs;
        }
    }

    fn drop_beyond(&mut self, unit: u32) {
        while self.end > unit {
            let Some(node) = self.nodes.pop() else {
                return;
            };
            self.end = node.offs;
        }
    }
}
