//! What the log still holds of the past: inodes as they once were, and the contents that they led
//! to.
//!
//! *Promises.* Every block of the main area is read once; only what passes for an inode counts.
//! Contents are those in the inode and those of the addresses in it, as long as their blocks have
//! not been given to others since: what further nodes once said is not known. Nothing is written.
//! *Knows nothing of* names in directories: an inode has the name that it was made with.

use crate::{
    F2fs, F2fsError,
    format::{NULL, SEGMENT, footer, inode, is_placed, le16, le32, le64},
    node::{Shape, check, time},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::Time;

/// An inode as it was when a block was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The inode number of the version.
    pub ino: u32,
    /// The block, in blocks from the beginning of the volume.
    pub addr: u32,
    /// The checkpoint after which it was written, its lower 32 bits.
    pub checkpoint: u32,
    /// Whether it is the inode as it is now.
    pub current: bool,
    /// The directory in which it was made or moved.
    pub parent: u32,
    /// The name that the inode itself holds.
    pub name: Vec<u8>,
    /// Bytes of its contents.
    pub size: u64,
    /// File type and permission bits.
    pub mode: u16,
    /// The number of names that the inode had.
    pub links: u32,
    /// When its contents changed.
    pub mtime: Time,
}

impl<D: BlockDevice> F2fs<D> {
    /// Gives every inode that is anywhere in the main area, in the order of blocks.
    pub fn versions(&mut self, each: &mut dyn FnMut(&Version)) -> Result<(), F2fsError> {
        for segment in 0..self.layout.segments_main {
            for at in 0..SEGMENT {
                let addr = self.layout.start(segment) + at;
                if let Some(version) = self.version_at(addr)? {
                    each(&version);
                }
            }
        }
        Ok(())
    }

    fn version_at(&mut self, addr: u32) -> Result<Option<Version>, F2fsError> {
        let bytes = self.disk.read(addr)?;
        let ino = le32(&bytes, footer::INO);
        let name = usize::from(le32(&bytes, inode::NAME_LEN).min(u16::MAX.into()) as u16);
        let inode = ino != 0
            && le32(&bytes, footer::NID) == ino
            && le32(&bytes, footer::FLAG) >> footer::OFFSET_SHIFT == 0
            && name <= 255;
        if !inode || check(&bytes, ino, &self.layout).is_err() {
            return Ok(None);
        }
        let current = self.nat_entry(ino).is_ok_and(|entry| entry.addr == addr);
        Ok(Some(Version {
            ino,
            addr,
            checkpoint: le64(&bytes, footer::VERSION) as u32,
            current,
            parent: le32(&bytes, inode::PARENT),
            name: bytes[inode::NAME..inode::NAME + name].to_vec(),
            size: le64(&bytes, inode::SIZE),
            mode: le16(&bytes, inode::MODE),
            links: le32(&bytes, inode::LINKS),
            mtime: time(&bytes, inode::MTIME, inode::MTIME_NANOS),
        }))
    }

    /// Gives the contents that a version led to, as far as they are still there: place in the file
    /// and bytes. Holes are left out. Gives how many bytes are not to be had.
    pub fn contents_of(
        &mut self,
        version: &Version,
        each: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<u64, F2fsError> {
        let bytes = self.disk.read(version.addr)?;
        check(&bytes, version.ino, &self.layout)?;
        let shape = Shape::of(&bytes, &self.layout);
        let size = version.size;
        let block = bytes.len() as u64;
        if bytes[inode::INLINE] & inode::INLINE_DATA != 0 {
            each(
                0,
                &bytes[shape.inline_at()
                    ..shape.inline_at() + (size as usize).min(shape.inline_max())],
            );
            return Ok(0);
        }
        let mut lost = 0;
        let direct = u64::from(shape.slots).min(size.div_ceil(block)) as u32;
        for index in 0..direct {
            let addr = le32(&bytes, shape.slots_at() + 4 * index as usize);
            let at = u64::from(index) * block;
            let part = block.min(size - at);
            match addr {
                NULL => {}
                addr if is_placed(addr) && self.is_still_of(addr, version.ino)? => {
                    let data = self.disk.read(addr)?;
                    each(at, &data[..part as usize]);
                }
                // A block that was promised and never written is zeros.
                addr if !is_placed(addr) => {}
                _ => lost += part,
            }
        }
        let behind = size.saturating_sub(u64::from(shape.slots) * block);
        let further = (0..5).any(|slot| le32(&bytes, inode::NIDS + 4 * slot) != 0);
        Ok(lost + if further { behind } else { 0 })
    }

    /// Whether a block's summary still names the file.
    fn is_still_of(&mut self, addr: u32, ino: u32) -> Result<bool, F2fsError> {
        let Some((segment, at)) = self.layout.place(addr) else {
            return Ok(false);
        };
        Ok(self.owners_of(segment)?[at].nid == ino)
    }
}
