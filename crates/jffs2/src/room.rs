//! Where the next node goes: blocks taken, filled, closed, erased; nodes given up.
//!
//! *Promises.* A node that was put is read back at once, and lies behind all that were put before;
//! blocks are erased only behind what replaces their contents. Enough erased blocks are kept for
//! collecting to come to an end, and for deletions when nothing else finds space. *Knows nothing
//! of* what nodes mean. Source: fs/jffs2/nodemgmt.c, erase.c, wbuf.c.

use crate::{
    Jffs2, Jffs2Error, Medium, SeededBug,
    flash::Append,
    format::{HEAD, pad},
    inode::ROOT,
    space::{List, NodeRef, Owner, State},
    summary,
};
use alloc::vec::Vec;
use nandlab_mtd::{Mtd, MtdError};
use nandlab_vfs::Errno;

/// Blocks one after the other in which writes may fail.
const FAILING_MAX: u32 = 8;
/// Passes of the collector for one node: far more than moving everything takes.
const PASSES_MAX: u32 = 1 << 20;
/// Erases that may fail before a block is bad.
const ERASE_FAILURES_MAX: u8 = 2;

/// The caller that asks for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A caller: collects garbage until there is enough left over.
    Write,
    /// A caller that wants to delete: may take more.
    Deletion,
    /// Collecting itself, or saving what a failed write left: takes what there is.
    Collection,
}

impl<M: Mtd> Jffs2<M> {
    /// Space for a node of at least `len` bytes, whose entry in a block's list takes `entry` bytes;
    /// gives how long it may be.
    pub(crate) fn reserve(&mut self, len: u32, entry: u32, who: For) -> Result<u32, Jffs2Error> {
        let len = pad(len);
        if len + summary::FRAME + entry + HEAD as u32 > self.space.block_bytes {
            return Err(Errno::FileTooBig.into());
        }
        if who != For::Collection {
            self.make_room(who)?;
        }
        loop {
            let Some(next) = self.space.next else {
                self.take_block()?;
                continue;
            };
            let free = self.space.block(next).sizes.free;
            let list = if self.options.summary && self.collected.is_usable() {
                pad(self.collected.len() + entry + summary::FRAME)
            } else {
                0
            };
            if len + list <= free {
                self.drop_marker(next)?;
                return Ok(free - list);
            }
            self.close_block(next)?;
        }
    }

    /// Collects until so many blocks are erased, or to be erased, that a caller may write.
    fn make_room(&mut self, who: For) -> Result<(), Jffs2Error> {
        for _ in 0..PASSES_MAX {
            let erased = self.space.count(List::Free) + self.space.count(List::ErasePending);
            if erased >= self.limits.write {
                return self.erase_enough();
            }
            if self.is_full() {
                return match who == For::Deletion && erased >= self.limits.deletion {
                    true => self.erase_enough(),
                    false => Err(Errno::NoSpace.into()),
                };
            }
            self.collect_pass()?;
        }
        Err(Errno::NoSpace.into())
    }

    /// Whether collection could not free enough.
    fn is_full(&self) -> bool {
        let total = self.space.total;
        let bytes = self.space.block_bytes;
        // Dirt of blocks that are to be erased anyway is counted as erased blocks.
        let pending = self.pending_bytes();
        let dirty = total.dirty.saturating_sub(pending) + total.unchecked;
        let possible = u64::from(total.free) + u64::from(total.dirty) + u64::from(total.unchecked);
        dirty < self.limits.dirt_min || possible / u64::from(bytes) <= u64::from(self.limits.write)
    }

    /// Erases until what is kept for collecting is erased indeed. After a power cut a block that
    /// was only to be erased may hold something that counts again: a name's removal that was given
    /// up. On a medium that is being made nothing can.
    fn erase_enough(&mut self) -> Result<(), Jffs2Error> {
        while !self.flash.making
            && self.space.count(List::Free) < self.limits.write
            && self.erase_pending()?
        {}
        Ok(())
    }

    fn pending_bytes(&self) -> u32 {
        self.space
            .listed(List::ErasePending)
            .map(|block| self.space.block(block).sizes.dirty)
            .sum()
    }

