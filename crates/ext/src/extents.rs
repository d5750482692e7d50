//! Extents: which run of blocks of the volume holds which run of an inode's blocks, in a tree whose
//! root lies in the inode (Linux `fs/ext4/ext4_extents.h`, `extents.c`).
//!
//! *Promises.* A node that makes no sense is an error and is not followed. Blocks that are needed
//! are there before the first is taken, or nothing is taken. No change leaves a node empty below
//! the root, or a key in an index that is not the first key below. *Knows nothing of* what the
//! blocks hold.

use crate::{
    Ext, ExtError,
    cache::Class,
    format::{le16, le32, put16, put32},
    inode::{Inode, ROOT_BYTES},
    map::Mapped,
};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;
use nandlab_vfs::Errno;

const MAGIC: u16 = 0xF30A;
/// Bytes of a node before its entries, and of an entry.
const HEADER: usize = 12;
const ENTRY: usize = 12;
/// Levels below the root at most.
pub(crate) const DEPTH_MAX: u16 = 5;
/// Blocks of the longest extent; longer counts mean extents that were never written.
const WRITTEN_MAX: u32 = 32_768;
/// Blocks of one extent that are given back before the tree may be committed.
const FREE_STEP: u32 = 256;

/// The root of an inode without blocks.
pub(crate) fn empty_root() -> [u32; 15] {
    let mut root = [0; 15];
    root[0] = u32::from(MAGIC);
    root[1] = (ROOT_BYTES - HEADER) as u32 / ENTRY as u32;
    root
}

/// A run of an inode's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Number of the first block in the inode.
    pub logical: u32,
    pub count: u32,
    /// Otherwise the blocks read as zeros.
    pub written: bool,
    /// Where the first block lies; `u32::MAX` beyond every volume.
    pub start: u32,
}

impl Extent {
    pub fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.count)
    }

    fn covers(&self, index: u32) -> bool {
        index >= self.logical && u64::from(index) < self.end()
    }

    /// Whether one extent can hold this and the next.
    fn joins(&self, next: &Self) -> bool {
        let most = WRITTEN_MAX - u32::from(!self.written);
        self.written == next.written
            && self.end() == u64::from(next.logical)
            && self.start.checked_add(self.count) == Some(next.start)
            && self.count + next.count <= most
    }

    fn with_count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// The part behind the first `skip` blocks.
    fn behind(self, skip: u32) -> Self {
        Self {
            logical: self.logical + skip,
            start: self.start + skip,
            count: self.count - skip,
            ..self
        }
    }

    fn bytes(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let count = self.count + if self.written { 0 } else { WRITTEN_MAX };
        put32(&mut bytes, 0, self.logical);
        put16(&mut bytes, 4, count as u16);
        put32(&mut bytes, 8, self.start);
        bytes
    }
}

/// The entry of an index.
fn index_entry(key: u32, child: u32) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    put32(&mut bytes, 0, key);
    put32(&mut bytes, 4, child);
    bytes
}

/// A node's bytes, whose header makes sense.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(&'a [u8]);

impl Node<'_> {
    pub fn entries(&self) -> usize {
        le16(self.0, 2).into()
    }

    pub fn max(&self) -> usize {
        le16(self.0, 4).into()
    }

    pub fn depth(&self) -> u16 {
        le16(self.0, 6)
    }

    pub fn key(&self, at: usize) -> u32 {
        le32(self.0, HEADER + ENTRY * at)
    }

    pub fn child(&self, at: usize) -> u32 {
        let place = HEADER + ENTRY * at;
        match le16(self.0, place + 8) {
            0 => le32(self.0, place + 4),
            _ => u32::MAX,
        }
    }

    pub fn extent(&self, at: usize) -> Extent {
        let place = HEADER + ENTRY * at;
        let count = u32::from(le16(self.0, place + 4));
        let written = count <= WRITTEN_MAX;
        Extent {
            logical: self.key(at),
            count: if written { count } else { count - WRITTEN_MAX },
            written,
            start: match le16(self.0, place + 6) {
                0 => le32(self.0, place + 8),
                _ => u32::MAX,
            },
        }
    }

    /// How many keys are not behind `index`.
    fn before(&self, index: u32) -> usize {
        let (mut low, mut high) = (0, self.entries());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) <= index {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    /// The entry that leads to `index`, or would.
    fn way(&self, index: u32) -> usize {
        self.before(index).max(1) - 1
    }
}

/// Wrong field of a node: byte, name, value, what it may be.
type Wrong = (u32, &'static str, u64, &'static str);

/// Judges a node's header; `depth` is what its parent expects.
fn judge(bytes: &[u8], depth: Option<u16>) -> Result<Node<'_>, Wrong> {
    let node = Node(bytes);
    let magic = le16(bytes, 0);
    if magic != MAGIC {
        return Err((0, "magic of extents", magic.into(), "0xf30a"));
    }
    let capacity = (bytes.len() - HEADER) / ENTRY;
    if node.max() == 0 || node.max() > capacity {
        let expected = "as many as there is space for";
        return Err((4, "most entries of extents", node.max() as u64, expected));
    }
    if node.entries() > node.max() {
        let expected = "no more than the node has space for";
        return Err((2, "entries of extents", node.entries() as u64, expected));
    }
    let right = depth.map_or(node.depth() <= DEPTH_MAX, |depth| depth == node.depth());
    if !right {
        let expected = "one less than above, at most 5";
        return Err((6, "depth of extents", node.depth().into(), expected));
    }
    if node.entries() == 0 && (depth.is_some() || node.depth() > 0) {
        return Err((2, "entries of extents", 0, "at least one"));
    }
    Ok(node)
}

