//! Inodes, as calls see them.

use crate::error::Result;
use crate::format::{BLOCK, Branch, Fault, InodeNode, Key};
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use alloc::vec::Vec;
use nandlab_vfs::{Attr, Errno, FileType, Ino};

/// An inode in memory, with its attributes.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub number: u32,
    pub kind: FileType,
    pub mode: u32,
    pub links: u32,
    pub size: u64,
    pub is_xattr: bool,
    /// Attributes, the bytes that they take, and the bytes of their names.
    pub xattrs: (u32, u32, u32),
    pub data: Vec<u8>,
    pub attr: Attr,
    pub flags: u32,
    /// The sequence number of its making.
    pub created: u64,
    pub compressor: u16,
}

impl Inode {
    /// The node that says all this.
    pub fn node(&self) -> InodeNode<'_> {
        let attr = &self.attr;
        InodeNode {
            inode: self.number,
            size: self.size,
            times: [attr.atime, attr.mtime, attr.ctime],
            links: self.links,
            uid: attr.uid,
            gid: attr.gid,
            mode: self.mode,
            flags: self.flags,
            xattrs: self.xattrs,
            created: self.created,
            compressor: self.compressor,
            data: &self.data,
        }
    }
}

/// The number of an inode, as the format has it.
pub(crate) fn number(ino: Ino) -> Result<u32> {
    u32::try_from(ino.0).map_err(|_| Errno::Stale.into())
}

impl<L: Lebs> Ubifs<L> {
    /// Reads an inode that has a name. Returns its place, too.
    pub(crate) fn inode(&mut self, ino: Ino) -> Result<(Inode, Branch)> {
        let number = number(ino)?;
        let key = Key::of_inode(number);
        let Some(at) = self.index.get(key)? else {
            return Err(Errno::Stale.into());
        };
        let raised = self.sizes.get(&number).copied();
        let (_, bytes) = self.media.leaf(at, key)?;
        let wrong = |fault: Fault| fault.at(at.lnum, at.offs);
        let node = InodeNode::parse(bytes).map_err(wrong)?;
        let fits = node.links > 0 || self.writer.orphans.contains(&number);
        Fault::unless(fits, "the links of an inode", node.links, "1 or more").map_err(wrong)?;
        let Some(kind) = node.kind() else {
            return Err(wrong(Fault::rule(
                "the mode of an inode",
                node.mode,
                "a known file type",
            )));
        };
        let size = node.size.max(raised.unwrap_or(0));
        let attr = attributes(&node, ino, kind, size);
        let inode = Inode {
            number,
            kind,
            mode: node.mode,
            links: node.links,
            size,
            is_xattr: node.is_xattr(),
            xattrs: node.xattrs,
            data: node.data.into(),
            attr,
            flags: node.flags,
            created: node.created,
            compressor: node.compressor,
        };
        Ok((inode, at))
    }

    /// The same of a directory.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<Inode> {
        let (inode, _) = self.inode(ino)?;
        match inode.kind {
            FileType::Directory => Ok(inode),
            _ => Err(Errno::NotDirectory.into()),
        }
    }
}

/// A device number as Linux's new encoding has it; nothing for numbers that it cannot have.
pub(crate) fn device_data((major, minor): (u32, u32)) -> Option<Vec<u8>> {
    let fits = major < 1 << 12 && minor < 1 << 20;
    let number = minor & 0xFF | major << 8 | (minor & !0xFF) << 12;
    fits.then(|| number.to_le_bytes().into())
}

fn attributes(node: &InodeNode<'_>, ino: Ino, kind: FileType, size: u64) -> Attr {
    let xattr_bytes = u64::from(node.xattrs.1);
    let blocks = match kind {
        FileType::File => (size + xattr_bytes).next_multiple_of(BLOCK.into()) / 512,
        _ => 0,
    };
    let [atime, mtime, ctime] = node.times;
    Attr {
        ino,
        kind,
        mode: (node.mode & 0o7777) as u16,
        uid: node.uid,
        gid: node.gid,
        links: node.links,
        size,
        blocks,
        device: node.device(),
        atime,
        mtime,
        ctime,
        btime: None,
    }
}
