//! The past of a volume: names, inodes and contents that its nodes tell of, in use or not.
//!
//! *Promises.* It reports every sound node of a block once, with its sequence number. Memory is a
//! logical block. *Knows nothing of* what counts.

use crate::error::Result;
use crate::file::Block;
use crate::format::{BLOCK, Branch, DataNode, Entry, InodeNode, Kind};
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::survey;
use alloc::vec::Vec;

/// Something that a node tells of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past<'a> {
    /// A new name, or the end of one.
    Name {
        /// The inode number of the directory.
        dir: u32,
        /// The inode that it names; 0 ends the name.
        inode: u32,
        /// The type of the inode, as an entry has it.
        kind: u8,
        /// The name, without a final NUL.
        name: &'a [u8],
    },
    /// A version of an inode that has a name.
    Inode(InodeNode<'a>),
    /// A block of contents.
    Data {
        /// The number of the inode.
        inode: u32,
        /// The first byte of the file that it holds.
        from: u64,
        /// Bytes of the file that it holds.
        len: u32,
        /// Where its node lies.
        at: Branch,
    },
}

impl<L: Lebs> Ubifs<L> {
    /// Calls `each` for all that nodes tell, with their sequence numbers, in the order of their
    /// places. Omits values of attributes. Returns the number of damaged nodes.
    pub fn past(&mut self, each: &mut dyn FnMut(u64, Past<'_>)) -> u64 {
        let here = self.media.geometry();
        let mut damaged = 0;
        for lnum in here.main_first()..here.lebs.min(self.media.held()) {
            // A block that the medium does not give has no past.
            let Ok(bytes) = self.media.leb(lnum) else {
                continue;
            };
            for seen in survey::nodes(&bytes, &here) {
                let at = Branch {
                    lnum,
                    offs: seen.offs,
                    len: seen.header.len,
                };
                let node = &bytes[at.offs as usize..][..at.len as usize];
                match seen.fault {
                    Some(_) => damaged += 1,
                    None => {
                        if let Some(told) = told(node, seen.header.kind, at) {
                            each(seen.header.sqnum, told);
                        }
                    }
                }
            }
        }
        damaged
    }

    /// The contents that the data node at a place holds.
    pub fn former(&mut self, at: Branch) -> Result<Vec<u8>> {
        let (_, bytes) = self.media.node(at, Kind::Data)?;
        let node = DataNode::parse(bytes).map_err(|fault| fault.at(at.lnum, at.offs))?;
        let key = node.key;
        self.unpacked(key, at).map(Block::into_bytes)
    }
}

fn told(node: &[u8], kind: Kind, at: Branch) -> Option<Past<'_>> {
    match kind {
        Kind::Dent => {
            let entry = Entry::parse(node, kind).ok()?;
            Some(Past::Name {
                dir: entry.key.inode(),
                inode: entry.inode,
                kind: entry.kind,
                name: entry.name,
            })
        }
        Kind::Inode => {
            let inode = InodeNode::parse(node).ok()?;
            let is_shown = inode.links > 0 && !inode.is_xattr();
            is_shown.then_some(Past::Inode(inode))
        }
        Kind::Data => {
            let data = DataNode::parse(node).ok()?;
            Some(Past::Data {
                inode: data.key.inode(),
                from: u64::from(data.key.value()) * u64::from(BLOCK),
                len: data.size,
                at,
            })
        }
        _ => None,
    }
}