    /// A block without a node but its marker: from now on it is not clean.
    fn drop_marker(&mut self, block: u32) -> Result<(), Jffs2Error> {
        let info = self.space.block(block);
        match info.refs[..] {
            [
                NodeRef {
                    at,
                    state: State::Normal,
                    owner: Owner::None,
                    ..
                },
            ] if self.flash.medium == Medium::Nor => self.obsolete(at),
            _ => Ok(()),
        }
    }

    /// Nothing more goes into a block: its list is written, or its rest wasted.
    fn close_block(&mut self, block: u32) -> Result<(), Jffs2Error> {
        let at = self.space.end_of(block);
        let free = self.space.block(block).sizes.free;
        let in_block = at - block * self.space.block_bytes;
        if self.options.summary && self.collected.is_usable() {
            let node =
                self.collected
                    .node(self.flash.endian, self.flash.marker_bytes(), in_block, free);
            let Some(node) = node else {
                self.collected.disable();
                return Ok(());
            };
            if self
                .append([&node, &[]], State::Normal, Owner::None)?
                .is_some()
            {
                self.space.close(block);
            }
            return Ok(());
        }
        self.flush()?;
        if self.space.next == Some(block) {
            self.space.waste_rest(block);
            self.space.close(block);
        }
        Ok(())
    }

    /// Takes an erased block to be filled.
    fn take_block(&mut self) -> Result<(), Jffs2Error> {
        loop {
            if let Some(block) = self.space.first(List::Free) {
                self.space.unfile(block);
                self.space.next = Some(block);
                self.collected.reset();
                return Ok(());
            }
            if self.space.count(List::ErasePending) == 0 {
                if let Some(block) = self.space.first(List::Erasable) {
                    self.space.file(block, List::ErasePending);
                } else if self.space.count(List::ErasableWaiting) > 0 && self.recovering == 0 {
                    self.flush()?;
                    self.refile_waiting();
                } else {
                    return Err(self.stuck());
                }
            }
            self.erase_pending()?;
        }
    }

    /// No block is left. Behind a failed page this is the failure's doing, and what was to be on
    /// that page is lost.
    fn stuck(&self) -> Jffs2Error {
        match self.failed_at {
            Some(page_at) if self.failing > 0 => {
                Jffs2Error::Failing(self.failing, self.flash.program_failed(page_at))
            }
            _ => Jffs2Error::Stuck,
        }
    }

    /// Erases a block that is to be erased; says whether there was one.
    pub(crate) fn erase_pending(&mut self) -> Result<bool, Jffs2Error> {
        let Some(block) = self.space.first(List::ErasePending) else {
            return Ok(false);
        };
        self.space.unfile(block);
        let start = block * self.space.block_bytes;
        if self.open.is_some_and(|at| self.space.block_of(at) == block) {
            self.open = None;
        }
        let outcome = self.flash.erase(block);
        let failures = self.space.block(block).failures;
        let gone = self.space.reset(block);
        self.lost_erased(block);
        self.disown(gone)?;
        match outcome {
            Ok(()) => {
                let marker = self.flash.marker_bytes();
                if marker > 0 {
                    self.space.link(NodeRef {
                        at: start,
                        len: marker,
                        state: State::Normal,
                        owner: Owner::None,
                    });
                }
                self.space.file(block, List::Free);
            }
            Err(MtdError::EraseFailed(_) | MtdError::ProgramFailed(_))
                if failures + 1 < ERASE_FAILURES_MAX =>
            {
                self.space.block_mut(block).failures = failures + 1;
                self.space.waste_rest(block);
                self.space.file(block, List::ErasePending);
            }
            Err(MtdError::EraseFailed(_) | MtdError::ProgramFailed(_)) => {
                self.flash.mark_bad(block)?;
                self.space.retire(block);
            }
            Err(MtdError::BadBlock(_)) => self.space.retire(block),
            Err(error) => {
                self.space.retire(block);
                return Err(error.into());
            }
        }
        Ok(true)
    }

    /// The nodes of an erased block are no longer anybody's.
    fn disown(&mut self, gone: Vec<NodeRef>) -> Result<(), Jffs2Error> {
        for node in gone {
            match node.owner {
                Owner::Inode(ino) => self.disown_inode(node.at, ino),
                Owner::Xref(ino, xid) => self.disown_xref(node.at, ino, xid)?,
                Owner::None | Owner::Xattr(_) => {}
            }
        }
        Ok(())
    }

