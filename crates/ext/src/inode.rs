//! Inodes as the tables hold them.
//!
//! *Promises.* [`Inode`] is what an inode says; [`put`](Inode::put) changes those bytes only, so
//! that attributes and fields of others stay. *Knows nothing of* where inodes lie but
//! [`Ext::inode`] and [`Ext::put_inode`].

use crate::{
    Ext, ExtError, SeededBug,
    cache::Class,
    extent_nodes,
    format::{INODE_OLD, Layout, flags, incompat, le16, le32, put16, put32, ro_compat},
    time,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{FileType, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Type and permission bits.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub atime: Time,
    pub ctime: Time,
    pub mtime: Time,
    pub btime: Option<Time>,
    /// Time of deletion in seconds, or the next orphan.
    pub dtime: u32,
    pub links: u16,
    /// Units of 512 bytes, indirect blocks and attributes included.
    pub units: u64,
    /// The form in which the inode says them.
    pub count: Count,
    pub flags: u32,
    pub block: [u32; 15],
    pub generation: u32,
    /// The block that holds attributes, or 0.
    pub attributes: u32,
    /// Bytes after the first 128 that have a meaning.
    pub extra: u16,
}

/// How an inode counts its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    /// In units of 512 bytes, in 32 bits.
    #[default]
    Short,
    /// In units of 512 bytes, in 48 bits (`huge_file`).
    Long,
    /// In units of so many times 512 bytes, in 48 bits: blocks of the volume.
    Blocks(u32),
}

impl Count {
    fn of(flags: u32, layout: &Layout) -> Self {
        match layout.ro_compat & ro_compat::HUGE_FILE != 0 {
            false => Self::Short,
            true if flags & flags::HUGE != 0 => Self::Blocks(layout.block / 512),
            true => Self::Long,
        }
    }

    fn unit(self) -> u64 {
        match self {
            Self::Blocks(unit) => unit.into(),
            Self::Short | Self::Long => 1,
        }
    }
}

/// Bytes of an inode's block pointers, or of the root of its extents.
pub(crate) const ROOT_BYTES: usize = 60;
/// Byte of an inode at which the upper half of its units lies.
const UNITS_HIGH: usize = 116;
/// Where the times lie, and the rest of them.
const TIMES: [(usize, usize); 3] = [(8, 140), (12, 132), (16, 136)];

/// The bytes that the fields below may take; extended attributes follow in larger inodes.
const FIELDS_BYTES: usize = 160;

impl Inode {
    pub fn new(kind: FileType, mode: u16, owner: (u32, u32), now: Time, layout: &Layout) -> Self {
        let mapped = layout.has_extents()
            && matches!(
                kind,
                FileType::File | FileType::Directory | FileType::Symlink
            );
        Self {
            mode: kind.mode() | mode & 0o7777,
            uid: owner.0,
            gid: owner.1,
            size: 0,
            atime: now,
            ctime: now,
            mtime: now,
            btime: (layout.extra_isize >= 24).then_some(now),
            dtime: 0,
            links: 1,
            units: 0,
            count: Count::of(0, layout),
            flags: if mapped { flags::EXTENTS } else { 0 },
            block: if mapped {
                extent_nodes::empty_root()
            } else {
                [0; 15]
            },
            generation: 0,
            attributes: 0,
            extra: layout.extra_isize,
        }
    }

    pub fn parse(bytes: &[u8], layout: &Layout) -> Self {
        let mode = le16(bytes, 0);
        let flags = le32(bytes, 32);
        let count = Count::of(flags, layout);
        let space = bytes.len() - INODE_OLD as usize;
        // An extra length that leads beyond the inode means nothing.
        let extra = if space >= 4 {
            usize::from(le16(bytes, 128))
        } else {
            0
        };
        let extra = if extra <= space { extra } else { 0 };
        let time = |at, more: usize| {
            time::decode(
                le32(bytes, at),
                if extra >= more + 4 - 128 {
                    le32(bytes, more)
                } else {
                    0
                },
            )
        };
        let high = match FileType::from_mode(mode) {
            Some(FileType::File) => le32(bytes, 108),
            Some(FileType::Directory) if layout.incompat & incompat::LARGE_DIR != 0 => {
                le32(bytes, 108)
            }
            _ => 0,
        };
        let units = match count {
            Count::Short => 0,
            Count::Long | Count::Blocks(_) => u64::from(le16(bytes, UNITS_HIGH)) << 32,
        };
        let [atime, ctime, mtime] = TIMES.map(|(at, more)| time(at, more));
        Self {
            mode,
            uid: u32::from(le16(bytes, 2)) | u32::from(le16(bytes, 120)) << 16,
            gid: u32::from(le16(bytes, 24)) | u32::from(le16(bytes, 122)) << 16,
            size: u64::from(le32(bytes, 4)) | u64::from(high) << 32,
            atime,
            ctime,
            mtime,
            btime: (extra >= 24).then(|| time(144, 148)),
            dtime: le32(bytes, 20),
            links: le16(bytes, 26),
            units: (units | u64::from(le32(bytes, 28))) * count.unit(),
            count,
            flags,
            block: core::array::from_fn(|i| le32(bytes, 40 + 4 * i)),
            generation: le32(bytes, 100),
            attributes: le32(bytes, 104),
            extra: extra as u16,
        }
    }