/// A node on the way to an extent.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Where the node lies; none for the root.
    block: Option<u32>,
    /// How many of its keys are not behind the block that is looked for.
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

fn put_entry(bytes: &mut [u8], at: usize, entry: &[u8; ENTRY]) {
    bytes[HEADER + ENTRY * at..][..ENTRY].copy_from_slice(entry);
}

fn put_header(bytes: &mut [u8], entries: usize, depth: u16) {
    put16(bytes, 0, MAGIC);
    put16(bytes, 2, entries as u16);
    put16(bytes, 4, ((bytes.len() - HEADER) / ENTRY) as u16);
    put16(bytes, 6, depth);
}

/// Makes space for an entry and puts it there.
fn insert_at(bytes: &mut [u8], at: usize, entry: &[u8; ENTRY]) {
    let entries = usize::from(le16(bytes, 2));
    let place = HEADER + ENTRY * at;
    bytes.copy_within(place..HEADER + ENTRY * entries, place + ENTRY);
    put_entry(bytes, at, entry);
    put16(bytes, 2, entries as u16 + 1);
}

fn remove_at(bytes: &mut [u8], at: usize) {
    let entries = usize::from(le16(bytes, 2));
    let place = HEADER + ENTRY * at;
    let end = HEADER + ENTRY * entries;
    bytes.copy_within(place + ENTRY..end, place);
    bytes[end - ENTRY..end].fill(0);
    put16(bytes, 2, entries as u16 - 1);
}

/// The extents of a file that lies in these runs, each its first block and how many.
pub(crate) fn of_runs(runs: &[(u32, u32)]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut logical = 0;
    for (first, count) in runs {
        for skip in (0..*count).step_by(WRITTEN_MAX as usize) {
            let next = Extent {
                logical,
                count: (count - skip).min(WRITTEN_MAX),
                written: true,
                start: first + skip,
            };
            logical += next.count;
            match extents.last_mut() {
                Some(last) if last.joins(&next) => last.count += next.count,
                _ => extents.push(next),
            }
        }
    }
    extents
}

/// Makes of zeros a leaf of these extents; false if they do not fit.
pub(crate) fn put_leaf(bytes: &mut [u8], extents: &[Extent]) -> bool {
    if HEADER + ENTRY * extents.len() > bytes.len() {
        return false;
    }
    put_header(bytes, extents.len(), 0);
    for (at, extent) in extents.iter().enumerate() {
        put_entry(bytes, at, &extent.bytes());
    }
    true
}

/// Makes a root that leads to one leaf, which begins with the file.
pub(crate) fn put_index(root: &mut [u8; ROOT_BYTES], leaf: u32) {
    root.fill(0);
    put_header(root, 1, 1);
    put_entry(root, 0, &index_entry(0, leaf));
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
    /// may be held by another.
    fn extent_at(
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
    fn path(&mut self, number: u32, inode: &Inode, index: u32) -> Result<Vec<Step>, ExtError> {
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
        self.put_mapped(number, inode)?;
        Ok((block, true))
    }

    /// A caller that writes once puts the inode when all is mapped.
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
        let Some((leaf, above)) = path.split_last() else {
            return Ok(());
        };
        let skip = index - extent.logical;
        let written = Extent {
            written: true,
            ..extent.behind(skip).with_count(1)
        };
        let rest = extent.count - skip - 1;
        let change = |ext: &mut Self, inode: &mut Inode, entry: Extent| {
            ext.edit_node(number, inode, leaf.block, |bytes| {
                put_entry(bytes, leaf.way(), &entry.bytes())
            })
        };
        if skip == 0 && rest == 0 {
            if leaf.entries == 1 {
                return change(self, inode, written);
            }
            self.edit_node(number, inode, leaf.block, |bytes| {
                remove_at(bytes, leaf.way())
            })?;
            if leaf.way() == 0 {
                let first =
                    self.extent_node(number, inode, leaf.block, None, |node| node.key(0))?;
                self.put_keys(number, inode, above, first)?;
            }
        } else if skip == 0 {
            let behind = extent.behind(1);
            change(self, inode, behind)?;
            if leaf.way() == 0 {
                self.put_keys(number, inode, above, behind.logical)?;
            }
        } else {
            change(self, inode, extent.with_count(skip))?;
            if rest > 0 {
                self.insert_extent(number, inode, extent.behind(skip + 1))?;
            }
        }
        self.insert_extent(number, inode, written)
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

    /// Adds an entry to a leaf, which is split if it is full, as are the nodes above.
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
            // Behind the entry that leads to the node that was split.
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
        // Nothing is there to be verified.
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
        let mut gone = Vec::new();
        for (level, step) in path.iter().enumerate().rev() {
            let at = step.entries - 1;
            let is_leaf = level + 1 == path.len();
            if is_leaf && cut < last.count {
                let entry = last.with_count(last.count - cut).bytes();
                return self.edit_node(number, inode, step.block, |bytes| {
                    put_entry(bytes, at, &entry)
                });
            }
            match step.block {
                Some(block) if at == 0 => gone.push(block),
                _ => {
                    self.edit_node(number, inode, step.block, |bytes| remove_at(bytes, at))?;
                    break;
                }
            }
        }
        if Node(&inode.root()).entries() == 0 {
            inode.block = empty_root();
        }
        for block in gone {
            self.give_back(number, inode, block)?;
        }
        Ok(())
    }
}

/// Nodes that one more entry of the leaf needs at most.
fn nodes_needed(path: &[Step]) -> u32 {
    path.iter().rev().take_while(|step| step.is_full()).count() as u32
}
