//! The beginning and the end of an inode.
//!
//! *Promises.* An inode that loses its last name keeps its contents while it is referred to.
//! Without a journal its links are on the medium until the loss of the name is: so a name there
//! never leads to what is gone. With one, it is an orphan. *Knows nothing of* directories.

use crate::{Ext, ExtError, inode::Inode, node::Life};
use nandlab_block::BlockDevice;

impl<D: BlockDevice> Ext<D> {
    /// A new inode's generation: not that of an earlier one with its number.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_mul(0x9E37_79B1).wrapping_add(1);
        self.generation
    }

    /// An entry of an inode is gone, its last if it is a directory.
    pub(crate) fn lose_name(&mut self, number: u32, inode: &Inode) -> Result<(), ExtError> {
        let last = inode.is_dir() || inode.links <= 1;
        let mut stored = self.inode(number)?;
        stored.ctime = stored.rounded(self.store.now);
        if !self.is_journaled() {
            // The links stay for now.
            if last {
                self.nodes.set_life(number, Life::Leaving);
            } else {
                *self.fewer.entry(number).or_default() += 1;
            }
            return self.put_inode(number, &stored);
        }
        stored.links = if last {
            0
        } else {
            stored.links.saturating_sub(1)
        };
        if !last {
            return self.put_inode(number, &stored);
        }
        self.add_orphan(number, &mut stored)?;
        self.put_inode(number, &stored)?;
        self.nodes.set_life(number, Life::Nameless);
        self.destroy_unreferenced(number)
    }

    fn destroy_unreferenced(&mut self, number: u32) -> Result<(), ExtError> {
        if self
            .nodes
            .get(number)
            .is_none_or(|node| node.references == 0)
        {
            self.destroy(number)
        } else {
            Ok(())
        }
    }

    /// The loss of its last name is durable.
    pub(crate) fn left(&mut self, number: u32) -> Result<(), ExtError> {
        self.nodes.set_life(number, Life::Nameless);
        let mut inode = self.inode(number)?;
        inode.links = 0;
        self.put_inode(number, &inode)?;
        if self
            .nodes
            .get(number)
            .is_none_or(|node| node.references == 0)
        {
            self.destroy(number)
        } else {
            Ok(())
        }
    }

    /// Gives back an inode that nobody refers to, and all that it holds.
    pub(crate) fn destroy(&mut self, number: u32) -> Result<(), ExtError> {
        self.nodes.drop(number);
        self.cut.remove(&number);
        self.delayed.forget(number);
        let mut inode = self.inode(number)?;
        self.drop_attribute_block(number, &mut inode)?;
        if inode.has_blocks(&self.store.layout) {
            self.trim(number, &mut inode, 0)?;
            inode.size = 0;
        }
        self.drop_orphan(number, &mut inode)?;
        inode.links = 0;
        inode.dtime = self.end_time();
        self.put_inode(number, &inode)?;
        if inode.is_dir() {
            // Another directory may get the number.
            self.end_names();
        }
        self.free_inode(number, inode.is_dir())
    }

    /// The time of deletion: never so early that it could be an orphan's next.
    fn end_time(&self) -> u32 {
        (self.store.now.secs as u32).max(self.store.layout.inodes)
    }

    /// An inode that came to no name: its number is free again.
    pub(crate) fn undo_inode(&mut self, number: u32, inode: &mut Inode) -> Result<(), ExtError> {
        self.pending.forbid();
        if inode.has_blocks(&self.store.layout) {
            self.trim(number, inode, 0)?;
        }
        (inode.links, inode.size, inode.dtime) = (0, 0, self.end_time());
        self.put_inode(number, inode)?;
        self.free_inode(number, inode.is_dir())
    }

    /// Ends all inodes that are kept only because somebody refers to them.
    pub(crate) fn drop_nameless(&mut self) -> Result<(), ExtError> {
        self.commit_all_releases()?;
        for number in self.nodes.in_life(Life::Nameless) {
            self.destroy(number)?;
            self.reserve_call()?;
        }
        Ok(())
    }
}
