//! Extents: which run of blocks of the volume holds which run of an inode's blocks, in a tree whose
//! root lies in the inode (Linux `fs/ext4/ext4_extents.h`, `extents.c`).
//!
//! *Promises.* A node that makes no sense is an error and leads nowhere. A change that lacks blocks
//! takes none. No change leaves a node empty below
//! the root, or a key in an index that is not the first key below. *Knows nothing of* what the
//! blocks hold.

use crate::{
    Ext, ExtError,
    cache::Class,
    extent_nodes::{
        DEPTH_MAX, ENTRY, Extent, HEADER, Node, empty_root, index_entry, insert_at, judge,
        put_entry, put_header, remove_at,
    },
    format::{le32, put16, put32},
    inode::{Inode, ROOT_BYTES},
    map::Mapped,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType};

/// Blocks of one extent that go back before the journal may commit the tree.
const FREE_STEP: u32 = 256;

/// A node on the way to an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Where the node lies; none for the root.
    block: Option<u32>,
    /// How many of its keys are not behind the block that the path leads to.
    before: usize,
    entries: usize,
    max: usize,
}

impl Step {
    fn is_full(&self) -> bool {
        self.entries >= self.max
    }

    /// The entry that leads on.
    fn way(&self) -> usize {
        self.before.max(1) - 1
    }
}

