//! What a mount does first on a volume whose last one ended in a crash: the journal is recovered, and orphans are ended.
//!
//! *Promises.* Done twice, it does the same. The journal is empty afterwards, and the volume says so. A list of orphans that makes no sense is left for a
//! check. *Knows nothing of* the journal's format: `jbd` does.

use crate::{
    Ext, ExtError, Options,
    format::{JOURNAL_INODE, STATE_ERRORS, incompat, le16, le32, put16, put32, ro_compat, sb},
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_jbd::{Journal, Map};

/// Recovers the journal if the volume asks for it and may be written; gives the device back.
pub(crate) fn recover<D: BlockDevice>(device: D, options: Options) -> Result<D, ExtError> {
    let mut ext = Ext::open(device, Options { read_only: true, ..options })?;
    let layout = *ext.layout();
    if layout.incompat & incompat::RECOVER == 0 || layout.ro_compat & !ro_compat::KNOWN != 0 {
        return Ok(ext.into_device());
    }
    let map = ext.journal_map()?;
    let journal = Journal::load(ext.into_device(), map, layout.block, nandlab_jbd::Options::default())?;
    let error = journal.error();
    let mut ext = Ext::open(journal.close()?, options)?;
    let bytes = ext.store.superblock_mut()?;
    let (features, state) = (le32(bytes, sb::INCOMPAT), le16(bytes, sb::STATE));
    put32(bytes, sb::INCOMPAT, features & !incompat::RECOVER);
    put16(bytes, sb::STATE, if error == 0 { state } else { state | STATE_ERRORS });
    ext.write_super()?;
    Ok(ext.into_device())
}

impl<D: BlockDevice> Ext<D> {
    /// Where the journal's blocks lie.
    fn journal_map(&mut self) -> Result<Map, ExtError> {
        let number = le32(self.store.superblock()?, sb::JOURNAL_INODE);
        if number != JOURNAL_INODE {
            return Err(ExtError::Super { offset: sb::JOURNAL_INODE as u16, field: "journal", found: number, expected: "inode 8" });
        }
        let inode = self.inode(number)?;
        let blocks = (inode.size / u64::from(self.store.layout.block)).min(self.store.layout.blocks.into()) as u32;
        let (mut homes, mut index) = (Vec::new(), 0);
        while index < blocks {
            let found = self.mapped(number, &inode, index, blocks - index)?;
            if found.block == 0 {
                let expected = "no hole in the journal";
                return Err(ExtError::Inode { inode: number, field: "block", found: 0, expected });
            }
            homes.push((found.block, found.run));
            index += found.run;
        }
        let all = homes.into_iter().flat_map(|(first, run)| (first..first + run).map(u64::from));
        Ok(all.take(blocks as usize).collect())
    }

    /// Ends inodes that a crash has left without a name, and cuts those that were being cut.
    pub(crate) fn end_orphans(&mut self) -> Result<(), ExtError> {
        let mut next = le32(self.store.superblock()?, sb::LAST_ORPHAN);
        if next == 0 {
            return Ok(());
        }
        self.mark_in_use()?;
        let layout = self.store.layout;
        // Each is met once, or the list goes in a circle.
        for _ in 0..layout.inodes {
            if !(layout.first_inode..=layout.inodes).contains(&next) {
                break;
            }
            next = self.end_orphan(next)?;
        }
        put32(self.store.superblock_mut()?, sb::LAST_ORPHAN, 0);
        self.sync_all()
    }

    /// Ends one; gives the next.
    fn end_orphan(&mut self, number: u32) -> Result<u32, ExtError> {
        let mut inode = self.inode(number)?;
        let next = core::mem::take(&mut inode.dtime);
        if inode.links == 0 {
            self.destroy(number)?;
        } else {
            let blocks = inode.size.div_ceil(u64::from(self.store.layout.block)).min(u32::MAX.into()) as u32;
            self.put_inode(number, &inode)?;
            if inode.has_blocks(&self.store.layout) {
                self.trim(number, &mut inode, blocks)?;
                self.zero_tail(number, &inode)?;
            }
        }
        Ok(next)
    }
}
