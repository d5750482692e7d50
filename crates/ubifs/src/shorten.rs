//! A new volume cut off behind its last block in use, as mkfs.ubifs leaves one.
//!
//! *Promises.* The superblock and the master node tell the new number of blocks. A mount in a
//! longer UBI volume makes the volume grow again, up to its limit. The master blocks hold one node
//! each: ubi_reader 0.8.10 takes the first one. *Power loss.* None may come: the new superblock and
//! properties tree overwrite the old ones. The caller shortens an image before anybody has it.

use crate::error::Result;
use crate::format::{Geometry, LptShape, NO_ORPHANS};
use crate::lebs::Lebs;
use crate::lpt_tree::LptTree;
use crate::make::limit_journal;
use crate::mount::Ubifs;

/// The fewest blocks of the main area that Linux mounts.
const MAIN_LEBS_MIN: u32 = 9;

impl<L: Lebs> Ubifs<L> {
    /// Gives the master blocks of an unmounted volume one node each.
    pub fn settle(&mut self) -> Result<()> {
        self.writer.master_offs = None;
        self.write_master(NO_ORPHANS)
    }

    /// Cuts an unmounted volume off. Returns its new number of blocks.
    pub fn shorten(&mut self) -> Result<u32> {
        let old = self.media.geometry();
        let (lebs, gc_lnum) = self.needed_lebs(&old);
        let head = &mut self.media.head;
        head.geometry.lebs = lebs;
        limit_journal(head);
        let here = head.geometry;
        let shape = LptShape::new(head);
        let writer = &mut self.writer;
        writer.blocks.truncate(here.main_lebs());
        writer.lpt = Some(LptTree::new(shape, &here));
        self.master.gc_lnum = gc_lnum;
        for lnum in here.lpt_first()..here.orphan_first() {
            self.media.unmap(lnum)?;
        }
        self.write_properties()?;
        self.settle()?;
        self.write_head()?;
        self.media.sync()?;
        Ok(lebs)
    }

    /// Blocks up to the last one in use, and the block that collection keeps: one of them that is
    /// empty, or the next one.
    fn needed_lebs(&self, here: &Geometry) -> (u32, Option<u32>) {
        let blocks = self.writer.blocks.all();
        let used = blocks.filter(|(_, props)| props.free < here.leb);
        let end = used.map(|(lnum, _)| lnum + 1).max().unwrap_or(0);
        let end = end.max(here.main_first() + MAIN_LEBS_MIN).min(here.lebs);
        match self.master.gc_lnum {
            Some(kept) if kept < end => (end, Some(kept)),
            _ if end < here.lebs => (end + 1, Some(end)),
            _ => (end, None),
        }
    }
}
