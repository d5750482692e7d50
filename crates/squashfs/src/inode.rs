//! Inodes: the common part, and what each kind has behind it.

use crate::error::{Result, field};
use crate::format::{NONE_32, Super};
use crate::meta::{Media, Place};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_block::bytes::{le16, le32, le64};
use nandlab_vfs::{Attr, FileType, Ino, Time};

/// Bytes of a symbolic link's target: Linux's `PATH_MAX` less the NUL.
const TARGET_MAX: u32 = 4095;

/// What an inode refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(File),
    Directory(Directory),
    Symlink { len: u32, at: Place },
    Device(u32),
    Other,
}

/// Where a file's contents lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub size: u64,
    /// Where the first block is.
    pub start: u64,
    /// The fragment with its end and the byte in that; or none.
    pub fragment: Option<(u32, u32)>,
    /// Bytes that are in holes.
    pub sparse: u64,
    /// The lengths of its blocks, 4 bytes each.
    pub list: Place,
}

/// Where a directory's listing lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub at: Place,
    /// Bytes of the listing.
    pub len: u32,
    /// The inode number of the directory with this one.
    pub parent: u32,
}

/// The fields of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub ino: Ino,
    /// Where the metadata block with it is.
    pub at: u64,
    /// The number of the medium, from 1 on.
    pub number: u32,
    pub kind: FileType,
    pub mode: u16,
    /// Indices of the table of owners.
    pub ids: (u16, u16),
    pub mtime: u32,
    pub links: u32,
    /// Of the table of attributes.
    pub xattrs: Option<u32>,
    pub node: Node,
}

/// The kind that a number of an inode or of an entry names; extended ones are 7 higher.
pub(crate) fn kind(number: u16) -> Option<FileType> {
    Some(match number {
        1 | 8 => FileType::Directory,
        2 | 9 => FileType::File,
        3 | 10 => FileType::Symlink,
        4 | 11 => FileType::Block,
        5 | 12 => FileType::Character,
        6 | 13 => FileType::Fifo,
        7 | 14 => FileType::Socket,
        _ => return None,
    })
}

impl Super {
    /// The number by which callers know an inode: its reference, moved behind the root's.
    pub fn ino(&self, reference: u64) -> Ino {
        if reference == self.root {
            Ino::ROOT
        } else {
            Ino(reference + 2)
        }
    }

    fn reference(&self, ino: Ino) -> u64 {
        if ino == Ino::ROOT {
            self.root
        } else {
            ino.0.saturating_sub(2)
        }
    }
}

impl<D: BlockDevice> Media<D> {
    pub fn inode(&mut self, ino: Ino) -> Result<Inode> {
        let reference = self.head.reference(ino);
        let mut place = Place::in_table(self.head.inode_table, reference);
        let at = place.block;
        if reference >> 48 != 0 || at >= self.head.directory_table {
            return field(
                at,
                "the place of an inode",
                reference,
                "a place in the table of inodes",
            );
        }
        let common: [u8; 16] = self.take(&mut place)?;
        let number = le16(&common, 0);
        let Some(kind) = kind(number) else {
            return field(at, "the type of an inode", number, "1 to 14");
        };
        let mut inode = Inode {
            ino,
            at,
            number: le32(&common, 12),
            kind,
            mode: le16(&common, 2) & 0o7777,
            ids: (le16(&common, 4), le16(&common, 6)),
            mtime: le32(&common, 8),
            links: 1,
            xattrs: None,
            node: Node::Other,
        };
        let is_extended = number > 7;
        match kind {
            FileType::Directory if is_extended => self.long_directory(&mut inode, place)?,
            FileType::Directory => self.directory(&mut inode, place)?,
            FileType::File if is_extended => self.long_file(&mut inode, place)?,
            FileType::File => self.file(&mut inode, place)?,
            FileType::Symlink => self.symlink(&mut inode, place, is_extended)?,
            _ => self.special(&mut inode, place, is_extended)?,
        }
        Ok(inode)
    }

    fn listing(&self, inode: &Inode, block: u32, offset: u16, size: u32) -> Result<Place> {
        // What counts is three more than the bytes, for the two entries that are not there.
        if size < 3 {
            return field(inode.at, "the length of a directory", size, "3 or more");
        }
        Ok(Place {
            block: self.head.directory_table.saturating_add(block.into()),
            offset: offset.into(),
        })
    }

    fn directory(&mut self, inode: &mut Inode, mut place: Place) -> Result<()> {
        let rest: [u8; 16] = self.take(&mut place)?;
        inode.links = le32(&rest, 4);
        let size = le16(&rest, 8).into();
        inode.node = Node::Directory(Directory {
            at: self.listing(inode, le32(&rest, 0), le16(&rest, 10), size)?,
            len: size - 3,
            parent: le32(&rest, 12),
        });
        Ok(())
    }