    /// A number without nodes and names may be forgotten.
    fn disown_inode(&mut self, at: u32, ino: u32) {
        let Some(known) = self.known.get_mut(&ino) else {
            return;
        };
        known.nodes.remove(&at);
        if known.nodes.is_empty()
            && known.links == 0
            && ino != ROOT
            && !self.core.contains_key(&ino)
        {
            self.known.remove(&ino);
        }
    }

    /// What replaces these blocks' contents is on the medium now, unless a failed page is being
    /// recovered: then some of it is in memory only.
    fn refile_waiting(&mut self) {
        while self.recovering == 0
            && self.space.count(List::ErasableWaiting) > 0
            && let Some(block) = self.space.first(List::ErasableWaiting)
        {
            let list = if self.throw() == 0 {
                List::Erasable
            } else {
                List::ErasePending
            };
            self.space.file(block, list);
        }
    }

    /// Programs the buffered bytes, their page padded.
    pub(crate) fn flush(&mut self) -> Result<(), Jffs2Error> {
        loop {
            let block = self.space.block_of(self.flash.waiting_at());
            match self.flash.pad() {
                Ok(0) => break,
                Ok(rest) => {
                    self.space.link(NodeRef {
                        at: self.space.end_of(block),
                        len: rest,
                        state: State::Obsolete,
                        owner: Owner::None,
                    });
                    self.space.dirt_to_waste(block, rest);
                    if rest as usize > HEAD {
                        self.collected.add_padding(rest);
                    }
                    break;
                }
                Err(Append::Failed { page_at }) => self.recover(page_at)?,
                Err(Append::Flash(error)) => return Err(error.into()),
            }
        }
        self.refile_waiting();
        Ok(())
    }

    /// Puts a node where [`reserve`](Self::reserve) found space; nothing where the page failed and
    /// another must be found. Its data may come apart from its head and names.
    pub(crate) fn append(
        &mut self,
        node: [&[u8]; 2],
        state: State,
        owner: Owner,
    ) -> Result<Option<u32>, Jffs2Error> {
        let Some(block) = self.space.next else {
            return Err(Jffs2Error::Stuck);
        };
        let at = self.space.end_of(block);
        let page = (self.flash.waiting() > 0).then(|| self.flash.waiting_at());
        match self.flash.append(at, &node) {
            Ok(()) => {}
            Err(Append::Failed { page_at }) => {
                self.recover(page_at)?;
                return Ok(None);
            }
            Err(Append::Flash(error)) => return Err(error.into()),
        }
        let len = pad((node[0].len() + node[1].len()) as u32);
        (self.work.nodes, self.work.bytes) =
            (self.work.nodes + 1, self.work.bytes + u64::from(len));
        self.space.link(NodeRef {
            at,
            len,
            state,
            owner,
        });
        if self.options.summary && (owner != Owner::None || state != State::Normal) {
            self.collected.add(
                self.flash.endian,
                node[0],
                at - block * self.space.block_bytes,
            );
        }
        if let Owner::Inode(ino) = owner {
            self.known.entry(ino).or_default().nodes.insert(at);
        }
        if self.space.block(block).sizes.free == 0 && owner != Owner::None {
            self.space.close(block);
        }
        // Everything that waited before is on the medium once its page is.
        if self.flash.waiting() == 0 || page.is_some_and(|page| page != self.flash.waiting_at()) {
            self.refile_waiting();
        }
        Ok(Some(at))
    }

    /// A page failed: what was to be on it, and what begins before it, goes to another block; the
    /// block is collected soon.
    fn recover(&mut self, page_at: u32) -> Result<(), Jffs2Error> {
        self.recovering += 1;
        let outcome = self.recover_page(page_at);
        self.recovering -= 1;
        outcome
    }

