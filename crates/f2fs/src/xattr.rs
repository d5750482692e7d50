//! Extended attributes: in the end of the inode's addresses, and from there on in a node of their
//! own (`fs/f2fs/xattr.c`).
//!
//! *Promises.* Entries that lead out of their place are an error. *Knows* the spaces user, trusted
//! and security, and access control lists; those of others stay as they are, unseen.

use crate::{
    F2fs, F2fsError,
    format::{footer, inode, le16, le32, put16, put32},
    node::put_time,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType, SetXattr};
use nandlab_xattr::{
    Space,
    acl::{self, Order},
    check_set,
};

const MAGIC: u32 = 0xF2F5_2011;
/// Bytes before the first entry.
const HEADER: usize = 24;
/// Bytes of an entry before its name.
const ENTRY: usize = 4;
/// Bytes of a node of attributes.
const NODE: usize = footer::NID;
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    space: u8,
    name: Vec<u8>,
    value: Vec<u8>,
}

fn parse(bytes: &[u8], ino: u32) -> Result<Vec<Attribute>, F2fsError> {
    if bytes.len() < HEADER || le32(bytes, 0) == 0 {
        return Ok(Vec::new());
    }
    let wrong = |field, found: u32, expected| F2fsError::Node {
        nid: ino,
        field,
        found: found.into(),
        expected,
    };
    if le32(bytes, 0) != MAGIC {
        return Err(wrong(
            "magic number of attributes",
            le32(bytes, 0),
            "0xF2F52011",
        ));
    }
    let mut at = HEADER;
    let mut all = Vec::new();
    while at + ENTRY <= bytes.len() && le32(bytes, at) != 0 {
        let name = usize::from(bytes[at + 1]);
        let value = usize::from(le16(bytes, at + 2));
        let start = at + ENTRY + name;
        let end = at + ENTRY + name + value;
        if end > bytes.len() {
            return Err(wrong(
                "attribute",
                at as u32,
                "a name and a value within the place of attributes",
            ));
        }
        all.push(Attribute {
            space: bytes[at],
            name: bytes[at + ENTRY..start].to_vec(),
            value: bytes[start..end].to_vec(),
        });
        at = end.next_multiple_of(4);
    }
    Ok(all)
}

