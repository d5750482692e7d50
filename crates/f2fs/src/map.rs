//! A file's tree: from the number of a block in a file to the slot that has its address (paper,
//! section 2.1; `fs/f2fs/node.c`).
//!
//! *Promises.* A tree that leads to other files' nodes is an error. *Knows nothing of* contents.

use crate::{
    F2fs, F2fsError,
    format::{NEW, NODE_SLOTS, NULL, footer, inode, is_placed, le32, node_offset, put32},
    node::kind,
};
use alloc::{vec, vec::Vec};
use nandlab_block::BlockDevice;
use nandlab_vfs::{Errno, FileType};

/// Where a block's address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub ino: u32,
    /// The block's number in the file.
    pub index: u32,
    /// The node, the slot in it, and the byte of that.
    pub nid: u32,
    pub number: u16,
    at: usize,
    /// The address that the slot holds.
    pub addr: u32,
}

/// A way down: at most three nodes, each by its slot in the one above and its place in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    steps: [(u32, u32); 3],
    len: usize,
    slot: u32,
}

const N: u32 = NODE_SLOTS;
/// Runs of nothing that are looked through at once.
const HOLE_STEPS: u32 = 4096;
/// Place of the root of what is three levels deep.
const DOUBLE: u32 = 5 + 2 * N;

fn way(index: u32, slots: u32) -> Option<Way> {
    let to = |steps: &[(u32, u32)], slot| {
        let mut way = Way {
            len: steps.len(),
            slot,
            ..Way::default()
        };
        way.steps[..steps.len()].copy_from_slice(steps);
        Some(way)
    };
    let Some(mut i) = index.checked_sub(slots) else {
        return to(&[], index);
    };
    for direct in 0..2 {
        if i < N {
            return to(&[(direct, 1 + direct)], i);
        }
        i -= N;
    }
    for (nid, root) in [(2, 3), (3, 4 + N)] {
        if i < N * N {
            return to(&[(nid, root), (i / N, root + 1 + i / N)], i % N);
        }
        i -= N * N;
    }
    if i >= N * N * N {
        return None;
    }
    let middle = DOUBLE + 1 + i / (N * N) * (N + 1);
    to(
        &[
            (4, DOUBLE),
            (i / (N * N), middle),
            (i / N % N, middle + 1 + i / N % N),
        ],
        i % N,
    )
}

/// First block of a file that a direct node at this place lists; none for other nodes.
pub(crate) fn first_index(offset: u32, slots: u32) -> Option<u32> {
    Some(match offset {
        0 => 0,
        1 | 2 => slots + (offset - 1) * N,
        _ if !crate::format::is_direct(offset) || offset == footer::XATTR_OFFSET => return None,
        _ if offset < 4 + N => slots + 2 * N + (offset - 4) * N,
        _ if offset < DOUBLE => slots + 2 * N + N * N + (offset - 5 - N) * N,
        _ => {
            let below = offset - DOUBLE - 1;
            slots
                + 2 * N
                + 2 * N * N
                + (below / (N + 1) * N + below % (N + 1) - 1).checked_mul(N)?
        }
    })
}

impl<D: BlockDevice> F2fs<D> {
    /// Whether an inode is a directory.
    pub(crate) fn is_dir(&mut self, ino: u32) -> Result<bool, F2fsError> {
        Ok(kind(self.inode(ino)?) == Some(FileType::Directory))
    }

    /// The slot of a block; none where no node is. With `grow`, nodes are made.
    pub(crate) fn slot(
        &mut self,
        ino: u32,
        index: u32,
        grow: bool,
    ) -> Result<Option<Slot>, F2fsError> {
        let shape = self.shape(ino)?;
        let way = way(index, shape.slots).ok_or(Errno::FileTooBig)?;
        let mut nid = ino;
        let mut base = inode::NIDS;
        for (slot, offset) in &way.steps[..way.len] {
            let at = base + 4 * *slot as usize;
            let mut next = le32(self.node(nid)?, at);
            if next == 0 {
                if !grow {
                    return Ok(None);
                }
                let directory = self.is_dir(ino)?;
                next = self.new_node(Some(ino), *offset, directory)?;
                put32(self.node_mut(nid)?, at, next);
            } else {
                self.check_below(next, ino, *offset)?;
            }
            (nid, base) = (next, 0);
        }
        let at = if way.len == 0 { shape.slots_at() } else { 0 } + 4 * way.slot as usize;
        let addr = le32(self.node(nid)?, at);
        Ok(Some(Slot {
            ino,
            index,
            nid,
            number: way.slot as u16,
            at,
            addr,
        }))
    }

