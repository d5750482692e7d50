//! The bytes that files may still take, as `statfs` tells them.
//!
//! *Promises.* Contents that do not compress find the free bytes, whatever the blocks hold. Like
//! Linux's (`fs/ubifs/budget.c`), the number leaves out the ends of blocks that take no whole data
//! node, the headers of data nodes, and their share of the index. Contents that compress take less.

use crate::format::{BLOCK, index_bytes};
use crate::lebs::Lebs;
use crate::mount::Ubifs;

/// Bytes of the longest data node.
const DATA_NODE: u32 = BLOCK + 48;
/// Blocks beside the spare ones that hold no contents: those of the three heads, and the one that
/// collection keeps.
const KEPT: u32 = 4;
/// The least blocks of an index.
const INDEX: u32 = 2;

impl<L: Lebs> Ubifs<L> {
    /// Bytes that files may still take.
    pub(crate) fn free_bytes(&self) -> u64 {
        if !self.gate.is_writable() {
            return 0;
        }
        let here = self.media.geometry();
        let end = here.leb % DATA_NODE;
        let blocks = self.writer.blocks.all();
        let usable = blocks.filter(|(_, props)| !props.is_index);
        let bytes: u64 = usable
            .map(|(_, props)| u64::from((props.free + props.dirty).saturating_sub(end)))
            .sum();
        let kept = u64::from(self.spare_blocks() + KEPT) * u64::from(here.leb - end);
        self.without_nodes(bytes.saturating_sub(kept))
    }

    /// Bytes that files take in an empty volume.
    pub(crate) fn all_bytes(&self) -> u64 {
        let here = self.media.geometry();
        let lebs = here.main_lebs().saturating_sub(KEPT + INDEX);
        self.without_nodes(u64::from(lebs) * u64::from(here.leb - here.leb % DATA_NODE))
    }

    /// The contents in so many bytes of data nodes. Each of them may add three half full nodes to
    /// the index, as Linux reckons.
    fn without_nodes(&self, bytes: u64) -> u64 {
        let fanout = self.media.geometry().fanout;
        let index = 3 * index_bytes(fanout as usize) / ((fanout / 2).max(2) - 1);
        bytes * u64::from(BLOCK) / u64::from(DATA_NODE + index)
    }
}
