//! Inodes that had lost their last name and were open at a commit. After a power cut they go.
//!
//! *Power loss.* The last write of a block may be torn. Blocks of older commits may lie behind
//! those of newer ones (`fs/ubifs/orphan.c`).

use crate::bug::SeededBug;
use crate::error::{Result, UbifsError};
use crate::format::draft::{append, pad};
use crate::format::{Fault, Group, InodeNode, Key, Kind, NO_ORPHANS, Orphans, orphans};
use crate::index::Index;
use crate::lebs::Lebs;
use crate::mount::Ubifs;
use crate::node::Media;
use crate::replay::remove_inode;
use crate::scan::{self, Ends, Scanned};
use alloc::vec::Vec;

/// Takes the orphans of the last commits out of the index. Returns their number.
pub(crate) fn kill<L: Lebs>(media: &mut Media<L>, index: &mut Index) -> Result<u64> {
    let here = media.geometry();
    let mut walk = Walk::default();
    for lnum in here.orphan_first()..here.main_first() {
        let bytes = media.leb(lnum)?;
        let scanned = match scan::clean(&bytes, lnum, 0, &here) {
            Ok(scanned) => scanned,
            Err(_) => scan::torn(&bytes, lnum, 0, &here, Ends::Single)?,
        };
        if walk.block(media, index, lnum, &bytes, &scanned)? {
            break;
        }
    }
    Ok(walk.killed)
}

#[derive(Default)]
struct Walk {
    commit: u64,
    /// The node before was the last of its commit.
    is_last: bool,
    killed: u64,
}

impl Walk {
    /// Goes through a block. Returns whether those behind it are of older commits.
    fn block<L: Lebs>(
        &mut self,
        media: &mut Media<L>,
        index: &mut Index,
        lnum: u32,
        bytes: &[u8],
        scanned: &Scanned,
    ) -> Result<bool> {
        let mut first = true;
        for found in &scanned.nodes {
            let offs = found.offs;
            let wrong = |fault: Fault| fault.at(lnum, offs);
            if found.header.kind != Kind::Orphans {
                let what = "the type of a node among orphans";
                return Err(wrong(Fault::value(what, found.header.kind as u8, 11u8)));
            }
            let whole = &bytes[offs as usize..][..found.header.len as usize];
            let node = Orphans::parse(whole).map_err(wrong)?;
            if node.commit < self.commit && self.is_last {
                if first {
                    return Ok(true);
                }
                let what = "the commit of an orphan node";
                let fault = Fault::rule(what, node.commit, "the one of the node before, or later");
                return Err(wrong(fault));
            }
            (self.commit, self.is_last) = (node.commit, node.is_last);
            first = false;
            for inode in node.inodes() {
                self.one(media, index, inode)?;
            }
        }
        Ok(false)
    }

    fn one<L: Lebs>(&mut self, media: &mut Media<L>, index: &mut Index, inode: u64) -> Result<()> {
        let Ok(inode) = u32::try_from(inode) else {
            return Ok(());
        };
        let key = Key::of_inode(inode);
        let Some(at) = index.get(key)? else {
            return Ok(());
        };
        let (_, bytes) = media.leaf(at, key)?;
        let node = InodeNode::parse(bytes).map_err(|fault| fault.at(at.lnum, at.offs))?;
        if node.links == 0 {
            remove_inode(media, index, inode)?;
            self.killed += 1;
        }
        Ok(())
    }
}

impl<L: Lebs> Ubifs<L> {
    /// Writes the inodes without names that callers still refer to. The list is short, and written
    /// whole at each commit. The blocks behind it keep older lists, which a mount ignores.
    pub(crate) fn write_orphans(&mut self) -> Result<()> {
        let here = self.media.geometry();
        let all: Vec<u32> = self.writer.orphans.iter().copied().collect();
        if all.is_empty() || self.media.has_bug(SeededBug::ForgetOrphans) {
            return Ok(());
        }
        self.writer.counts.orphan_lists += 1;
        let most = (here.leb as usize - 32) / 8;
        let lists: Vec<&[u32]> = all.chunks(most).collect();
        if lists.len() > here.orphan_lebs as usize {
            return Err(UbifsError::Full);
        }
        for (lnum, list) in (here.orphan_first()..).zip(&lists) {
            let is_last = lnum + 1 == here.orphan_first() + lists.len() as u32;
            let node = orphans(self.master.commit, is_last, list);
            let sqnum = self.next_sqnum();
            let mut bytes = Vec::new();
            append(&mut bytes, &node.seal(sqnum, Group::None));
            pad(&mut bytes, here.min_io);
            self.media.change(lnum, &bytes)?;
        }
        Ok(())
    }

    /// Whether one more inode without a name would be too many.
    pub(crate) fn has_room_for_orphan(&self) -> bool {
        let here = self.media.geometry();
        let most = u64::from((here.leb - 32) / 8) * u64::from(here.orphan_lebs);
        (self.writer.orphans.len() as u64) < most
    }

    /// Ends writing: everything is committed, and the volume marked as not in use.
    pub(crate) fn retire(&mut self) -> Result<()> {
        self.writer.references.clear();
        let orphans = self.writer.orphans.clone();
        orphans
            .into_iter()
            .try_for_each(|number| self.bury(number))?;
        self.commit()?;
        self.write_master(NO_ORPHANS)
    }
}
