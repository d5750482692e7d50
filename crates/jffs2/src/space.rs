//! Which bytes of each erase block hold what, and which list each block is on.
//!
//! *Promises.* Every byte of a block is counted once: used, not yet checked, dirty, wasted or free;
//! the sums over all blocks follow. Nodes of a block are in the order of their places. *Knows
//! nothing of* what nodes mean, but whose they are. Source: fs/jffs2/nodemgmt.c, nodelist.h.

use alloc::{collections::BTreeMap, vec, vec::Vec};

/// Dirt of so many bytes makes a block dirty; less is not worth collecting.
pub(crate) const fn is_dirty(bytes: u32) -> bool {
    bytes > 68 + 128
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Its data have not been looked at since the mount.
    Unchecked,
    /// It does not count any more.
    Obsolete,
    /// It holds a page by itself: to be moved as it is.
    Pristine,
    /// It shares its page with others: collecting may merge them.
    Normal,
}

/// Whose a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Nobody's: a marker, a summary, padding, or not known.
    None,
    Inode(u32),
    Xattr(u32),
    /// An inode and one of its attributes.
    Xref(u32, u32),
}

/// The place of a node, packed into a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef {
    /// From the beginning of the flash.
    pub at: u32,
    /// Up to the next node.
    pub len: u32,
    pub state: State,
    pub owner: Owner,
}

/// The lists of fs/jffs2/jffs2_fs_sb.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// Full, and nearly all of it counts.
    Clean,
    Dirty,
    /// Half of it does not count.
    VeryDirty,
    /// Nothing counts; erased when needed.
    Erasable,
    /// The same, but its replacement is still in the buffer.
    ErasableWaiting,
    /// To be erased next.
    ErasePending,
    Free,
    Bad,
    /// A write failed in it; what counts is to be moved.
    BadUsed,
}

/// Bytes of a block, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub used: u32,
    pub unchecked: u32,
    /// Can be won by collecting.
    pub dirty: u32,
    /// The same, but too little to be worth it.
    pub wasted: u32,
    pub free: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BlockInfo {
    pub sizes: Sizes,
    pub refs: Vec<NodeRef>,
    /// Where collecting goes on.
    pub gc_at: u32,
    /// Erases of the block that failed.
    pub failures: u8,
    list: Option<(List, i64)>,
}

#[derive(Debug)]
pub(crate) struct Space {
    pub blocks: Vec<BlockInfo>,
    pub block_bytes: u32,
    pub total: Sizes,
    pub bad: u32,
    lists: BTreeMap<(List, i64), u32>,
    counts: [u32; 9],
    stamp: i64,
    /// Where the next node goes.
    pub next: Option<u32>,
    /// What is being collected.
    pub gc: Option<u32>,
}

impl Space {
    pub fn new(blocks: u32, block_bytes: u32) -> Self {
        let sizes = Sizes {
            free: block_bytes,
            ..Sizes::default()
        };
        let total = Sizes {
            free: blocks.saturating_mul(block_bytes),
            ..Sizes::default()
        };
        Self {
            blocks: vec![
                BlockInfo {
                    sizes,
                    ..BlockInfo::default()
                };
                blocks as usize
            ],
            block_bytes,
            total,
            bad: 0,
            lists: BTreeMap::new(),
            counts: [0; 9],
            stamp: 0,
            next: None,
            gc: None,
        }
    }

    pub fn block_of(&self, at: u32) -> u32 {
        at / self.block_bytes
    }

    pub fn block(&self, block: u32) -> &BlockInfo {
        &self.blocks[block as usize]
    }

    pub fn block_mut(&mut self, block: u32) -> &mut BlockInfo {
        &mut self.blocks[block as usize]
    }

    /// Where the next node of a block goes.
    pub fn end_of(&self, block: u32) -> u32 {
        block * self.block_bytes + self.block_bytes - self.block(block).sizes.free
    }

    /// Changes the sizes of a block and of all alike.
    pub fn shift(&mut self, block: u32, change: impl Fn(&mut Sizes)) {
        change(&mut self.blocks[block as usize].sizes);
        change(&mut self.total);
    }

    /// A node behind the others of its block, which takes free space.
    pub fn link(&mut self, node: NodeRef) {
        let block = self.block_of(node.at);
        self.shift(block, |sizes| {
            sizes.free -= node.len;
            match node.state {
                State::Unchecked => sizes.unchecked += node.len,
                State::Obsolete => sizes.dirty += node.len,
                State::Pristine | State::Normal => sizes.used += node.len,
            }
        });
        let refs = &mut self.block_mut(block).refs;
        match refs.last_mut() {
            // Dirt without an owner needs no places.
            Some(last)
                if (last.state, last.owner, node.state, node.owner)
                    == (State::Obsolete, Owner::None, State::Obsolete, Owner::None) =>
            {
                last.len += node.len
            }
            _ => refs.push(node),
        }
    }