    /// Brings the bytes up to date.
    pub fn put(&self, bytes: &mut [u8]) {
        put16(bytes, 0, self.mode);
        put16(bytes, 2, self.uid as u16);
        put16(bytes, 120, (self.uid >> 16) as u16);
        put16(bytes, 24, self.gid as u16);
        put16(bytes, 122, (self.gid >> 16) as u16);
        put32(bytes, 4, self.size as u32);
        put32(bytes, 108, (self.size >> 32) as u32);
        put32(bytes, 20, self.dtime);
        put16(bytes, 26, self.links);
        let units = self.units / self.count.unit();
        put32(bytes, 28, units as u32);
        if self.count != Count::Short {
            put16(bytes, UNITS_HIGH, (units >> 32) as u16);
        }
        put32(bytes, 32, self.flags);
        for (i, number) in self.block.iter().enumerate() {
            put32(bytes, 40 + 4 * i, *number);
        }
        put32(bytes, 100, self.generation);
        put32(bytes, 104, self.attributes);
        let extra = usize::from(self.extra);
        if bytes.len() > INODE_OLD as usize {
            put16(bytes, 128, self.extra);
        }
        for ((at, more), time) in TIMES.into_iter().zip([self.atime, self.ctime, self.mtime]) {
            let (low, high) = time::encode(time);
            put32(bytes, at, low);
            if extra >= more + 4 - 128 {
                put32(bytes, more, high);
            }
        }
        if let Some(time) = self.btime.filter(|_| extra >= 24) {
            let (low, high) = time::encode(time);
            put32(bytes, 144, low);
            put32(bytes, 148, high);
        }
    }

    /// None for a mode that names no type.
    pub fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    pub fn is_dir(&self) -> bool {
        self.kind() == Some(FileType::Directory)
    }

    /// Whether its times have nanoseconds.
    pub fn fine(&self) -> bool {
        self.extra >= 16
    }

    /// A time as this inode can hold it.
    pub fn rounded(&self, time: Time) -> Time {
        time::rounded(time, self.fine())
    }

    /// Contents and attributes changed.
    pub fn touch(&mut self, now: Time) {
        (self.mtime, self.ctime) = (self.rounded(now), self.rounded(now));
    }

    /// The root of the extents, as bytes.
    pub fn root(&self) -> [u8; ROOT_BYTES] {
        core::array::from_fn(|at| (self.block[at / 4] >> (at % 4 * 8)) as u8)
    }

    pub fn set_root(&mut self, bytes: &[u8; ROOT_BYTES]) {
        self.block = core::array::from_fn(|word| le32(bytes, 4 * word));
    }

    pub fn has_extents(&self) -> bool {
        self.flags & flags::EXTENTS != 0
    }

    pub fn is_inline(&self) -> bool {
        self.flags & flags::INLINE != 0
    }

    /// Whether a symbolic link's target lies in the inode itself.
    pub fn is_fast_link(&self, layout: &Layout) -> bool {
        let attributes = if self.attributes == 0 {
            0
        } else {
            layout.block / 512
        };
        // Values of attributes in inodes of their own count, too.
        let values = layout.incompat & incompat::EA_INODE != 0 && self.size < ROOT_BYTES as u64;
        self.kind() == Some(FileType::Symlink)
            && !self.has_extents()
            && !self.is_inline()
            && (self.units == attributes.into() || values)
    }

