//! What an inode is, and what may be said about it.

use crate::Errno;
use core::fmt;

/// The longest name that callers may use, in bytes: Linux's `NAME_MAX`.
pub const NAME_MAX: usize = 255;

/// An inode's number, good while the inode is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory of every file system.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

/// A moment: seconds since 1970 (UTC) and the nanoseconds after that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds since 1970, UTC.
    pub secs: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

impl Time {
    /// Later than everything: for [`write_back`](crate::FileSystem::write_back) of all.
    pub const MAX: Self = Self {
        secs: i64::MAX,
        nanos: 999_999_999,
    };
    /// A time before every other one.
    pub const MIN: Self = Self {
        secs: i64::MIN,
        nanos: 0,
    };

    /// Returns the start of a second.
    pub const fn new(secs: i64) -> Self {
        Self { secs, nanos: 0 }
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// A regular file, with bytes as contents.
    File,
    /// A directory, with names as contents.
    Directory,
    /// A symbolic link, with a path as contents.
    Symlink,
    /// A named pipe without contents.
    Fifo,
    /// The name of a socket, without contents.
    Socket,
    /// A character device with its numbers.
    Character,
    /// A block device with its numbers.
    Block,
}

impl FileType {
    /// The type in the upper four bits of a Unix mode.
    pub fn mode(self) -> u16 {
        match self {
            Self::Fifo => 0o010_000,
            Self::Character => 0o020_000,
            Self::Directory => 0o040_000,
            Self::Block => 0o060_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The type that a Unix mode names; none for an unknown one.
    pub fn from_mode(mode: u16) -> Option<Self> {
        [
            Self::Fifo,
            Self::Character,
            Self::Directory,
            Self::Block,
            Self::File,
            Self::Symlink,
            Self::Socket,
        ]
        .into_iter()
        .find(|kind| kind.mode() == mode & 0o170_000)
    }

    /// The types in the order of the numbers that directory entries give them, from 1 on
    /// (`FT_REG_FILE` and the others in Linux's `include/linux/fs_types.h`).
    const BY_NUMBER: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Character,
        Self::Block,
        Self::Fifo,
        Self::Socket,
        Self::Symlink,
    ];

    /// The number of the type in directory entries of ext and F2FS.
    pub fn number(self) -> u8 {
        let before = Self::BY_NUMBER.iter().take_while(|kind| **kind != self);
        before.count() as u8 + 1
    }

    /// The type that such a number names; none for an unknown one.
    pub fn from_number(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::BY_NUMBER.get(index).copied()
    }
}

/// What is to be made by [`create`](crate::FileSystem::create).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewNode<'a> {
    /// A regular file of length 0.
    File,
    /// A directory without entries.
    Directory,
    /// A symbolic link with its target.
    Symlink {
        /// Where it points, 1 to 4095 bytes without NUL.
        target: &'a [u8],
    },
    /// A named pipe without contents.
    Fifo,
    /// The name of a socket, without contents.
    Socket,
    /// A character device with its numbers.
    Character {
        /// Its major and minor number.
        device: (u32, u32),
    },
    /// A block device with its numbers.
    Block {
        /// Its major and minor number.
        device: (u32, u32),
    },
}

impl NewNode<'_> {
    /// The type of the inode.
    pub fn kind(&self) -> FileType {
        match self {
            Self::File => FileType::File,
            Self::Directory => FileType::Directory,
            Self::Symlink { .. } => FileType::Symlink,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::Character { .. } => FileType::Character,
            Self::Block { .. } => FileType::Block,
        }
    }

    /// The device numbers; zeros for what is no device.
    pub fn device(&self) -> (u32, u32) {
        match self {
            Self::Character { device } | Self::Block { device } => *device,
            _ => (0, 0),
        }
    }
}

/// The attributes that `stat` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The number of the inode.
    pub ino: Ino,
    /// The file type of the inode.
    pub kind: FileType,
    /// Permission bits with set-uid, set-gid and sticky: 12 bits.
    pub mode: u16,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id of the owner.
    pub gid: u32,
    /// Names that it has; of a directory 2 and one for each directory in it.
    pub links: u32,
    /// Bytes; of a symbolic link those of its target, of a directory the file system's own
    /// business.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The time of the last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
    /// Birth, where that is kept.
    pub btime: Option<Time>,
}

/// Changes of attributes; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits, if they change.
    pub mode: Option<u16>,
    /// The new user id, if it changes.
    pub uid: Option<u32>,
    /// The new group id, if it changes.
    pub gid: Option<u32>,
    /// New length in bytes; what is added reads as zeros.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<Time>,
    /// New time of modification.
    pub mtime: Option<Time>,
}

/// Who makes something, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Owner of what is made.
    pub uid: u32,
    /// Its group, unless the directory passes its own on (set-gid).
    pub gid: u32,
    /// The virtual time of the call.
    pub now: Time,
}

impl Caller {
    /// A call by the superuser at this time.
    pub fn root(now: Time) -> Self {
        Self {
            uid: 0,
            gid: 0,
            now,
        }
    }
}

/// Sizes and limits of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes of a block, the unit below.
    pub block_bytes: u32,
    /// Blocks that can hold contents.
    pub blocks: u64,
    /// Blocks that are free.
    pub free: u64,
    /// Blocks that are free to all but the superuser.
    pub available: u64,
    /// Inodes in all; 0 where there is no limit of its own.
    pub inodes: u64,
    /// Inodes that are free; 0 where there is no limit of its own.
    pub inodes_free: u64,
    /// Bytes of the longest name.
    pub name_max: u32,
}

/// Dirty data in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// How much, in bytes.
    pub bytes: u64,
    /// Since when the oldest of it is dirty.
    pub since: Option<Time>,
}

/// Refuses a name that no directory can hold, as the contract has it.
pub fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::Invalid),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::Invalid),
        _ if name.len() > NAME_MAX => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn types_and_modes_name_each_other() {
        for bits in 0..16 {
            if let Some(kind) = FileType::from_mode(bits << 12 | 0o644) {
                assert_eq!(kind.mode(), bits << 12);
            }
        }
        assert_eq!(FileType::from_mode(0o104_755), Some(FileType::File));
        assert_eq!(FileType::from_mode(0o644), None);
    }

    #[test]
    fn types_and_numbers_name_each_other() {
        let kinds: Vec<_> = (0..=u8::MAX).filter_map(FileType::from_number).collect();
        let numbers: Vec<_> = kinds.into_iter().map(FileType::number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(FileType::from_number(7), Some(FileType::Symlink));
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(check_name(bad), Err(Errno::Invalid));
        }
        assert_eq!(check_name(&[b'x'; 256]), Err(Errno::NameTooLong));
        assert_eq!(check_name(&[0xFF; 255]), Ok(()));
    }
}