    fn index(&self, at: u32) -> Option<(u32, usize)> {
        let block = self.block_of(at);
        let refs = &self.blocks.get(block as usize)?.refs;
        refs.binary_search_by_key(&at, |node| node.at)
            .ok()
            .map(|index| (block, index))
    }

    pub fn get(&self, at: u32) -> Option<NodeRef> {
        self.index(at)
            .map(|(block, index)| self.block(block).refs[index])
    }

    /// Sets the state of a node that counts, and moves its bytes from the unchecked ones.
    pub fn set_state(&mut self, at: u32, state: State) {
        let Some((block, index)) = self.index(at) else {
            return;
        };
        let node = self.block(block).refs[index];
        if node.state == State::Unchecked && state != State::Unchecked {
            self.shift(block, |sizes| {
                sizes.unchecked -= node.len;
                sizes.used += node.len;
            });
        }
        self.block_mut(block).refs[index].state = state;
    }

    /// It is to be looked at when it is collected: merged, if that helps.
    pub fn make_normal(&mut self, at: u32) {
        if self
            .get(at)
            .is_some_and(|node| node.state == State::Pristine)
        {
            self.set_state(at, State::Normal);
        }
    }

    /// Marks a node as not counting any more, and files its block anew. `erase_at_once`: a block
    /// without anything that counts goes to be erased, not to where it rests for a while;
    /// `waiting`: what replaces it may not be on the medium yet.
    pub fn obsolete(&mut self, at: u32, waiting: bool, erase_at_once: bool) -> Option<NodeRef> {
        let (block, index) = self.index(at)?;
        let node = self.block(block).refs[index];
        if node.state == State::Obsolete {
            return None;
        }
        self.block_mut(block).refs[index].state = State::Obsolete;
        self.shift(block, |sizes| match node.state {
            State::Unchecked => sizes.unchecked -= node.len,
            _ => sizes.used -= node.len,
        });
        let before = self.block(block).sizes.dirty;
        self.add_dirt(block, node.len);
        self.refile(block, before, waiting, erase_at_once);
        Some(node)
    }

    fn add_dirt(&mut self, block: u32, len: u32) {
        let sizes = self.block(block).sizes;
        let filed = self.next != Some(block);
        if filed && (sizes.dirty > 0 || is_dirty(sizes.wasted + len)) {
            let keep = self.list_of(block) == Some(List::BadUsed);
            self.shift(block, |all| {
                all.dirty += len;
                if !keep {
                    all.dirty += sizes.wasted;
                    all.wasted -= sizes.wasted;
                }
            });
        } else {
            self.shift(block, |all| all.wasted += len);
        }
    }

    fn refile(&mut self, block: u32, dirty_before: u32, waiting: bool, erase_at_once: bool) {
        let sizes = self.block(block).sizes;
        let very = |dirty: u32| dirty >= self.block_bytes / 2;
        if self.next == Some(block) || self.list_of(block) == Some(List::ErasePending) {
            return;
        }
        if sizes.used == 0 && sizes.unchecked == 0 {
            self.refile_empty(block, waiting, erase_at_once);
        } else if self.gc == Some(block) || self.list_of(block) == Some(List::BadUsed) {
        } else if very(sizes.dirty) && !very(dirty_before) {
            self.file(block, List::VeryDirty);
        } else if is_dirty(sizes.dirty) && !is_dirty(dirty_before) {
            self.file(block, List::Dirty);
        }
    }

    /// Puts a block without valid nodes on its list.
    fn refile_empty(&mut self, block: u32, waiting: bool, erase_at_once: bool) {
        if self.gc == Some(block) {
            self.gc = None;
        }
        let list = match (waiting, erase_at_once) {
            (true, _) => List::ErasableWaiting,
            (false, true) => List::ErasePending,
            (false, false) => List::Erasable,
        };
        self.file(block, list);
    }

    pub fn list_of(&self, block: u32) -> Option<List> {
        self.block(block).list.map(|(list, _)| list)
    }

    /// Puts a block at the end of a list.
    pub fn file(&mut self, block: u32, list: List) {
        self.stamp += 1;
        self.file_at(block, list, self.stamp);
    }

    /// Puts a block at the beginning of a list.
    pub fn file_first(&mut self, block: u32, list: List) {
        self.stamp += 1;
        self.file_at(block, list, -self.stamp);
    }

    fn file_at(&mut self, block: u32, list: List, stamp: i64) {
        self.unfile(block);
        self.lists.insert((list, stamp), block);
        self.counts[list as usize] += 1;
        self.block_mut(block).list = Some((list, stamp));
    }

    /// Puts the first `steps` blocks of a list, counted round and round, at its end.
    pub fn rotate(&mut self, list: List, steps: u32) {
        for _ in 0..steps.checked_rem(self.count(list)).unwrap_or(0) {
            if let Some(block) = self.first(list) {
                self.file(block, list);
            }
        }
    }

