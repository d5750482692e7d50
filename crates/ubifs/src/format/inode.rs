//! Inode nodes, with the rules that Linux holds them to (`ubifs_iget`).

use super::{Draft, FILE_MAX, Fault, INLINE_MAX, Key, KeyKind, Kind, le16, le32, le64};
use alloc::vec::Vec;
use nandlab_vfs::{FileType, Time};

/// Bytes of an inode node without data.
pub const INODE: u32 = 160;
/// Contents that are written later are packed.
pub(crate) const IS_PACKED: u32 = 0x01;
/// The inode holds the value of an attribute.
pub(crate) const IS_XATTR: u32 = 0x20;
/// The inode is encrypted.
const IS_ENCRYPTED: u32 = 0x40;
/// Names of attributes together, with a zero each, at most.
pub const XATTR_NAMES_MAX: u64 = 65_536;

/// An inode node as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeNode<'a> {
    /// The number of the inode.
    pub inode: u32,
    /// Bytes of contents; of a directory, what its entries take.
    pub size: u64,
    /// Last access, change of contents, change of the inode.
    pub times: [Time; 3],
    /// Names; 0 takes the inode away.
    pub links: u32,
    /// The user who owns the inode.
    pub uid: u32,
    /// The group that owns the inode.
    pub gid: u32,
    /// The file type and permission bits.
    pub mode: u32,
    /// Attribute bits, and whether it is the value of an attribute.
    pub flags: u32,
    /// Attributes, the bytes that they take, and the bytes of their names.
    pub xattrs: (u32, u32, u32),
    /// The sequence number of its making.
    pub created: u64,
    /// The compressor of what is written later.
    pub compressor: u16,
    /// The target of a symbolic link, a device number, or the value of an attribute.
    pub data: &'a [u8],
}

fn time(bytes: &[u8], secs: usize, nanos: usize) -> Time {
    Time {
        secs: le64(bytes, secs) as i64,
        nanos: le32(bytes, nanos).min(999_999_999),
    }
}

impl<'a> InodeNode<'a> {
    /// Reads a node. Of a deleted inode only number and links are looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let key = Key::parse(bytes, 24)?;
        let is_inode = key.kind() == KeyKind::Inode;
        Fault::unless(is_inode, "the key type of an inode", key.kind() as u8, "0")?;
        let node = Self {
            inode: key.inode(),
            size: le64(bytes, 48),
            times: [
                time(bytes, 56, 80),
                time(bytes, 72, 88),
                time(bytes, 64, 84),
            ],
            links: le32(bytes, 92),
            uid: le32(bytes, 96),
            gid: le32(bytes, 100),
            mode: le32(bytes, 104),
            flags: le32(bytes, 108),
            xattrs: (le32(bytes, 116), le32(bytes, 120), le32(bytes, 128)),
            created: le64(bytes, 40),
            compressor: le16(bytes, 132),
            data: &bytes[INODE as usize..],
        };
        if node.links > 0 {
            node.validate(le32(bytes, 112), le16(bytes, 132))?;
        }
        Ok(node)
    }

    /// The bytes of a node with another size.
    pub(crate) fn resized(bytes: &[u8], size: u64) -> Vec<u8> {
        let mut node = Draft::again(bytes);
        node.put64(48, size);
        node.summed()
    }

    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let mut node = Draft::new(Kind::Inode, INODE + self.data.len() as u32);
        node.key(24, Key::of_inode(self.inode));
        node.put64(40, self.created);
        node.put64(48, self.size);
        let [atime, mtime, ctime] = self.times;
        for (time, secs, nanos) in [(atime, 56, 80), (ctime, 64, 84), (mtime, 72, 88)] {
            node.put64(secs, time.secs as u64);
            node.put32(nanos, time.nanos);
        }
        let (xattrs, xattr_bytes, xattr_names) = self.xattrs;
        let words = [
            (92, self.links),
            (96, self.uid),
            (100, self.gid),
            (104, self.mode),
            (108, self.flags),
            (112, self.data.len() as u32),
            (116, xattrs),
            (120, xattr_bytes),
            (128, xattr_names),
        ];
        words.iter().for_each(|(at, value)| node.put32(*at, *value));
        node.put16(132, self.compressor);
        node.bytes(INODE as usize, self.data);
        node
    }

    fn validate(&self, data_len: u32, compressor: u16) -> Result<(), Fault> {
        let size = self.size;
        Fault::unless(
            size <= FILE_MAX,
            "the size of an inode",
            size,
            "at most 2^41",
        )?;
        Fault::unless(
            compressor < 4,
            "the compressor of an inode",
            compressor,
            "0 to 3",
        )?;
        let (count, _, names) = self.xattrs;
        let names = u64::from(names) + u64::from(count);
        let fits = names <= XATTR_NAMES_MAX;
        let expected = "at most 65536";
        Fault::unless(
            fits,
            "the bytes of an inode's attribute names",
            names,
            expected,
        )?;
        let fits = data_len <= INLINE_MAX && data_len as usize == self.data.len();
        let expected = "the rest of the node";
        Fault::unless(fits, "the data length of an inode", data_len, expected)?;
        let Some(kind) = self.kind() else {
            return Err(Fault::rule(
                "the mode of an inode",
                self.mode,
                "a known file type",
            ));
        };
        let is_xattr = self.is_xattr();
        let fits = match kind {
            FileType::File if is_xattr => true,
            FileType::File | FileType::Directory => data_len == 0,
            FileType::Symlink => (1..=INLINE_MAX).contains(&data_len) && size == data_len.into(),
            FileType::Block | FileType::Character => data_len == 4 || data_len == 8,
            FileType::Fifo | FileType::Socket => data_len == 0,
        };
        let expected = "one that its file type may have";
        Fault::unless(fits, "the data length of an inode", data_len, expected)?;
        let fits = !is_xattr || kind == FileType::File;
        Fault::unless(
            fits,
            "the mode of an attribute's inode",
            self.mode,
            "a file's",
        )
    }

    /// The type of the file, if it is one that there is.
    pub fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.mode as u16)
    }

    /// Whether it holds the value of an attribute.
    pub fn is_xattr(&self) -> bool {
        self.flags & IS_XATTR != 0
    }

    /// Whether its contents are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.flags & IS_ENCRYPTED != 0
    }

    /// Major and minor number of a device. Linux writes 4 bytes, mkfs.ubifs 8.
    pub fn device(&self) -> (u32, u32) {
        let is_device = matches!(self.kind(), Some(FileType::Block | FileType::Character));
        let number = match self.data.len() {
            4 | 8 if is_device => le32(self.data, 0),
            _ => return (0, 0),
        };
        let minor = number & 0xFF | number >> 12 & !0xFF;
        (number >> 8 & 0xFFF, minor)
    }
}