    /// Where `count` blocks lie that begin with the first one of a node.
    pub(crate) fn addresses(
        &mut self,
        ino: u32,
        first: u32,
        count: u32,
    ) -> Result<Vec<u32>, F2fsError> {
        let Some(slot) = self.slot(ino, first, false)? else {
            return Ok(vec![NULL; count as usize]);
        };
        let bytes = self.node(slot.nid)?;
        let places = (slot.at..).step_by(4).take(count as usize);
        Ok(places.map(|at| le32(bytes, at)).collect())
    }

    /// The first block from `index` on that is more than a hole, `end` where there is none; so far
    /// as a bounded number of steps shows.
    pub(crate) fn next_block(&mut self, ino: u32, index: u32, end: u32) -> Result<u32, F2fsError> {
        let shape = self.shape(ino)?;
        let mut index = index;
        for _ in 0..HOLE_STEPS {
            let Some(way) = way(index, shape.slots).filter(|_| index < end) else {
                return Ok(end);
            };
            let skipped = match self.bottom(ino, &way)? {
                Err(depth) => {
                    let below = &way.steps[depth + 1..way.len];
                    let into = below
                        .iter()
                        .fold(0, |sum, (slot, _)| (sum * u64::from(N)) + u64::from(*slot))
                        * u64::from(N)
                        + u64::from(way.slot);
                    u64::from(N).pow((way.len - depth) as u32) - into
                }
                Ok((nid, base, count)) => {
                    let bytes = self.node(nid)?;
                    match (way.slot..count)
                        .position(|slot| le32(bytes, base + 4 * slot as usize) != NULL)
                    {
                        Some(at) => return Ok(index.saturating_add(at as u32).min(end)),
                        None => u64::from(count.saturating_sub(way.slot)).max(1),
                    }
                }
            };
            index = u32::try_from(u64::from(index) + skipped).unwrap_or(end);
        }
        Ok(index.min(end))
    }

    /// The node at the end of a way: its number, where its addresses begin, how many there are; or
    /// how deep the way leads.
    fn bottom(
        &mut self,
        ino: u32,
        way: &Way,
    ) -> Result<Result<(u32, usize, u32), usize>, F2fsError> {
        let shape = self.shape(ino)?;
        let mut nid = ino;
        let mut base = inode::NIDS;
        for (depth, (slot, offset)) in way.steps[..way.len].iter().enumerate() {
            let next = le32(self.node(nid)?, base + 4 * *slot as usize);
            if next == 0 {
                return Ok(Err(depth));
            }
            self.check_below(next, ino, *offset)?;
            (nid, base) = (next, 0);
        }
        Ok(Ok(if way.len == 0 {
            (nid, shape.slots_at(), shape.slots)
        } else {
            (nid, 0, N)
        }))
    }

    /// A node is the one that belongs at this place of this file.
    fn check_below(&mut self, nid: u32, ino: u32, offset: u32) -> Result<(), F2fsError> {
        let bytes = self.node(nid)?;
        let owner = le32(bytes, footer::INO);
        let found = node_offset(bytes);
        if owner != ino {
            return Err(F2fsError::Node {
                nid,
                field: "owner",
                found: owner.into(),
                expected: "the file that leads here",
            });
        }
        if found != offset {
            return Err(F2fsError::Node {
                nid,
                field: "place in the tree",
                found: found.into(),
                expected: "that where it was found",
            });
        }
        Ok(())
    }

    /// The slot has another address from now on. Knows nothing of who pays for blocks.
    pub(crate) fn set_addr(&mut self, slot: &Slot, addr: u32) -> Result<(), F2fsError> {
        put32(self.node_mut(slot.nid)?, slot.at, addr);
        self.keep_extent(slot, addr)
    }

