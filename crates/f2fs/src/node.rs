//! Nodes: inodes and the blocks that list blocks, found by number, written to new places.
//!
//! *Promises.* A node that does not say its own number, or an inode whose parts would not fit into
//! it, is an error and never used. *Knows nothing of* the shape of files' trees.

use crate::{
    F2fs, F2fsError, Layout,
    disk::zeros,
    format::{
        INODE_SLOTS, NEW, NULL, crc, footer, inode, is_placed, le16, le32, le64, node_offset,
        put32, put64,
    },
    summary::Owner,
    superblock::feature,
};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType, Time};

/// Where the parts of an inode lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes between the fields that every inode has and the addresses.
    pub extra: usize,
    /// The number of block addresses.
    pub slots: u32,
    /// Units of 4 bytes for attributes, behind the addresses.
    pub xattr: u32,
}

impl Shape {
    pub fn of(bytes: &[u8], layout: &Layout) -> Self {
        let flags = bytes[inode::INLINE];
        let extra = extra_bytes(bytes);
        let xattr = match extra {
            4.. if layout.has(feature::FLEXIBLE_XATTR) => {
                u32::from(le16(bytes, inode::XATTR_SLOTS))
            }
            _ if flags & (inode::INLINE_XATTR | inode::INLINE_DENTRY) != 0 => {
                inode::DEFAULT_XATTR_SLOTS
            }
            _ => 0,
        };
        Self {
            extra,
            slots: INODE_SLOTS.saturating_sub(extra as u32 / 4 + xattr),
            xattr,
        }
    }

    /// Where the addresses begin.
    pub fn slots_at(&self) -> usize {
        inode::SLOTS + self.extra
    }

    /// Where contents that lie in the inode begin: the first address stays free.
    pub fn inline_at(&self) -> usize {
        self.slots_at() + 4
    }

    /// Bytes of contents that fit into the inode.
    pub fn inline_max(&self) -> usize {
        4 * (self.slots as usize - 1)
    }

    /// Where attributes in the inode begin.
    pub fn xattr_at(&self) -> usize {
        inode::SLOTS + 4 * (INODE_SLOTS - self.xattr) as usize
    }

    pub fn xattr_bytes(&self) -> usize {
        4 * self.xattr as usize
    }
}

/// Bytes between the fields that every inode has and the addresses.
pub(crate) fn extra_bytes(bytes: &[u8]) -> usize {
    match bytes[inode::INLINE] & inode::EXTRA_ATTR {
        0 => 0,
        _ => le16(bytes, inode::EXTRA_SIZE).into(),
    }
}

/// The checksum of an inode.
fn checksum(bytes: &[u8], layout: &Layout) -> u32 {
    let seed = crc(!0, &layout.uuid);
    let seed = crc(
        crc(seed, &bytes[footer::INO..footer::INO + 4]),
        &bytes[inode::GENERATION..inode::GENERATION + 4],
    );
    crc(
        crc(crc(seed, &bytes[..inode::CHECKSUM]), &[0; 4]),
        &bytes[inode::CHECKSUM + 4..],
    )
}

fn has_checksum(bytes: &[u8], layout: &Layout) -> bool {
    extra_bytes(bytes) >= 12 && layout.has(feature::INODE_CHECKSUM)
}

/// Judges a node that was read.
pub(crate) fn check(bytes: &[u8], nid: u32, layout: &Layout) -> Result<(), F2fsError> {
    let fail = |field, found: u64, expected| {
        Err(F2fsError::Node {
            nid,
            field,
            found,
            expected,
        })
    };
    if le32(bytes, footer::NID) != nid {
        return fail(
            "number in its footer",
            le32(bytes, footer::NID).into(),
            "its own",
        );
    }
    if le32(bytes, footer::INO) != nid {
        return Ok(());
    }
    let extra = extra_bytes(bytes);
    if !extra.is_multiple_of(4) || extra > 64 {
        return fail(
            "bytes of extra attributes",
            extra as u64,
            "a multiple of 4, at most 64",
        );
    }
    let shape = Shape::of(bytes, layout);
    if shape.slots < 12 {
        return fail("space for attributes", shape.xattr.into(), "less");
    }
    if has_checksum(bytes, layout) && le32(bytes, inode::CHECKSUM) != checksum(bytes, layout) {
        return fail(
            "checksum",
            le32(bytes, inode::CHECKSUM).into(),
            "that of its bytes",
        );
    }
    if FileType::from_mode(le16(bytes, inode::MODE)).is_none() {
        return fail(
            "mode",
            le16(bytes, inode::MODE).into(),
            "a mode with a known type",
        );
    }
    if bytes[inode::INLINE] & inode::INLINE_DATA != 0
        && le64(bytes, inode::SIZE) > shape.inline_max() as u64
    {
        return fail(
            "length of contents in the inode",
            le64(bytes, inode::SIZE),
            "what fits",
        );
    }
    Ok(())
}

