//! Orphans: inodes that a crash must not leave as they are, in a list on the medium
//! (`fs/ext3/namei.c`).
//!
//! *Promises.* With a journal, the list holds each inode without names and each that is being
//! truncated. It does so from the transaction that makes it so until the one in which its blocks
//! are free. Without one, a list that a crash has left is carried out, and none is made.
//!
//! The superblock has the first, the field for the time of deletion the next of each.

use crate::{
    Ext, ExtError,
    format::{le32, put32, sb},
    inode::Inode,
};
use alloc::{collections::BTreeSet, vec::Vec};
use nandlab_block::BlockDevice;

impl<D: BlockDevice> Ext<D> {
    /// Puts an inode into the list; false if there is no need to, or it is there. The caller puts
    /// the inode.
    pub(crate) fn add_orphan(&mut self, number: u32, inode: &mut Inode) -> Result<bool, ExtError> {
        if !self.is_journaled() || self.orphans.contains(&number) {
            return Ok(false);
        }
        inode.dtime = self.orphans.last().copied().unwrap_or(0);
        self.orphans.push(number);
        put32(self.store.superblock_mut()?, sb::LAST_ORPHAN, number);
        Ok(true)
    }

    /// Takes an inode out of the list, if it is there; the caller puts the inode.
    pub(crate) fn drop_orphan(&mut self, number: u32, inode: &mut Inode) -> Result<(), ExtError> {
        let Some(at) = self.orphans.iter().position(|orphan| *orphan == number) else {
            return Ok(());
        };
        let next = at.checked_sub(1).map_or(0, |at| self.orphans[at]);
        self.orphans.remove(at);
        inode.dtime = 0;
        match self.orphans.get(at).copied() {
            None => put32(self.store.superblock_mut()?, sb::LAST_ORPHAN, next),
            Some(before) => {
                let mut before_it = self.inode(before)?;
                before_it.dtime = next;
                self.put_inode(before, &before_it)?;
            }
        }
        Ok(())
    }

    /// Ends inodes that a crash has left without a name, and cuts those that were being cut. A list
    /// that makes no sense is followed as far as it does.
    pub(crate) fn end_orphans(&mut self) -> Result<(), ExtError> {
        let first = le32(self.store.superblock()?, sb::LAST_ORPHAN);
        if first == 0 {
            self.end_filed_orphans()?;
            return if self.store.cache.dirty_count() > 0 {
                self.sync_all()
            } else {
                Ok(())
            };
        }
        self.mark_in_use()?;
        self.orphans = self.read_orphans(first)?;
        while let Some(number) = self.orphans.last().copied() {
            self.end_orphan(number)?;
            // One that was not freed would be met again without end.
            self.orphans.retain(|orphan| *orphan != number);
            self.reserve_call()?;
        }
        self.end_filed_orphans()?;
        if le32(self.store.superblock()?, sb::LAST_ORPHAN) != 0 {
            put32(self.store.superblock_mut()?, sb::LAST_ORPHAN, 0);
        }
        self.sync_all()
    }

    /// The list from its first, which comes last here.
    pub(crate) fn read_orphans(&mut self, first: u32) -> Result<Vec<u32>, ExtError> {
        let layout = self.store.layout;
        let mut found = Vec::new();
        let mut met = BTreeSet::new();
        let mut next = first;
        while (layout.first_inode..=layout.inodes).contains(&next) && met.insert(next) {
            found.push(next);
            next = self.inode(next)?.dtime;
        }
        found.reverse();
        Ok(found)
    }

    pub(crate) fn end_orphan(&mut self, number: u32) -> Result<(), ExtError> {
        let mut inode = self.inode(number)?;
        if inode.links == 0 {
            self.destroy(number)?;
        } else {
            let blocks = inode
                .size
                .div_ceil(u64::from(self.store.layout.block))
                .min(u32::MAX.into()) as u32;
            if inode.has_blocks(&self.store.layout) {
                self.trim(number, &mut inode, blocks)?;
                self.zero_tail(number, &inode)?;
            }
            self.drop_orphan(number, &mut inode)?;
            self.put_inode(number, &inode)?;
        }
        Ok(())
    }
}
