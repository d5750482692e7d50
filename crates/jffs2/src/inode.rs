//! What is known of an inode: a little of each one, everything of those in use.
//!
//! *Knows nothing of* the medium, but where nodes lie.

use crate::{LostNode, format, tree::Tree};
use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};
use nandlab_vfs::{Attr, FileType, Ino, Time};

/// The inode number of the root directory.
pub(crate) const ROOT: u32 = 1;

/// What is known of every inode on the medium.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Its nodes, those too that do not count any more but are not erased yet.
    pub nodes: BTreeSet<u32>,
    /// Names that it has, 1 of a directory.
    pub links: u32,
    /// Of a directory, the inode number of its parent.
    pub parent: u32,
    /// Its data were looked at since the mount.
    pub checked: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dent {
    pub hash: u64,
    pub name: Box<[u8]>,
    /// 0: there is no such name any more, and this keeps an older one from coming back.
    pub ino: u32,
    pub version: u32,
    pub kind: u8,
    pub at: u32,
}

/// Upper four bits of a directory's mode.
pub(crate) const KIND_DIRECTORY: u8 = 4;

/// The names of a directory, by their hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dents(Vec<Dent>);

/// Of a name, below 2^63: where to go on in a list of names.
pub(crate) fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }) >> 1
}

impl Dents {
    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        let hash = hash(name);
        self.0
            .binary_search_by(|dent| (dent.hash, &*dent.name).cmp(&(hash, name)))
    }

    /// The name, also one that is gone.
    pub fn get(&self, name: &[u8]) -> Option<&Dent> {
        self.place(name).ok().map(|index| &self.0[index])
    }

    /// Takes the newer one of two of one name; gives the node of the other.
    pub fn insert(&mut self, dent: Dent) -> Option<u32> {
        match self.place(&dent.name) {
            Ok(index) if dent.version < self.0[index].version => Some(dent.at),
            Ok(index) => Some(core::mem::replace(&mut self.0[index], dent).at),
            Err(index) => {
                self.0.insert(index, dent);
                None
            }
        }
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Ok(index) = self.place(name) {
            self.0.remove(index);
        }
    }

    pub fn at(&self, node: u32) -> Option<&Dent> {
        self.0.iter().find(|dent| dent.at == node)
    }

    pub fn rename(&mut self, old: u32, new: u32) {
        self.0
            .iter_mut()
            .filter(|dent| dent.at == old)
            .for_each(|dent| dent.at = new);
    }

    /// All names, also those that are gone.
    pub fn all(&self) -> impl Iterator<Item = &Dent> {
        self.0.iter()
    }

    /// Names that are there, from a hash on.
    pub fn from(&self, hash: u64) -> impl Iterator<Item = &Dent> {
        let start = self.0.partition_point(|dent| dent.hash < hash);
        self.0[start..].iter().filter(|dent| dent.ino != 0)
    }
}

/// An inode in use.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    /// The highest version of its nodes.
    pub version: u32,
    /// The version of the node that has its attributes.
    pub attr_version: u32,
    pub kind: FileType,
    /// Permission bits with the file type.
    pub mode: u32,
    pub uid: u16,
    pub gid: u16,
    pub size: u32,
    pub atime: u32,
    pub mtime: u32,
    pub ctime: u32,
    pub tree: Tree,
    /// The node that has its attributes, where that has no data of a file.
    pub metadata: Option<u32>,
    /// The length that the newest version states, where no node holds the end: the file is shorter.
    pub shortened: Option<u32>,
    pub dents: Dents,
    /// A link's target, a device's number.
    pub data: Vec<u8>,
    /// A node of it whose fields cannot be read: what no other node holds is not known.
    pub doubt: Option<LostNode>,
    /// When it was used last.
    pub stamp: u64,
}

impl Inode {
    /// Ends the file where its nodes end.
    pub fn shorten(&mut self) {
        let end = self.tree.end();
        self.shortened = Some(self.size).filter(|size| *size > end);
        self.size = self.size.min(end);
    }
}

impl Inode {
    /// A directory without a node of its own.
    pub fn bare_directory() -> Self {
        Self {
            version: 0,
            attr_version: 0,
            kind: FileType::Directory,
            mode: 0o040_755,
            uid: 0,
            gid: 0,
            size: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            tree: Tree::default(),
            metadata: None,
            shortened: None,
            dents: Dents::default(),
            data: Vec::new(),
            doubt: None,
            stamp: 0,
        }
    }