impl<D: BlockDevice> F2fs<D> {
    fn load_node(&mut self, nid: u32) -> Result<(), F2fsError> {
        if self.nodes.has(nid) {
            return Ok(());
        }
        let entry = self.nat_entry(nid)?;
        if !is_placed(entry.addr) || self.layout.place(entry.addr).is_none() {
            return Err(F2fsError::Node {
                nid,
                field: "address",
                found: entry.addr.into(),
                expected: "a block of the main area",
            });
        }
        let block = self.disk.read(entry.addr)?;
        check(&block, nid, &self.layout)?;
        self.nodes.keep(nid, block);
        Ok(())
    }

    pub(crate) fn node(&mut self, nid: u32) -> Result<&[u8], F2fsError> {
        self.load_node(nid)?;
        self.nodes.get(nid).ok_or(F2fsError::Failed)
    }

    /// A node to be changed.
    pub(crate) fn node_mut(&mut self, nid: u32) -> Result<&mut [u8], F2fsError> {
        self.load_node(nid)?;
        let now = self.time();
        self.nodes.edit(nid, now).ok_or(F2fsError::Failed)
    }

    /// A node to be moved, or to be changed in what an fdatasync may leave out.
    pub(crate) fn node_mut_lightly(&mut self, nid: u32) -> Result<&mut [u8], F2fsError> {
        self.load_node(nid)?;
        let now = self.time();
        self.nodes.edit_lightly(nid, now).ok_or(F2fsError::Failed)
    }

    pub(crate) fn inode(&mut self, ino: u32) -> Result<&[u8], F2fsError> {
        let bytes = self.node(ino)?;
        let owner = le32(bytes, footer::INO);
        if owner != ino {
            return Err(F2fsError::Node {
                nid: ino,
                field: "owner",
                found: owner.into(),
                expected: "itself: an inode",
            });
        }
        Ok(bytes)
    }

    pub(crate) fn shape(&mut self, ino: u32) -> Result<Shape, F2fsError> {
        self.inode(ino)?;
        let Self { nodes, layout, .. } = self;
        Ok(Shape::of(nodes.get(ino).ok_or(F2fsError::Failed)?, layout))
    }

    /// So many more blocks come into use.
    pub(crate) fn reserve(&mut self, blocks: u64) -> Result<(), F2fsError> {
        if self.checkpoint.valid_blocks + blocks > self.checkpoint.user_blocks {
            return Err(Errno::NoSpace.into());
        }
        self.checkpoint.valid_blocks += blocks;
        Ok(())
    }

    pub(crate) fn unreserve(&mut self, blocks: u64) {
        self.checkpoint.valid_blocks = self.checkpoint.valid_blocks.saturating_sub(blocks);
    }

    /// An inode has so many blocks more or fewer.
    pub(crate) fn count_blocks(&mut self, ino: u32, change: i64) -> Result<(), F2fsError> {
        let bytes = self.node_mut(ino)?;
        let blocks = le64(bytes, inode::BLOCKS).saturating_add_signed(change);
        put64(bytes, inode::BLOCKS, blocks);
        Ok(())
    }

    /// A new node of zeros at a place in a file's tree; an inode if it has no `ino` yet.
    pub(crate) fn new_node(
        &mut self,
        ino: Option<u32>,
        offset: u32,
        directory: bool,
    ) -> Result<u32, F2fsError> {
        self.reserve(1)?;
        let nid = match self.free_nid() {
            Ok(nid) => nid,
            Err(error) => {
                self.unreserve(1);
                return Err(error);
            }
        };
        self.place_node(nid, ino.unwrap_or(nid), offset, directory)?;
        if let Some(ino) = ino {
            self.count_blocks(ino, 1)?;
        }
        Ok(nid)
    }

