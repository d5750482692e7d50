//! Entries of directories and of attributes, and index nodes. All of them are sound nodes of their
//! types.

use super::{Draft, Fault, Key, Kind, NAME_MAX, le16, le32, le64};
use nandlab_vfs::FileType;

/// An entry of a directory, or of the attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The directory, or the inode with the attributes, and the hash of the name.
    pub key: Key,
    /// The inode that it names; 0 takes the entry away.
    pub inode: u32,
    /// The type of the inode, as a number of its own.
    pub kind: u8,
    /// The name, without a final NUL.
    pub name: &'a [u8],
}

/// The type of an inode, as an entry has it.
pub fn kind_of_entry(number: u8) -> Option<FileType> {
    Some(match number {
        0 => FileType::File,
        1 => FileType::Directory,
        2 => FileType::Symlink,
        3 => FileType::Block,
        4 => FileType::Character,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        _ => return None,
    })
}

/// The number that an entry has for a type.
pub fn number_of_kind(kind: FileType) -> u8 {
    (0..7)
        .find(|number| kind_of_entry(*number) == Some(kind))
        .unwrap_or(0)
}

impl<'a> Entry<'a> {
    /// The node with its header still to be completed. `cookie` tells apart names with the same
    /// hash, where the format has double hashes.
    pub(crate) fn draft(&self, cookie: u32) -> Draft {
        let kind = match self.key.kind() {
            super::KeyKind::Xent => Kind::Xent,
            _ => Kind::Dent,
        };
        let mut node = Draft::new(kind, 57 + self.name.len() as u32);
        node.key(24, self.key);
        node.put64(40, self.inode.into());
        node.put8(49, self.kind);
        node.put16(50, self.name.len() as u16);
        node.put32(52, cookie);
        node.bytes(56, self.name);
        node
    }

    /// Reads a node of either type.
    pub fn parse(bytes: &'a [u8], kind: Kind) -> Result<Self, Fault> {
        let key = Key::parse(bytes, 24)?;
        let inode = le64(bytes, 40);
        let len = usize::from(le16(bytes, 50));
        let fits = len <= NAME_MAX && bytes.len() == 57 + len && bytes[56 + len] == 0;
        let expected = "the rest of the node and a zero";
        Fault::unless(fits, "the length of a name", len as u64, expected)?;
        let number = bytes[49];
        Fault::unless(number < 7, "the file type of an entry", number, "0 to 6")?;
        let name = &bytes[56..56 + len];
        let whole = !name.contains(&0);
        Fault::unless(whole, "a byte of a name", 0u8, "any other")?;
        let right = match kind {
            Kind::Xent => super::KeyKind::Xent,
            _ => super::KeyKind::Dent,
        };
        let found = key.kind() as u8;
        Fault::unless(
            key.kind() == right,
            "the key type of an entry",
            found,
            "its node's",
        )?;
        let Ok(inode) = u32::try_from(inode) else {
            return Err(Fault::rule("the inode of an entry", inode, "32 bits"));
        };
        Ok(Self {
            key,
            inode,
            kind: number,
            name,
        })
    }
}

/// Where a node lies, as an index node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The logical block that this is about.
    pub lnum: u32,
    /// The byte in it.
    pub offs: u32,
    /// The length of the node.
    pub len: u32,
}

/// An index node as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexNode<'a> {
    /// 0: its children are leaves.
    pub level: u32,
    branches: &'a [u8],
}

/// Bytes of a branch.
const BRANCH: usize = 20;

/// An index node with its header still to be completed.
pub(crate) fn index_draft(level: u32, children: &[(Key, Branch)]) -> Draft {
    let mut node = Draft::new(Kind::Index, index_bytes(children.len()));
    node.put16(24, children.len() as u16);
    node.put16(26, level as u16);
    for (at, (key, branch)) in (28..).step_by(BRANCH).zip(children) {
        node.put32(at, branch.lnum);
        node.put32(at + 4, branch.offs);
        node.put32(at + 8, branch.len);
        node.key(at + 12, *key);
    }
    node
}

/// Bytes of an index node with so many children.
pub(crate) fn index_bytes(children: usize) -> u32 {
    (28 + BRANCH * children) as u32
}

impl<'a> IndexNode<'a> {
    /// Reads the node from its bytes, header included.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let count = le16(bytes, 24);
        let branches = &bytes[28..];
        let fits = count > 0 && branches.len() == usize::from(count) * BRANCH;
        let expected = "as many as its length";
        Fault::unless(
            fits,
            "the number of children of an index node",
            count,
            expected,
        )?;
        let level = u32::from(le16(bytes, 26));
        Ok(Self { level, branches })
    }

    /// Its children: the least key that each may have, and where it lies.
    pub fn children(&self) -> impl Iterator<Item = (Result<Key, Fault>, Branch)> + 'a {
        self.branches.chunks_exact(BRANCH).map(|bytes| {
            let branch = Branch {
                lnum: le32(bytes, 0),
                offs: le32(bytes, 4),
                len: le32(bytes, 8),
            };
            (Key::parse(bytes, 12), branch)
        })
    }
}