    pub fn is_file(&self) -> bool {
        self.kind == FileType::File
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// The head of a node with the attributes as they are, its version the next.
    pub fn next_node(&mut self, ino: u32) -> format::RawInode {
        self.version = self.version.saturating_add(1);
        format::RawInode {
            ino,
            version: self.version,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            isize: self.size,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            ..Default::default()
        }
    }

    pub fn attr(&self, ino: u32, links: u32, endian: format::Endian) -> Attr {
        let size = if self.is_directory() {
            0
        } else {
            u64::from(self.size)
        };
        Attr {
            ino: Ino(ino.into()),
            kind: self.kind,
            mode: (self.mode & 0o7777) as u16,
            uid: self.uid.into(),
            gid: self.gid.into(),
            links: match (self.is_directory(), links) {
                (true, 1..) => 2 + self.directories(),
                _ => links,
            },
            size,
            blocks: size.div_ceil(512),
            device: self.device(endian),
            atime: Time::new(self.atime.into()),
            mtime: Time::new(self.mtime.into()),
            ctime: Time::new(self.ctime.into()),
            btime: None,
        }
    }

    /// The number of directories in this one.
    fn directories(&self) -> u32 {
        let dents = self.dents.from(0);
        dents.filter(|dent| dent.kind == KIND_DIRECTORY).count() as u32
    }

    /// Two bytes of 8 bits major and 8 bits minor number, or four of 12 and 20, the minor one's
    /// upper bits on top.
    fn device(&self, endian: format::Endian) -> (u32, u32) {
        match (self.kind, self.data.len()) {
            (FileType::Character | FileType::Block, 2) => {
                let id = u32::from(endian.get16(&self.data, 0));
                (id >> 8, id & 0xFF)
            }
            (FileType::Character | FileType::Block, 4) => {
                let id = endian.get32(&self.data, 0);
                (id >> 8 & 0xFFF, id & 0xFF | id >> 12 & 0xFFF00)
            }
            _ => (0, 0),
        }
    }
}

/// A device's number as the data of its node; nothing where it does not fit.
pub(crate) fn device_data(endian: format::Endian, (major, minor): (u32, u32)) -> Option<Vec<u8>> {
    let mut data = alloc::vec![0; 2];
    if major < 256 && minor < 256 {
        endian.put16(&mut data, 0, (major << 8 | minor) as u16);
        return Some(data);
    }
    data.resize(4, 0);
    endian.put32(
        &mut data,
        0,
        minor & 0xFF | major << 8 | (minor & !0xFF) << 12,
    );
    (major < 1 << 12 && minor < 1 << 20).then_some(data)
}

/// Seconds of a time, from 1970 to 2106.
pub(crate) fn seconds(time: Time) -> u32 {
    time.secs.clamp(0, u32::MAX.into()) as u32
}

/// Owners are 16 bits; what does not fit belongs to nobody, as in other file systems of Linux with
/// such owners.
pub(crate) fn owner(id: u32) -> u16 {
    u16::try_from(id).unwrap_or(65_534)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Endian;

    #[test]
    fn of_two_entries_of_one_name_the_newer_stays() {
        let dent = |name: &[u8], version, at| Dent {
            hash: hash(name),
            name: name.into(),
            ino: 5,
            version,
            kind: 8,
            at,
        };
        let mut dents = Dents::default();
        assert_eq!(dents.insert(dent(b"a", 3, 30)), None);
        assert_eq!(dents.insert(dent(b"b", 1, 10)), None);
        assert_eq!(dents.insert(dent(b"a", 2, 20)), Some(20));
        assert_eq!(dents.insert(dent(b"a", 4, 40)), Some(30));
        assert_eq!(
            dents.insert(Dent {
                ino: 0,
                ..dent(b"b", 2, 50)
            }),
            Some(10)
        );
        assert_eq!(dents.from(0).map(|dent| dent.at).collect::<Vec<_>>(), [40]);
        assert_eq!(dents.get(b"b").map(|dent| dent.at), Some(50));
        assert_eq!(dents.at(50).map(|dent| dent.version), Some(2));
    }

    #[test]
    fn devices_come_back_in_both_widths() {
        for endian in [Endian::Little, Endian::Big] {
            for number in [
                (1, 3),
                (255, 255),
                (300, 70_000),
                (4095, 1_048_575),
                (8, 256),
            ] {
                let data = device_data(endian, number).unwrap();
                let inode = Inode {
                    kind: FileType::Character,
                    data,
                    ..Inode::bare_directory()
                };
                assert_eq!(inode.device(endian), number);
            }
        }
        assert_eq!(device_data(Endian::Little, (4096, 0)), None);
    }
}
