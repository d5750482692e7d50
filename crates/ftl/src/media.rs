//! What a page of flash says of the layer that wrote it: for tools that open a medium without its
//! description.
//!
//! *Promises.* Looks at bytes in memory only. *Knows nothing of* where the page lies.

use crate::logblock::{self, LogBlockOptions};
use crate::page;

/// A layer and the array that it was formatted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Medium {
    /// The layer that the medium holds.
    pub layer: Layer,
    /// Data bytes of a page.
    pub page: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of the array.
    pub blocks: u32,
}

/// A layer with what its medium fixes.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// The page-mapped translation layer.
    PageMap,
    /// A log-block layer, with options that fit its medium.
    LogBlock(LogBlockOptions),
}

/// Reads the data of a page as the header page of the page-mapped layer, or as the anchor of a
/// log-block layer.
pub fn recognise(data: &[u8]) -> Option<Medium> {
    page::header_of(data)
        .or_else(|| logblock::anchor_of(data))
        .filter(|medium| medium.page as usize == data.len())
}
