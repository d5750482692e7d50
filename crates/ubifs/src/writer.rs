//! The memory of a volume that takes writes, beside the index.

use crate::blocks::Blocks;
use crate::compress::Packer;
use crate::journal::LogHead;
use crate::lpt_tree::LptTree;
use alloc::collections::{BTreeMap, BTreeSet};
use nandlab_vfs::Time;

/// Works of a writer beside its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits since the mount.
    pub commits: u64,
    /// Blocks that were emptied to make room.
    pub collected: u64,
    /// Nodes that were moved for that.
    pub moved: u64,
    /// Blocks of the index whose nodes were moved, so that the index takes fewer.
    pub index_blocks_moved: u64,
    /// Blocks of the index with new nodes between old ones, since no block was empty.
    pub gaps_filled: u64,
    /// Commits that wrote the whole properties tree, so that its old blocks became free.
    pub properties_moved: u64,
    /// Blocks of master nodes that were full and began anew.
    pub masters_renewed: u64,
    /// Commits with a list of inodes without names.
    pub orphan_lists: u64,
    /// Mounts that had to put the log into one block.
    pub logs_consolidated: u64,
}

/// The state of a writer; empty in a volume that is only read.
#[derive(Default)]
pub(crate) struct Writer {
    pub blocks: Blocks,
    pub lpt: Option<LptTree>,
    /// The last number that was given out.
    pub sqnum: u64,
    pub log: LogHead,
    /// Where the last pair of master nodes lies; nothing if there is none.
    pub master_offs: Option<u32>,
    /// The empty block that is kept for collection.
    pub gc_lnum: Option<u32>,
    /// References that callers have to inodes.
    pub references: BTreeMap<u32, u64>,
    /// Inodes without names that callers refer to.
    pub orphans: BTreeSet<u32>,
    /// A call that removes something may use the last spare block.
    pub is_removing: bool,
    /// The directories that directories lie in, once that was asked for.
    pub parents: Option<BTreeMap<u32, u32>>,
    /// The time of the last call that changed something.
    pub now: Time,
    /// When the heads of the journal got the first node that is only in memory.
    pub waiting_since: Time,
    pub packer: Packer,
    pub counts: Counts,
}
