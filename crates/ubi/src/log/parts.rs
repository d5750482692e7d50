//! The incremental commit: leaves of the tables that have changed, then an index of all, appended
//! to both copies of the one before.
//!
//! A copy grows block by block; when it has twice the blocks that it needs, or when volumes have
//! come or gone, all leaves are written into fresh blocks. After an attach the page behind the last
//! one may be torn, so that a fresh block is begun.

use super::VOLUMES;
use super::commit::{Plan, Written};
use super::format::Role;
use super::leaves::{Index, Place, encode_blocks, encode_lebs, leaf_counts};
use super::tree::{self, Tree, index_pages};
use crate::Ubi;
use crate::device::Kept;
use crate::error::UbiError;
use crate::flash::is_wear;
use alloc::{vec, vec::Vec};
use nandlab_mtd::Mtd;

/// Leaves that super blocks and their spare ones may change besides.
const MARGIN: u32 = 10;

impl<M: Mtd> Ubi<M> {
    fn tree_of(&mut self) -> Result<&mut Tree, UbiError> {
        self.log()?
            .tree
            .as_mut()
            .ok_or(UbiError::Internal("no tables of an incremental commit"))
    }

    fn kept_tree(&self) -> Result<&Tree, UbiError> {
        let tree = if let Kept::Log(log) = &self.kept {
            log.tree.as_ref()
        } else {
            None
        };
        tree.ok_or(UbiError::Internal("no tables of an incremental commit"))
    }

    pub(super) fn plan_parts(&mut self, failed: bool) -> Result<Plan, UbiError> {
        let shape = self.flash.shape;
        let lines = tree::lines(&self.volumes, shape.leb_bytes);
        let fits = self.kept_tree()?.fits(&self.volumes);
        let log_blocks = self.log_options().blocks;
        let log = self.log()?;
        let per_block = shape.leb_bytes / shape.page;
        let copy = log.current.present.len() as u32 / 2;
        let tainted = log.tainted.len() as u32;
        let (first, next, changed) = self
            .tree_of()
            .map(|tree| (tree.places.is_empty(), tree.next, tree.changed.len()))?;
        if fits && !first && !failed {
            let index = index_pages(&shape, self.tree_of()?.places.len(), lines.len());
            let least = changed as u32
                + self.wear.changed().count() as u32
                + index
                + 2 * log_blocks
                + tainted
                + MARGIN;
            let space = next.map_or(0, |next| copy * per_block - next);
            // Fresh blocks change leaves too.
            let mut blocks = 0;
            while space + blocks * per_block < least + 2 * blocks
                && copy + blocks <= tree::most_blocks(&shape)
            {
                blocks += 1;
            }
            if copy + blocks <= tree::most_blocks(&shape) {
                self.tree_of()?.lines = lines;
                return Ok(Plan {
                    whole: false,
                    blocks,
                });
            }
        }
        self.wake_all()?;
        let tree = self.tree_of()?;
        (tree.lines, tree.places) = (lines, Vec::new());
        let leaves = tree.leaves(&shape);
        tree.asleep = vec![false; leaves as usize];
        let pages = leaves + index_pages(&shape, leaves as usize, tree.lines.len());
        Ok(Plan {
            whole: true,
            blocks: pages.div_ceil(per_block),
        })
    }