impl<D: BlockDevice> Ext<D> {
    /// Looks at a node: the root, or the block at which one lies.
    pub(crate) fn extent_node<T>(
        &mut self,
        number: u32,
        inode: &Inode,
        place: Option<u32>,
        depth: Option<u16>,
        look: impl FnOnce(Node<'_>) -> T,
    ) -> Result<T, ExtError> {
        let Some(block) = place else {
            let root = inode.root();
            let node =
                judge(&root, depth).map_err(|(_, field, found, expected)| ExtError::Inode {
                    inode: number,
                    field,
                    found,
                    expected,
                })?;
            return Ok(look(node));
        };
        let block = self.checked(number, block)?;
        let sum = self.extent_sum(number, inode.generation);
        let bytes = self.store.block_of(block, sum)?;
        let node =
            judge(bytes, depth).map_err(|(offset, field, found, expected)| ExtError::Block {
                block,
                offset,
                field,
                found,
                expected,
            })?;
        Ok(look(node))
    }

    fn edit_node(
        &mut self,
        number: u32,
        inode: &mut Inode,
        place: Option<u32>,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<(), ExtError> {
        let Some(block) = place else {
            let mut root = inode.root();
            edit(&mut root);
            inode.set_root(&root);
            return Ok(());
        };
        let sum = self.extent_sum(number, inode.generation);
        edit(self.store.edit_of(block, Class::Inode, sum)?);
        Ok(())
    }

    /// The extent that holds a block of an inode, if there is one, and the next block behind that
    /// may lie in another.
    pub(crate) fn extent_at(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u32,
    ) -> Result<(Option<Extent>, u64), ExtError> {
        let mut place = None;
        let mut depth = None;
        let mut next = 1u64 << 32;
        loop {
            let (level, before, behind, child, extent) =
                self.extent_node(number, inode, place, depth, |node| {
                    let before = node.before(index);
                    let behind = (before < node.entries()).then(|| node.key(before));
                    let way = node.way(index);
                    let there = node.entries() > 0;
                    let extent = there.then(|| node.extent(way));
                    (node.depth(), before, behind, node.child(way), extent)
                })?;
            next = behind.map_or(next, |behind| next.min(behind.into()));
            if before == 0 {
                return Ok((None, next));
            }
            if level == 0 {
                return Ok((extent.filter(|extent| extent.covers(index)), next));
            }
            (place, depth) = (Some(child), Some(level - 1));
        }
    }

    /// An extent whose blocks are those of the volume.
    fn checked_extent(&self, number: u32, extent: Extent) -> Result<Extent, ExtError> {
        self.checked(number, extent.start)?;
        let end = u64::from(extent.start) + u64::from(extent.count);
        if end > self.store.layout.blocks.into() {
            return Err(ExtError::Inode {
                inode: number,
                field: "end of an extent",
                found: end,
                expected: "one within the volume",
            });
        }
        Ok(extent)
    }

    /// Where a block of an inode with extents lies; looks no further than `most` blocks.
    pub(crate) fn extent_mapped(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u32,
        most: u32,
    ) -> Result<Mapped, ExtError> {
        let (extent, next) = self.extent_at(number, inode, index)?;
        let most = u64::from(most.max(1));
        let Some(extent) = extent else {
            let run = (next - u64::from(index)).clamp(1, most) as u32;
            return Ok(Mapped { block: 0, run });
        };
        let extent = self.checked_extent(number, extent)?;
        let into = index - extent.logical;
        let run = u64::from(extent.count - into).min(most) as u32;
        let block = if extent.written {
            extent.start + into
        } else {
            0
        };
        Ok(Mapped { block, run })
    }

    /// The nodes from the root to the leaf that holds a block, or would.
    pub(crate) fn path(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u32,
    ) -> Result<Vec<Step>, ExtError> {
        let mut steps = Vec::new();
        let mut place = None;
        let mut depth = None;
        loop {
            let (step, level, child) = self.extent_node(number, inode, place, depth, |node| {
                let step = Step {
                    block: place,
                    before: node.before(index),
                    entries: node.entries(),
                    max: node.max(),
                };
                (step, node.depth(), node.child(node.way(index)))
            })?;
            steps.push(step);
            if level == 0 {
                return Ok(steps);
            }
            (place, depth) = (Some(child), Some(level - 1));
        }
    }

    /// Where a block of an inode with extents lies, taken now if it has none; says whether it was,
    /// or never written.
    pub(crate) fn extent_map(
        &mut self,
        number: u32,
        inode: &mut Inode,
        index: u32,
        goal: u32,
    ) -> Result<(u32, bool), ExtError> {
        if index == u32::MAX {
            return Err(Errno::FileTooBig.into());
        }
        if let (Some(extent), _) = self.extent_at(number, inode, index)? {
            let extent = self.checked_extent(number, extent)?;
            let block = extent.start + (index - extent.logical);
            if extent.written {
                return Ok((block, false));
            }
            self.mark_written(number, inode, extent, index)?;
            self.note_mapped(number, inode, index);
            self.put_mapped(number, inode)?;
            return Ok((block, true));
        }
        let path = self.path(number, inode, index)?;
        if self.blocks_left() < 1 {
            return Err(Errno::NoSpace.into());
        }
        let goal = self.goal(number, inode, index, goal)?;
        // Only where the new block joins no neighbour are more needed.
        if self.blocks_left() < 1 + nodes_needed(&path) {
            return Err(Errno::NoSpace.into());
        }
        let block = self.allocate_block(goal)?;
        inode.units += u64::from(self.store.layout.block / 512);
        let extent = Extent {
            logical: index,
            count: 1,
            written: true,
            start: block,
        };
        self.insert_extent(number, inode, extent)?;
        self.note_mapped(number, inode, index);
        self.put_mapped(number, inode)?;
        Ok((block, true))
    }

    /// A block of a file is another.
    pub(crate) fn note_mapped(&mut self, number: u32, inode: &Inode, index: u32) {
        if inode.kind() == Some(FileType::File) {
            self.pending.map(number, index);
        }
    }

    /// A caller that writes once puts the inode at its end.
    fn put_mapped(&mut self, number: u32, inode: &Inode) -> Result<(), ExtError> {
        match self.options.once {
            true => Ok(()),
            false => self.put_inode(number, inode),
        }
    }

    /// Makes one block of an extent that was never written a written one.
    fn mark_written(
        &mut self,
        number: u32,
        inode: &mut Inode,
        extent: Extent,
        index: u32,
    ) -> Result<(), ExtError> {
        let path = self.path(number, inode, index)?;
        if self.blocks_left() < 2 * (path.len() as u32 + 1) {
            return Err(Errno::NoSpace.into());
        }
        let Some(leaf) = path.last() else {
            return Ok(());
        };
        let skip = index - extent.logical;
        let written = Extent {
            written: true,
            ..extent.behind(skip).with_count(1)
        };
        if extent.count == 1 && leaf.entries == 1 {
            return self.put_extent(number, inode, leaf, written);
        }
        self.cut_out(number, inode, extent, index, 1)?;
        self.insert_extent(number, inode, written)
    }

    /// Changes the entry of a leaf to which a path leads.
    pub(crate) fn put_extent(
        &mut self,
        number: u32,
        inode: &mut Inode,
        leaf: &Step,
        entry: Extent,
    ) -> Result<(), ExtError> {
        self.edit_node(number, inode, leaf.block, |bytes| {
            put_entry(bytes, leaf.way(), &entry.bytes())
        })
    }

    /// Takes `count` blocks from `index` on out of an extent. They stay taken.
    fn cut_out(
        &mut self,
        number: u32,
        inode: &mut Inode,
        extent: Extent,
        index: u32,
        count: u32,
    ) -> Result<(), ExtError> {
        let path = self.path(number, inode, extent.logical)?;
        let Some((leaf, above)) = path.split_last() else {
            return Ok(());
        };
        let skip = index - extent.logical;
        let rest = extent.count - skip - count;
        if skip == 0 && rest == 0 {
            return self.drop_entry(number, inode, &path);
        }
        if skip == 0 {
            let behind = extent.behind(count);
            self.put_extent(number, inode, leaf, behind)?;
            return match leaf.way() {
                0 => self.put_keys(number, inode, above, behind.logical),
                _ => Ok(()),
            };
        }
        self.put_extent(number, inode, leaf, extent.with_count(skip))?;
        match rest {
            0 => Ok(()),
            _ => self.insert_extent(number, inode, extent.behind(skip + count)),
        }
    }

    /// Takes the entry to which a path leads out of its leaf; nodes without entries go.
    fn drop_entry(
        &mut self,
        number: u32,
        inode: &mut Inode,
        path: &[Step],
    ) -> Result<(), ExtError> {
        let mut gone = Vec::new();
        for (level, step) in path.iter().enumerate().rev() {
            let at = step.way();
            if let (Some(block), 1) = (step.block, step.entries) {
                gone.push(block);
                continue;
            }
            self.edit_node(number, inode, step.block, |bytes| remove_at(bytes, at))?;
            if at == 0 && step.entries > 1 {
                let first =
                    self.extent_node(number, inode, step.block, None, |node| node.key(0))?;
                self.put_keys(number, inode, &path[..level], first)?;
            }
            break;
        }
        self.drop_nodes(number, inode, &gone)
    }

    /// Gives back the blocks of a file from `first` to before `end`.
    pub(crate) fn drop_range(
        &mut self,
        number: u32,
        inode: &mut Inode,
        first: u32,
        end: u64,
    ) -> Result<(), ExtError> {
        let mut at = u64::from(first);
        while at < end && at < 1 << 32 {
            let index = at as u32;
            let (extent, next) = self.extent_at(number, inode, index)?;
            let Some(extent) = extent else {
                at = next;
                continue;
            };
            let extent = self.checked_extent(number, extent)?;
            let count = (extent.end().min(end) - at) as u32;
            self.cut_out(number, inode, extent, index, count)?;
            let start = extent.start + (index - extent.logical);
            for block in start..start + count {
                self.give_back(number, inode, block)?;
            }
            at += u64::from(count);
        }
        Ok(())
    }

    /// Gives a file an extent of blocks that are its own already, or free. The blocks that it has
    /// there go.
    pub(crate) fn add_range(
        &mut self,
        number: u32,
        inode: &mut Inode,
        new: Extent,
    ) -> Result<(), ExtError> {
        let mut skip = 0;
        while skip < new.count {
            let rest = new.behind(skip);
            let (old, next) = self.extent_at(number, inode, rest.logical)?;
            let end = old.map_or(next, |old| old.end()).min(new.end());
            let part = rest.with_count((end - u64::from(rest.logical)) as u32);
            self.add_part(number, inode, old, part)?;
            skip += part.count;
        }
        Ok(())
    }

    /// The same where all lies in one extent, or in none.
    fn add_part(
        &mut self,
        number: u32,
        inode: &mut Inode,
        old: Option<Extent>,
        part: Extent,
    ) -> Result<(), ExtError> {
        let index = part.logical;
        let own = old.filter(|old| old.start.checked_add(index - old.logical) == Some(part.start));
        match (old, own) {
            (_, Some(own)) if own.written == part.written => return Ok(()),
            (_, Some(own)) => self.cut_out(number, inode, own, index, part.count)?,
            (Some(_), None) => self.drop_range(number, inode, index, part.end())?,
            (None, None) => {}
        }
        if own.is_none() {
            self.take_run(part.start, part.count)?;
            let units = u64::from(self.store.layout.block / 512);
            inode.units += units * u64::from(part.count);
        }
        self.insert_extent(number, inode, part)
    }

    /// Adds an extent that no other overlaps.
    fn insert_extent(
        &mut self,
        number: u32,
        inode: &mut Inode,
        new: Extent,
    ) -> Result<(), ExtError> {
        let path = self.path(number, inode, new.logical)?;
        let Some((leaf, above)) = path.split_last() else {
            return Ok(());
        };
        let at = leaf.before;
        let (left, right) = self.extent_node(number, inode, leaf.block, None, |node| {
            let left = at.checked_sub(1).map(|at| node.extent(at));
            let right = (at < node.entries()).then(|| node.extent(at));
            (left, right)
        })?;
        if let Some(left) = left.filter(|left| left.joins(&new)) {
            let joined = left.with_count(left.count + new.count);
            let more = right.filter(|right| joined.joins(right));
            let joined = joined.with_count(joined.count + more.map_or(0, |right| right.count));
            return self.edit_node(number, inode, leaf.block, |bytes| {
                put_entry(bytes, at - 1, &joined.bytes());
                if more.is_some() {
                    remove_at(bytes, at);
                }
            });
        }
        if let Some(right) = right.filter(|right| new.joins(right)) {
            let joined = new.with_count(new.count + right.count);
            self.edit_node(number, inode, leaf.block, |bytes| {
                put_entry(bytes, at, &joined.bytes())
            })?;
            return match at {
                0 => self.put_keys(number, inode, above, joined.logical),
                _ => Ok(()),
            };
        }
        self.insert_entry(number, inode, path, new)
    }

    /// Adds an entry to a leaf. Splits the leaf if it is full, and full nodes above it.
    fn insert_entry(
        &mut self,
        number: u32,
        inode: &mut Inode,
        mut path: Vec<Step>,
        new: Extent,
    ) -> Result<(), ExtError> {
        if path.iter().all(Step::is_full) {
            if path.len() > usize::from(DEPTH_MAX) {
                return Err(Errno::NoSpace.into());
            }
            self.grow(number, inode, path.len() as u16)?;
            path = self.path(number, inode, new.logical)?;
        }
        let mut entry = new.bytes();
        let mut depth = 0;
        while let Some(step) = path.pop() {
            // Behind the entry that leads to the old half.
            let at = if depth == 0 {
                step.before
            } else {
                step.way() + 1
            };
            let key = le32(&entry, 0);
            if !step.is_full() {
                self.edit_node(number, inode, step.block, |bytes| {
                    insert_at(bytes, at, &entry)
                })?;
            } else {
                entry = self.split_node(number, inode, step, (at, depth), &entry)?;
            }
            if at == 0 {
                self.put_keys(number, inode, &path, key)?;
            }
            if !step.is_full() {
                return Ok(());
            }
            depth += 1;
        }
        Ok(())
    }

    /// Moves the entries of a full node from the place of a new one on to a new node; gives the
    /// entry that leads to it.
    fn split_node(
        &mut self,
        number: u32,
        inode: &mut Inode,
        step: Step,
        (at, depth): (usize, u16),
        entry: &[u8; ENTRY],
    ) -> Result<[u8; ENTRY], ExtError> {
        let mut moved = Vec::new();
        self.edit_node(number, inode, step.block, |bytes| {
            let places = HEADER + ENTRY * at..HEADER + ENTRY * step.entries;
            moved.extend_from_slice(&bytes[places.clone()]);
            if !moved.is_empty() {
                bytes[places].fill(0);
                put16(bytes, 2, at as u16);
                insert_at(bytes, at, entry);
            }
        })?;
        if moved.is_empty() {
            moved.extend_from_slice(entry);
        }
        let block = self.new_node(number, inode, depth, &moved)?;
        Ok(index_entry(le32(&moved, 0), block))
    }

    /// A new node with these entries.
    fn new_node(
        &mut self,
        number: u32,
        inode: &mut Inode,
        depth: u16,
        entries: &[u8],
    ) -> Result<u32, ExtError> {
        let block = self.allocate_block(self.inode_goal(number))?;
        inode.units += u64::from(self.store.layout.block / 512);
        let sum = self.extent_sum(number, inode.generation);
        // A new block has nothing to verify.
        self.store.fresh(block, Class::Inode)?;
        let bytes = self.store.edit_of(block, Class::Inode, sum)?;
        put_header(bytes, entries.len() / ENTRY, depth);
        bytes[HEADER..HEADER + entries.len()].copy_from_slice(entries);
        Ok(block)
    }

    /// Puts one more level below the root.
    fn grow(&mut self, number: u32, inode: &mut Inode, depth: u16) -> Result<(), ExtError> {
        let root = inode.root();
        let entries = Node(&root).entries();
        let moved = &root[HEADER..HEADER + ENTRY * entries];
        let block = self.new_node(number, inode, depth - 1, moved)?;
        let mut root = [0; ROOT_BYTES];
        put_header(&mut root, 1, depth);
        put_entry(&mut root, 0, &index_entry(le32(moved, 0), block));
        inode.set_root(&root);
        Ok(())
    }

    /// The first key of a node is another: the indexes above say so.
    fn put_keys(
        &mut self,
        number: u32,
        inode: &mut Inode,
        above: &[Step],
        key: u32,
    ) -> Result<(), ExtError> {
        for step in above.iter().rev() {
            let way = step.way();
            self.edit_node(number, inode, step.block, |bytes| {
                put32(bytes, HEADER + ENTRY * way, key)
            })?;
            if way > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Gives back all blocks from `index` on, with the nodes that lead to nothing then.
    pub(crate) fn extent_trim(
        &mut self,
        number: u32,
        inode: &mut Inode,
        index: u32,
    ) -> Result<(), ExtError> {
        loop {
            let path = self.path(number, inode, u32::MAX)?;
            let Some(leaf) = path.last().copied().filter(|leaf| leaf.entries > 0) else {
                break;
            };
            let last = self.extent_node(number, inode, leaf.block, None, |node| {
                node.extent(leaf.entries - 1)
            })?;
            if last.end() <= u64::from(index) {
                break;
            }
            let last = self.checked_extent(number, last)?;
            let most = if self.logs_contents(inode) {
                1
            } else {
                FREE_STEP
            };
            let cut = last
                .count
                .min((last.end() - u64::from(index)) as u32)
                .min(most.max(1));
            self.shorten(number, inode, &path, last, cut)?;
            for block in last.start + (last.count - cut)..last.start + last.count {
                self.give_back(number, inode, block)?;
            }
            self.breathe(number, inode)?;
        }
        self.put_inode(number, inode)
    }

    /// Takes blocks from the end of the last extent; one without blocks goes, as do nodes without
    /// entries.
    fn shorten(
        &mut self,
        number: u32,
        inode: &mut Inode,
        path: &[Step],
        last: Extent,
        cut: u32,
    ) -> Result<(), ExtError> {
        match path.last() {
            Some(leaf) if cut < last.count => {
                self.put_extent(number, inode, leaf, last.with_count(last.count - cut))
            }
            _ => self.drop_entry(number, inode, path),
        }
    }

    /// Gives back nodes that nothing leads to. A root that leads to none is a leaf.
    fn drop_nodes(&mut self, number: u32, inode: &mut Inode, gone: &[u32]) -> Result<(), ExtError> {
        if Node(&inode.root()).entries() == 0 {
            inode.block = empty_root();
        }
        gone.iter()
            .try_for_each(|block| self.give_back(number, inode, *block))
    }
}

/// Nodes that one more entry of the leaf needs at most.
pub(crate) fn nodes_needed(path: &[Step]) -> u32 {
    path.iter().rev().take_while(|step| step.is_full()).count() as u32
}