    fn long_directory(&mut self, inode: &mut Inode, mut place: Place) -> Result<()> {
        let rest: [u8; 24] = self.take(&mut place)?;
        inode.links = le32(&rest, 0);
        inode.xattrs = index(le32(&rest, 20));
        let size = le32(&rest, 4);
        inode.node = Node::Directory(Directory {
            at: self.listing(inode, le32(&rest, 8), le16(&rest, 18), size)?,
            len: size - 3,
            parent: le32(&rest, 12),
        });
        Ok(())
    }

    fn file(&mut self, inode: &mut Inode, mut place: Place) -> Result<()> {
        let rest: [u8; 16] = self.take(&mut place)?;
        inode.node = Node::File(File {
            start: le32(&rest, 0).into(),
            fragment: index(le32(&rest, 4)).map(|index| (index, le32(&rest, 8))),
            size: le32(&rest, 12).into(),
            sparse: 0,
            list: place,
        });
        Ok(())
    }

    fn long_file(&mut self, inode: &mut Inode, mut place: Place) -> Result<()> {
        let rest: [u8; 40] = self.take(&mut place)?;
        inode.links = le32(&rest, 24);
        inode.xattrs = index(le32(&rest, 36));
        let size = le64(&rest, 8);
        if size > i64::MAX as u64 {
            return field(inode.at, "the length of a file", size, "less than 2^63");
        }
        inode.node = Node::File(File {
            start: le64(&rest, 0),
            fragment: index(le32(&rest, 28)).map(|index| (index, le32(&rest, 32))),
            size,
            sparse: le64(&rest, 16),
            list: place,
        });
        Ok(())
    }

    fn symlink(&mut self, inode: &mut Inode, mut place: Place, is_extended: bool) -> Result<()> {
        let rest: [u8; 8] = self.take(&mut place)?;
        inode.links = le32(&rest, 0);
        let len = le32(&rest, 4);
        if len == 0 || len > TARGET_MAX {
            return field(
                inode.at,
                "the length of a link's target",
                len,
                "1 to 4095 bytes",
            );
        }
        inode.node = Node::Symlink { len, at: place };
        if is_extended {
            self.skip(&mut place, len.into())?;
            inode.xattrs = index(u32::from_le_bytes(self.take(&mut place)?));
        }
        Ok(())
    }

    fn special(&mut self, inode: &mut Inode, mut place: Place, is_extended: bool) -> Result<()> {
        inode.links = u32::from_le_bytes(self.take(&mut place)?);
        if matches!(inode.kind, FileType::Block | FileType::Character) {
            inode.node = Node::Device(u32::from_le_bytes(self.take(&mut place)?));
        }
        if is_extended {
            inode.xattrs = index(u32::from_le_bytes(self.take(&mut place)?));
        }
        Ok(())
    }

    /// Where a symbolic link points.
    pub fn target(&mut self, len: u32, mut at: Place) -> Result<Vec<u8>> {
        let mut target = alloc::vec![0; len as usize];
        self.fill(&mut at, &mut target)?;
        Ok(target)
    }

    /// An owner or a group.
    fn id(&mut self, inode: &Inode, index: u16) -> Result<u32> {
        if index >= self.head.ids {
            return field(
                inode.at,
                "the owner of an inode",
                index,
                "an index of the table",
            );
        }
        self.entry(self.head.id_table, index.into())
            .map(u32::from_le_bytes)
    }

    /// The attributes of an inode, as callers see them.
    pub fn attr(&mut self, inode: &Inode) -> Result<Attr> {
        let (size, sparse) = size(&inode.node);
        let time = Time::new(inode.mtime.into());
        Ok(Attr {
            ino: inode.ino,
            kind: inode.kind,
            mode: inode.mode,
            uid: self.id(inode, inode.ids.0)?,
            gid: self.id(inode, inode.ids.1)?,
            links: inode.links,
            size,
            blocks: (size - sparse).div_ceil(512),
            device: match inode.node {
                Node::Device(number) => device(number),
                _ => (0, 0),
            },
            atime: time,
            mtime: time,
            ctime: time,
            btime: None,
        })
    }
}

/// The length of an inode, and the bytes of its holes.
fn size(node: &Node) -> (u64, u64) {
    match node {
        Node::File(file) => (file.size, file.sparse.min(file.size)),
        Node::Directory(directory) => (u64::from(directory.len), 0),
        Node::Symlink { len, .. } => ((*len).into(), 0),
        _ => (0, 0),
    }
}

fn index(found: u32) -> Option<u32> {
    Some(found).filter(|index| *index != NONE_32)
}

/// Decodes a device number as Linux's `new_decode_dev`.
fn device(number: u32) -> (u32, u32) {
    let major = number >> 8 & 0xFFF;
    let minor = number & 0xFF | number >> 12 & 0xF_FF00;
    (major, minor)
}