    /// The longest run that the inode remembers stays true.
    fn keep_extent(&mut self, slot: &Slot, addr: u32) -> Result<(), F2fsError> {
        let waits = self.nodes.is_dirty(slot.ino);
        let bytes = self.node(slot.ino)?;
        let [first, start, len] = [0, 4, 8].map(|at| le32(bytes, inode::EXTENT + at));
        let inside = slot.index.checked_sub(first).filter(|at| *at < len);
        let changed = match inside {
            Some(at) if is_placed(addr) && addr == start.wrapping_add(at) => return Ok(()),
            // What is before or behind stays, whichever is longer.
            Some(at) if at >= len - at - 1 => [first, start, at],
            Some(at) => [slot.index + 1, start.wrapping_add(at + 1), len - at - 1],
            None if !is_placed(addr) || !waits => return Ok(()),
            None if len == 0 => [slot.index, addr, 1],
            None if Some(slot.index) == first.checked_add(len)
                && Some(addr) == start.checked_add(len) =>
            {
                [first, start, len + 1]
            }
            None => return Ok(()),
        };
        let bytes = self.node_mut(slot.ino)?;
        let changed = if changed[2] == 0 { [0; 3] } else { changed };
        [0, 4, 8]
            .iter()
            .zip(changed)
            .for_each(|(at, value)| put32(bytes, inode::EXTENT + at, value));
        Ok(())
    }

    /// A slot for a block that is about to get contents; what is new is paid for.
    pub(crate) fn reserve_slot(&mut self, ino: u32, index: u32) -> Result<Slot, F2fsError> {
        let slot = self.slot(ino, index, true)?.ok_or(F2fsError::Failed)?;
        if slot.addr != NULL {
            return Ok(slot);
        }
        self.reserve(1)?;
        self.set_addr(&slot, NEW)?;
        self.count_blocks(ino, 1)?;
        Ok(Slot { addr: NEW, ..slot })
    }

    /// A block of a file is a hole from now on.
    pub(crate) fn clear_slot(&mut self, slot: &Slot) -> Result<(), F2fsError> {
        if slot.addr == NULL {
            return Ok(());
        }
        if is_placed(slot.addr) {
            self.release(slot.addr)?;
        }
        self.set_addr(slot, NULL)?;
        self.unreserve(1);
        self.count_blocks(slot.ino, -1)
    }

