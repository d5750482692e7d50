//! A commit: the index, the properties and the orphans are written anew, and the master node leads
//! to them.
//!
//! *Power loss.* Everything is written where the last commit has nothing. Until both master nodes
//! are written the last commit and its journal count. What only older commits use is given up
//! afterwards.

use crate::bug::SeededBug;
use crate::error::Result;
use crate::format::draft::{append, pad};
use crate::format::{DIRTY, Group, Master, NO_ORPHANS, Ref, align8, commit_start, index_bytes};
use crate::index_out::IndexOut;
use crate::lebs::Lebs;
use crate::log;
use crate::mount::Ubifs;
use alloc::vec::Vec;

impl<L: Lebs> Ubifs<L> {
    /// Commits everything that was written.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.flush_all()?;
        self.count_obsolete();
        self.free_blocks()?;
        self.write_commit()
    }

    /// The commit of a mount. No journal has what the recovery removed: the next recovery would
    /// look for it again. So blocks that are left with nothing in use stay until the next commit.
    pub(crate) fn commit_mount(&mut self) -> Result<()> {
        self.count_obsolete();
        if self.media.has_bug(SeededBug::FreeInRecovery) {
            self.free_blocks()?;
        }
        self.write_commit()
    }

    fn write_commit(&mut self) -> Result<()> {
        self.writer.counts.commits += 1;
        self.keep_one()?;
        let tail = self.writer.log.tail;
        let buds = self.start_log()?;
        self.thin_index();
        self.write_index()?;
        self.write_orphans()?;
        let left = self.leave_index_blocks();
        if self.media.has_bug(SeededBug::LeaveEarly) {
            self.unmap_all(&left)?;
        }
        self.write_properties()?;
        let no_orphans = match self.writer.orphans.is_empty() {
            true => NO_ORPHANS,
            false => 0,
        };
        self.write_master(DIRTY | no_orphans)?;
        self.unmap_all(&left)?;
        self.finish(tail, buds)
    }

    fn unmap_all(&mut self, lnums: &[u32]) -> Result<()> {
        lnums.iter().try_for_each(|lnum| self.media.unmap(*lnum))
    }

    /// Calls index blocks empty that this commit has left, so that the properties on the medium say
    /// so before the journal takes one. They are unmapped when the last commit no longer counts.
    fn leave_index_blocks(&mut self) -> Vec<u32> {
        let head = self.master.index_head.0;
        let mut left = self.writer.blocks.reclaimable(true);
        left.retain(|lnum| *lnum != head);
        for lnum in &left {
            self.writer.blocks.emptied(*lnum);
        }
        left
    }

    /// Leaves that went out of the index are dirt.
    pub(crate) fn count_obsolete(&mut self) {
        for node in self.index.take_obsolete() {
            self.writer.blocks.obsolete(node);
        }
    }

    /// Gives up blocks of which the journal has moved or removed everything.
    fn free_blocks(&mut self) -> Result<()> {
        for lnum in self.writer.blocks.reclaimable(false) {
            self.media.unmap(lnum)?;
            self.writer.blocks.emptied(lnum);
        }
        Ok(())
    }

    /// Keeps an empty block for collection.
    pub(crate) fn keep_one(&mut self) -> Result<()> {
        let writer = &mut self.writer;
        if writer.gc_lnum.is_none() {
            writer.gc_lnum = writer.blocks.empty();
            if let Some(lnum) = writer.gc_lnum {
                writer.blocks.take(lnum);
            }
        }
        self.master.gc_lnum = writer.gc_lnum;
        Ok(())
    }

    /// Begins the next block of the log, with references to the open heads.
    fn start_log(&mut self) -> Result<Vec<Ref>> {
        let here = self.media.geometry();
        self.master.commit += 1;
        let sqnum = self.next_sqnum();
        let start = commit_start(self.master.commit).seal(sqnum, Group::None);
        let mut bytes = Vec::new();
        append(&mut bytes, &start);
        let mut buds = Vec::new();
        for head in 0..self.media.heads.len() {
            let Some(buffer) = &self.media.heads[head] else {
                continue;
            };
            let node = Ref {
                lnum: buffer.lnum,
                offs: buffer.offs,
                head: head as u32,
            };
            if node.offs == here.leb {
                self.media.heads[head] = None;
                continue;
            }
            let sqnum = self.next_sqnum();
            append(&mut bytes, &node.draft().seal(sqnum, Group::None));
            buds.push(node);
        }
        pad(&mut bytes, here.min_io);
        let lnum = log::next(self.writer.log.lnum, &here);
        self.media.unmap(lnum)?;
        self.media.write(lnum, 0, &bytes)?;
        self.writer.log.lnum = lnum;
        self.writer.log.offs = bytes.len() as u32;
        self.master.log_lnum = lnum;
        Ok(buds)
    }

    /// Lets the nodes of the emptiest index blocks move, if the index takes far more blocks than it
    /// needs. Such a block is given up after the commit.
    fn thin_index(&mut self) {
        let here = self.media.geometry();
        let needed = self.master.index_bytes.div_ceil(here.leb.into()) as usize;
        let used = self.index_blocks(here.leb);
        let surplus = used.len().saturating_sub(2 * needed + 1);
        let mut moved = 0;
        for (bytes, lnum) in used.into_iter().take(surplus) {
            moved += bytes;
            if moved > here.leb {
                return;
            }
            self.index.tree.touch_block(lnum);
            self.writer.counts.index_blocks_moved += 1;
        }
    }

    /// Index blocks other than the head's, each behind its bytes in use, ascending.
    fn index_blocks(&self, leb: u32) -> Vec<(u32, u32)> {
        let head = self.master.index_head.0;
        let blocks = self.writer.blocks.idle();
        let index = blocks.filter(|(lnum, props)| props.is_index && *lnum != head);
        let mut used: Vec<(u32, u32)> =
            index.map(|(lnum, props)| (props.used(leb), lnum)).collect();
        used.sort_unstable();
        used
    }

    fn write_index(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let mut tree = core::mem::take(&mut self.index.tree);
        let index = &self.index;
        let kept = match self.media.has_bug(SeededBug::FillKept) {
            true => tree.nodes().collect(),
            false => tree.kept(),
        };
        let prefers_gaps = self.media.prefers_gaps(self.master.commit);
        let mut out = IndexOut::new(
            &mut self.media,
            &mut self.writer.blocks,
            self.writer.sqnum,
            self.master.index_head,
            kept,
        )
        .preferring_gaps(prefers_gaps);
        let leaves = |from, to| index.between(from, to);
        let root = tree.write(here.fanout, &leaves, &mut |node| out.place(node))?;
        let done = out.finish()?;
        self.writer.sqnum = done.sqnum;
        self.writer.counts.gaps_filled += done.gaps_filled;
        self.master.index_head = done.head;
        self.master.index_bytes += done.written;
        for old in tree.take_obsolete() {
            self.master.index_bytes -= u64::from(align8(old.len));
            self.writer.blocks.obsolete(old);
        }
        self.index.tree = tree;
        self.master.root = root.unwrap_or(self.master.root);
        Ok(())
    }

    pub(crate) fn write_properties(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let writer = &mut self.writer;
        if let Some(lpt) = &mut writer.lpt {
            lpt.write(&mut self.media, &mut writer.blocks, &mut self.master)?;
        }
        self.master.space = writer.blocks.space(&here);
        self.master.lebs = here.lebs;
        Ok(())
    }

    /// Writes a pair of master nodes.
    pub(crate) fn write_master(&mut self, flags: u32) -> Result<()> {
        let here = self.media.geometry();
        let step = Master::step(here.min_io);
        self.master.flags = flags;
        self.master.highest_inode = self.highest_inode;
        let next = self.writer.master_offs.map_or(0, |offs| offs + step);
        let offs = if next + step > here.leb { 0 } else { next };
        let mut order = [1, 2];
        if self.media.has_bug(SeededBug::SecondMasterFirst) {
            order.reverse();
        }
        for lnum in order {
            let sqnum = self.next_sqnum();
            self.master.sqnum = sqnum;
            let mut bytes = self.master.draft().seal(sqnum, Group::None);
            pad(&mut bytes, step);
            self.write_one_master(lnum, offs, &bytes)?;
        }
        self.writer.master_offs = Some(offs);
        self.media.sync()
    }

    /// Writes a master node. A full block is changed whole: unmapped, it could come back in part.
    fn write_one_master(&mut self, lnum: u32, offs: u32, bytes: &[u8]) -> Result<()> {
        if offs > 0 {
            return self.media.write(lnum, offs, bytes);
        }
        self.writer.counts.masters_renewed += 1;
        let unmaps = [SeededBug::UnmapMaster, SeededBug::RefuseTornErase];
        if unmaps.into_iter().any(|bug| self.media.has_bug(bug)) {
            self.media.unmap(lnum)?;
            return self.media.write(lnum, 0, bytes);
        }
        self.media.change(lnum, bytes)
    }

    /// Gives up what only older commits use.
    fn finish(&mut self, tail: u32, buds: Vec<Ref>) -> Result<()> {
        let here = self.media.geometry();
        let log = &mut self.writer.log;
        let mut old = tail;
        while old != log.lnum {
            self.media.unmap(old)?;
            old = log::next(old, &here);
        }
        log.tail = log.lnum;
        let before = core::mem::replace(&mut log.buds, buds);
        let log = &self.writer.log;
        for bud in before {
            if log.buds.iter().all(|open| open.lnum != bud.lnum) {
                self.writer.blocks.release(bud.lnum);
            }
        }
        match &mut self.writer.lpt {
            Some(lpt) => lpt.finish(&mut self.media),
            None => Ok(()),
        }
    }

    /// Empty blocks that only the index may take, so that a commit never lacks room.
    pub(crate) fn spare_blocks(&self) -> u32 {
        let here = self.media.geometry();
        let node = align8(index_bytes(here.fanout as usize));
        // The nodes of a written index are at least half full, except between marked ones.
        let most = self.index.len() as u64 * BRANCH_BYTES_MAX;
        let lebs = most.div_ceil(u64::from(here.leb - node)) as u32;
        match self.writer.is_removing {
            true => lebs + 1,
            false => lebs + 2,
        }
    }
}

/// Bytes of the index for each leaf at most, those of the levels above included.
const BRANCH_BYTES_MAX: u64 = 48;
