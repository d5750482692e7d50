//! Where on the device an error or a finding is.
//!
//! *Promises.* The first byte of the smallest structure that is meant, by arithmetic alone: nothing
//! is read. *Knows nothing of* what is wrong there.

use crate::{
    Ext, ExtError,
    finding::{Finding, Place},
    format::SUPER_AT,
};
use nandlab_block::BlockDevice;

impl<D: BlockDevice> Ext<D> {
    fn byte(&self, (block, at): (u32, usize)) -> u64 {
        u64::from(block) * u64::from(self.store.layout.block) + at as u64
    }

    fn inode_byte(&self, inode: u32) -> Option<u64> {
        (1..=self.store.layout.inodes)
            .contains(&inode)
            .then(|| self.byte(self.inode_place(inode)))
    }

    fn group_byte(&self, group: u32) -> u64 {
        self.byte(self.store.layout.desc_place(group))
    }

    /// The byte of the device where an error was met, if it is one place.
    pub fn place_of_error(&mut self, error: &ExtError) -> Option<u64> {
        match *error {
            ExtError::Device(error) => error.place(self.device_mut().geometry().sector),
            ExtError::Super { offset, .. } | ExtError::Unsupported { offset, .. } => {
                Some(SUPER_AT + u64::from(offset))
            }
            ExtError::Group { group, .. } => Some(self.group_byte(group)),
            ExtError::Inode { inode, .. } => self.inode_byte(inode),
            ExtError::Block { block, offset, .. } | ExtError::Checksum { block, offset, .. } => {
                Some(self.byte((block, offset as usize)))
            }
            ExtError::Call(_)
            | ExtError::Feature { .. }
            | ExtError::Sectors { .. }
            | ExtError::Journal(_)
            | ExtError::Failed => None,
        }
    }

    /// The byte of the device where a finding is, if it is one place.
    pub fn place_of(&mut self, finding: &Finding) -> Option<u64> {
        match *finding {
            Finding::InUse
            | Finding::Count {
                place: Place::Super,
                ..
            } => Some(SUPER_AT),
            Finding::Super { at, .. } => Some(SUPER_AT + u64::from(at)),
            Finding::Count {
                place: Place::Group(group),
                ..
            }
            | Finding::Unwritten { group, .. }
            | Finding::Padding { group, .. } => Some(self.group_byte(group)),
            Finding::Count {
                place: Place::Block(block),
                ..
            }
            | Finding::FreeBlock { block, .. }
            | Finding::Overlap { block }
            | Finding::CrossLink { block, .. } => Some(self.byte((block, 0))),
            Finding::LostBlocks { first, .. } => Some(self.byte((first, 0))),
            Finding::LostInodes { first: inode, .. }
            | Finding::Nameless { inode, .. }
            | Finding::Undated { inode }
            | Finding::Linked { inode, .. }
            | Finding::Unended { dir: inode, .. }
            | Finding::FreeInode { inode }
            | Finding::Stray { inode, .. }
            | Finding::Field { inode, .. }
            | Finding::Links { inode, .. }
            | Finding::TwoParents { inode, .. }
            | Finding::Dots { dir: inode, .. }
            | Finding::Adrift { inode } => self.inode_byte(inode),
            Finding::Mount { ref error } | Finding::Sum { ref error, .. } => {
                self.place_of_error(error)
            }
            Finding::Unreadable { inode, ref error } => self
                .place_of_error(error)
                .or_else(|| self.inode_byte(inode)),
            Finding::Dangling { block, offset, .. }
            | Finding::Type { block, offset, .. }
            | Finding::Name { block, offset, .. }
            | Finding::Twice { block, offset, .. }
            | Finding::Index { block, offset, .. } => Some(self.byte((block, offset as usize))),
        }
    }
}
