//! Brings checksums up to date before changes go to the medium, and verifies those of inodes.
//!
//! *Promises.* [`seal`](Ext::seal) leaves no structure with a checksum of earlier bytes; it changes
//! only blocks that are dirty already. *Knows nothing of* when blocks are written.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{desc, le32, put16},
    groups::Map,
    inode::Inode,
    sum::{self, Sum, Sums},
};
use alloc::collections::BTreeSet;
use nandlab_block::BlockDevice;

/// Structures with a change that their checksums do not have.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    pub inodes: BTreeSet<u32>,
    /// Groups with a change of the descriptor or of a bitmap.
    pub groups: BTreeSet<u32>,
}

/// Inodes with right checksums: a cache with one place for many numbers.
#[derive(Debug)]
pub(crate) struct Verified([u32; Self::PLACES]);

impl Default for Verified {
    fn default() -> Self {
        Self([0; Self::PLACES])
    }
}

impl Verified {
    const PLACES: usize = 256;

    fn place(&mut self, inode: u32) -> &mut u32 {
        &mut self.0[inode as usize % Self::PLACES]
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Verifies an inode's checksum, unless the cache has the inode.
    pub(crate) fn verify_inode(&mut self, inode: u32) -> Result<(), ExtError> {
        let needed = self.store.verify && self.store.layout.has_sums();
        if !needed || *self.verified.place(inode) == inode || self.unsealed.inodes.contains(&inode)
        {
            return Ok(());
        }
        self.check_inode_sum(inode)?;
        *self.verified.place(inode) = inode;
        Ok(())
    }

    /// Compares an inode with its checksum. One of zeros has none, as Linux has it.
    pub(crate) fn check_inode_sum(&mut self, inode: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let (block, at) = self.inode_place(inode);
        let bytes = &self.store.block(block)?[at..at + layout.inode_size as usize];
        let seed = layout.inode_seed(inode, le32(bytes, 100));
        let (expected, has_high) = sum::of_inode(seed, bytes);
        let found = sum::in_inode(bytes, has_high);
        if found == expected || bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(ExtError::Checksum {
            block,
            offset: at as u32,
            what: "an inode",
            found,
            expected,
        })
    }

    /// The kind of checksum of a directory's blocks; none on volumes without checksums.
    pub(crate) fn dir_sum(&mut self, number: u32) -> Result<Option<Sum>, ExtError> {
        if !self.store.layout.has_sums() {
            return Ok(None);
        }
        let inode = self.inode(number)?;
        Ok(self.sum_of_dir(number, &inode))
    }

    /// The same for a directory whose inode is not in its table yet.
    pub(crate) fn sum_of_dir(&self, number: u32, dir: &Inode) -> Option<Sum> {
        let layout = &self.store.layout;
        layout
            .has_sums()
            .then(|| Sum::Directory(layout.inode_seed(number, dir.generation)))
    }

    /// The kind of checksum of blocks of attributes.
    pub(crate) fn attribute_sum(&self) -> Option<Sum> {
        self.store.layout.has_sums().then_some(Sum::Attributes)
    }

    /// The kind of checksum of blocks of an inode's extents.
    pub(crate) fn extent_sum(&self, number: u32, generation: u32) -> Option<Sum> {
        let layout = &self.store.layout;
        layout
            .has_sums()
            .then(|| Sum::Extents(layout.inode_seed(number, generation)))
    }

    /// Brings all checksums up to date.
    pub(crate) fn seal(&mut self) -> Result<(), ExtError> {
        if self.store.layout.sums == Sums::None {
            return Ok(());
        }
        for inode in core::mem::take(&mut self.unsealed.inodes) {
            self.seal_inode(inode)?;
        }
        for group in core::mem::take(&mut self.unsealed.groups) {
            self.seal_group(group)?;
        }
        self.store.seal()
    }

    fn seal_inode(&mut self, inode: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let (block, at) = self.inode_place(inode);
        let bytes = self.store.edit(block, Class::Inode)?;
        let bytes = &mut bytes[at..at + layout.inode_size as usize];
        let seed = layout.inode_seed(inode, le32(bytes, 100));
        sum::put_inode(seed, bytes);
        Ok(())
    }

    /// The checksum of a bitmap; none on volumes without checksums.
    fn sum_of_bitmap(&mut self, group: u32, map: Map) -> Result<Option<u32>, ExtError> {
        let layout = self.store.layout;
        if !layout.has_sums() || self.groups[group as usize].is_unwritten(map) {
            return Ok(None);
        }
        let bits = match map {
            Map::Blocks => layout.per_group / layout.cluster,
            Map::Inodes => layout.inodes_per_group,
        };
        Ok(Some(layout.bitmap_sum(self.bitmap(group, map)?.1, bits)))
    }

    fn seal_group(&mut self, group: u32) -> Result<(), ExtError> {
        let layout = self.store.layout;
        let sums = [
            self.sum_of_bitmap(group, Map::Blocks)?,
            self.sum_of_bitmap(group, Map::Inodes)?,
        ];
        let (block, at) = layout.desc_place(group);
        let bytes = self.store.edit(block, Class::Counts)?;
        let bytes = &mut bytes[at..at + layout.desc as usize];
        put_bitmap_sums(bytes, sums);
        let sum = layout.desc_sum(group, bytes);
        put16(bytes, desc::CHECKSUM, sum);
        Ok(())
    }
}

/// Puts the checksums of bitmaps into a group's descriptor.
pub(crate) fn put_bitmap_sums(bytes: &mut [u8], sums: [Option<u32>; 2]) {
    let places = [
        (desc::BLOCK_SUM, desc::BLOCK_SUM_HIGH),
        (desc::INODE_SUM, desc::INODE_SUM_HIGH),
    ];
    for ((low, high), sum) in places.into_iter().zip(sums) {
        let Some(sum) = sum else { continue };
        put16(bytes, low, sum as u16);
        if bytes.len() > high {
            put16(bytes, high, (sum >> 16) as u16);
        }
    }
}