    /// Takes a block off its list.
    pub fn unfile(&mut self, block: u32) {
        if let Some(key) = self.block_mut(block).list.take() {
            self.lists.remove(&key);
            self.counts[key.0 as usize] -= 1;
        }
    }

    /// The first of a list.
    pub fn first(&self, list: List) -> Option<u32> {
        self.lists
            .range((list, i64::MIN)..=(list, i64::MAX))
            .next()
            .map(|(_, block)| *block)
    }

    /// All of a list.
    pub fn listed(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        self.lists
            .range((list, i64::MIN)..=(list, i64::MAX))
            .map(|(_, block)| *block)
    }

    pub fn count(&self, list: List) -> u32 {
        self.counts[list as usize]
    }

    /// A block is full, or nothing more goes into it; none of it is buffered.
    pub fn close(&mut self, block: u32) {
        let sizes = self.block(block).sizes;
        if self.next == Some(block) {
            self.next = None;
        }
        let list = if is_dirty(sizes.wasted + sizes.dirty) {
            self.shift(block, |all| {
                all.dirty += sizes.wasted;
                all.wasted -= sizes.wasted;
            });
            if self.block(block).sizes.dirty >= self.block_bytes / 2 {
                List::VeryDirty
            } else {
                List::Dirty
            }
        } else {
            List::Clean
        };
        let list = if sizes.used == 0 && sizes.unchecked == 0 {
            List::ErasePending
        } else {
            list
        };
        self.file(block, list);
    }

    /// Nothing more goes into what is left of a block.
    pub fn waste_rest(&mut self, block: u32) {
        let rest = self.block(block).sizes.free;
        if rest > 0 {
            self.link(NodeRef {
                at: self.end_of(block),
                len: rest,
                state: State::Obsolete,
                owner: Owner::None,
            });
            self.dirt_to_waste(block, rest);
        }
    }

    /// Dirt that cannot be won now.
    pub fn dirt_to_waste(&mut self, block: u32, len: u32) {
        self.shift(block, |all| {
            all.dirty -= len;
            all.wasted += len;
        });
    }

    /// A block that was erased: nothing in it, all free. Gives what was in it.
    pub fn reset(&mut self, block: u32) -> Vec<NodeRef> {
        let old = self.block(block).sizes;
        let bytes = self.block_bytes;
        self.total.used -= old.used;
        self.total.unchecked -= old.unchecked;
        self.total.dirty -= old.dirty;
        self.total.wasted -= old.wasted;
        self.total.free += bytes - old.free;
        let info = self.block_mut(block);
        info.sizes = Sizes {
            free: bytes,
            ..Sizes::default()
        };
        info.gc_at = 0;
        core::mem::take(&mut info.refs)
    }

    /// A block that is not used at all.
    pub fn retire(&mut self, block: u32) {
        self.total.free -= self.block(block).sizes.free;
        self.block_mut(block).sizes.free = 0;
        self.bad += self.block_bytes;
        self.file(block, List::Bad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(space: &mut Space, block: u32, len: u32, state: State) -> u32 {
        let at = space.end_of(block);
        space.link(NodeRef {
            at,
            len,
            state,
            owner: Owner::Inode(1),
        });
        at
    }

    #[test]
    fn a_block_goes_from_clean_over_dirty_to_be_erased() {
        let mut space = Space::new(2, 4096);
        let nodes: Vec<u32> = (0..8)
            .map(|_| put(&mut space, 0, 512, State::Pristine))
            .collect();
        space.close(0);
        assert_eq!(space.list_of(0), Some(List::Clean));
        let mut seen = Vec::new();
        for at in nodes {
            assert!(space.obsolete(at, false, true).is_some());
            assert!(space.obsolete(at, false, true).is_none(), "once");
            seen.push(space.list_of(0).unwrap());
            let sizes = space.block(0).sizes;
            assert_eq!(sizes.used + sizes.dirty + sizes.wasted + sizes.free, 4096);
            assert_eq!(space.total.dirty, sizes.dirty);
        }
        use List::*;
        assert_eq!(
            seen,
            [
                Dirty,
                Dirty,
                Dirty,
                VeryDirty,
                VeryDirty,
                VeryDirty,
                VeryDirty,
                ErasePending
            ]
        );
        assert_eq!(space.reset(0).len(), 8);
        assert_eq!(
            space.total,
            Sizes {
                free: 8192,
                ..Sizes::default()
            }
        );
    }

    #[test]
    fn lists_give_the_oldest_first() {
        let mut space = Space::new(4, 4096);
        (0..3).for_each(|block| space.file(block, List::Free));
        space.file_first(3, List::Free);
        assert_eq!(
            (space.first(List::Free), space.count(List::Free)),
            (Some(3), 4)
        );
        space.unfile(3);
        assert_eq!(
            (space.first(List::Free), space.count(List::Free)),
            (Some(0), 3)
        );
        space.retire(0);
        assert_eq!(
            (space.first(List::Free), space.bad, space.total.free),
            (Some(1), 4096, 3 * 4096)
        );
    }
}