    fn recover_page(&mut self, page_at: u32) -> Result<(), Jffs2Error> {
        self.failing += 1;
        self.failed_at = Some(page_at);
        if self.failing > FAILING_MAX {
            let last = self.flash.program_failed(page_at);
            return Err(Jffs2Error::Failing(self.failing, last));
        }
        let block = self.space.block_of(page_at);
        let waiting = self.flash.take_waiting(self.space.end_of(block));
        let victims: Vec<NodeRef> = self
            .space
            .block(block)
            .refs
            .iter()
            .copied()
            .filter(|node| node.state != State::Obsolete && node.at + node.len > page_at)
            .collect();
        let mut saved = Vec::with_capacity(victims.len());
        for node in victims {
            saved.push((node, self.salvage(node, page_at, &waiting)?));
        }
        if self.space.next == Some(block) {
            self.space.next = None;
        }
        if self.space.gc == Some(block) {
            self.space.gc = None;
        }
        self.space.waste_rest(block);
        let counts = self.space.block(block).sizes;
        self.space.file_first(
            block,
            if counts.used + counts.unchecked == 0 {
                List::ErasePending
            } else {
                List::BadUsed
            },
        );
        for (node, bytes) in saved {
            self.put_copy(&node, &bytes)?;
        }
        Ok(())
    }

    /// The bytes of a node of which a part may wait for the page at `page_at`.
    fn salvage(
        &mut self,
        node: NodeRef,
        page_at: u32,
        waiting: &[u8],
    ) -> Result<Vec<u8>, Jffs2Error> {
        let mut bytes = alloc::vec![0; node.len as usize];
        if waiting.is_empty() {
            self.flash.read(node.at, &mut bytes)?;
            return Ok(bytes);
        }
        let before = page_at.saturating_sub(node.at).min(node.len);
        let (flashed, waited) = bytes.split_at_mut(before as usize);
        self.flash.read(node.at, flashed)?;
        let skip = (node.at + before - page_at) as usize;
        waited
            .iter_mut()
            .zip(&waiting[skip.min(waiting.len())..])
            .for_each(|(to, from)| *to = *from);
        Ok(bytes)
    }

    /// Puts a node once more, as it is, and gives up the old one.
    pub(crate) fn put_copy(&mut self, node: &NodeRef, bytes: &[u8]) -> Result<(), Jffs2Error> {
        loop {
            self.reserve(
                node.len,
                node.len.min(summary::DIRENT_ENTRY + 255),
                For::Collection,
            )?;
            // A failure may have saved this very node.
            if self
                .space
                .get(node.at)
                .is_none_or(|old| old.state == State::Obsolete)
            {
                return Ok(());
            }
            if let Some(at) = self.append([bytes, &[]], node.state, node.owner)? {
                self.moved(node.at, at, node.owner);
                return self.obsolete(node.at);
            }
        }
    }

    /// Everybody who knows the node by its place learns the new one.
    fn moved(&mut self, old: u32, new: u32, owner: Owner) {
        if self.open == Some(old) {
            self.open = Some(new);
        }
        self.lost_moved(old, new);
        match owner {
            Owner::Inode(ino) => {
                let Some(inode) = self.core.get_mut(&ino) else {
                    return;
                };
                inode.tree.rename(old, new);
                inode.dents.rename(old, new);
                if inode.metadata == Some(old) {
                    inode.metadata = Some(new);
                }
            }
            Owner::Xattr(xid) => self.xattrs.move_value(xid, new),
            Owner::Xref(ino, xid) => self.xattrs.move_ref(ino, xid, old, new),
            Owner::None => {}
        }
    }

    /// A node does not count any more.
    pub(crate) fn obsolete(&mut self, at: u32) -> Result<(), Jffs2Error> {
        let erase_at_once = self.throw() != 0;
        let waiting = (self.flash.waiting() > 0 || self.recovering > 0)
            && !self.has_bug(SeededBug::EraseEarly);
        let Some(node) = self.space.obsolete(at, waiting, erase_at_once) else {
            return Ok(());
        };
        self.work.obsoleted += 1;
        if self.open == Some(at) {
            self.open = None;
        }
        if self.built && self.marks_in_place() && self.is_writable() {
            self.flash.clear_accurate(at)?;
            match node.owner {
                Owner::Inode(ino) => self.disown_inode(at, ino),
                Owner::Xref(ino, xid) => self.disown_xref(at, ino, xid)?,
                Owner::None | Owner::Xattr(_) => {}
            }
        }
        Ok(())
    }
}