fn encode(all: &[Attribute]) -> Vec<u8> {
    let mut bytes = alloc::vec![0; HEADER];
    put32(&mut bytes, 0, MAGIC);
    put32(&mut bytes, 4, 1);
    for attribute in all {
        let at = bytes.len();
        bytes.extend_from_slice(&[attribute.space, attribute.name.len() as u8, 0, 0]);
        put16(&mut bytes, at + 2, attribute.value.len() as u16);
        bytes.extend_from_slice(&attribute.name);
        bytes.extend_from_slice(&attribute.value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

impl<D: BlockDevice> F2fs<D> {
    fn attributes(&mut self, ino: u32) -> Result<Vec<Attribute>, F2fsError> {
        let shape = self.shape(ino)?;
        let bytes = self.inode(ino)?;
        let nid = le32(bytes, inode::XATTR_NID);
        let mut all = bytes[shape.xattr_at()..shape.xattr_at() + shape.xattr_bytes()].to_vec();
        if nid != 0 {
            self.check_xattr_node(nid, ino)?;
            all.extend_from_slice(&self.node(nid)?[..NODE]);
        }
        parse(&all, ino)
    }

    pub(crate) fn get_attribute(&mut self, ino: u32, name: &[u8]) -> Result<Vec<u8>, F2fsError> {
        let (space, rest) = Space::EXT.split(name)?;
        let found = self
            .attributes(ino)?
            .into_iter()
            .find(|attribute| attribute.space == space && attribute.name == rest);
        Ok(acl::shown(
            name,
            found.ok_or(Errno::NoData)?.value,
            Order::Little,
        )?)
    }

    pub(crate) fn list_attributes(&mut self, ino: u32) -> Result<Vec<Vec<u8>>, F2fsError> {
        let full = |attribute: Attribute| Space::EXT.join(attribute.space, &attribute.name);
        Ok(self.attributes(ino)?.into_iter().filter_map(full).collect())
    }

    pub(crate) fn set_attribute(
        &mut self,
        ino: u32,
        name: &[u8],
        value: Option<&[u8]>,
        expect: SetXattr,
    ) -> Result<(), F2fsError> {
        let (space, rest) = Space::EXT.split(name)?;
        self.check_changeable(ino)?;
        let mut all = self.attributes(ino)?;
        let at = all
            .iter()
            .position(|attribute| attribute.space == space && attribute.name == rest);
        check_set(value, expect, at.is_some())?;
        if let Some(at) = at {
            all.remove(at);
        }
        if let Some(value) = value {
            all.push(stored(space, rest, name, value)?);
        }
        self.put_attributes(ino, &encode(&all))?;
        let now = self.now;
        put_time(self.node_mut(ino)?, inode::CTIME, inode::CTIME_NANOS, now);
        Ok(())
    }

    fn put_attributes(&mut self, ino: u32, all: &[u8]) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let inline = shape.xattr_bytes();
        let nid = le32(self.inode(ino)?, inode::XATTR_NID);
        if all.len() > inline + NODE {
            return Err(Errno::NoSpace.into());
        }
        let (inside, outside) = all.split_at(inline.min(all.len()));
        match (outside.is_empty(), nid) {
            (true, 0) => {}
            (true, _) => {
                self.free_node(nid, ino)?;
                put32(self.node_mut(ino)?, inode::XATTR_NID, 0);
            }
            (false, _) => {
                let nid = if nid == 0 {
                    self.new_xattr_node(ino)?
                } else {
                    nid
                };
                let bytes = self.node_mut(nid)?;
                bytes[..NODE].fill(0);
                bytes[..outside.len()].copy_from_slice(outside);
            }
        }
        let place = shape.xattr_at()..shape.xattr_at() + inline;
        let bytes = &mut self.node_mut(ino)?[place];
        bytes.fill(0);
        bytes[..inside.len()].copy_from_slice(inside);
        Ok(())
    }

    /// A node of attributes, which the inode leads to.
    pub(crate) fn new_xattr_node(&mut self, ino: u32) -> Result<u32, F2fsError> {
        let directory = crate::node::kind(self.inode(ino)?) == Some(FileType::Directory);
        let nid = self.new_node(Some(ino), footer::XATTR_OFFSET, directory)?;
        put32(self.node_mut(ino)?, inode::XATTR_NID, nid);
        Ok(nid)
    }

    /// The bytes of attributes in the inode and in the node as a roll-forward found them.
    pub(crate) fn take_over_attributes(&mut self, ino: u32, node: &[u8]) -> Result<(), F2fsError> {
        let nid = match le32(self.inode(ino)?, inode::XATTR_NID) {
            0 => self.new_xattr_node(ino)?,
            nid => nid,
        };
        self.node_mut(nid)?[..NODE].copy_from_slice(&node[..NODE]);
        Ok(())
    }
}

fn stored(space: u8, rest: &[u8], name: &[u8], value: &[u8]) -> Result<Attribute, F2fsError> {
    if value.len() > NODE - HEADER - ENTRY {
        return Err(Errno::TooBig.into());
    }
    Ok(Attribute {
        space,
        name: rest.to_vec(),
        value: acl::stored(name, value, Order::Little)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back() {
        let all = alloc::vec![
            Attribute {
                space: 1,
                name: b"a".to_vec(),
                value: Vec::new()
            },
            Attribute {
                space: 6,
                name: b"longer".to_vec(),
                value: alloc::vec![7; 301]
            },
        ];
        let mut bytes = encode(&all);
        assert_eq!(parse(&bytes, 4).unwrap(), all);
        bytes.extend([0; 8]);
        assert_eq!(parse(&bytes, 4).unwrap(), all);
        put16(&mut bytes, 24 + 2, 2000);
        assert!(parse(&bytes, 4).is_err());
    }
}
