//! Collecting: what counts in a block is written anew elsewhere, then the block is erased.
//!
//! *Promises.* A pass moves one node, or checks one inode, or erases one block; contents stay as
//! they are, byte for byte. A name's removal is kept as long as an older entry of that name is
//! anywhere on the medium. *Differs from Linux* in two ways. A node is moved as it is where Linux
//! writes it anew with the same contents. Removals are kept for entries in the same block, too: an
//! interrupted erase may leave those. Source: fs/jffs2/gc.c.

use crate::{
    Jffs2, Jffs2Error,
    compress::ZERO,
    format::{DIRENT, HEAD, Head, INODE, PAGE, Place, RawDirent, kind},
    room::For,
    space::{List, NodeRef, Owner, State},
    summary::INODE_ENTRY,
    write::DATA_MIN,
};
use alloc::vec::Vec;
use nandlab_mtd::Mtd;
use nandlab_vfs::Errno;

impl<M: Mtd> Jffs2<M> {
    /// One step of collecting (`jffs2_garbage_collect_pass`).
    pub(crate) fn collect_pass(&mut self) -> Result<(), Jffs2Error> {
        self.work.passes += 1;
        if self.space.total.unchecked > 0 && self.check_next()? {
            return Ok(());
        }
        if self.erase_pending()? {
            return Ok(());
        }
        let Some(block) = self.victim()? else {
            // What waited may have been all that kept a block from being erased.
            return if self.erase_pending()? {
                Ok(())
            } else {
                Err(Errno::NoSpace.into())
            };
        };
        let from = self.space.block(block).gc_at;
        let (passed, next) = self.next_live(block, from);
        let Some(node) = next else {
            // Everything that counts lies before: begin again, or there is nothing.
            return self.restart(block, passed);
        };
        self.space.block_mut(block).gc_at = node.at;
        self.collect(node)
    }

    /// The first node from a place on that counts, and whether nodes lie before the place.
    fn next_live(&self, block: u32, from: u32) -> (bool, Option<NodeRef>) {
        let refs = &self.space.block(block).refs;
        let start = refs.partition_point(|node| node.at < from);
        let next = refs[start..]
            .iter()
            .copied()
            .find(|node| node.state != State::Obsolete);
        (start > 0, next)
    }

    fn restart(&mut self, block: u32, again: bool) -> Result<(), Jffs2Error> {
        self.space.block_mut(block).gc_at = 0;
        if !again {
            self.space.gc = None;
            self.space.file(block, List::ErasePending);
        }
        Ok(())
    }