    /// Whether block pointers lead to contents.
    pub fn has_blocks(&self, layout: &Layout) -> bool {
        match self.kind() {
            _ if self.is_inline() => false,
            Some(FileType::File | FileType::Directory) => true,
            Some(FileType::Symlink) => !self.is_fast_link(layout),
            _ => false,
        }
    }

    /// A device's numbers, in the old form or the new.
    pub fn device(&self) -> (u32, u32) {
        match (self.kind(), self.block[0], self.block[1]) {
            (Some(FileType::Character | FileType::Block), 0, new) => {
                (new >> 8 & 0xFFF, new & 0xFF | new >> 12 & 0xF_FF00)
            }
            (Some(FileType::Character | FileType::Block), old, _) => (old >> 8 & 0xFF, old & 0xFF),
            _ => (0, 0),
        }
    }

    pub fn set_device(&mut self, (major, minor): (u32, u32)) {
        if major < 256 && minor < 256 {
            self.block[0] = major << 8 | minor;
        } else {
            self.block[1] = minor & 0xFF | (major & 0xFFF) << 8 | (minor & 0xF_FF00) << 12;
        }
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Where an inode lies: block and byte in it.
    pub(crate) fn inode_place(&self, inode: u32) -> (u32, usize) {
        let layout = &self.store.layout;
        let (group, index) = layout.inode_group(inode);
        let each = layout.block / layout.inode_size;
        (
            self.groups[group as usize].table + index / each,
            (index % each * layout.inode_size) as usize,
        )
    }

    /// What an inode's bytes say.
    pub(crate) fn inode(&mut self, inode: u32) -> Result<Inode, ExtError> {
        self.verify_inode(inode)?;
        let layout = self.store.layout;
        let (block, at) = self.inode_place(inode);
        let size = layout.inode_size as usize;
        let mut found = Inode::parse(&self.store.block(block)?[at..at + size], &layout);
        found.size = self.delayed.size(inode).unwrap_or(found.size);
        if found.flags & layout.foreign_flags() != 0 && found.links > 0 {
            let expected = "none of encrypt, extents, inline data and attribute value";
            return Err(ExtError::Inode {
                inode,
                field: "flags",
                found: found.flags.into(),
                expected,
            });
        }
        Ok(found)
    }

    /// Changes what an inode says.
    pub(crate) fn put_inode(&mut self, inode: u32, what: &Inode) -> Result<(), ExtError> {
        let what = &self.on_disk(inode, what);
        let bytes = self.inode_bytes_mut(inode)?;
        what.put(bytes);
        self.changed.insert(inode);
        self.pending.touch(inode, what);
        Ok(())
    }

    /// An inode as the medium gets it: its length does not cover contents that wait.
    fn on_disk(&mut self, inode: u32, what: &Inode) -> Inode {
        let size = self.delayed.set_size(inode, what.size);
        let size = size.filter(|_| !self.has_bug(SeededBug::DelayedSizeEarly));
        Inode {
            size: size.unwrap_or(what.size),
            ..*what
        }
    }

    /// Changes times only, which fdatasync does not wait for. An inode of 128 bytes has whole
    /// seconds: within one second, nothing becomes dirty, as in Linux (`s_time_gran`).
    pub(crate) fn put_times(&mut self, inode: u32, what: &Inode) -> Result<(), ExtError> {
        let what = &self.on_disk(inode, what);
        let (block, at) = self.inode_place(inode);
        let mut bytes = [0; FIELDS_BYTES];
        let size = self.store.layout.inode_size as usize;
        let bytes = &mut bytes[..size.min(FIELDS_BYTES)];
        let known = &self.store.block(block)?[at..at + bytes.len()];
        bytes.copy_from_slice(known);
        what.put(bytes);
        if bytes == known {
            return Ok(());
        }
        let bytes = self.inode_bytes_mut(inode)?;
        what.put(bytes);
        self.pending.touch(inode, what);
        Ok(())
    }

    /// An inode's bytes, to be changed.
    pub(crate) fn inode_bytes_mut(&mut self, inode: u32) -> Result<&mut [u8], ExtError> {
        if self.store.layout.has_sums() {
            self.unsealed.inodes.insert(inode);
        }
        let (block, at) = self.inode_place(inode);
        let size = self.store.layout.inode_size as usize;
        Ok(&mut self.store.edit(block, Class::Inode)?[at..at + size])
    }
}
