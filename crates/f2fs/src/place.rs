//! Where on the device an error or a finding is.
//!
//! *Promises.* The first byte of the block that is meant, or of what is wrong in it; none where the
//! tables cannot tell any more. *Knows nothing of* what is wrong there.

use crate::{
    F2fs, F2fsError,
    finding::Finding,
    format::{BLOCK, NAT_ENTRIES},
    summary::NatEntry,
    superblock,
};
use nandlab_block::BlockDevice;

fn byte(block: u32) -> u64 {
    u64::from(block) * BLOCK as u64
}

impl<D: BlockDevice> F2fs<D> {
    /// Where a node lies, as the table has it.
    fn node_byte(&mut self, nid: u32) -> Option<u64> {
        let addr = self.nat_entry(nid).ok()?.addr;
        self.layout.place(addr).map(|_| byte(addr))
    }

    /// Where the table has a node's entry.
    fn entry_byte(&self, nid: u32) -> u64 {
        let at = (nid % NAT_ENTRIES) as usize * NatEntry::BYTES;
        byte(self.nat_addr(nid / NAT_ENTRIES, false)) + at as u64
    }

    /// Where a block of names lies: in the inode if that has them.
    fn names_byte(&mut self, dir: u32, index: u32) -> Option<u64> {
        if self.has_inline_names(dir).ok()? {
            return self.node_byte(dir);
        }
        let addr = self.slot(dir, index, false).ok()??.addr;
        self.layout.place(addr).map(|_| byte(addr))
    }

    /// The byte of the device where an error was met, if it is one place.
    pub fn place_of_error(&mut self, error: &F2fsError) -> Option<u64> {
        match *error {
            F2fsError::Device(error) => error.place(self.disk.device.geometry().sector),
            F2fsError::Super { offset, .. } => {
                Some((superblock::OFFSET + usize::from(offset)) as u64)
            }
            F2fsError::NoCheckpoint { first, .. } => Some(byte(first)),
            F2fsError::Block { block, offset, .. } => Some(byte(block) + u64::from(offset)),
            F2fsError::Node { nid, .. } => self.node_byte(nid),
            F2fsError::Sealed { ino, .. } => self.node_byte(ino),
            F2fsError::Entry { dir, index, .. } => self.names_byte(dir, index),
            F2fsError::Call(_)
            | F2fsError::Feature { .. }
            | F2fsError::OnlyRead { .. }
            | F2fsError::Sectors { .. }
            | F2fsError::Failed => None,
        }
    }

    /// The byte of the device where a finding is, if it is one place.
    pub fn place_of(&mut self, finding: &Finding) -> Option<u64> {
        match *finding {
            Finding::InUse | Finding::Count { .. } | Finding::Orphan { .. } => {
                Some(byte(self.checkpoint.start(&self.layout)))
            }
            Finding::Quota { .. } => Some(superblock::OFFSET as u64),
            Finding::Super { block, ref error } => {
                let fields = match error {
                    F2fsError::Super { .. } => byte(block),
                    _ => 0,
                };
                Some(fields + self.place_of_error(error)?)
            }
            Finding::Unreadable { nid, ref error } => {
                self.place_of_error(error).or_else(|| self.node_byte(nid))
            }
            Finding::CrossLink { addr, .. }
            | Finding::Invalid { addr, .. }
            | Finding::Summary { addr, .. } => Some(byte(addr)),
            Finding::Type { segment, .. } => Some(byte(self.layout.start(segment))),
            Finding::LostBlocks { first, .. } | Finding::Pack { first } => Some(byte(first)),
            Finding::Table { nid, .. } => Some(self.entry_byte(nid)),
            Finding::Stray { nid, .. }
            | Finding::LostNode { nid }
            | Finding::Nameless { ino: nid }
            | Finding::Field { ino: nid, .. }
            | Finding::Links { ino: nid, .. }
            | Finding::Name { dir: nid, .. }
            | Finding::Twice { dir: nid, .. }
            | Finding::Dangling { dir: nid, .. } => self.node_byte(nid),
            Finding::Entry { dir, index, .. } => self.names_byte(dir, index),
        }
    }
}