    /// Reads the next inode that has not been looked at; says whether there was one.
    fn check_next(&mut self) -> Result<bool, Jffs2Error> {
        let next = self
            .known
            .range(self.checked_ino.saturating_add(1)..)
            .find(|(_, known)| !known.checked && known.links > 0)
            .map(|(ino, _)| *ino);
        let Some(ino) = next else {
            // Those that came to be known otherwise, or cannot be read, are looked at node by node
            // when they are moved.
            return Ok(false);
        };
        self.checked_ino = ino;
        match self.load(ino) {
            Ok(_)
            | Err(
                Jffs2Error::Call(_)
                | Jffs2Error::Node { .. }
                | Jffs2Error::Data { .. }
                | Jffs2Error::Inode { .. },
            ) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The block being collected, or the next one (`jffs2_find_gc_block`).
    fn victim(&mut self) -> Result<Option<u32>, Jffs2Error> {
        if let Some(block) = self.space.gc {
            return Ok(Some(block));
        }
        let dice = self.throw();
        let has = |list: List, below: u32| dice < below && self.space.count(list) > 0;
        let list = if self.space.count(List::BadUsed) > 0
            && self.space.count(List::Free) > self.limits.gc_bad
        {
            Some(List::BadUsed)
        } else if has(List::Erasable, 50) {
            Some(List::Erasable)
        } else if has(List::VeryDirty, 110) {
            Some(List::VeryDirty)
        } else if has(List::Dirty, 126) {
            Some(List::Dirty)
        } else {
            [List::Clean, List::Dirty, List::VeryDirty, List::Erasable]
                .into_iter()
                .find(|list| self.space.count(*list) > 0)
        };
        let Some(list) = list else {
            if self.space.count(List::ErasableWaiting) > 0 {
                self.flush()?;
                return self.victim();
            }
            return Ok(None);
        };
        let Some(block) = self.space.first(list) else {
            return Ok(None);
        };
        self.space.unfile(block);
        self.space.gc = Some(block);
        self.space.block_mut(block).gc_at = 0;
        let wasted = self.space.block(block).sizes.wasted;
        self.space.shift(block, |all| {
            all.wasted -= wasted;
            all.dirty += wasted;
        });
        Ok(Some(block))
    }

    fn collect(&mut self, node: NodeRef) -> Result<(), Jffs2Error> {
        match node.owner {
            Owner::None if node.state == State::Pristine => self.move_node(node),
            Owner::None => self.obsolete(node.at),
            Owner::Xattr(xid) => {
                if self.xattrs.has_value(xid, node.at) {
                    self.move_node(node)
                } else {
                    self.obsolete(node.at)
                }
            }
            Owner::Xref(ino, xid) => {
                if self.xattrs.has_ref(ino, xid, node.at) {
                    self.move_node(node)
                } else {
                    self.obsolete(node.at)
                }
            }
            Owner::Inode(ino) => self.collect_of_inode(node, ino),
        }
    }

    fn collect_of_inode(&mut self, node: NodeRef, ino: u32) -> Result<(), Jffs2Error> {
        if node.state == State::Pristine && !self.core.contains_key(&ino) {
            return self.move_node_or(node, ino);
        }
        match self.load(ino) {
            Ok(_) => {}
            // What cannot be read is carried along: it stays as damaged as it is.
            Err(
                Jffs2Error::Node { .. }
                | Jffs2Error::Data { .. }
                | Jffs2Error::Inode { .. }
                | Jffs2Error::Call(_),
            ) => {
                return self.move_node(node);
            }
            Err(error) => return Err(error),
        }
        if self
            .space
            .get(node.at)
            .is_none_or(|node| node.state == State::Obsolete)
        {
            return Ok(());
        }
        let inode = self.load(ino)?;
        if inode.metadata == Some(node.at) {
            return self.move_node(node);
        }
        if let Some((start, end)) = inode.tree.seen(node.at) {
            return self.collect_data(node, ino, start, end);
        }
        match inode
            .dents
            .at(node.at)
            .map(|dent| (dent.ino, dent.name.clone(), dent.version))
        {
            Some((0, name, version)) => self.collect_removal(node, ino, &name, version),
            Some(_) => self.move_node(node),
            None if self.lost.fields.contains_key(&node.at) => self.carry_doubt(node.at, ino),
            // Of nothing that is known: it was given up while it was read.
            None => self.obsolete(node.at),
        }
    }

    /// Writes a node once more, as it is.
    fn move_node(&mut self, node: NodeRef) -> Result<(), Jffs2Error> {
        let mut bytes = alloc::vec![0; node.len as usize];
        self.flash.read(node.at, &mut bytes)?;
        match node.owner {
            Owner::Inode(ino) if self.flash.doubt().is_some() => {
                self.move_unreadable(node, ino, &bytes)
            }
            _ => self.put_copy(&node, &bytes),
        }
    }

    /// The same, but data of a file are divided instead where they would not fit into the block
    /// being filled.
    fn move_node_or(&mut self, node: NodeRef, ino: u32) -> Result<(), Jffs2Error> {
        let least = INODE as u32 + DATA_MIN;
        if node.len <= least {
            return self.move_node(node);
        }
        let room = self.reserve(least, INODE_ENTRY, For::Collection)?;
        let is_data = self.head_kind(node.at)? == Some(kind::INODE);
        if room >= node.len || !is_data {
            return self.move_node(node);
        }
        match self.load(ino) {
            Ok(inode) => match inode.tree.seen(node.at) {
                Some((start, end)) => self.collect_data(
                    NodeRef {
                        state: State::Normal,
                        ..node
                    },
                    ino,
                    start,
                    end,
                ),
                None => self.move_node(node),
            },
            Err(error @ Jffs2Error::Flash(_)) => Err(error),
            Err(_) => self.move_node(node),
        }
    }

    fn head_kind(&mut self, at: u32) -> Result<Option<u16>, Jffs2Error> {
        let mut bytes = [0; HEAD];
        self.flash.read(at, &mut bytes)?;
        Ok(match Head::read(self.flash.endian, &bytes) {
            Place::Node(head) => Some(head.kind),
            _ => None,
        })
    }

    /// Part of a file, of which `start` to `end` is to be seen, perhaps with gaps.
    fn collect_data(
        &mut self,
        node: NodeRef,
        ino: u32,
        start: u32,
        end: u32,
    ) -> Result<(), Jffs2Error> {
        if start / PAGE != (end - 1) / PAGE || node.state == State::Pristine {
            // A hole, or more than a page: not to be merged.
            return if node.state == State::Pristine {
                self.move_node_or(node, ino)
            } else {
                self.move_node(node)
            };
        }
        if self.is_hole(node.at)? {
            return self.move_node(node);
        }
        let (from, to) = self.widen(ino, start, end)?;
        let mut page = alloc::vec![0; (to - from) as usize];
        match self.read_range(ino, from, &mut page) {
            Ok(()) => {}
            Err(Jffs2Error::Node { .. } | Jffs2Error::Data { .. } | Jffs2Error::Inode { .. }) => {
                return self.move_node(node);
            }
            Err(error) => return Err(error),
        };
        let mut at = from;
        while at < end {
            at += self.write_piece(ino, at, &page[(at - from) as usize..], For::Collection)?;
        }
        // Gone with the rest, unless nothing of it was to be seen.
        if self.space.get(node.at).is_some_and(|old| {
            old.state != State::Obsolete
                && self
                    .core
                    .get(&ino)
                    .is_none_or(|inode| inode.tree.span(node.at).is_none())
        }) {
            return self.obsolete(node.at);
        }
        Ok(())
    }

    /// Takes neighbours in the same page along, if there is space and they lie in blocks that are
    /// dirty anyway.
    fn widen(&mut self, ino: u32, start: u32, end: u32) -> Result<(u32, u32), Jffs2Error> {
        let mut from = start;
        let mut to = end;
        if self.space.count(List::Free) + self.space.count(List::ErasePending)
            <= self.limits.gc_merge
        {
            return Ok((from, to));
        }
        let low = start - start % PAGE;
        let size = self.load(ino)?.size;
        let high = low.saturating_add(PAGE);
        while let Some(left) = self
            .load(ino)?
            .tree
            .before(from)
            .filter(|left| left.start >= low && left.end > low)
        {
            if left.start == low && !self.is_worth_merging(left.node)? {
                break;
            }
            from = left.start;
        }
        to = self.widen_right(ino, high, to)?;
        Ok((from, to.min(size.max(end))))
    }

    fn widen_right(&mut self, ino: u32, high: u32, mut to: u32) -> Result<u32, Jffs2Error> {
        while let Some(right) = self
            .load(ino)?
            .tree
            .at_or_after(to)
            .filter(|right| right.end <= high)
        {
            if right.end == high && !self.is_worth_merging(right.node)? {
                break;
            }
            to = right.end;
        }
        Ok(to)
    }

    fn is_hole(&mut self, at: u32) -> Result<bool, Jffs2Error> {
        let mut compr = [0];
        self.flash.read(at + 56, &mut compr)?;
        Ok(compr[0] == ZERO)
    }

    fn is_worth_merging(&mut self, at: u32) -> Result<bool, Jffs2Error> {
        Ok(!self.is_hole(at)?
            && (self.space.gc == Some(self.space.block_of(at)) || self.is_in_dirty_block(at)))
    }

    /// "No such name any more": needed as long as an older entry says otherwise.
    fn collect_removal(
        &mut self,
        node: NodeRef,
        dir: u32,
        name: &[u8],
        version: u32,
    ) -> Result<(), Jffs2Error> {
        if !self.marks_in_place() && self.has_older_entry(node, dir, name)? {
            return self.move_node(node);
        }
        let inode = self.load(dir)?;
        inode.dents.remove(name);
        // It may be what says when the directory changed last.
        if version > inode.attr_version {
            self.write_attributes(dir, For::Collection, |_| {})?;
        }
        self.obsolete(node.at)
    }

    fn has_older_entry(
        &mut self,
        removal: NodeRef,
        dir: u32,
        name: &[u8],
    ) -> Result<bool, Jffs2Error> {
        let Some(known) = self.known.get(&dir) else {
            return Ok(false);
        };
        let places: Vec<u32> = known.nodes.iter().copied().collect();
        let mut bytes = alloc::vec![0; DIRENT + name.len()];
        for at in places {
            let candidate = self
                .space
                .get(at)
                .is_some_and(|node| node.state == State::Obsolete && node.len == removal.len);
            if !candidate {
                continue;
            }
            self.flash.read(at, &mut bytes)?;
            let raw = bytes
                .first_chunk()
                .and_then(|bytes| RawDirent::read(self.flash.endian, bytes));
            if raw.is_some_and(|raw| raw.ino != 0 && raw.pino == dir) && bytes[DIRENT..] == *name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether there is something to do in the background (`jffs2_thread_should_wake`).
    pub(crate) fn has_work(&self) -> bool {
        let total = self.space.total;
        if total.unchecked > 0
            && self
                .known
                .range(self.checked_ino.saturating_add(1)..)
                .any(|(_, known)| !known.checked && known.links > 0)
        {
            return true;
        }
        let pending = self.space.count(List::ErasePending);
        let dirty: u32 = self
            .space
            .listed(List::ErasePending)
            .map(|block| self.space.block(block).sizes.dirty)
            .sum();
        pending > 0
            || self.space.count(List::Free) + pending < self.limits.gc_trigger
                && total.dirty.saturating_sub(dirty) > self.limits.dirt_min
    }
}
