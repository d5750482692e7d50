//! Counts of work, which a processor can price.

use crate::Ext;
use nandlab_block::BlockDevice;

/// Counted since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Allocated blocks.
    pub taken: u64,
    /// Blocks written in place from the cache: contents, and metadata where there is no journal.
    pub written: u64,
    /// Blocks that transactions logged.
    pub logged: u64,
}

impl<D: BlockDevice> Ext<D> {
    /// The work so far.
    pub fn worked(&self) -> Work {
        self.store.work
    }
}
