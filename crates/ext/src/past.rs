//! Files that are no more: inodes that were given back and still say where their contents lay.
//!
//! *Promises.* Nothing is written. Linux's ext2 leaves the block pointers in an inode that it
//! gives back; ext3 and ext4 clear them, so that there is nothing to be had. Blocks that have been
//! given to others since are counted. *Knows nothing of* names: those lie in gaps of directories,
//! if anywhere.

use crate::{Ext, ExtError, groups::Map, inode::Inode};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{FileType, Time};

/// A file that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The number of the inode.
    pub inode: u32,
    /// When it went, in seconds since 1970.
    pub dtime: u32,
    /// Bytes of its contents.
    pub size: u64,
    /// The last change of the contents.
    pub mtime: Time,
    /// The permission bits of the inode.
    pub mode: u16,
    /// The user and group id.
    pub owner: (u32, u32),
    /// Bytes whose blocks belong to others now.
    pub reused: u64,
}

impl<D: BlockDevice> Ext<D> {
    /// All files that are no more and still have blocks.
    pub fn deleted(&mut self) -> Result<Vec<Deleted>, ExtError> {
        let layout = self.store.layout;
        let mut all = Vec::new();
        for number in layout.first_inode..=layout.inodes {
            let Ok(inode) = self.inode(number) else {
                continue;
            };
            if !is_deleted(&inode) {
                continue;
            }
            let mut reused = 0;
            // Block pointers that lead nowhere: the inode has been used for something else.
            if self
                .each_part(number, &inode, &mut |_, block, bytes| {
                    reused += if block { bytes } else { 0 }
                })
                .is_err()
            {
                continue;
            }
            let mode = inode.mode & 0o7777;
            let owner = (inode.uid, inode.gid);
            all.push(Deleted {
                inode: number,
                dtime: inode.dtime,
                size: inode.size,
                mtime: inode.mtime,
                mode,
                owner,
                reused,
            });
        }
        Ok(all)
    }

    /// Parts of a file that have blocks: where they begin, whether the block is in use, how many
    /// bytes.
    fn each_part(
        &mut self,
        number: u32,
        inode: &Inode,
        each: &mut dyn FnMut(u64, bool, u64),
    ) -> Result<(), ExtError> {
        let size = u64::from(self.store.layout.block);
        let mut index = 0u64;
        let mut steps = 0u64;
        while index * size < inode.size {
            let most = (inode.size.div_ceil(size) - index).min(u32::MAX.into()) as u32;
            let at = u32::try_from(index).map_err(|_| nandlab_vfs::Errno::FileTooBig)?;
            let found = self.mapped(number, inode, at, most)?;
            if found.block != 0 {
                for block in found.block..found.block.saturating_add(found.run) {
                    let start = index * size;
                    each(start, self.is_taken(block)?, size.min(inode.size - start));
                    index += 1;
                }
            } else {
                index += u64::from(found.run.max(1));
            }
            steps += if found.block == 0 {
                1
            } else {
                u64::from(found.run)
            };
            // A file with more blocks, or indirect blocks, than the volume is none.
            if steps > 4 * u64::from(self.store.layout.blocks) + 4096 {
                return Err(nandlab_vfs::Errno::Loop.into());
            }
        }
        Ok(())
    }

    fn is_taken(&mut self, block: u32) -> Result<bool, ExtError> {
        let layout = self.store.layout;
        let Some(at) = block.checked_sub(layout.first) else {
            return Ok(true);
        };
        let group = at / layout.per_group;
        if group >= layout.groups {
            return Ok(true);
        }
        let bit = at % layout.per_group / layout.cluster;
        let bytes = self.bitmap(group, Map::Blocks)?.1;
        Ok(bytes[bit as usize / 8] >> (bit % 8) & 1 == 1)
    }

    /// Reads what the blocks of such a file hold now; gives the bytes read.
    pub fn read_deleted(
        &mut self,
        deleted: &Deleted,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, ExtError> {
        self.read_file(deleted.inode, offset, buf)
    }
}

/// Whether an inode is that of a deleted file that still leads to its blocks.
fn is_deleted(inode: &Inode) -> bool {
    let file = inode.kind() == Some(FileType::File) && inode.links == 0 && inode.dtime != 0;
    file && inode.size != 0 && inode.block.iter().any(|block| *block != 0)
}