    /// Writes what has changed, and an index, into both copies. None: more has changed than was
    /// planned for.
    pub(super) fn put_parts(
        &mut self,
        number: u64,
        copies: &[u32],
        plan: Plan,
        reserved: &[u32],
        old: &[u32],
    ) -> Result<Option<Written>, UbiError> {
        let shape = self.flash.shape;
        let copies = copies.split_at(copies.len() / 2);
        for &peb in old {
            self.wake_block(peb)?;
            self.wear.note(peb);
        }
        let per_block = shape.leb_bytes / shape.page;
        let kept: Vec<u32> = if plan.whole {
            Vec::new()
        } else {
            self.log()?.current.present.clone()
        };
        let kept = kept.split_at(kept.len() / 2);
        let blocks = [[kept.0, copies.0].concat(), [kept.1, copies.1].concat()];
        let all = self.tree_of()?.leaves(&shape);
        let preserved = self.log()?.preserved.len() as u32;
        let tree = self.tree_of()?;
        let mut places = tree.places.clone();
        places.resize(all as usize, Place::default());
        let next = if plan.whole {
            0
        } else {
            tree.next.unwrap_or(kept.0.len() as u32 * per_block)
        };
        let changed: Vec<u32> = if plan.whole {
            (0..all).collect()
        } else {
            self.wear
                .changed()
                .chain(self.kept_tree()?.changed.iter().copied())
                .collect()
        };
        let lines = self.tree_of()?.lines.clone();
        if next + changed.len() as u32 + index_pages(&shape, places.len(), lines.len())
            > blocks[0].len() as u32 * per_block
        {
            return Ok(None);
        }
        // Whatever becomes of it: behind what is written now nothing may be appended.
        self.tree_of()?.next = None;
        let mut end = next;
        for copy in &blocks {
            end = next;
            for &leaf in &changed {
                let (bytes, free) = self.leaf_bytes(number, leaf, reserved, old)?;
                places[leaf as usize] = Place { at: end, free };
                self.put_page(copy, end, &bytes)?;
                end += 1;
            }
            let index = Index {
                leaves: places.clone(),
                lines: lines.clone(),
                preserved,
            };
            let mut bytes = index.encode(number);
            bytes.resize(bytes.len().next_multiple_of(shape.page as usize), 0);
            for page in bytes.chunks_exact(shape.page as usize) {
                self.put_page(copy, end, page)?;
                end += 1;
            }
        }
        let has_space = blocks[0].len() as u32 * per_block > end;
        let tree = self.tree_of()?;
        (tree.places, tree.next) = (places, has_space.then_some(end));
        tree.changed.clear();
        self.wear.forget_changes();
        Ok(Some(Written {
            present: blocks.concat(),
            index: next + changed.len() as u32,
        }))
    }

    /// A leaf as it will be, and how many free blocks it has.
    fn leaf_bytes(
        &self,
        number: u64,
        leaf: u32,
        reserved: &[u32],
        old: &[u32],
    ) -> Result<(Vec<u8>, u32), UbiError> {
        let shape = self.flash.shape;
        let tree = self.kept_tree()?;
        let (first, count) = tree.range(&shape, leaf);
        if leaf < leaf_counts(&shape, 0)[0] {
            let entries: Vec<_> = (first..first + count)
                .map(|peb| self.entry_then(peb, reserved, old))
                .collect();
            let free = entries
                .iter()
                .filter(|entry| entry.role == Role::Free)
                .count() as u32;
            return Ok((encode_blocks(number, leaf, &entries, shape.page), free));
        }
        let place = |(id, lnum)| {
            self.volumes
                .get(&id)
                .and_then(|volume| volume.map.get(lnum as usize).copied().flatten())
        };
        let pebs: Vec<Option<u32>> = tree.lebs_of(&shape, leaf).map(place).collect();
        Ok((encode_lebs(number, leaf, &pebs, shape.page), 0))
    }

    /// A page of a copy; a block begins with its header.
    fn put_page(&mut self, copy: &[u32], at: u32, bytes: &[u8]) -> Result<(), UbiError> {
        let shape = self.flash.shape;
        let per_block = shape.leb_bytes / shape.page;
        let Some(&peb) = copy.get((at / per_block) as usize) else {
            return Err(UbiError::Internal(
                "an incremental commit longer than was planned",
            ));
        };
        if at.is_multiple_of(per_block) {
            return self.put_memory(peb, VOLUMES[1], bytes);
        }
        let written = self
            .flash
            .write_data(peb, at % per_block * shape.page, bytes);
        written.map_err(|error| {
            if is_wear(&error) {
                error.into()
            } else {
                self.stop(error)
            }
        })
    }
}
