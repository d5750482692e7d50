//! Checks the tree of an inode's extents.
//!
//! *Promises* to visit every node once, no deeper than trees are, and to write nothing. *Knows
//! nothing of* other inodes but through the walk's marks.

use crate::{Ext, ExtError, check::Walk, extent_nodes::Extent, finding::Finding, inode::Inode};
use alloc::vec::Vec;
use nandlab_block::BlockDevice;

/// The state of the walk of a tree.
struct Tree {
    /// One behind the last block that an extent has.
    behind: u64,
    /// One behind the last written block.
    written: u64,
    blocks: u32,
}

impl Tree {
    fn add(&mut self, extent: &Extent) {
        self.behind = self.behind.max(extent.end());
        if extent.written {
            self.written = self.written.max(extent.end());
        }
    }
}

/// The entries of a node: of an index each key and child, of a leaf the extents.
enum Entries {
    Index(u16, Vec<(u32, u32)>),
    Leaf(Vec<Extent>),
}

impl<D: BlockDevice> Ext<D> {
    /// Visits all blocks of an inode with extents, counting them; gives the number behind the last
    /// that holds contents.
    pub(crate) fn check_extents(
        &mut self,
        walk: &mut Walk,
        number: u32,
        inode: &Inode,
        count: &mut u32,
    ) -> Result<u64, ExtError> {
        let mut tree = Tree {
            behind: 0,
            written: 0,
            blocks: 0,
        };
        self.check_node(walk, (number, inode), (None, None), &mut tree)?;
        *count += tree.blocks;
        let is_dir = inode.is_dir();
        Ok(if is_dir { tree.behind } else { tree.written })
    }

    fn check_node(
        &mut self,
        walk: &mut Walk,
        (number, inode): (u32, &Inode),
        (place, depth): (Option<u32>, Option<u16>),
        tree: &mut Tree,
    ) -> Result<Option<u32>, ExtError> {
        let entries = self.extent_node(number, inode, place, depth, |node| {
            let all = 0..node.entries();
            match node.depth() {
                0 => Entries::Leaf(all.map(|at| node.extent(at)).collect()),
                depth => {
                    let pairs = all.map(|at| (node.key(at), node.child(at)));
                    Entries::Index(depth - 1, pairs.collect())
                }
            }
        });
        let entries = match entries {
            Err(error) if error.is_damage() => {
                let inode = number;
                walk.report.add(Finding::Unreadable { inode, error });
                return Ok(None);
            }
            entries => entries?,
        };
        if let (Some(block), Some(sum)) = (place, self.extent_sum(number, inode.generation)) {
            let outcome = self.store.verify_sum(block, sum);
            Self::unreadable(walk, number, outcome)?;
        }
        match entries {
            Entries::Leaf(extents) => {
                let first = extents.first().map(|extent| extent.logical);
                extents
                    .into_iter()
                    .for_each(|extent| self.check_extent(walk, number, extent, tree));
                Ok(first)
            }
            Entries::Index(below, pairs) => {
                self.check_index(walk, (number, inode), (below, &pairs), tree)?;
                Ok(pairs.first().map(|(key, _)| *key))
            }
        }
    }

    fn check_index(
        &mut self,
        walk: &mut Walk,
        (number, inode): (u32, &Inode),
        (below, pairs): (u16, &[(u32, u32)]),
        tree: &mut Tree,
    ) -> Result<(), ExtError> {
        for (key, child) in pairs {
            if !self.claim(walk, number, *child) {
                continue;
            }
            tree.blocks += 1;
            let way = (Some(*child), Some(below));
            let first = self.check_node(walk, (number, inode), way, tree)?;
            if first.is_some_and(|first| first != *key) {
                let expected = first.unwrap_or_default();
                let field = "key in an index of extents";
                walk.wrong(number, field, ((*key).into(), expected.into()));
            }
        }
        Ok(())
    }

    fn check_extent(&self, walk: &mut Walk, number: u32, extent: Extent, tree: &mut Tree) {
        if extent.count == 0 {
            walk.wrong(number, "blocks of an extent", (0, 1));
            return;
        }
        if u64::from(extent.logical) < tree.behind {
            let field = "first block of an extent";
            walk.wrong(number, field, (extent.logical.into(), tree.behind));
        }
        let last = extent.start.checked_add(extent.count - 1);
        if last.is_none_or(|last| last >= self.store.layout.blocks) {
            let block = last.unwrap_or(extent.start);
            let inode = number;
            walk.report.add(Finding::Stray { inode, block });
            return;
        }
        for block in extent.start..extent.start + extent.count {
            tree.blocks += u32::from(self.claim_contents(walk, number, block));
        }
        tree.add(&extent);
    }

    /// Adds damage to the report, and passes other errors on.
    pub(crate) fn unreadable(
        walk: &mut Walk,
        inode: u32,
        outcome: Result<(), ExtError>,
    ) -> Result<(), ExtError> {
        match outcome {
            Err(error) if error.is_damage() => {
                walk.report.add(Finding::Unreadable { inode, error });
                Ok(())
            }
            outcome => outcome,
        }
    }
}