    /// Gives back all blocks from `from` on, and the nodes that list only such.
    pub(crate) fn cut(&mut self, ino: u32, from: u32) -> Result<(), F2fsError> {
        self.pages.forget_range((ino, from)..=(ino, u32::MAX));
        let shape = self.shape(ino)?;
        self.clear_slots(ino, ino, shape.slots_at(), 0, from, shape.slots)?;
        let mut base = u64::from(shape.slots);
        for (child, depth) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
            let span = u64::from(N).pow(depth + 1);
            let at = inode::NIDS + 4 * child;
            let nid = le32(self.inode(ino)?, at);
            if nid != 0 && base + span > u64::from(from) {
                let offset = way(base as u32, shape.slots).map_or(0, |way| way.steps[0].1);
                self.check_below(nid, ino, offset)?;
                self.cut_node(ino, nid, depth, base, from)?;
                if base >= u64::from(from) {
                    put32(self.node_mut(ino)?, at, 0);
                }
            }
            base += span;
        }
        Ok(())
    }

    fn cut_node(
        &mut self,
        ino: u32,
        nid: u32,
        depth: u32,
        base: u64,
        from: u32,
    ) -> Result<(), F2fsError> {
        if depth == 0 {
            self.clear_slots(ino, nid, 0, base, from, N)?;
        } else {
            self.cut_children(ino, nid, depth, base, from)?;
        }
        if base >= u64::from(from) {
            self.free_node(nid, ino)
        } else {
            Ok(())
        }
    }

    fn cut_children(
        &mut self,
        ino: u32,
        nid: u32,
        depth: u32,
        base: u64,
        from: u32,
    ) -> Result<(), F2fsError> {
        let span = u64::from(N).pow(depth);
        let place = node_offset(self.node(nid)?);
        let width = if depth == 2 { N + 1 } else { 1 };
        for child in 0..N {
            let start = base + u64::from(child) * span;
            let next = le32(self.node(nid)?, 4 * child as usize);
            if next == 0 || start + span <= u64::from(from) {
                continue;
            }
            self.check_below(next, ino, place + 1 + child * width)?;
            self.cut_node(ino, next, depth - 1, start, from)?;
            if start >= u64::from(from) {
                put32(self.node_mut(nid)?, 4 * child as usize, 0);
            }
        }
        Ok(())
    }

    /// Clears the slots of a node for blocks from `from` on; its first is block `base` of the file.
    fn clear_slots(
        &mut self,
        ino: u32,
        nid: u32,
        at: usize,
        base: u64,
        from: u32,
        count: u32,
    ) -> Result<(), F2fsError> {
        let first = u64::from(from).saturating_sub(base).min(count.into()) as u32;
        let mut number = first;
        loop {
            let bytes = self.node(nid)?;
            let mut slots =
                (number..count).map(|number| (number, le32(bytes, at + 4 * number as usize)));
            let Some((found, addr)) = slots.find(|(_, addr)| *addr != NULL) else {
                return Ok(());
            };
            let index = (base + u64::from(found)) as u32;
            self.clear_slot(&Slot {
                ino,
                index,
                nid,
                number: found as u16,
                at: at + 4 * found as usize,
                addr,
            })?;
            number = found + 1;
        }
    }

    /// What an inode's tree consists of, for checks and removal: nodes below the inode and slots
    /// with addresses.
    pub(crate) fn walk(&mut self, ino: u32, each: &mut dyn FnMut(Part)) -> Result<(), F2fsError> {
        let shape = self.shape(ino)?;
        let bytes = self.inode(ino)?.to_vec();
        walk_slots(ino, &shape, &bytes, each);
        let mut base = u64::from(shape.slots);
        for (child, depth) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
            let nid = le32(&bytes, inode::NIDS + 4 * child);
            if nid != 0 {
                let offset = way(base as u32, shape.slots).map_or(0, |way| way.steps[0].1);
                self.walk_node(ino, nid, (depth, offset), base, each)?;
            }
            base += u64::from(N).pow(depth + 1);
        }
        Ok(())
    }

    fn walk_node(
        &mut self,
        ino: u32,
        nid: u32,
        (depth, offset): (u32, u32),
        base: u64,
        each: &mut dyn FnMut(Part),
    ) -> Result<(), F2fsError> {
        self.check_below(nid, ino, offset)?;
        each(Part::Node(nid));
        let bytes = self.node(nid)?.to_vec();
        for number in 0..N {
            let word = le32(&bytes, 4 * number as usize);
            let index = base + u64::from(number) * u64::from(N).pow(depth);
            match depth {
                0 => each(Part::Slot {
                    nid,
                    number,
                    index: index as u32,
                    addr: word,
                }),
                _ if word != 0 => {
                    let width = if depth == 2 { N + 1 } else { 1 };
                    self.walk_node(
                        ino,
                        word,
                        (depth - 1, offset + 1 + number * width),
                        index,
                        each,
                    )?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn walk_slots(ino: u32, shape: &crate::node::Shape, bytes: &[u8], each: &mut dyn FnMut(Part)) {
    for number in 0..shape.slots {
        each(Part::Slot {
            nid: ino,
            number,
            index: number,
            addr: le32(bytes, shape.slots_at() + 4 * number as usize),
        });
    }
}

/// A part of a file's tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// A node below the inode.
    Node(u32),
    /// A slot of a direct node or the inode.
    Slot {
        nid: u32,
        number: u32,
        index: u32,
        addr: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_to_the_places_that_direct_nodes_say() {
        for index in [
            0,
            872,
            873,
            1890,
            1891,
            2908,
            2909,
            3926,
            3927,
            1_039_232,
            1_039_233,
            2_075_556,
            2_075_557,
            2_076_575,
            3_200_000,
            1_057_000_000,
        ] {
            let way = way(index, 873).unwrap();
            let offset = if way.len == 0 {
                0
            } else {
                way.steps[way.len - 1].1
            };
            assert_eq!(
                first_index(offset, 873),
                Some(index - way.slot),
                "{index}: {way:?}"
            );
        }
        assert_eq!(way(873 + 2 * N + 2 * N * N + N * N * N, 873), None);
        assert_eq!(way(2_075_557, 873).unwrap().steps[0].1, DOUBLE);
        assert_eq!(first_index(3, 873), None);
    }
}
