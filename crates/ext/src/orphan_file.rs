//! The file of orphans (`orphan_file`, Linux `fs/ext4/orphan.c`): slots with the numbers of inodes,
//! beside the list.
//!
//! *Promises.* The transaction that ends an inode clears its slot. This mount puts no inode
//! into a slot: the list is enough.

use crate::{
    Ext, ExtError,
    cache::Class,
    check::Walk,
    format::{compat, le32, put32, sb},
    groups::Map,
    inode::Inode,
    sum::{ORPHAN_MAGIC, Sum},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;

/// Bytes behind the slots of a block: magic and checksum.
const TAIL: usize = 8;

impl<D: BlockDevice> Ext<D> {
    /// The blocks of the file, with the kind of their checksum.
    fn orphan_blocks(&mut self) -> Result<(Vec<u32>, Option<Sum>), ExtError> {
        if !self.store.layout.has(compat::ORPHAN_FILE) {
            return Ok((Vec::new(), None));
        }
        let number = le32(self.store.superblock()?, sb::ORPHAN_FILE);
        let layout = self.store.layout;
        if !(1..=layout.inodes).contains(&number) {
            return Err(ExtError::Super {
                offset: sb::ORPHAN_FILE as u16,
                field: "inode of the orphan file",
                found: number,
                expected: "an inode of the volume",
            });
        }
        let inode = self.inode(number)?;
        let blocks = self.blocks_of_orphans(number, &inode)?;
        let seed = layout.inode_seed(number, inode.generation);
        Ok((blocks, layout.has_sums().then_some(Sum::Orphans(seed))))
    }

    fn blocks_of_orphans(&mut self, number: u32, inode: &Inode) -> Result<Vec<u32>, ExtError> {
        let layout = self.store.layout;
        let count = (inode.size / u64::from(layout.block)).min(layout.blocks.into()) as u32;
        let mut blocks = Vec::new();
        for index in 0..count {
            match self.mapped(number, inode, index, 1)?.block {
                0 => {
                    return Err(ExtError::Inode {
                        inode: number,
                        field: "block of the orphan file",
                        found: 0,
                        expected: "no hole",
                    });
                }
                block => blocks.push(block),
            }
        }
        Ok(blocks)
    }

    fn check_orphan_block(&mut self, block: u32, sum: Option<Sum>) -> Result<(), ExtError> {
        let at = self.store.layout.size() - TAIL;
        let found = le32(self.store.block_of(block, sum)?, at);
        match found {
            ORPHAN_MAGIC => Ok(()),
            _ => Err(ExtError::Block {
                block,
                offset: at as u32,
                field: "magic of orphans",
                found: found.into(),
                expected: "0xb10ca04",
            }),
        }
    }

    /// Ends the inodes that the file lists.
    pub(crate) fn end_filed_orphans(&mut self) -> Result<(), ExtError> {
        let (blocks, sum) = self.orphan_blocks()?;
        let end = self.store.layout.size() - TAIL;
        for block in blocks {
            self.check_orphan_block(block, sum)?;
            for at in (0..end).step_by(4) {
                let number = le32(self.store.block_of(block, sum)?, at);
                if number == 0 {
                    continue;
                }
                self.mark_in_use()?;
                if self.is_inode_taken(number)? {
                    self.end_orphan(number)?;
                }
                put32(self.store.edit_of(block, Class::Inode, sum)?, at, 0);
                self.reserve_call()?;
            }
        }
        Ok(())
    }

    pub(crate) fn is_inode_taken(&mut self, inode: u32) -> Result<bool, ExtError> {
        let layout = self.store.layout;
        if !(layout.first_inode..=layout.inodes).contains(&inode) {
            return Ok(false);
        }
        let (group, within) = layout.inode_group(inode);
        let bytes = self.bitmap(group, Map::Inodes)?.1;
        Ok(bytes[within as usize / 8] >> (within % 8) & 1 == 1)
    }

    /// Every block of the file has the magic, and the checksum of its slots.
    pub(crate) fn check_orphan_file(&mut self, walk: &mut Walk) -> Result<(), ExtError> {
        let (blocks, sum) = match self.orphan_blocks() {
            Err(error) if error.is_damage() => return Self::unreadable(walk, 0, Err(error)),
            // The check of the superblock has that.
            Err(ExtError::Super { .. }) => return Ok(()),
            found => found?,
        };
        let number = le32(self.store.superblock()?, sb::ORPHAN_FILE);
        for block in blocks {
            let outcome = self.check_orphan_block(block, sum);
            Self::unreadable(walk, number, outcome)?;
            if let Some(sum) = sum {
                let outcome = self.store.verify_sum(block, sum);
                Self::unreadable(walk, number, outcome)?;
            }
        }
        Ok(())
    }
}