    /// A node of zeros under a number that is free; its block has been reserved.
    pub(crate) fn place_node(
        &mut self,
        nid: u32,
        ino: u32,
        offset: u32,
        directory: bool,
    ) -> Result<(), F2fsError> {
        let mut block = zeros();
        put32(&mut block, footer::NID, nid);
        put32(&mut block, footer::INO, ino);
        put32(
            &mut block,
            footer::FLAG,
            offset << footer::OFFSET_SHIFT | u32::from(!directory),
        );
        self.set_nat(nid, ino, NEW)?;
        self.checkpoint.nodes += 1;
        self.checkpoint.inodes += u32::from(nid == ino);
        let now = self.time();
        self.nodes.put(nid, block, now);
        Ok(())
    }

    /// A node is not needed any more.
    pub(crate) fn free_node(&mut self, nid: u32, ino: u32) -> Result<(), F2fsError> {
        let entry = self.nat_entry(nid)?;
        if is_placed(entry.addr) {
            self.release(entry.addr)?;
        }
        self.set_nat(nid, 0, NULL)?;
        self.nodes.forget(nid);
        self.unreserve(1);
        self.checkpoint.nodes = self.checkpoint.nodes.saturating_sub(1);
        if nid == ino {
            self.checkpoint.inodes = self.checkpoint.inodes.saturating_sub(1);
            return Ok(());
        }
        // A roll-forward cannot tell that a node has gone.
        self.needs_checkpoint.insert(ino);
        self.count_blocks(ino, -1)
    }

    /// Writes a node to the next place of its log; with `marks` of an fsync.
    pub(crate) fn write_node(&mut self, nid: u32, marks: u32) -> Result<(), F2fsError> {
        let bytes = self.node(nid)?;
        let flags = le32(bytes, footer::FLAG) & !(footer::FSYNC | footer::DENTRY) | marks;
        let ino = le32(bytes, footer::INO);
        let offset = node_offset(bytes);
        let log = self.node_log(offset, flags & footer::COLD != 0);
        let old = self.nat_entry(nid)?.addr;
        let addr = self.allocate(
            log,
            Owner {
                nid,
                version: 0,
                slot: 0,
            },
        )?;
        let mark = self.checkpoint.mark();
        let next = self.next_addr(log).unwrap_or(NULL);
        let now = self.time();
        let Self {
            nodes,
            layout,
            disk,
            ..
        } = self;
        let bytes = nodes.edit(nid, now).ok_or(F2fsError::Failed)?;
        put32(bytes, footer::FLAG, flags);
        put64(bytes, footer::VERSION, mark);
        put32(bytes, footer::NEXT, next);
        if nid == ino && has_checksum(bytes, layout) {
            let sum = checksum(bytes, layout);
            put32(bytes, inode::CHECKSUM, sum);
        }
        disk.write_log(log, addr, bytes)?;
        if is_placed(old) {
            self.release(old)?;
        }
        self.set_nat(nid, ino, addr)?;
        self.nodes.mark_clean(nid);
        Ok(())
    }
}

/// One of the three times that every inode has, by the offsets of its halves.
pub(crate) fn time(bytes: &[u8], secs: usize, nanos: usize) -> Time {
    Time {
        secs: le64(bytes, secs) as i64,
        nanos: le32(bytes, nanos).min(999_999_999),
    }
}

pub(crate) fn put_time(bytes: &mut [u8], secs: usize, nanos: usize, time: Time) {
    put64(bytes, secs, time.secs as u64);
    put32(bytes, nanos, time.nanos);
}

/// The contents changed now.
pub(crate) fn touch(bytes: &mut [u8], now: Time) {
    put_time(bytes, inode::MTIME, inode::MTIME_NANOS, now);
    put_time(bytes, inode::CTIME, inode::CTIME_NANOS, now);
}

pub(crate) fn kind(bytes: &[u8]) -> Option<FileType> {
    FileType::from_mode(le16(bytes, inode::MODE))
}
